"""Survival times with a Weibull or exponential distribution, possibly right-censored."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from ellipslice.checks import reject
from ellipslice.likelihoods.arguments import check_positive, observations, parameter, read_only
from ellipslice.likelihoods.base import Likelihood, namespace
from ellipslice.pytree import pytree, set_fields


@pytree
class Weibull(Likelihood):
    """Weibull log-likelihood of survival times with hazard shape * t^(shape - 1) * exp(f), possibly right-censored.

    f is the log of the factor of a proportional hazards model. The probability to survive time t is
    exp(-t^shape * exp(f)). With shape 1 the times have an exponential distribution with rate exp(f).

    Parameters
    ----------
    y : array_like of float
        Times, positive: of the event, or until which no event was observed. Any shape.
    shape : float or array_like of float
        Shape, positive. Broadcasts to the shape of y. Default: 1. If it is above 1, the hazard increases in time.
    event : float or array_like of float
        1 if the event was observed at y, 0 if the observation is censored: the event is later than y. Broadcasts to the
        shape of y. Default: 1.

    Raises
    ------
    ValueError
        If a time or `shape` is not positive, `event` is not 0 or 1, or a shape does not fit y.

    Notes
    -----
    The likelihood is log-concave. A censored observation contributes the probability to survive its time. It is not in
    the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Weibull([0.5, 2.0], shape=2.0, event=[1, 0])
    >>> log_likelihood
    Weibull(2 observations, shape=2, event=array of shape (2,))
    >>> log_likelihood.pointwise(np.zeros(2)).round(4)
    array([-0.25, -4.  ])
    """

    y: Any
    shape: Any
    event: Any
    log_power: Any
    constant: Any

    log_concave = True
    curvature_rate_bound = 1.0
    _repr_fields = ("shape", "event")

    def __init__(self, y: Any, shape: Any = 1.0, event: Any = 1.0):
        owner = type(self).__name__
        y = observations(owner, y)
        check_positive(owner, "y", y, "Drop observations of duration 0, or add the resolution of the measurement.")
        shape = parameter(owner, "shape", shape, y.shape, positive=True)
        event = parameter(owner, "event", event, y.shape)
        reject(f"{owner}: event", event, (event != 0) & (event != 1), "is not 0 or 1. Expected 0 for censored times.")
        log_y, (xp, _) = np.log(y), namespace(shape)
        constant = event * (xp.log(shape) + (shape - 1.0) * log_y)
        set_fields(
            self, y=y, shape=shape, event=event, log_power=read_only(shape * log_y), constant=read_only(constant)
        )

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        return self.constant + self.event * f - xp.exp(f + self.log_power)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        return self.event - np.exp(f + self.log_power)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        return -np.exp(f + self.log_power)

    def expected(self, f: Any) -> np.ndarray:
        """Return the expected time of the event, without censoring. Arguments are those of the base class."""
        f = np.asarray(self._as_array(f))
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(-f / self.shape) * scipy.special.gamma(1.0 + 1.0 / self.shape)

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        """Draw times of events, without censoring. Arguments are those of the base class."""
        f = np.asarray(self._as_array(f))
        with np.errstate(over="ignore", under="ignore"):
            times = np.exp((np.log(rng.standard_exponential(f.shape)) - f) / self.shape)
        return np.clip(times, np.finfo(float).tiny, np.finfo(float).max)
