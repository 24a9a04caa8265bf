"""Laplace's approximation: sites with the log-likelihood's slope and curvature at the posterior's mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_solve

from ellipslice.approximations.sites import Sites, white_root
from ellipslice.programs.traced import over_axes

STEPS = 100
"""Most of Newton's."""


def laplace(rows: np.ndarray, log_likelihood: Callable[[Any], Any]) -> Sites:
    """Sites at the mode, found by Newton's method in the coordinates where the prior is white.

    Parameters
    ----------
    rows : array, shape (rank, size)
        The prior's covariance is rows.T @ rows.
    log_likelihood : callable
        Of a centred flat vector, a sum over its values, that JAX can trace.
    """
    return newton(rows, jax.jit(lambda f: slopes(log_likelihood, f)))


def newton(rows: np.ndarray, slopes_at: Callable[[Any], Any]) -> Sites:
    """The same from a function that gives what `slopes` does."""
    z = np.zeros(len(rows))
    height, slope, bend = _at(slopes_at, rows, z)
    for _ in range(STEPS):
        precision = np.maximum(-bend, 0.0)
        step = cho_solve((white_root(rows, precision), True), rows @ (precision * (z @ rows) + slope)) - z
        for _ in range(30):  # halved until it leads upwards
            there = _at(slopes_at, rows, z + step)
            if there[0] > height - 1e-12 * abs(height):
                break
            step = step / 2
        else:
            break
        gain, z = there[0] - height, z + step
        height, slope, bend = there
        if gain < 1e-9 * (1 + abs(height)):
            break
    precision = np.maximum(-bend, 0.0)
    return Sites(precision * (z @ rows) + slope, precision)


def slopes(log_likelihood: Callable[[Any], Any], f: Any) -> tuple[Any, Any, Any]:
    """Value, first and second derivatives, the latter of one value at a time: others are 0, it being a sum.

    Of several functions, f is (functions, size), and each is taken by itself.
    """
    gradient = jax.grad(lambda f: jnp.asarray(log_likelihood(f), f.dtype))
    if f.ndim == 1 or len(f) == 1:
        slope, bend = jax.jvp(gradient, (f,), (jnp.ones_like(f),))
    else:
        alone = jnp.eye(len(f))[:, :, None] * jnp.ones_like(f)
        slope, bends = gradient(f), over_axes(lambda along: jax.jvp(gradient, (f,), (along,))[1])(alone)
        bend = jnp.einsum("iij->ij", bends)
    return log_likelihood(f), slope, bend


def _at(slopes_at: Callable[[Any], Any], rows: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The log-posterior at z, up to a constant, and the log-likelihood's derivatives."""
    value, slope, bend = slopes_at(z @ rows)
    return float(value) - 0.5 * float(z @ z), np.asarray(slope), np.asarray(bend)
