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
    noise_scale : float or array that broadcasts to y's shape
        Standard deviation of the noise, not its variance.

    Notes
    -----
    Section 4.1, equation 16 of the paper, which has noise_scale = 0.3.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Gaussian([0.0, 1.0], noise_scale=0.5)
    >>> log_likelihood
    Gaussian(2 observations, noise_scale=0.5)
    >>> log_likelihood.pointwise(np.array([0.0, 0.5])).round(4)
    array([-0.2258, -0.7258])
    """

    y: Any
    noise_scale: Any
    inverse: Any
    """Of noise_scale: products are faster than quotients."""
    constant: Any

    log_concave = True
    curvature_rate_bound = 0.0
    _shown = ("noise_scale",)
    command = Command(
        "gaussian", "numbers with noise", "number", float, options={"noise_scale": "noise_scale"}, aliases=("normal",)
    )

    def __init__(self, y: Any, noise_scale: Any = 1.0):
        owner = type(self).__name__
        y = observations(owner, y)
        noise_scale = parameter(owner, "noise_scale", noise_scale, y.shape, positive=True)
        xp, _ = namespace(noise_scale)
        set_fields(
            self,
            y=y,
            noise_scale=noise_scale,
            inverse=leaf(1.0 / noise_scale),
            constant=leaf(-xp.log(noise_scale) - 0.5 * math.log(2 * math.pi)),
        )

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        z = (f - self.y) * self.inverse
        return self.constant - 0.5 * (z * z)

    def expected(self, f: Any) -> np.ndarray:
        return np.array(self._read(f))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._read(f))
        return f + self.noise_scale * rng.standard_normal(f.shape)
