"""Real numbers with mean 0 and an unknown log variance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ellipslice.likelihoods.arguments import observations, read_only
from ellipslice.likelihoods.base import Likelihood
from ellipslice.pytree import pytree, set_fields


@pytree
class StochasticVolatility(Likelihood):
    """Stochastic volatility log-likelihood: Gaussian observations with mean 0 and variance exp(f).

    Use it for returns of a price whose volatility changes in time. Subtract the mean of the returns beforehand.

    Parameters
    ----------
    y : array_like of float
        Observations. Any shape. The density of an observation of exactly 0 grows without bound as f decreases.

    Raises
    ------
    ValueError
        If a value is not finite.

    Notes
    -----
    The likelihood is log-concave. It is not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = StochasticVolatility([0.1, -2.0])
    >>> log_likelihood
    StochasticVolatility(2 observations)
    >>> log_likelihood.pointwise(np.zeros(2)).round(4)
    array([-0.9239, -2.9189])
    """

    y: Any
    log_square: Any

    log_concave = True
    curvature_rate_bound = 1.0

    def __init__(self, y: Any):
        y = observations(type(self).__name__, y)
        with np.errstate(divide="ignore"):
            log_square = 2.0 * np.log(np.abs(y))  # -inf for an observation of 0, whose exponential is 0 at every f
        set_fields(self, y=y, log_square=read_only(log_square))

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        return -0.5 * (math.log(2 * math.pi) + f + xp.exp(self.log_square - f))

    def _slope(self, f: np.ndarray) -> np.ndarray:
        return 0.5 * np.expm1(self.log_square - f)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        return -0.5 * np.exp(self.log_square - f)

    def expected(self, f: Any) -> np.ndarray:
        return np.zeros(np.shape(self._as_array(f)))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        return np.exp(0.5 * f) * rng.standard_normal(f.shape)
