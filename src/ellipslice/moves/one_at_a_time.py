"""One element at a time: univariate slice sampling (Section 3.1 of the paper) and Gibbs sampling."""

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

SINGLE_ELEMENTS = local_blocks.Contiguous(1, None)
"""One block for each element, in the order of the flat vector."""


class CoordinateSweep(Local):
    """A sweep over all elements, each given the rest, by a move for a single element."""

    def __init__(self, move: CoordinateMove):
        super().__init__(SINGLE_ELEMENTS, move)

    def __repr__(self) -> str:
        return repr(self.move)


class CoordinateMove(Move):
    """A move for a single element. It draws one standard normal."""

    def prepare(self, prior: Prior) -> np.ndarray:
        """Return the prior standard deviation of the element, shape (1,)."""
        return np.full(1, np.linalg.norm(prior.unwhiten(np.eye(prior.noise_size))))

    def noise_spec(self, prior: Prior, prepared: np.ndarray) -> NoiseSpec:
        return NoiseSpec(lambda rng, updates: rng.standard_normal((updates, 1)), numbers=2)


class CoordinateSlice(CoordinateSweep):
    """Univariate slice sampling of each element given the rest, in turn. One update is one sweep over the elements.

    It is meant for comparisons: "applying these directly to f would suffer the same slow convergence problems as Gibbs
    sampling" (Section 3.1), because an element that is correlated with its neighbours changes little. A sweep costs
    several evaluations of the whole likelihood for each element. To update some latents separately, use `Local`.

    Parameters
    ----------
    width : float
        Width of the bracket, in prior standard deviations of the element given the rest. Positive. Default: 6, on
        average three to either side. The bracket is placed at random around the current value and is not stepped out
        (Neal 2003).

    Raises
    ------
    TypeError
        If `width` is not a number.
    ValueError
        If `width` is not positive and finite.

    Notes
    -----
    The prior must have `condition`, and the rest must not determine an element. Smooth kernels on dense grids therefore
    raise an error. Statistics are those of `Local`.

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
    """A slice search for a single element with prior N(0, deviation^2)."""

    stored_as = "SliceAlongAxis"

    width: float

    def __repr__(self) -> str:
        return f"CoordinateSlice(width={self.width})"

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Search along state.f + w deviation. The standard normal of the update is not used."""
        deviation = target.prepared
        line = Line(self.width, PriorOnLine((state.f / deviation).sum(), 1.0))
        return target.search(line, noise.search(deviation), state)


class CoordinateGibbs(CoordinateSweep):
    """Gibbs sampling: draw each element given the rest and the data, in turn. One update is one sweep.

    It is the baseline of the paper: "in models with strong dependencies among variables, including many with Gaussian
    priors, Gibbs sampling is known to perform poorly" (Section 1).

    Notes
    -----
    As a function of one element, a Gaussian log-likelihood of f, or of a linear map of f, is a parabola. Three
    evaluations therefore give the exact conditional distribution: at the prior mean of the element given the rest, and
    one prior standard deviation to either side. A fourth evaluates the draw, which is then accepted or rejected by the
    Metropolis-Hastings rule. For a parabola it is always accepted, up to rounding error. Other likelihoods are sampled
    correctly, too, but with more rejections.

    A sweep costs four evaluations per element. The prior must have `condition`, and the rest must not determine an
    element. The statistic `angle` is 1, or 0 if the draw of the last element was rejected.

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
    """A draw of a single element with prior N(0, deviation^2), from a parabola fitted to the log-likelihood."""

    stored_as = "ParabolaAlongAxis"

    def __repr__(self) -> str:
        return "CoordinateGibbs()"

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Fit the parabola, draw, and accept or reject."""
        normal, deviation = noise.drawn, target.prepared
        probes = [target.log_likelihood(at * deviation) for at in (-1.0, 0.0, 1.0)]
        low, middle, high = probes
        slope, curvature = (high - low) / 2, high - 2 * middle + low  # per standard deviation
        # If the parabola has no maximum, propose a draw from the prior, whose acceptance ratio is that of likelihoods.
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
