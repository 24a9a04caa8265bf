"""Counts that vary more than Poisson counts, log link."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ellipslice.likelihoods.arguments import counts, draw_counts, leaf, observations, parameter
from ellipslice.likelihoods.base import Likelihood, namespace, softplus
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields


@pytree
class NegativeBinomial(Likelihood):
    """Counts y with mean mu = exp(f + offset) and variance mu + mu^2 / dispersion.

    For counts with more variation than `Poisson` allows, which it becomes as the dispersion goes to infinity. The
    counts are Poisson with a rate of mu times a gamma variable of mean 1 and shape `dispersion`.

    Parameters
    ----------
    y : array of counts, of any shape
    dispersion : float or array that broadcasts to y's shape
        Positive; the smaller, the more the counts vary. R's `size`, SciPy's `n`; elsewhere its inverse has this name.
    offset : float or array that broadcasts to y's shape
        Added to f to give the log mean.

    Notes
    -----
    With a = f + offset - log(dispersion), a term is a constant - y log(1 + exp(-a)) - dispersion log(1 + exp(a)): a sum
    of concave functions. Not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = NegativeBinomial([0, 3], dispersion=2.0)
    >>> log_likelihood
    NegativeBinomial(2 observations, dispersion=2, offset=0)
    >>> log_likelihood.pointwise(np.zeros(2)).round(4)
    array([-0.8109, -2.7205])
    """

    y: Any
    dispersion: Any
    offset: Any
    shift: Any
    log_coefficient: Any

    log_concave = True
    curvature_rate_bound = 1.0
    _shown = ("dispersion", "offset")
    command = Command(
        "negative-binomial",
        "counts that vary more than Poisson counts",
        "count",
        math.log,
        options={"dispersion": "dispersion", "exposure": "offset"},
        aliases=("negbin", "nb"),
    )

    def __init__(self, y: Any, dispersion: Any, offset: Any = 0.0):
        owner = type(self).__name__
        y = observations(owner, y)
        counts(owner, "y", y, "Use Gaussian or StudentT for other numbers.")
        dispersion = parameter(owner, "dispersion", dispersion, y.shape, positive=True)
        offset = parameter(owner, "offset", offset, y.shape)
        # log Gamma(y + r) - log Gamma(r) - log y!, in a form that keeps its digits for large r
        xp, special = namespace(dispersion)
        log_coefficient = -special.betaln(dispersion, y + 1.0) - xp.log(dispersion + y)
        set_fields(
            self,
            y=y,
            dispersion=dispersion,
            offset=offset,
            shift=leaf(offset - xp.log(dispersion)),
            log_coefficient=leaf(log_coefficient),
        )

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        a = f + self.shift
        return self.log_coefficient - self.y * softplus(-a, xp) - self.dispersion * softplus(a, xp)

    def expected(self, f: Any) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(np.asarray(self._read(f)) + self.offset)

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._read(f))
        gamma = rng.gamma(np.broadcast_to(self.dispersion, f.shape))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            rate = np.exp(f + self.shift) * gamma
        return draw_counts(type(self).__name__, rate, rng)
