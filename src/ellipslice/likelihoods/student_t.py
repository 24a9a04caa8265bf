"""Real numbers with heavy-tailed noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.likelihoods.arguments import leaf, observations, parameter
from ellipslice.likelihoods.base import Likelihood, namespace
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields


@pytree
class StudentT(Likelihood):
    """Observations y = f + noise_scale * t, with t from Student's t distribution.

    Regression in which a few observations may be far off: their pull on f fades with distance, where `Gaussian` lets it
    grow. The price is that the posterior may have several modes.

    Parameters
    ----------
    y : array of any shape
    noise_scale : float or array that broadcasts to y's shape
        Size of the noise; its variance is noise_scale^2 * degrees_of_freedom / (degrees_of_freedom - 2) if
        degrees_of_freedom > 2, else infinite.
    degrees_of_freedom : float or array that broadcasts to y's shape
        Degrees of freedom, positive; 1 is Cauchy noise.

    Notes
    -----
    Not log-concave: beyond ``|f - y| = noise_scale * sqrt(degrees_of_freedom)`` a term is convex. Not in the paper.

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
    _shown = ("noise_scale", "degrees_of_freedom")
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
        # the beta function, since the difference of two log gammas loses its digits for many degrees
        xp, special = namespace(noise_scale, degrees_of_freedom)
        constant = (
            -special.betaln(0.5, 0.5 * degrees_of_freedom) - 0.5 * xp.log(degrees_of_freedom) - xp.log(noise_scale)
        )
        set_fields(self, y=y, noise_scale=noise_scale, degrees_of_freedom=degrees_of_freedom, constant=leaf(constant))

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        z = (f - self.y) / self.noise_scale
        return self.constant - (0.5 * (self.degrees_of_freedom + 1.0)) * xp.log1p(z * z / self.degrees_of_freedom)

    def expected(self, f: Any) -> np.ndarray:
        return np.array(self._read(f))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._read(f))
        return f + self.noise_scale * rng.standard_t(self.degrees_of_freedom, size=f.shape)
