"""Kernels as users have them: plain functions, tinygp's or scikit-learn's. Neither package is imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ellipslice.jax_settings import jax_settings

DISTANCE_HINT = (
    "tinygp's Exp, Matern32 and Matern52 add up distances along the axes unless told otherwise, which is no covariance "
    "in several dimensions: give them distance=tinygp.kernels.distance.L2Distance()."
)
"""A note for errors about kernels of inputs with several axes."""


def covariance_function(kernel: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The kernel as a function of two sets of inputs, returning their covariance matrix in double precision."""
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
        return _finite(matrix)

    return covariance


def _compiled(kernel: Any) -> Callable[[Any, Any], Any]:
    """A kernel of tinygp as one program for each shape of its inputs: by itself it is one for each operation in it."""
    return jax.jit(lambda x, y: kernel(x, y)) if comes_from(kernel, "tinygp") else kernel


def variance_function(kernel: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The kernel's variance at each input: with the white noise that scikit-learn counts at equal inputs only."""

    def variance(x: np.ndarray) -> np.ndarray:
        x = inputs_for(kernel, x)
        if comes_from(kernel, "sklearn"):
            return _finite(np.asarray(kernel.diag(x), dtype=np.float64))
        if comes_from(kernel, "tinygp"):
            with jax_settings():
                return _finite(np.asarray(kernel(x), dtype=np.float64))
        covariance, step = covariance_function(kernel), 64
        pieces = [x[i : i + step] for i in range(0, len(x), step)]
        return np.concatenate([covariance(piece, piece).diagonal() for piece in pieces])

    return variance


def covariance_matrix(kernel: Any, x: np.ndarray) -> np.ndarray:
    """The covariance of a function's values at some inputs, white noise included."""
    matrix = np.array(covariance_function(kernel)(x, x))
    np.fill_diagonal(matrix, variance_function(kernel)(x))
    return matrix


def functions(kernel: Any, xp: Any) -> tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]:
    """The kernel's covariances of two sets of inputs, and its variances: by NumPy, or as JAX traces them."""
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
    """Inputs (n,) or (n, axes) in the shape that the kernel takes.

    scikit-learn's kernels take a matrix. Those of tinygp.kernels.quasisep take times, (n,), and nothing else.
    """
    if comes_from(kernel, "sklearn"):
        return x.reshape(len(x), -1)
    if not is_markov(kernel) or x.ndim == 1:
        return x
    if x.shape[1] > 1:
        raise ValueError(
            f"{type(kernel).__name__} of tinygp.kernels.quasisep is a kernel for times, one number for each input, but "
            f"the inputs have shape {x.shape}. In several dimensions use a kernel of tinygp.kernels, such as "
            "Matern32(scale, distance=tinygp.kernels.distance.L2Distance())."
        )
    return x.reshape(len(x))


def is_markov(kernel: Any) -> bool:
    """Return True for a kernel of tinygp.kernels.quasisep: a process that is Markov in time."""
    return any(cls.__module__ == "tinygp.kernels.quasisep" for cls in type(kernel).__mro__)


def lag_function(kernel: Any, axes: int) -> Callable[[np.ndarray], np.ndarray]:
    """The kernel as a function of lags (..., axes), returning (...)."""
    if is_kernel(kernel):
        return _of_two_inputs(kernel, axes)
    _check_callable(kernel, "a function of the lag vector")

    def of_lags(lags: np.ndarray) -> np.ndarray:
        with jax_settings():
            try:
                values = np.asarray(kernel(lags), dtype=np.float64)
            except TypeError as error:
                error.add_note(f"kernel was called with one argument, lags x - x' in an array of shape {lags.shape}.")
                raise
        if values.shape != lags.shape[:-1]:
            raise ValueError(
                f"kernel returned shape {values.shape} for lags of shape {lags.shape}; expected {lags.shape[:-1]}: the "
                "last axis of a lag is the vector. A function of distance d is lambda lag: k(np.linalg.norm(lag, "
                "axis=-1))."
            )
        return _finite(values)

    return of_lags


def _of_two_inputs(kernel: Any, axes: int) -> Callable[[np.ndarray], np.ndarray]:
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
                f"kernel is not stationary: it is another function of the lag elsewhere ({kernel}). Use Dense below "
                "5,000 values, or LowRank.inducing_points."
            )
        values[(flat == 0).all(axis=1)] = variance(as_inputs(np.zeros((1, axes))))[0]
        return values.reshape(lags.shape[:-1])

    return of_lags


def comes_from(kernel: Any, package: str) -> bool:
    """Whether the kernel's class, or one that it derives from, is the package's."""
    return any(cls.__module__.split(".")[0] == package for cls in type(kernel).__mro__)


def is_kernel(given: Any) -> bool:
    """Whether it is a kernel of tinygp or of scikit-learn."""
    return comes_from(given, "tinygp") or comes_from(given, "sklearn")


def _check_callable(kernel: Any, what: str) -> None:
    if isinstance(kernel, type) or not callable(kernel):
        given = f"the class {kernel.__name__}" if isinstance(kernel, type) else f"a {type(kernel).__name__}"
        raise TypeError(f"kernel must be {what}, or an instance of a tinygp or scikit-learn kernel; it is {given}.")


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ValueError("kernel returned values that are not finite. Check its parameters, and its value at lag 0.")
    return values
