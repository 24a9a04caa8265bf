"""Two classes, logistic link."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from ellipslice.likelihoods.arguments import labels
from ellipslice.likelihoods.base import Likelihood, softplus
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields, static


@pytree
class Logistic(Likelihood):
    """Labels of two classes: the probability of +1 is 1 / (1 + exp(-f)).

    The usual choice for classification. A mislabelled point costs an amount linear in f, with `Probit` quadratic. For
    counts of successes use `Binomial`.

    Parameters
    ----------
    y : array of -1 and +1, of any shape
        0/1 and booleans are read as -1/+1, with a warning.

    Notes
    -----
    Section 4.1, equation 17 of the paper; the likelihood of its USPS experiment.

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
    """Whether the labels were given as 0/1."""

    log_concave = True
    curvature_rate_bound = 1.0
    _noun = "label"
    command = Command(
        "logistic",
        "yes or no, in words or as 1 and 0",
        "label",
        scipy.special.logit,
        other_names=("bernoulli",),
        aliases=("binary", "logit"),
    )

    def __init__(self, y: Any):
        y, converted = labels(type(self).__name__, y)
        set_fields(self, y=y, converted=converted)

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        return -softplus(-self.y * f, xp)

    def expected(self, f: Any) -> np.ndarray:
        return scipy.special.expit(np.asarray(self._read(f)))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._read(f))
        return np.where(rng.random(f.shape) < scipy.special.expit(f), 1.0, -1.0)
