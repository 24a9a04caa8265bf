"""Evaluate kernels: functions of the user, and kernels of tinygp and scikit-learn (neither is imported here)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ellipslice.jax_settings import jax_settings

DISTANCE_HINT = (
    "By default, Exp, Matern32 and Matern52 of tinygp add up the distances along the axes, which does not give a "
    "covariance in several dimensions. Give them distance=tinygp.kernels.distance.L2Distance()."
)
"""Note that is added to errors about kernels of inputs with several axes."""


def covariance_function(kernel: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function of two sets of inputs that returns their covariance matrix (n, m), in double precision."""
    _check_callable(kernel, "a function of two sets of inputs")
    evaluate = _compiled(kernel)

    def covariance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = inputs_for(kernel, x), inputs_for(kernel, y)
        with jax_settings():
            matrix = np.asarray(evaluate(x, y), dtype=np.float64)
        if matrix.shape != (len(x), len(y)):
            raise ValueError(
                f"kernel returned shape {matrix.shape} for inputs of shapes {x.shape} and {y.shape}; expected "
                f"{(len(x), len(y))}."
            )
        return _check_finite(matrix)

    return covariance


def _compiled(kernel: Any) -> Callable[[Any, Any], Any]:
    """Return a kernel of tinygp compiled as one program; otherwise JAX runs each of its operations separately."""
    return jax.jit(lambda x, y: kernel(x, y)) if comes_from(kernel, "tinygp") else kernel


def variance_function(kernel: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that returns the variance at each input (n,), including a white-noise kernel of scikit-learn.

    scikit-learn adds white noise only on the diagonal of kernel(x, x) with the same x.
    """

    def variance(x: np.ndarray) -> np.ndarray:
        x = inputs_for(kernel, x)
        if comes_from(kernel, "sklearn"):
            return _check_finite(np.asarray(kernel.diag(x), dtype=np.float64))
        if comes_from(kernel, "tinygp"):
            with jax_settings():
                return _check_finite(np.asarray(kernel(x), dtype=np.float64))
        covariance, step = covariance_function(kernel), 64
        pieces = [x[i : i + step] for i in range(0, len(x), step)]
        return np.concatenate([covariance(piece, piece).diagonal() for piece in pieces])

    return variance


def covariance_matrix(kernel: Any, x: np.ndarray) -> np.ndarray:
    """Return the covariance matrix (n, n) of the kernel at the inputs x, including white noise."""
    matrix = np.array(covariance_function(kernel)(x, x))
    np.fill_diagonal(matrix, variance_function(kernel)(x))
    return matrix


def functions(kernel: Any, xp: Any) -> tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]:
    """Return two functions: covariances of two sets of inputs, and variances. JAX can trace them if `xp` is jnp."""
    if xp is np:
        return covariance_function(kernel), variance_function(kernel)
    if not comes_from(kernel, "tinygp"):
        return kernel, lambda x: kernel(x, x).diagonal()

    def covariance(x: Any, y: Any) -> Any:
        return kernel(inputs_for(kernel, x), inputs_for(kernel, y))

    def variance(x: Any) -> Any:
        return kernel(inputs_for(kernel, x))

    return covariance, variance


def inputs_for(kernel: Any, x: Any) -> Any:
    """Return inputs (n,) or (n, axes) in the shape that the kernel accepts.

    Kernels of scikit-learn accept only a matrix (n, axes). Kernels of tinygp.kernels.quasisep accept only times (n,).
    """
    if comes_from(kernel, "sklearn"):
        return x.reshape(len(x), -1)
    if not is_markov(kernel) or x.ndim == 1:
        return x
    if x.shape[1] > 1:
        raise ValueError(
            f"{type(kernel).__name__} of tinygp.kernels.quasisep is a kernel for times, one number per input, but "
            f"the inputs have shape {x.shape}. In several dimensions use a kernel of tinygp.kernels, such as "
            "Matern32(scale, distance=tinygp.kernels.distance.L2Distance())."
        )
    return x.reshape(len(x))


def is_markov(kernel: Any) -> bool:
    """Return whether the kernel is one of tinygp.kernels.quasisep, whose processes are Markov in time."""
    return any(cls.__module__ == "tinygp.kernels.quasisep" for cls in type(kernel).__mro__)


def lag_function(kernel: Any, axes: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the kernel as a function of lags (..., axes) that returns covariances (...)."""
    if is_kernel(kernel):
        return _lags_of_kernel(kernel, axes)
    _check_callable(kernel, "a function of the lag vector")

    def of_lags(lags: np.ndarray) -> np.ndarray:
        with jax_settings():
            try:
                values = np.asarray(kernel(lags), dtype=np.float64)
            except TypeError as error:
                error.add_note(f"kernel was called with one argument, an array of lags x - x' of shape {lags.shape}.")
                raise
        if values.shape != lags.shape[:-1]:
            raise ValueError(
                f"kernel returned shape {values.shape} for lags of shape {lags.shape}; expected {lags.shape[:-1]}. The "
                "last axis holds the lag vector. Write a function k of distance as lambda lag: k(np.linalg.norm(lag, "
                "axis=-1))."
            )
        return _check_finite(values)

    return of_lags


def _lags_of_kernel(kernel: Any, axes: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a kernel of two sets of inputs as a function of lags. It raises if the kernel is not stationary."""
    covariance, variance = covariance_function(kernel), variance_function(kernel)

    def as_inputs(points: np.ndarray) -> np.ndarray:
        return points[:, 0] if axes == 1 and comes_from(kernel, "tinygp") else points

    def from_origin(lags: np.ndarray, origin: np.ndarray) -> np.ndarray:
        return covariance(as_inputs(origin[None]), as_inputs(origin + lags))[0]

    def of_lags(lags: np.ndarray) -> np.ndarray:
        flat = lags.reshape(-1, axes)
        values = np.array(from_origin(flat, np.zeros(axes)))
        some, reach = slice(None, None, max(1, len(flat) // 50)), np.abs(flat).max(axis=0)
        elsewhere = from_origin(flat[some], np.where(reach > 0, reach, 1.0))
        if not np.allclose(elsewhere, values[some], rtol=1e-6, atol=1e-6 * np.abs(values).max()):
            raise ValueError(
                f"kernel is not stationary: at other inputs it is another function of the lag ({kernel}). Use Dense "
                "below 5,000 elements, or LowRank.inducing_points."
            )
        values[(flat == 0).all(axis=1)] = variance(as_inputs(np.zeros((1, axes))))[0]
        return values.reshape(lags.shape[:-1])

    return of_lags


def comes_from(kernel: Any, package: str) -> bool:
    """Return whether the class of the kernel, or one of its base classes, is defined in the package."""
    return any(cls.__module__.split(".")[0] == package for cls in type(kernel).__mro__)


def is_kernel(given: Any) -> bool:
    """Return whether `given` is a kernel of tinygp or scikit-learn."""
    return comes_from(given, "tinygp") or comes_from(given, "sklearn")


def _check_callable(kernel: Any, expected: str) -> None:
    """Raise TypeError if the kernel is a class, or cannot be called. `expected` describes a valid function."""
    if isinstance(kernel, type) or not callable(kernel):
        given = f"the class {kernel.__name__}" if isinstance(kernel, type) else f"a {type(kernel).__name__}"
        raise TypeError(
            f"kernel must be {expected}, or an instance of a tinygp or scikit-learn kernel, but it is {given}."
        )


def _check_finite(values: np.ndarray) -> np.ndarray:
    """Return `values`. Raise ValueError if one is not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            "kernel returned values that are not finite; expected finite covariances. Check its parameters, and its "
            "value at lag 0."
        )
    return values
