"""Counts, log link."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special

from ellipslice.likelihoods.arguments import counts, draw_counts, leaf, observations, parameter
from ellipslice.likelihoods.base import Likelihood
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields


@pytree
class Poisson(Likelihood):
    """Counts y, Poisson with rate exp(f + offset).

    For events counted in bins (a log Gaussian Cox process) and counts with a known exposure. Where counts vary more
    than their mean explains, use `NegativeBinomial`; where they have a ceiling, `Binomial`.

    Parameters
    ----------
    y : array of counts, of any shape
    offset : float or array that broadcasts to y's shape
        Added to f to give the log rate: the log of the exposure or the bin size.

    Notes
    -----
    Section 4.1, equation 18 of the paper; the offset is its m, log(191 / 811) for the mining disasters. -log y! is
    included.

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
    _shown = ("offset",)
    command = Command("poisson", "counts", "count", math.log, options={"exposure": "offset"}, aliases=("counts",))

    def __init__(self, y: Any, offset: Any = 0.0):
        owner = type(self).__name__
        y = observations(owner, y)
        counts(owner, "y", y, "Use Gaussian or StudentT for other numbers.")
        offset = parameter(owner, "offset", offset, y.shape)
        set_fields(self, y=y, offset=offset, log_factorial=leaf(scipy.special.gammaln(y + 1.0)))

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        log_rate = f + self.offset
        return self.y * log_rate - xp.exp(log_rate) - self.log_factorial

    def expected(self, f: Any) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(np.asarray(self._read(f)) + self.offset)

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        return draw_counts(type(self).__name__, self.expected(f), rng)
