"""Kernels of tinygp.kernels.quasisep as state space models."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames="parts")
def state_space(kernel: Any, now: Any, parts: int = 1) -> tuple[Any, Any, Any]:
    """Return a kernel as a state space model: the covariance of the state, and (observed, transition) at times `now`.

    f[n] = observed[n] @ state, and transition[n] maps the state at time n - 1 to that at time n. tinygp has transitions
    A with cov(state[n], state[k]) = start @ A. Here they are start @ A @ inv(start), in units in which all elements of
    the state have variance 1.

    With `parts` a transition is the product of those over parts of its time. The transition of an overdamped `SHO` over
    a long time is not finite, because tinygp multiplies an overflow by 0, but those over the parts are.
    """

    def dense(matrix: Any) -> Any:
        return jnp.asarray(matrix.to_dense() if hasattr(matrix, "to_dense") else matrix, dtype=jnp.float64)

    start = dense(kernel.stationary_covariance())
    observed = jnp.asarray(jax.vmap(kernel.observation_model)(now), dtype=jnp.float64)
    before = jnp.concatenate([now[:1], now[:-1]])
    duals = jax.vmap(lambda s, t: dense(kernel.transition_matrix(s, t)))

    def extend(dual: Any, part: Any) -> tuple[Any, None]:
        first, last = (before + (now - before) * (end / parts) for end in (part, part + 1))
        return duals(first, last) @ dual, None

    dual = duals(before, now) if parts == 1 else jax.lax.scan(extend, duals(before, before), jnp.arange(parts))[0]
    scale = jnp.sqrt(start.diagonal())
    start = start / scale[:, None] / scale
    transition = start @ (scale[:, None] * dual / scale) @ jnp.linalg.inv(start)
    return start, observed * scale, transition
