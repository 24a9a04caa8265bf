"""Gibbs sampling, one value at a time: exact where the observations are Gaussian."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ellipslice.moves.arithmetic import count, where
from ellipslice.moves.axis import Axis, OneAtATime
from ellipslice.moves.base import Info, State, Target
from ellipslice.moves.metropolis import metropolis
from ellipslice.noise import Noise


class Gibbs(OneAtATime):
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
    >>> tree = es.sample(es.likelihoods.Gaussian(np.sin(t), 0.5), prior, move=es.moves.Gibbs(), draws=100, seed=1)
    >>> tree.attrs["evaluations"] / tree.attrs["updates"]
    20.0
    """

    stored_as = "Gibbs"

    def __init__(self) -> None:
        super().__init__(ParabolaAlongAxis())


@dataclass(frozen=True)
class ParabolaAlongAxis(Axis):
    """The draw of one value, of prior N(0, deviation^2), from what a parabola says of it."""

    stored_as = "ParabolaAlongAxis"

    def __repr__(self) -> str:
        return "Gibbs()"

    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """Fit, draw, accept."""
        normal, deviation = noise.nu[0], noise.nu[1]
        probes = [target.log_likelihood(at * deviation) for at in (-1.0, 0.0, 1.0)]
        low, middle, high = probes
        slope, curvature = (high - low) / 2, high - 2 * middle + low  # in units of the deviation
        usable = (curvature < 1) & (curvature > -math.inf)
        precision = 1 - where(usable, curvature, 0.0)
        draw = where(usable, slope, 0.0) / precision + normal / precision**0.5

        def fitted(w: Any) -> Any:
            return (w * (slope + 0.5 * w * curvature)).sum()

        log_y = state.log_likelihood - noise.level[0] + fitted(draw) - fitted(state.f / deviation)
        new, info = metropolis(draw * deviation, log_y, 1.0, state, target)
        nans = sum((count(value != value) for value in probes), info.nans)
        return new, info._replace(evaluations=4, nans=nans)
