"""The random walk as one of tinygp's kernels, which has none. Imported only where tinygp is."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from tinygp.kernels.quasisep import Quasisep


class RandomWalkKernel(Quasisep):
    """k(s, t) = start^2 + scale^2 (min(s, t) - origin): as an Ornstein-Uhlenbeck process on a changed scale and clock.

    With v the variance at a time, k(s, t) = sqrt(v(t)) sqrt(v(s) / v(t)) sqrt(v(s)) for s before t.
    """

    scale: Any
    start: Any
    origin: Any

    def design_matrix(self) -> Any:
        """It is not of this form; nothing here asks for it."""
        raise NotImplementedError

    def stationary_covariance(self) -> Any:
        """In units in which the variance is 1."""
        return jnp.ones((1, 1))

    def observation_model(self, X: Any) -> Any:
        """Back to the walk's own units."""
        return jnp.sqrt(self._variance(X))[None]

    def transition_matrix(self, X1: Any, X2: Any) -> Any:
        """The correlation of an earlier time with a later one."""
        later = self._variance(X2)
        return jnp.sqrt(jnp.where(later > 0, self._variance(X1) / jnp.where(later > 0, later, 1.0), 1.0))[None, None]

    def _variance(self, time: Any) -> Any:
        return jnp.square(self.start) + jnp.square(self.scale) * (time - self.origin)
