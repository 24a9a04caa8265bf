"""Numbers of successes in known numbers of trials, probit link."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from ellipslice.likelihoods.arguments import observations
from ellipslice.likelihoods.base import Likelihood
from ellipslice.likelihoods.binomial import successes
from ellipslice.likelihoods.normal_tails import inverse_mills, log_ndtr, ratio_plus
from ellipslice.pytree import pytree, set_fields


@pytree
class ProbitBinomial(Likelihood):
    """Binomial log-likelihood with probit link: y successes in `trials` trials with success probability Phi(f).

    Phi is the standard normal distribution function. For binary labels use `Probit`.

    Parameters
    ----------
    y : array_like of int
        Numbers of successes, between 0 and `trials`. Any shape.
    trials : int or array_like of int
        Numbers of trials, at least `y`. Broadcasts to the shape of y.

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
    >>> log_likelihood = ProbitBinomial([0, 2], trials=4)
    >>> log_likelihood
    ProbitBinomial(2 observations, trials=4)
    >>> np.exp(log_likelihood.pointwise(np.zeros(2))) * 16
    array([1., 6.])
    """

    y: Any
    trials: Any
    failures: Any
    log_coefficient: Any

    log_concave = True
    _repr_fields = ("trials",)

    def __init__(self, y: Any, trials: Any):
        owner = type(self).__name__
        y = observations(owner, y)
        set_fields(self, y=y, **successes(owner, y, trials))

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        return self.log_coefficient + self.y * log_ndtr(f, xp) + self.failures * log_ndtr(-f, xp)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        return self.y * inverse_mills(f) - self.failures * inverse_mills(-f)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        up, down = inverse_mills(f), inverse_mills(-f)
        return -self.y * up * ratio_plus(f, up) - self.failures * down * ratio_plus(-f, down)

    def expected(self, f: Any) -> np.ndarray:
        return np.asarray(self.trials) * scipy.special.ndtr(np.asarray(self._as_array(f)))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        return rng.binomial(np.asarray(self.trials, dtype=np.int64), scipy.special.ndtr(f), size=f.shape)
