"""Successes out of a known number of trials, logistic link."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from ellipslice.checks import reject
from ellipslice.likelihoods.arguments import counts, leaf, observations, parameter
from ellipslice.likelihoods.base import Likelihood, softplus
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields


@pytree
class Binomial(Likelihood):
    """Numbers of successes y out of `trials`, each with probability 1 / (1 + exp(-f)).

    For rates seen through repeated trials. With one trial each it is `Logistic` with labels 0/1.

    Parameters
    ----------
    y : array of counts, of any shape
    trials : int or array of counts that broadcasts to y's shape
        At least y. Zero trials are allowed, and say nothing about f.

    Notes
    -----
    The binomial coefficient is included. Not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Binomial([0, 2], trials=4)
    >>> log_likelihood
    Binomial(2 observations, trials=4)
    >>> np.exp(log_likelihood.pointwise(np.zeros(2))) * 16
    array([1., 6.])
    """

    y: Any
    trials: Any
    failures: Any
    log_coefficient: Any

    log_concave = True
    curvature_rate_bound = 1.0
    _shown = ("trials",)
    command = Command(
        "binomial",
        "successes out of a number of trials",
        "share",
        scipy.special.logit,
        options={"trials": "trials"},
        required=("trials",),
    )

    def __init__(self, y: Any, trials: Any):
        owner = type(self).__name__
        y = observations(owner, y)
        counts(owner, "y", y, "y holds the number of successes, not their share.")
        trials = parameter(owner, "trials", trials, y.shape)
        counts(owner, "trials", trials, "trials holds the number of attempts behind each y.")
        at_least = np.broadcast_to(trials, y.shape)
        reject(f"{owner}: y", y, y > at_least, "is more than its trials. Expected 0 <= y <= trials. Were they swapped?")
        gammaln = scipy.special.gammaln
        log_coefficient = gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(trials - y + 1.0)
        set_fields(self, y=y, trials=trials, failures=leaf(trials - y), log_coefficient=leaf(log_coefficient))

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        return self.log_coefficient - self.y * softplus(-f, xp) - self.failures * softplus(f, xp)

    def expected(self, f: Any) -> np.ndarray:
        return np.asarray(self.trials) * scipy.special.expit(np.asarray(self._read(f)))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._read(f))
        return rng.binomial(np.asarray(self.trials, dtype=np.int64), scipy.special.expit(f), size=f.shape)
