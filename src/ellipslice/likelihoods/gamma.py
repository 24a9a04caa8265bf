"""Positive numbers with a gamma distribution, log link."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ellipslice.likelihoods.arguments import check_positive, observations, parameter, read_only
from ellipslice.likelihoods.base import Likelihood, namespace
from ellipslice.pytree import pytree, set_fields

LARGE_SHAPE = 40.0
"""Shape above which Stirling's series is used: its first omitted term is below 1e-15 there."""


@pytree
class Gamma(Likelihood):
    """Gamma log-likelihood: positive numbers with mean exp(f) and standard deviation exp(f) / sqrt(shape).

    Use it for amounts, costs and durations whose standard deviation is proportional to their mean.

    Parameters
    ----------
    y : array_like of float
        Observations, positive. Any shape.
    shape : float or array_like of float
        Shape of the gamma distribution, positive. Broadcasts to the shape of y. Default: 1, the exponential
        distribution. The coefficient of variation of an observation is 1 / sqrt(shape).

    Raises
    ------
    ValueError
        If y or `shape` has a value that is not positive, or the shape of `shape` does not fit y.

    Notes
    -----
    The likelihood is log-concave. It is not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Gamma([0.5, 3.0], shape=2.0)
    >>> log_likelihood
    Gamma(2 observations, shape=2)
    >>> log_likelihood.pointwise(np.zeros(2)).round(4)
    array([-0.3069, -3.5151])
    """

    y: Any
    shape: Any
    log_y: Any
    constant: Any

    log_concave = True
    curvature_rate_bound = 1.0
    _repr_fields = ("shape",)

    def __init__(self, y: Any, shape: Any = 1.0):
        owner = type(self).__name__
        y = observations(owner, y)
        check_positive(owner, "y", y, "Use Gaussian or StudentT for real numbers.")
        shape = parameter(owner, "shape", shape, y.shape, positive=True)
        log_y = np.log(y)
        set_fields(self, y=y, shape=shape, log_y=read_only(log_y), constant=read_only(_log_normaliser(shape) - log_y))

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        ratio = self.log_y - f
        return self.constant + self.shape * (ratio - xp.expm1(ratio))

    def _slope(self, f: np.ndarray) -> np.ndarray:
        return self.shape * np.expm1(self.log_y - f)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        return -self.shape * np.exp(self.log_y - f)

    def expected(self, f: Any) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(np.asarray(self._as_array(f)))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        drawn = rng.gamma(np.broadcast_to(self.shape, f.shape)) / self.shape
        return np.maximum(np.exp(f) * drawn, np.finfo(float).tiny)  # a draw with a small shape may underflow


def _log_normaliser(shape: Any) -> Any:
    """Return shape log(shape) - shape - log Gamma(shape), without loss of digits for a large shape."""
    xp, special = namespace(shape)
    small, large = xp.minimum(shape, LARGE_SHAPE), xp.maximum(shape, LARGE_SHAPE)
    inverse = 1.0 / large
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    direct = small * xp.log(small) - small - special.gammaln(small)
    return xp.where(shape < LARGE_SHAPE, direct, 0.5 * xp.log(large / (2 * math.pi)) - series)
