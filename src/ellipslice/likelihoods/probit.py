"""Binary labels, probit link."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from ellipslice.likelihoods.arguments import as_labels
from ellipslice.likelihoods.base import Likelihood
from ellipslice.likelihoods.command import Command
from ellipslice.likelihoods.normal_tails import inverse_mills, log_ndtr, ratio_plus
from ellipslice.pytree import pytree, set_fields, static


@pytree
class Probit(Likelihood):
    """Bernoulli log-likelihood of binary labels with probit link: the probability of +1 is Phi(f).

    Phi is the standard normal distribution function. Use this class if a label is the sign of f plus standard normal
    noise. The log-likelihood of a wrong label decreases quadratically in f, so `Logistic` is more robust to wrong
    labels.

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
    Equation 17 in Section 4.1 of the paper, with "a cumulative Gaussian for the probit classifier". The likelihood is
    log-concave.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Probit([-1, 1, 1])
    >>> log_likelihood
    Probit(3 labels)
    >>> log_likelihood.pointwise(np.array([0.0, 2.0, -50.0])).round(4)
    array([-6.9310000e-01, -2.3000000e-02, -1.2548314e+03])
    """

    y: Any
    converted: bool = static()
    """True if the labels were given as 0 and 1, or as booleans."""

    log_concave = True
    _repr_noun = "label"
    command = Command("probit", "yes or no, with a Gaussian link", "label", scipy.special.ndtri)

    def __init__(self, y: Any):
        y, converted = as_labels(type(self).__name__, y)
        set_fields(self, y=y, converted=converted)

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        return log_ndtr(self.y * f, xp)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        return self.y * inverse_mills(self.y * f)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        x = self.y * f
        ratio = inverse_mills(x)
        return -ratio * ratio_plus(x, ratio)

    def expected(self, f: Any) -> np.ndarray:
        return scipy.special.ndtr(np.asarray(self._as_array(f)))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        return np.where(rng.random(f.shape) < scipy.special.ndtr(f), 1.0, -1.0)
