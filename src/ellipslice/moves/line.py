"""Moves along a straight line f + w nu, and slice sampling along it (Section 3.1 of the paper), as its authors ran it.

The prior does not cancel along a line. Its density there follows from two inner products with S nu, S being the inverse
of Sigma. The products S nu of a whole block of updates are made at once, together with the draws themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ellipslice.checks import number
from ellipslice.jax_settings import jax_settings
from ellipslice.moves.array_ops import rounded
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.search import Path
from ellipslice.noise import NoiseSpec, UpdateNoise
from ellipslice.priors import Prior


class LineDraws(NamedTuple):
    """What is drawn for one update along a line."""

    nu: Any
    """A draw from the prior: the direction."""
    precision_nu: Any
    """S nu, with S the inverse of Sigma."""


class PriorOnLine(NamedTuple):
    """The prior's log density along f + w nu: less its value at w = 0 it is - w slope - w^2 square / 2."""

    slope: Any
    """f' S nu."""
    square: Any
    """nu' S nu."""

    def __call__(self, w: Any) -> Any:
        """Return the logarithm of N(f + w nu) / N(f)."""
        return -w * (self.slope + 0.5 * w * self.square)


class LineMove(Move):
    """A move along a line through the current state, in the direction of a draw from the prior."""

    def prepare(self, prior: Prior) -> None:
        """Raise if the prior has no density that can be compiled."""
        try:
            jax.eval_shape(prior.log_density, np.zeros(prior.size))
        except TypeError as error:
            raise TypeError(f"{type(self).__name__} needs the prior's density along a line. {error}") from None

    def noise_spec(self, prior: Prior, prepared: None) -> NoiseSpec:
        return NoiseSpec(partial(_draw_with_products, prior), numbers=2 * prior.size)


def prior_on_line(f: Any, draws: LineDraws) -> PriorOnLine:
    """Return the prior along f + w nu."""
    return PriorOnLine((f * draws.precision_nu).sum(), (draws.nu * draws.precision_nu).sum())


def _draw_with_products(prior: Prior, rng: np.random.Generator, updates: int) -> LineDraws:
    nu = np.asarray(prior.draw_zero_mean(rng, updates))
    with jax_settings():
        return LineDraws(nu, np.asarray(_products(prior, nu)))


@jax.jit
def _products(prior: Prior, nu: Any) -> Any:
    # log N(nu) = - nu' S nu / 2 + constant. If Sigma is singular, S is its inverse on the span of its draws.
    return -jax.grad(lambda nu: prior.log_density(nu).sum())(nu)


@dataclass(frozen=True)
class LineSlice(LineMove):
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

    stored_as = "LineSlice"

    width: float = 1.0

    def __post_init__(self) -> None:
        number("width", self.width, above=0, expected="above 0 and finite")

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one search along the line."""
        draws: LineDraws = noise.drawn
        return target.search(Line(self.width, prior_on_line(state.f, draws)), noise.search(draws.nu), state)


@dataclass(frozen=True)
class Line(Path):
    """A line on which the prior's density is known."""

    width: float
    log_prior: PriorOnLine

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        w_min = rounded(-self.width * place)
        return w_min + rounded(self.width * u), w_min, w_min + self.width

    def weights(self, theta: Any) -> tuple[Any, Any]:
        return 1.0, theta

    def log_factor(self, theta: Any) -> Any:
        return self.log_prior(theta)
