"""Overdispersed counts, log link."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special

from ellipslice.likelihoods.arguments import check_counts, draw_counts, observations, parameter, read_only
from ellipslice.likelihoods.base import Likelihood, namespace, softplus
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields


@pytree
class NegativeBinomial(Likelihood):
    """Negative binomial log-likelihood: counts with mean mu = exp(f + offset) and variance mu + mu^2 / dispersion.

    Use it for counts that vary more than `Poisson` allows. They are Poisson counts whose rate is mu times a gamma
    variable with mean 1 and shape `dispersion`. As `dispersion` goes to infinity, they become Poisson counts.

    Parameters
    ----------
    y : array_like of int
        Counts, at least 0. Any shape.
    dispersion : float or array_like of float
        Shape parameter, positive. Broadcasts to the shape of y. A smaller value means more variation. It is called
        `size` in R and `n` in SciPy; some packages call its inverse dispersion.
    offset : float or array_like of float
        Known term that is added to f to give the log mean, for example the log exposure. Broadcasts to the shape of y.
        Default: 0.

    Raises
    ------
    ValueError
        If y has a value that is not a count, `dispersion` is not positive, or a shape does not fit y.

    Notes
    -----
    With a = f + offset - log(dispersion), the log-likelihood of an observation is
    constant - y log(1 + exp(-a)) - dispersion log(1 + exp(a)), which is concave. It is not in the paper.

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
    _repr_fields = ("dispersion", "offset")
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
        check_counts(owner, "y", y, "Use Gaussian or StudentT for real numbers.")
        dispersion = parameter(owner, "dispersion", dispersion, y.shape, positive=True)
        offset = parameter(owner, "offset", offset, y.shape)
        # log Gamma(y + r) - log Gamma(r) - log y! with r = dispersion, in a form that keeps its digits for large r
        xp, special = namespace(dispersion)
        log_coefficient = -special.betaln(dispersion, y + 1.0) - xp.log(dispersion + y)
        set_fields(
            self,
            y=y,
            dispersion=dispersion,
            offset=offset,
            shift=read_only(offset - xp.log(dispersion)),
            log_coefficient=read_only(log_coefficient),
        )

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        a = f + self.shift
        return self.log_coefficient - self.y * softplus(-a, xp) - self.dispersion * softplus(a, xp)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        a = f + self.shift
        return self.y * scipy.special.expit(-a) - self.dispersion * scipy.special.expit(a)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        a = f + self.shift
        return -(self.y + self.dispersion) * (scipy.special.expit(a) * scipy.special.expit(-a))

    def expected(self, f: Any) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(np.asarray(self._as_array(f)) + self.offset)

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        gamma = rng.gamma(np.broadcast_to(self.dispersion, f.shape))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            rate = np.exp(f + self.shift) * gamma
        return draw_counts(type(self).__name__, rate, rng)
