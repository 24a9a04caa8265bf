"""Numbers of successes in known numbers of trials, logistic link."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from ellipslice.checks import reject
from ellipslice.likelihoods.arguments import check_counts, observations, parameter, read_only
from ellipslice.likelihoods.base import Likelihood, softplus
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields


@pytree
class Binomial(Likelihood):
    """Binomial log-likelihood: y successes in `trials` trials with success probability 1 / (1 + exp(-f)).

    Use it for proportions with a known number of trials. With one trial per observation it equals `Logistic` with
    labels 0/1.

    Parameters
    ----------
    y : array_like of int
        Numbers of successes, between 0 and `trials`. Any shape.
    trials : int or array_like of int
        Numbers of trials, at least `y`. Broadcasts to the shape of y. An observation with 0 trials carries no
        information about f.

    Raises
    ------
    ValueError
        If a value is not a whole number, is negative, or y exceeds `trials`.

    Notes
    -----
    The log binomial coefficient is included. The likelihood is log-concave. It is not in the paper.

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
    _repr_fields = ("trials",)
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
        set_fields(self, y=y, **successes(owner, y, trials))

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        return self.log_coefficient - self.y * softplus(-f, xp) - self.failures * softplus(f, xp)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        return self.y * scipy.special.expit(-f) - self.failures * scipy.special.expit(f)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        return -self.trials * (scipy.special.expit(f) * scipy.special.expit(-f))

    def expected(self, f: Any) -> np.ndarray:
        return np.asarray(self.trials) * scipy.special.expit(np.asarray(self._as_array(f)))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        return rng.binomial(np.asarray(self.trials, dtype=np.int64), scipy.special.expit(f), size=f.shape)


def successes(owner: str, y: np.ndarray, trials: Any) -> dict[str, Any]:
    """Return trials, failures and log binomial coefficients of a likelihood. Raise if y is not between 0 and trials."""
    check_counts(owner, "y", y, "y must be the number of successes, not their proportion.")
    trials = parameter(owner, "trials", trials, y.shape)
    check_counts(owner, "trials", trials, "trials must be the number of trials of each observation.")
    most = np.broadcast_to(trials, y.shape)
    reject(f"{owner}: y", y, y > most, "is more than its trials. Expected 0 <= y <= trials. Were they swapped?")
    gammaln = scipy.special.gammaln
    log_coefficient = gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(trials - y + 1.0)
    return {"trials": trials, "failures": read_only(trials - y), "log_coefficient": read_only(log_coefficient)}
