"""Numbers of successes with additional zeros, logistic link."""

from __future__ import annotations

from typing import Any

from ellipslice.likelihoods.binomial import Binomial
from ellipslice.likelihoods.zero_inflated import ZeroInflated
from ellipslice.pytree import pytree


@pytree
class ZeroInflatedBinomial(ZeroInflated):
    """Zero-inflated binomial log-likelihood: 0 with `zero_probability`, otherwise successes as in `Binomial`.

    Use it for numbers of successes with more zeros than `Binomial` allows, for example because a species does not occur
    at some of the sites.

    Parameters
    ----------
    y : array_like of int
        Numbers of successes, between 0 and `trials`. Any shape.
    zero_probability : float or array_like of float
        Probability of an additional zero, from 0 to 1. Broadcasts to the shape of y.
    trials : int or array_like of int
        Numbers of trials, at least `y`. Broadcasts to the shape of y.


    Raises
    ------
    ValueError
        If an argument of `Binomial` is not valid, or `zero_probability` is not between 0 and 1.

    Notes
    -----
    A zero may be an additional one or one of the binomial distribution. `expected` is the mean over
    both kinds of counts. The likelihood is not log-concave. It is not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = ZeroInflatedBinomial([0, 3], zero_probability=0.25, trials=4)
    >>> log_likelihood
    ZeroInflatedBinomial(2 observations, zero_probability=0.25, trials=4)
    >>> log_likelihood.pointwise(np.zeros(2)).round(4)
    array([-1.2144, -1.674 ])
    """

    y: Any
    zero_probability: Any
    counts: Any
    is_zero: Any
    log_zero: Any
    log_counted: Any

    _repr_fields = ("zero_probability", "trials")

    def __init__(self, y: Any, zero_probability: Any, trials: Any):
        self._set(zero_probability, Binomial(y, trials))

    @property
    def trials(self) -> Any:
        """Numbers of trials."""
        return self.counts.trials
