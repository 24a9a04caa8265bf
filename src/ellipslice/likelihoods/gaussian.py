"""Real numbers with Gaussian noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ellipslice.likelihoods.arguments import observations, parameter, read_only
from ellipslice.likelihoods.base import Likelihood, namespace
from ellipslice.likelihoods.command import Command
from ellipslice.pytree import pytree, set_fields


@pytree
class Gaussian(Likelihood):
    """Gaussian log-likelihood: y = f + noise, with independent Gaussian noise of known standard deviation.

    With a Gaussian prior the posterior is Gaussian, too. Use this class as part of a larger model, or to compare draws
    with exact results. If there may be outliers, use `StudentT`.

    Parameters
    ----------
    y : array_like of float
        Observations. Any shape.
    noise_scale : float or array_like of float
        Standard deviation of the noise (not the variance), positive. Broadcasts to the shape of y. Default: 1.

    Raises
    ------
    ValueError
        If a value is not finite, `noise_scale` is not positive, or its shape does not fit y.

    Notes
    -----
    Equation 16 in Section 4.1 of the paper, which uses noise_scale = 0.3. The likelihood is log-concave.

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
    """1 / noise_scale, because multiplication is faster than division."""
    constant: Any

    log_concave = True
    identity_link = True
    curvature_rate_bound = 0.0
    _repr_fields = ("noise_scale",)
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
            inverse=read_only(1.0 / noise_scale),
            constant=read_only(-xp.log(noise_scale) - 0.5 * math.log(2 * math.pi)),
        )

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        z = (f - self.y) * self.inverse
        return self.constant - 0.5 * (z * z)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        return (self.y - f) * (self.inverse * self.inverse)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        return np.broadcast_to(-self.inverse * self.inverse, f.shape).copy()

    def expected(self, f: Any) -> np.ndarray:
        return np.array(self._as_array(f))

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        f = np.asarray(self._as_array(f))
        return f + self.noise_scale * rng.standard_normal(f.shape)
