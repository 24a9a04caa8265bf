"""One value at a time: univariate slice sampling (Section 3.1 of the paper) and Gibbs sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ellipslice.moves import local_blocks
from ellipslice.moves.array_ops import count, where
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.line import Line, LineSlice, PriorOnLine
from ellipslice.moves.local import Local
from ellipslice.moves.metropolis import metropolis
from ellipslice.noise import NoiseSpec, UpdateNoise
from ellipslice.priors import Prior

EACH = local_blocks.Contiguous(1, None)
"""Every value by itself, in the order of the flat vector."""


class OneAtATime(Local):
    """A sweep over all values, each given the rest, by a move for a single value."""

    def __init__(self, move: CoordinateMove):
        super().__init__(EACH, move)

    def __repr__(self) -> str:
        return repr(self.move)


class CoordinateMove(Move):
    """A move for one value. It draws a standard normal, and `prepare` returns the value's prior standard deviation."""

    def prepare(self, prior: Prior) -> np.ndarray:
        """Return the prior standard deviation, shape (1,)."""
        return np.full(1, np.linalg.norm(prior.unwhiten(np.eye(prior.noise_size))))

    def noise_spec(self, prior: Prior, prepared: np.ndarray) -> NoiseSpec:
        return NoiseSpec(lambda rng, updates: rng.standard_normal((updates, 1)), numbers=2)


class CoordinateSlice(OneAtATime):
    """Slice sample each value given all others, in turn; one update is one sweep over them.

    For comparisons: "applying these directly to f would suffer the same slow convergence problems as Gibbs sampling"
    (Section 3.1), for a value held by its neighbours moves little. A sweep costs several evaluations of the whole
    likelihood for each value. To update a few latents apart from others use `Local`.

    Parameters
    ----------
    width : float
        Of the bracket, placed at random around the current value and not stepped out (Neal 2003), in units of the
        value's prior deviation given the others. The default reaches three to either side, on average.

    Notes
    -----
    Needs a prior with `condition`, and values that the others do not determine: smooth kernels on dense grids are
    refused. Statistics are those of `Local`.

    Examples
    --------
    >>> CoordinateSlice()
    CoordinateSlice(width=6.0)
    """

    stored_as = "CoordinateSlice"

    def __init__(self, width: float = 6.0):
        super().__init__(SliceAlongAxis(LineSlice(width).width))


@dataclass(frozen=True)
class SliceAlongAxis(CoordinateMove):
    """The slice search for one value, of prior N(0, deviation^2)."""

    stored_as = "SliceAlongAxis"

    width: float

    def __repr__(self) -> str:
        return f"CoordinateSlice(width={self.width})"

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Search along state.f + w deviation. The normal that is drawn is not used."""
        deviation = target.prepared
        line = Line(self.width, PriorOnLine((state.f / deviation).sum(), 1.0))
        return target.search(line, noise.search(deviation), state)


class CoordinateGibbs(OneAtATime):
    """Draw each value from its distribution given all others and the data, in turn; one update is one sweep.

    The baseline that the paper starts from: "in models with strong dependencies among variables, including many with
    Gaussian priors, Gibbs sampling is known to perform poorly" (Section 1).

    Notes
    -----
    Along one value a Gaussian log-likelihood, of f or of any linear map of it, is a parabola; so three evaluations, at
    the value's prior mean given the others and one prior deviation to either side, give the conditional distribution
    exactly. A fourth evaluates the draw. The draw is then accepted as in Metropolis and Hastings' method, which for a
    parabola is always, to rounding. So other likelihoods are sampled correctly too, by proposals that fit less well.

    Needs a prior with `condition`, and values that the others do not determine. `angle` is 1, or 0 if the last value's
    draw was rejected.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> t = np.arange(5)
    >>> prior = es.Dense(np.exp(-np.abs(t[:, None] - t)))
    >>> tree = es.sample(
    ...     es.likelihoods.Gaussian(np.sin(t), 0.5), prior, move=es.moves.CoordinateGibbs(), draws=100, seed=1
    ... )
    >>> tree.attrs["evaluations"] / tree.attrs["updates"]
    20.0
    """

    stored_as = "CoordinateGibbs"

    def __init__(self) -> None:
        super().__init__(ParabolaAlongAxis())


@dataclass(frozen=True)
class ParabolaAlongAxis(CoordinateMove):
    """The draw of one value, of prior N(0, deviation^2), from what a parabola says of it."""

    stored_as = "ParabolaAlongAxis"

    def __repr__(self) -> str:
        return "CoordinateGibbs()"

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Fit, draw, accept."""
        normal, deviation = noise.drawn, target.prepared
        probes = [target.log_likelihood(at * deviation) for at in (-1.0, 0.0, 1.0)]
        low, middle, high = probes
        slope, curvature = (high - low) / 2, high - 2 * middle + low  # in units of the deviation
        # Where no parabola fits, the draw is the prior's, and it is accepted by the ratio of likelihoods alone.
        usable = (curvature < 1) & (curvature > -math.inf)
        slope, curvature = where(usable, slope, 0.0), where(usable, curvature, 0.0)
        precision = 1 - curvature
        draw = slope / precision + normal / precision**0.5

        def fitted(w: Any) -> Any:
            return (w * (slope + 0.5 * w * curvature)).sum()

        log_y = state.log_likelihood - noise.level[0] + fitted(draw) - fitted(state.f / deviation)
        new, info = metropolis(draw * deviation, log_y, 1.0, state, target)
        nans = sum((count(value != value) for value in probes), info.nan_evaluations)
        return new, info._replace(evaluations=4, nan_evaluations=nans)
