"""Real numbers with heavy-tailed noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.likelihoods.arguments import observations, parameter, read_only
from ellipslice.likelihoods.base import Likelihood, namespace
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields


@pytree
class StudentT(Likelihood):
    """Student-t log-likelihood: y = f + noise_scale * t, with t from Student's t distribution.

    Use it for regression with outliers: the influence of an observation on f decreases with its distance, whereas with
    `Gaussian` it grows. The posterior may have several modes.

    Parameters
    ----------
    y : array_like of float
        Observations. Any shape.
    noise_scale : float or array_like of float
        Scale of the noise, positive. Broadcasts to the shape of y. Default: 1. The variance of the noise is
        noise_scale^2 * degrees_of_freedom / (degrees_of_freedom - 2) if degrees_of_freedom > 2, otherwise infinite.
    degrees_of_freedom : float or array_like of float
        Degrees of freedom, positive. Broadcasts to the shape of y. Default: 4. With 1 the noise is Cauchy.

    Raises
    ------
    ValueError
        If a value is not finite, a parameter is not positive, or its shape does not fit y.

    Notes
    -----
    The likelihood is not log-concave: beyond ``|f - y| = noise_scale * sqrt(degrees_of_freedom)`` the log-likelihood of
    an observation is convex. It is not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = StudentT([0.0, 100.0])
    >>> log_likelihood
    StudentT(2 observations, noise_scale=1, degrees_of_freedom=4)
    >>> log_likelihood.pointwise(np.zeros(2)).round(4)
    array([ -0.9808, -20.5419])
    """

    y: Any
    noise_scale: Any
    degrees_of_freedom: Any
    constant: Any

    log_concave = False
    identity_link = True
    _repr_fields = ("noise_scale", "degrees_of_freedom")
    command = Command(
        "student-t",
        "numbers with noise and outliers",
        "number",
        float,
        options={"noise_scale": "noise_scale"},
        average=np.median,
        aliases=("studentt", "t"),
    )

    def __init__(self, y: Any, noise_scale: Any = 1.0, degrees_of_freedom: Any = 4.0):
        owner = type(self).__name__
        y = observations(owner, y)
        noise_scale = parameter(owner, "noise_scale", noise_scale, y.shape, positive=True)
        degrees_of_freedom = parameter(owner, "degrees_of_freedom", degrees_of_freedom, y.shape, positive=True)
        # The log beta function is accurate for many degrees of freedom; a difference of two log gammas is not.
        xp, special = namespace(noise_scale, degrees_of_freedom)
        constant = (
            -special.betaln(0.5, 0.5 * degrees_of_freedom) - 0.5 * xp.log(degrees_of_freedom) - xp.log(noise_scale)
        )
        set_fields(
            self, y=y, noise_scale=noise_scale, degrees_of_freedom=degrees_of_freedom, constant=read_only(constant)
        )

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        z = (f - self.y) / self.noise_scale
        return self.constant - (0.5 * (self.degrees_of_freedom + 1.0)) * xp.log1p(z * z / self.degrees_of_freedom)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        z = (f - self.y) / self.noise_scale
        return -(self.degrees_of_freedom + 1.0) * z / ((self.degrees_of_freedom + z * z) * self.noise_scale)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        z = (f - self.y) / self.noise_scale
        squares = self.degrees_of_freedom + z * z
        share = (z * z - self.degrees_of_freedom) / squares  # between -1 and 1, so nothing overflows
        return (self.degrees_of_freedom + 1.0) / (self.noise_scale * self.noise_scale) * share / squares

    def expected(self, f: Any) -> np.ndarray:
        return np.array(self._as_array(f))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        return f + self.noise_scale * rng.standard_t(self.degrees_of_freedom, size=f.shape)
