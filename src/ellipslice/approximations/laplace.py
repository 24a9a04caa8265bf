"""The Laplace approximation: sites with the gradient and curvature of the log-likelihood at the posterior mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_solve

from ellipslice.approximations.sites import Sites, white_precision_factor
from ellipslice.programs.traced import over_axes

MAX_NEWTON_STEPS = 100
"""Largest number of steps of Newton's method."""


def fit_laplace(rows: np.ndarray, log_likelihood: Callable[[Any], Any]) -> Sites:
    """Return sites at the posterior mode, found by Newton's method in whitened coordinates.

    Parameters
    ----------
    rows : array, shape (rank, size)
        The prior's covariance is rows.T @ rows.
    log_likelihood : callable
        Log-likelihood of a centred flat vector. JAX must be able to trace it, and it must factorise over the elements.
    """
    return newton(rows, jax.jit(lambda f: derivatives(log_likelihood, f)))


def newton(rows: np.ndarray, derivatives_at: Callable[[Any], Any]) -> Sites:
    """Return sites at the posterior mode by Newton's method.

    `derivatives_at(f)` returns the log-likelihood at f, and its first and second derivative for each element of f.
    """
    z = np.zeros(len(rows))
    height, gradient, curvature = _posterior_at(derivatives_at, rows, z)
    for _ in range(MAX_NEWTON_STEPS):
        precision = np.maximum(-curvature, 0.0)
        lower = white_precision_factor(rows, precision)
        step = cho_solve((lower, True), rows @ (precision * (z @ rows) + gradient)) - z
        for _ in range(30):  # halve the step until the log-posterior increases
            there = _posterior_at(derivatives_at, rows, z + step)
            if there[0] > height - 1e-12 * abs(height):
                break
            step = step / 2
        else:
            break
        gain, z = there[0] - height, z + step
        height, gradient, curvature = there
        if gain < 1e-9 * (1 + abs(height)):
            break
    precision = np.maximum(-curvature, 0.0)
    return Sites(precision * (z @ rows) + gradient, precision)


def derivatives(log_likelihood: Callable[[Any], Any], f: Any) -> tuple[Any, Any, Any]:
    """Return the log-likelihood at f, its gradient, and its second derivative with respect to each element of f.

    The mixed second derivatives are 0, because the log-likelihood factorises. For several latent functions f has shape
    (functions, size), and mixed derivatives between functions are omitted.
    """
    gradient_of = jax.grad(lambda f: jnp.asarray(log_likelihood(f), f.dtype))
    if f.ndim == 1 or len(f) == 1:
        gradient, curvature = jax.jvp(gradient_of, (f,), (jnp.ones_like(f),))
    else:
        directions = jnp.eye(len(f))[:, :, None] * jnp.ones_like(f)
        gradient, curvatures = (
            gradient_of(f),
            over_axes(lambda along: jax.jvp(gradient_of, (f,), (along,))[1])(directions),
        )
        curvature = jnp.einsum("iij->ij", curvatures)
    return log_likelihood(f), gradient, curvature


def _posterior_at(
    derivatives_at: Callable[[Any], Any], rows: np.ndarray, z: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the log-posterior at whitened z, up to a constant, and gradient and curvature of the log-likelihood."""
    value, gradient, curvature = derivatives_at(z @ rows)
    return float(value) - 0.5 * float(z @ z), np.asarray(gradient), np.asarray(curvature)
