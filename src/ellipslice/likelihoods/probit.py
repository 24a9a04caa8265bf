"""Two classes, probit link."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from ellipslice.likelihoods.base import Likelihood, labels, namespace
from ellipslice.pytree import pytree, set_fields, static


@pytree
class Probit(Likelihood):
    """Labels of two classes: the probability of +1 is Phi(f), the standard normal distribution function.

    Use it where a label is the sign of f plus Gaussian noise. A mislabelled point costs an amount quadratic in f: where
    labels may be wrong, `Logistic` is gentler.

    Parameters
    ----------
    y : array of -1 and +1, of any shape
        0/1 and booleans are read as -1/+1, with a warning.

    Notes
    -----
    Section 4.1, equation 17 of the paper, "a cumulative Gaussian for the probit classifier".

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Probit([-1, 1, 1])
    >>> log_likelihood
    Probit(3 labels)
    >>> log_likelihood.terms(np.array([0.0, 2.0, -50.0])).round(4)
    array([-6.9310000e-01, -2.3000000e-02, -1.2548314e+03])
    """

    y: Any
    converted: bool = static()
    """Whether the labels were given as 0/1."""

    log_concave = True
    _noun = "label"

    def __init__(self, y: Any):
        y, converted = labels(type(self).__name__, y)
        set_fields(self, y=y, converted=converted)

    def _terms(self, f: Any, xp: Any, special: Any) -> Any:
        x = self.y * f
        if xp is np:
            return special.log_ndtr(x)
        # JAX's log_ndtr as it comes is good to about 1e-9: below -20 it needs more than 3 terms of its series, and
        # above 0 log1p keeps the digits that the log of a number close to 1 loses.
        right = xp.log1p(-special.ndtr(-xp.maximum(x, 0.0)))
        return xp.where(x > 0.0, right, special.log_ndtr(x, series_order=10))

    def bounds(self) -> Any:
        """0, approached as f goes to y times infinity."""
        xp, _ = namespace(self.y)
        return xp.zeros_like(self.y)

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._read(f))
        return np.where(rng.random(f.shape) < scipy.special.ndtr(f), 1.0, -1.0)
