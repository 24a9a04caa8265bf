"""The random walk as a kernel of tinygp, which does not have one. This module requires tinygp."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from tinygp.kernels.quasisep import Quasisep


class RandomWalkKernel(Quasisep):
    """The kernel of a random walk, k(s, t) = start^2 + scale^2 (min(s, t) - origin).

    It is an Ornstein-Uhlenbeck process after a change of scale and time. With the variance v(t) at time t,
    k(s, t) = sqrt(v(t)) sqrt(v(s) / v(t)) sqrt(v(s)) for s before t.
    """

    scale: Any
    start: Any
    origin: Any

    def design_matrix(self) -> Any:
        """Raise NotImplementedError: the walk has no stationary form, and nothing here calls this method."""
        raise NotImplementedError

    def stationary_covariance(self) -> Any:
        """Return the covariance of the state, (1, 1), in units in which its variance is 1."""
        return jnp.ones((1, 1))

    def observation_model(self, X: Any) -> Any:
        """Return the vector (1,) that maps the state to the walk."""
        return jnp.sqrt(self._variance(X))[None]

    def transition_matrix(self, X1: Any, X2: Any) -> Any:
        """Return the correlation of the walk at an earlier time X1 with that at a later time X2, shape (1, 1)."""
        later = self._variance(X2)
        return jnp.sqrt(jnp.where(later > 0, self._variance(X1) / jnp.where(later > 0, later, 1.0), 1.0))[None, None]

    def _variance(self, time: Any) -> Any:
        """Return the variance of the walk at a time."""
        return jnp.square(self.start) + jnp.square(self.scale) * (time - self.origin)
