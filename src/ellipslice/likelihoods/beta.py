"""Proportions between 0 and 1 with a beta distribution, logistic link."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from ellipslice.checks import reject
from ellipslice.likelihoods.arguments import observations, parameter, read_only
from ellipslice.likelihoods.base import Likelihood, namespace, softplus
from ellipslice.pytree import pytree, set_fields


@pytree
class Beta(Likelihood):
    """Beta log-likelihood: proportions with mean m = 1 / (1 + exp(-f)) and variance m (1 - m) / (1 + precision).

    Use it for rates and proportions that are not numbers of successes out of trials; for those use `Binomial`.

    Parameters
    ----------
    y : array_like of float
        Observations, above 0 and below 1. Any shape.
    precision : float or array_like of float
        Precision, positive: the sum of the two shapes of the beta distribution. Broadcasts to the shape of y.

    Raises
    ------
    ValueError
        If y has a value outside (0, 1), `precision` is not positive, or its shape does not fit y.

    Notes
    -----
    The likelihood is not log-concave. It is not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Beta([0.2, 0.5], precision=4.0)
    >>> log_likelihood
    Beta(2 observations, precision=4)
    >>> log_likelihood.pointwise(np.zeros(2)).round(4)
    array([-0.0408,  0.4055])
    """

    y: Any
    precision: Any
    logit: Any
    constant: Any

    log_concave = False
    _repr_fields = ("precision",)

    def __init__(self, y: Any, precision: Any):
        owner = type(self).__name__
        y = observations(owner, y)
        reject(
            f"{owner}: y", y, (y <= 0) | (y >= 1), "is not between 0 and 1. Expected proportions above 0 and below 1."
        )
        precision = parameter(owner, "precision", precision, y.shape, positive=True)
        xp, _ = namespace(precision)
        log_failure = np.log1p(-y)
        constant = xp.log(precision) - xp.log1p(precision) + precision * log_failure - np.log(y) - log_failure
        set_fields(
            self, y=y, precision=precision, logit=read_only(scipy.special.logit(y)), constant=read_only(constant)
        )

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        # The two shapes are increased by 1, because the log gamma function is infinite where a shape underflows to 0.
        first, second = self.precision * special.expit(f), self.precision * special.expit(-f)
        log_variance = -softplus(f, xp) - softplus(-f, xp)
        return self.constant + first * self.logit + log_variance - _log_beta(1.0 + first, 1.0 + second, xp, special)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        mean, rest = scipy.special.expit(f), scipy.special.expit(-f)
        return self.precision * mean * rest * self._excess(mean, rest) + rest - mean

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        mean, rest = scipy.special.expit(f), scipy.special.expit(-f)
        variance, trigamma = self.precision * mean * rest, _trigamma
        spread = trigamma(1.0 + self.precision * mean) + trigamma(1.0 + self.precision * rest)
        return variance * (rest - mean) * self._excess(mean, rest) - variance * variance * spread - 2.0 * mean * rest

    def _excess(self, mean: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return logit(y) minus its expectation if both shapes were larger by 1."""
        digamma = scipy.special.digamma
        return self.logit - digamma(1.0 + self.precision * mean) + digamma(1.0 + self.precision * rest)

    def expected(self, f: Any) -> np.ndarray:
        return scipy.special.expit(np.asarray(self._as_array(f)))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        mean, least = scipy.special.expit(f), np.finfo(float).tiny
        first, second = (np.maximum(self.precision * each, least) for each in (mean, scipy.special.expit(-f)))
        # A draw with a small shape may be rounded to 0 or 1, which are not valid observations.
        return np.clip(rng.beta(first, second), least, 1.0 - np.finfo(float).epsneg)


def _log_beta(a: Any, b: Any, xp: Any, special: Any) -> Any:
    """Return the log beta function. SciPy's is accurate for large arguments; JAX's has an error of up to 2e-7."""
    if xp is np:
        return special.betaln(a, b)
    return special.gammaln(a) + special.gammaln(b) - special.gammaln(a + b)


def _trigamma(x: np.ndarray) -> np.ndarray:
    """Return the second derivative of the log gamma function."""
    return scipy.special.zeta(2.0, x)
