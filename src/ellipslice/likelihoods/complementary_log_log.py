"""Numbers of successes in known numbers of trials, complementary log-log link."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.likelihoods.arguments import observations
from ellipslice.likelihoods.base import Likelihood
from ellipslice.likelihoods.binomial import successes
from ellipslice.pytree import pytree, set_fields

CERTAIN = 7.0
"""A success is certain above this value of f: its probability is 1 up to exp(-1096)."""

RARE = -20.0
"""Below this value of f, the success probability is exp(f) (1 - exp(f) / 2) up to rounding error."""


@pytree
class ComplementaryLogLog(Likelihood):
    """Binomial log-likelihood with complementary log-log link: the success probability is 1 - exp(-exp(f)).

    Use it if a success means that at least one event occurred: if events are Poisson with rate exp(f), this is the
    probability of one or more. It is also the link of discrete survival times with proportional hazards.

    Parameters
    ----------
    y : array_like of int
        Numbers of successes, between 0 and `trials`. Any shape.
    trials : int or array_like of int
        Numbers of trials, at least `y`. Broadcasts to the shape of y. Default: 1, so y is 0 or 1.

    Raises
    ------
    ValueError
        If a value is not a whole number, is negative, or y exceeds `trials`.

    Notes
    -----
    The likelihood is log-concave. It is not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = ComplementaryLogLog([0, 1])
    >>> log_likelihood
    ComplementaryLogLog(2 observations, trials=1)
    >>> log_likelihood.pointwise(np.zeros(2)).round(4)
    array([-1.    , -0.4587])
    """

    y: Any
    trials: Any
    failures: Any
    log_coefficient: Any

    log_concave = True
    _repr_fields = ("trials",)

    def __init__(self, y: Any, trials: Any = 1.0):
        owner = type(self).__name__
        y = observations(owner, y)
        set_fields(self, y=y, **successes(owner, y, trials))

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        return self.log_coefficient + self.y * _log_probability(f, xp) - self._failure(f, xp)

    def _failure(self, f: Any, xp: Any) -> Any:
        """Return minus the log-likelihood of the failures, and 0 without failures even if exp(f) is infinite."""
        return self.failures * xp.exp(xp.where(self.failures > 0, f, 0.0))

    def _slope(self, f: np.ndarray) -> np.ndarray:
        return self.y * _ratio(f) - self._failure(f, np)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        rate, ratio = np.exp(f), _ratio(f)
        success = np.where(f < RARE, -0.5 * rate, ratio * (1.0 - np.exp(np.minimum(f, CERTAIN)) - ratio))
        return self.y * success - self._failure(f, np)

    def expected(self, f: Any) -> np.ndarray:
        return np.asarray(self.trials) * _probability(np.asarray(self._as_array(f)))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        return rng.binomial(np.asarray(self.trials, dtype=np.int64), _probability(f), size=f.shape)


def _probability(f: np.ndarray) -> np.ndarray:
    """Return the success probability."""
    with np.errstate(over="ignore", under="ignore"):
        return -np.expm1(-np.exp(f))


def _log_probability(f: Any, xp: Any) -> Any:
    """Return log(1 - exp(-exp(f))). Each branch has arguments at which its derivatives are finite."""
    low, high = xp.where((f >= RARE) & (f < 0.0), f, -1.0), xp.where((f < 0.0) | (f > CERTAIN), 0.0, f)
    rate = xp.exp(low)
    middle = low + xp.log(-xp.expm1(-rate) / rate)
    rare = f - 0.5 * xp.exp(xp.where(f < RARE, f, RARE))
    frequent = xp.where(f > CERTAIN, 0.0, xp.log1p(-xp.exp(-xp.exp(high))))
    return xp.where(f < RARE, rare, xp.where(f < 0.0, middle, frequent))


def _ratio(f: np.ndarray) -> np.ndarray:
    """Return u / (exp(u) - 1) with u = exp(f), which is the slope of the log probability."""
    rate = np.exp(np.clip(f, RARE, CERTAIN))
    inside = rate / np.expm1(rate)
    return np.where(f > CERTAIN, 0.0, np.where(f < RARE, 1.0 - 0.5 * np.exp(np.minimum(f, RARE)), inside))
