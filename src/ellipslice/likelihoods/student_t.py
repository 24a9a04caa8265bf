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
    """Observations y = f + scale * t, with t from Student's t distribution.

    Regression in which a few observations may be far off: their pull on f fades with distance, where `Gaussian` lets it
    grow. The price is that the posterior may have several modes.

    Parameters
    ----------
    y : array of any shape
    scale : float or array that broadcasts to y's shape
        Size of the noise; its variance is scale^2 * degrees / (degrees - 2) if degrees > 2, else infinite.
    degrees : float or array that broadcasts to y's shape
        Degrees of freedom, positive; 1 is Cauchy noise.

    Notes
    -----
    Not log-concave: beyond ``|f - y| = scale * sqrt(degrees)`` a term is convex. Not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = StudentT([0.0, 100.0])
    >>> log_likelihood
    StudentT(2 observations, scale=1, degrees=4)
    >>> log_likelihood.terms(np.zeros(2)).round(4)
    array([ -0.9808, -20.5419])
    """

    y: Any
    scale: Any
    degrees: Any
    constant: Any

    log_concave = False
    _shown = ("scale", "degrees")
    command = Command(
        "student-t",
        "numbers with noise and outliers",
        "number",
        float,
        options={"noise": "scale"},
        average=np.median,
        aliases=("studentt", "t"),
    )

    def __init__(self, y: Any, scale: Any = 1.0, degrees: Any = 4.0):
        owner = type(self).__name__
        y = observations(owner, y)
        scale = parameter(owner, "scale", scale, y.shape, positive=True)
        degrees = parameter(owner, "degrees", degrees, y.shape, positive=True)
        # the beta function, since the difference of two log gammas loses its digits for many degrees
        xp, special = namespace(scale, degrees)
        constant = -special.betaln(0.5, 0.5 * degrees) - 0.5 * xp.log(degrees) - xp.log(scale)
        set_fields(self, y=y, scale=scale, degrees=degrees, constant=leaf(constant))

    def _terms(self, f: Any, xp: Any, special: Any) -> Any:
        z = (f - self.y) / self.scale
        return self.constant - (0.5 * (self.degrees + 1.0)) * xp.log1p(z * z / self.degrees)

    def expected(self, f: Any) -> np.ndarray:
        return np.array(self._read(f))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._read(f))
        return f + self.scale * rng.standard_t(self.degrees, size=f.shape)
