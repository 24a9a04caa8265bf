"""Low-rank factors that approximate a kernel: random Fourier features and inducing points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.checks import as_numbers, whole_number
from ellipslice.priors.dense import pivoted_cholesky
from ellipslice.priors.parts.kernels import covariance_function, variance_function


def fourier_factor(x: Any, length_scale: Any, smoothness: float, variance: float, count: int, seed: int) -> np.ndarray:
    """Return random Fourier features, cosines and sines (N, 2 count), whose products approximate the kernel."""
    inputs = as_inputs(x, "x").reshape(len(x), -1)
    scale = as_numbers(length_scale, "length_scale")
    if scale.shape not in ((), (inputs.shape[1],)):
        raise ValueError(f"length_scale has shape {scale.shape}; expected a number, or one per column of x.")
    for name, value in (("length_scale", scale.min()), ("smoothness", smoothness), ("variance", variance)):
        if not value > 0:
            raise ValueError(f"{name} must be positive, but it is {value}.")
    count = whole_number("count", count, 1, "a positive whole number")
    rng = np.random.default_rng(seed)
    frequencies = rng.standard_normal((count, inputs.shape[1]))
    if np.isfinite(smoothness):  # the spectrum of the Matérn kernel is multivariate t with 2 nu degrees of freedom
        frequencies *= np.sqrt(2 * smoothness / rng.chisquare(2 * smoothness, (count, 1)))
    phases = (inputs / scale) @ frequencies.T
    return np.concatenate([np.cos(phases), np.sin(phases)], axis=1) * np.sqrt(variance / count)


def inducing_factor(kernel: Any, x: Any, points: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a factor (N, r) of K_xu inv(K_uu) K_ux, r at most M, and the variances (N,) that it lacks."""
    inputs, inducing = as_inputs(x, "x"), as_inputs(points, "points")
    if inputs.shape[1:] != inducing.shape[1:]:
        raise ValueError(
            f"x has shape {inputs.shape} and points {inducing.shape}; expected the same number of columns."
        )
    covariance = covariance_function(kernel)
    rows, pivots = pivoted_cholesky(covariance(inducing, inducing))
    if not rows.any():
        raise ValueError("kernel is 0 at all inducing points; expected a positive variance. Check the kernel.")
    # Inducing points that the others determine add no information. The pivots are those that remain.
    factor = np.linalg.solve(rows[:, pivots].T, covariance(inputs, inducing[pivots]).T).T
    variance = variance_function(kernel)(inputs)
    missing = variance - np.sum(factor**2, axis=1)
    rounding = 1e-10 * variance.max()
    if missing.min() < -rounding:
        raise ValueError(
            f"kernel is not positive semi-definite: given the inducing points, the variance at "
            f"x[{np.argmin(missing)}] is {missing.min():.6g}. Check the kernel."
        )
    return factor, np.where(missing > rounding, missing, 0.0)


def as_inputs(x: Any, name: str) -> np.ndarray:
    """Return inputs as an array of shape (N,) or (N, D). Raise ValueError if they have another shape."""
    array = as_numbers(x, name)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}; expected (N,) or (N, D), one row per input.")
    return array
