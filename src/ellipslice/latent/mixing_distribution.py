"""The penalised-complexity prior of the proportion of spatial variance, as a distribution of NumPyro."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution, constraints

BISECTIONS = 60


class PCMixing(Distribution):
    """The prior of phi in the variance (1 - phi) I + phi G, with P(phi < u) = probability.

    With d(phi)^2 = phi tr(G - I) - log|(1 - phi) I + phi G|, the distance d from phi = 0 has an exponential
    distribution. It is infinite at phi = 1 because G is singular.

    Parameters
    ----------
    eigenvalues : array
        Eigenvalues of G, the generalised inverse of the scaled precision.
    u, probability : float
        Above 0 and below 1.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support: Any = constraints.unit_interval
    pytree_data_fields = ("excess", "rate")
    pytree_aux_fields = ("in_words",)

    def __init__(self, eigenvalues: np.ndarray, u: float, probability: float):
        self.excess = np.asarray(eigenvalues, dtype=np.float64) - 1.0
        self.rate = -math.log1p(-probability) / float(_distance(u, self.excess, np)[0])
        self.in_words = f"penalised complexity, P(phi < {u:g}) = {probability:g}"
        super().__init__(batch_shape=(), event_shape=())

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return the log density."""
        distance, slope = _distance(value, self.excess, jnp)
        return jnp.log(self.rate) - self.rate * distance + jnp.log(slope)

    def cdf(self, value: Any) -> Any:
        """Return the probability of a smaller value."""
        return -jnp.expm1(-self.rate * _distance(value, self.excess, jnp)[0])

    def icdf(self, q: Any) -> Any:
        """Return the quantile, by bisection of the logit."""

        def halve(_: int, bracket: tuple[Any, Any]) -> tuple[Any, Any]:
            low, high = bracket
            middle = (low + high) / 2
            below = self.cdf(jax.nn.sigmoid(middle)) < q
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        ends = jnp.full(jnp.shape(q), -50.0), jnp.full(jnp.shape(q), 50.0)
        low, high = jax.lax.fori_loop(0, BISECTIONS, halve, ends)
        return jax.nn.sigmoid((low + high) / 2)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw values."""
        return self.icdf(jax.random.uniform(key, sample_shape))


def _distance(phi: Any, excess: Any, xp: Any) -> tuple[Any, Any]:
    """Return the distance d(phi) and its derivative. They are phi sqrt(S) and T / (2 sqrt(S)), also for tiny phi."""
    phi = xp.asarray(phi)[..., None]
    t = phi * excess
    series = 0.5 - t / 3 + t**2 / 4 - t**3 / 5  # of the ratio, whose numerator cancels
    small = xp.abs(t) < 1e-4
    safe = xp.where(small, 1.0, t)
    root = xp.sqrt(xp.sum(excess**2 * xp.where(small, series, (safe - xp.log1p(safe)) / safe**2), axis=-1))
    return phi[..., 0] * root, xp.sum(excess**2 / (1 + t), axis=-1) / (2 * root)
