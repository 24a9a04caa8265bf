"""Moves along a straight line f + w nu, and slice sampling along it (Section 3.1 of the paper).

The prior does not cancel along a line. Its density there follows from two inner products with S nu, where S is the
inverse of Sigma. The products S nu of a block of updates are computed in one call, with the draws.
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
    """The random numbers of one update along a line."""

    nu: Any
    """The direction, a draw from the prior, shape (size,)."""
    precision_nu: Any
    """S nu, where S is the inverse of Sigma, shape (size,)."""


class PriorOnLine(NamedTuple):
    """The log density of the prior along f + w nu, relative to w = 0: - w slope - w^2 square / 2."""

    slope: Any
    """f' S nu, where S is the inverse of Sigma."""
    square: Any
    """nu' S nu, where S is the inverse of Sigma."""

    def __call__(self, w: Any) -> Any:
        """Return the logarithm of N(f + w nu) / N(f)."""
        return -w * (self.slope + 0.5 * w * self.square)


class LineMove(Move):
    """A move along a line through the current state, in the direction of a draw from the prior."""

    def prepare(self, prior: Prior) -> None:
        """Raise if the prior has no density that can be compiled."""
        try:
            if jax.tree_util.all_leaves([prior]):
                raise prior._missing_capability("log_density")
            jax.eval_shape(lambda prior, f: prior.log_density(f), prior, np.zeros(prior.size))
        except TypeError as error:
            raise TypeError(f"{type(self).__name__} needs the prior's density along a line. {error}") from None

    def noise_spec(self, prior: Prior, prepared: None) -> NoiseSpec:
        return NoiseSpec(partial(_draw_with_products, prior), numbers=2 * prior.size)


def prior_on_line(f: Any, draws: LineDraws) -> PriorOnLine:
    """Return the log density of the prior along f + w nu."""
    return PriorOnLine((f * draws.precision_nu).sum(), (draws.nu * draws.precision_nu).sum())


def _draw_with_products(prior: Prior, rng: np.random.Generator, updates: int) -> LineDraws:
    """Return the random numbers of `updates` updates along a line."""
    nu = np.asarray(prior.draw_zero_mean(rng, updates))
    with jax_settings():
        return LineDraws(nu, np.asarray(_products(prior, nu)))


@jax.jit
def _products(prior: Prior, nu: Any) -> Any:
    # log N(nu) = - nu' S nu / 2 + constant. If Sigma is singular, S is its inverse on the span of the draws.
    return -jax.grad(lambda nu: prior.log_density(nu).sum())(nu)


@dataclass(frozen=True)
class LineSlice(LineMove):
    """Slice sampling along the line f + w nu through the current state, with nu drawn from the prior.

    It is meant for comparisons: "a straight line will more rapidly escape this shell than an ellipse" (Section 3.1). It
    needs fewer evaluations than `EllipticalSlice`, because its bracket is shorter, but also the density of the prior.
    It requires a prior with `log_density`.

    Parameters
    ----------
    width : float
        Width of the bracket for w, which is placed at random around the current state. Positive. Default: 1. It is not
        stepped out, so a move is at most `width` times nu.

    Raises
    ------
    TypeError
        If `width` is not a number.
    ValueError
        If `width` is not positive and finite.

    Notes
    -----
    With S the inverse of Sigma, a proposal is accepted if log L(f + w nu) - w f'S nu - w^2 nu'S nu / 2 >
    log L(f) + log u. The products S nu are computed for a block of updates in one call. Otherwise the search is that of
    Figure 2. It is valid for the same reason: both ends of a move place the same bracket with the same probability. The
    statistic `angle` is w.

    Do not add a small number to the diagonal of a nearly singular Sigma here. nu'S nu would then be about the number of
    elements instead of the rank, and the slice along the line would be narrower.

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
    """A line on which the density of the prior is known."""

    width: float
    log_prior: PriorOnLine

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        w_min = rounded(-self.width * place)
        return w_min + rounded(self.width * u), w_min, w_min + self.width

    def weights(self, theta: Any) -> tuple[Any, Any]:
        return 1.0, theta

    def log_factor(self, theta: Any) -> Any:
        return self.log_prior(theta)
