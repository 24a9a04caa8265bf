"""Real numbers with Gaussian noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ellipslice.likelihoods.arguments import leaf, observations, parameter
from ellipslice.likelihoods.base import Likelihood, namespace
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields


@pytree
class Gaussian(Likelihood):
    """Observations y = f + noise, with independent Gaussian noise of known size.

    With a Gaussian prior the posterior is Gaussian too, so use it where exact answers are wanted to compare with, or as
    one part of a larger model. Where a few observations may be far off, use `StudentT`.

    Parameters
    ----------
    y : array of any shape
    sigma : float or array that broadcasts to y's shape
        Standard deviation of the noise, not its variance.

    Notes
    -----
    Section 4.1, equation 16 of the paper, which has sigma = 0.3.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Gaussian([0.0, 1.0], sigma=0.5)
    >>> log_likelihood
    Gaussian(2 observations, sigma=0.5)
    >>> log_likelihood.terms(np.array([0.0, 0.5])).round(4)
    array([-0.2258, -0.7258])
    """

    y: Any
    sigma: Any
    inverse: Any
    """Of sigma: products are faster than quotients."""
    constant: Any

    log_concave = True
    bend_rate = 0.0
    _shown = ("sigma",)
    command = Command(
        "gaussian", "numbers with noise", "number", float, options={"noise": "sigma"}, aliases=("normal",)
    )

    def __init__(self, y: Any, sigma: Any = 1.0):
        owner = type(self).__name__
        y = observations(owner, y)
        sigma = parameter(owner, "sigma", sigma, y.shape, positive=True)
        xp, _ = namespace(sigma)
        set_fields(
            self,
            y=y,
            sigma=sigma,
            inverse=leaf(1.0 / sigma),
            constant=leaf(-xp.log(sigma) - 0.5 * math.log(2 * math.pi)),
        )

    def _terms(self, f: Any, xp: Any, special: Any) -> Any:
        z = (f - self.y) * self.inverse
        return self.constant - 0.5 * (z * z)

    def expected(self, f: Any) -> np.ndarray:
        return np.array(self._read(f))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._read(f))
        return f + self.sigma * rng.standard_normal(f.shape)
