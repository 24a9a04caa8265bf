"""Counts, log link."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special

from ellipslice.likelihoods.arguments import check_counts, draw_counts, observations, parameter, read_only
from ellipslice.likelihoods.base import Likelihood
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields


@pytree
class Poisson(Likelihood):
    """Poisson log-likelihood: counts with rate exp(f + offset).

    Use it for events counted in bins (a log-Gaussian Cox process) and for counts with a known exposure. For
    overdispersed counts use `NegativeBinomial`, and for counts with a known maximum `Binomial`.

    Parameters
    ----------
    y : array_like of int
        Counts, at least 0. Any shape.
    offset : float or array_like of float
        Known term that is added to f to give the log rate, for example the log exposure or the log bin size. Broadcasts
        to the shape of y. Default: 0.

    Raises
    ------
    ValueError
        If y has a value that is not a count, or the shape of `offset` does not fit y.

    Notes
    -----
    Equation 18 in Section 4.1 of the paper, whose m is the offset: log(191 / 811) for the mining disasters. The term
    -log y! is included. The likelihood is log-concave.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Poisson([0, 1, 3], offset=np.log(0.5))
    >>> log_likelihood
    Poisson(3 observations, offset=-0.6931)
    >>> log_likelihood.pointwise(np.zeros(3)).round(4)
    array([-0.5   , -1.1931, -4.3712])
    """

    y: Any
    offset: Any
    log_factorial: Any

    log_concave = True
    curvature_rate_bound = 1.0
    _repr_fields = ("offset",)
    command = Command("poisson", "counts", "count", math.log, options={"exposure": "offset"}, aliases=("counts",))

    def __init__(self, y: Any, offset: Any = 0.0):
        owner = type(self).__name__
        y = observations(owner, y)
        check_counts(owner, "y", y, "Use Gaussian or StudentT for real numbers.")
        offset = parameter(owner, "offset", offset, y.shape)
        set_fields(self, y=y, offset=offset, log_factorial=read_only(scipy.special.gammaln(y + 1.0)))

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        log_rate = f + self.offset
        return self.y * log_rate - xp.exp(log_rate) - self.log_factorial

    def _slope(self, f: np.ndarray) -> np.ndarray:
        return self.y - np.exp(f + self.offset)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        return -np.exp(f + self.offset)

    def expected(self, f: Any) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(np.asarray(self._as_array(f)) + self.offset)

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        return draw_counts(type(self).__name__, self.expected(f), rng)
