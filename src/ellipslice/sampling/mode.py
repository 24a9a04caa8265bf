"""Move from a prior draw to the neighbourhood of the mode of a posterior, where trajectories around the prior begin."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.base import Engine
from ellipslice.jax_settings import on_cpu

ITERATIONS = 100
"""Largest number of iterations. The state need not be the mode: the updates of the pilot run continue from there."""


def near_mode(engine: Engine) -> np.ndarray | None:
    """Return a state near the mode, centred and flat; None if the prior has no map from standard normals in JAX.

    It maximises log L(f) - z'z / 2 over the whitened coordinates z, f = unwhiten(z), by L-BFGS from z = 0.
    """
    from scipy.optimize import minimize  # slow to import, and needed only here

    prior = engine.posterior.prior

    def unwhitened(z: Any) -> Any:
        return jnp.asarray(prior.unwhiten(z))

    with on_cpu():
        start = np.zeros(prior.noise_size)
        try:
            jax.eval_shape(unwhitened, start)
        except Exception:  # noqa: BLE001  NumPy and SciPy raise many types for tracers
            return None
        transposed = jax.jit(lambda z, g: jax.vjp(unwhitened, z)[1](g)[0])
        forward = jax.jit(unwhitened)

        def loss(z: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = engine.value_and_gradient(np.asarray(forward(z)))
            if not np.isfinite(value) or not np.isfinite(gradient).all():
                return np.inf, z
            return 0.5 * float(z @ z) - value, z - np.asarray(transposed(z, gradient))

        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
        f = np.asarray(forward(found.x))
    return f if np.isfinite(engine.evaluate(f)) else None
