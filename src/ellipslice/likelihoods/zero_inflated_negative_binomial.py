"""Overdispersed counts with additional zeros, log link."""

from __future__ import annotations

from typing import Any

from ellipslice.likelihoods.negative_binomial import NegativeBinomial
from ellipslice.likelihoods.zero_inflated import ZeroInflated
from ellipslice.pytree import pytree


@pytree
class ZeroInflatedNegativeBinomial(ZeroInflated):
    """Zero-inflated negative binomial log-likelihood: 0 with `zero_probability`, otherwise as `NegativeBinomial`.

    Use it for counts with more zeros than `NegativeBinomial` allows.

    Parameters
    ----------
    y : array_like of int
        Counts, at least 0. Any shape.
    zero_probability : float or array_like of float
        Probability of an additional zero, from 0 to 1. Broadcasts to the shape of y.
    dispersion : float or array_like of float
        Shape parameter of the negative binomial distribution, positive. Broadcasts to the shape of y.
    offset : float or array_like of float
        Known term that is added to f to give the log mean, for example the log exposure. Broadcasts to the shape of y.
        Default: 0.


    Raises
    ------
    ValueError
        If an argument of `NegativeBinomial` is not valid, or `zero_probability` is not between 0 and 1.

    Notes
    -----
    A zero may be an additional one or one of the negative binomial distribution. `expected` is the mean over
    both kinds of counts. The likelihood is not log-concave. It is not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = ZeroInflatedNegativeBinomial([0, 3], zero_probability=0.25, dispersion=2.0)
    >>> log_likelihood
    ZeroInflatedNegativeBinomial(2 observations, zero_probability=0.25, dispersion=2, offset=0)
    >>> log_likelihood.pointwise(np.zeros(2)).round(4)
    array([-0.539 , -3.0082])
    """

    y: Any
    zero_probability: Any
    counts: Any
    is_zero: Any
    log_zero: Any
    log_counted: Any

    _repr_fields = ("zero_probability", "dispersion", "offset")

    def __init__(self, y: Any, zero_probability: Any, dispersion: Any, offset: Any = 0.0):
        self._set(zero_probability, NegativeBinomial(y, dispersion, offset))

    @property
    def dispersion(self) -> Any:
        """Shape parameter of the negative binomial distribution."""
        return self.counts.dispersion

    @property
    def offset(self) -> Any:
        """Known term of the log mean."""
        return self.counts.offset
