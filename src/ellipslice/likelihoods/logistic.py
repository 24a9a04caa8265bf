"""Binary labels, logistic link."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from ellipslice.likelihoods.arguments import as_labels
from ellipslice.likelihoods.base import Likelihood, softplus
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields, static


@pytree
class Logistic(Likelihood):
    """Bernoulli log-likelihood of binary labels with logistic link: the probability of +1 is 1 / (1 + exp(-f)).

    This is the usual choice for binary classification and logistic regression. The log-likelihood of a wrong label
    decreases linearly in abs(f), with `Probit` quadratically. For numbers of successes use `Binomial`.

    Parameters
    ----------
    y : array_like
        Labels -1 and +1. Any shape. Labels 0 and 1 and booleans are converted to -1 and +1, with a warning.

    Raises
    ------
    ValueError
        If there are other labels, or both -1 and 0.

    Notes
    -----
    Equation 17 in Section 4.1 of the paper, used in its USPS experiment. The likelihood is log-concave.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Logistic([-1, 1, 1])
    >>> log_likelihood
    Logistic(3 labels)
    >>> log_likelihood.pointwise(np.array([0.0, 2.0, -50.0])).round(4)
    array([ -0.6931,  -0.1269, -50.    ])
    """

    y: Any
    converted: bool = static()
    """True if the labels were given as 0 and 1, or as booleans."""

    log_concave = True
    curvature_rate_bound = 1.0
    _repr_noun = "label"
    command = Command(
        "logistic",
        "yes or no, in words or as 1 and 0",
        "label",
        scipy.special.logit,
        other_names=("bernoulli",),
        aliases=("binary", "logit"),
    )

    def __init__(self, y: Any):
        y, converted = as_labels(type(self).__name__, y)
        set_fields(self, y=y, converted=converted)

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        return -softplus(-self.y * f, xp)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        return self.y * scipy.special.expit(-self.y * f)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        return -scipy.special.expit(f) * scipy.special.expit(-f)

    def expected(self, f: Any) -> np.ndarray:
        return scipy.special.expit(np.asarray(self._as_array(f)))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        return np.where(rng.random(f.shape) < scipy.special.expit(f), 1.0, -1.0)
