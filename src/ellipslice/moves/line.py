"""Slice sampling along a straight line (Section 3.1 of the paper), as its authors ran it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ellipslice.moves.arithmetic import rounded
from ellipslice.moves.base import Info, State, Target
from ellipslice.moves.search import Search
from ellipslice.moves.straight import PriorOnLine, Straight, prior_on_line
from ellipslice.noise import Noise


@dataclass(frozen=True)
class LineSlice(Straight):
    """Slice sample along the line f + w nu through the current state, with nu drawn from the prior.

    For comparisons: "a straight line will more rapidly escape this shell than an ellipse" (Section 3.1). Fewer
    evaluations than `EllipticalSlice`, since its bracket is shorter, and the prior's density to be computed besides.

    Parameters
    ----------
    width : float
        Of the bracket for w, placed at random around the current state. It is not stepped out, so that a move is at
        most `width` nu long.

    Notes
    -----
    A point is accepted if log L(f + w nu) - w f'S nu - w^2 nu'S nu / 2 > log L(f) + log u, with S the inverse of Sigma.
    The two products are made for a whole block of updates at once; a prior with `log_density` can. Else the search is
    that of Figure 2, and valid for the same reason: both ends of a move place the same bracket with the same
    probability. `angle` is w.

    A small number added to the diagonal of a nearly singular Sigma, harmless elsewhere, matters here: nu'S nu is then
    about the number of values, rather than the rank, and the slice along the line as much narrower.

    Examples
    --------
    >>> LineSlice()
    LineSlice(width=1.0)
    """

    width: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.width, bool) or not isinstance(self.width, int | float | np.integer | np.floating):
            raise TypeError(f"width must be a number, but it is {self.width!r}.")
        if not 0 < self.width < np.inf:
            raise ValueError(f"width must be above 0 and finite, but it is {self.width}.")

    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """One search along the line."""
        line = Line(self.width, prior_on_line(state.f, noise.nu))
        return target.search(line, noise.at(0), state)


@dataclass(frozen=True)
class Line(Search):
    """The search of one update, on which the prior is known."""

    width: float
    log_prior: PriorOnLine

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        w_min = rounded(-self.width * place)
        return w_min + rounded(self.width * u), w_min, w_min + self.width

    def weights(self, theta: Any) -> tuple[Any, Any]:
        return 1.0, theta

    def log_factor(self, theta: Any) -> Any:
        return self.log_prior(theta)
