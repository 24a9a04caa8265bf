"""Covariance matrices of kernels as functions of hyperparameters, compiled once and evaluated thousands of times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import get_lapack_funcs

from ellipslice.jax_settings import on_cpu
from ellipslice.parameters.named_arguments import ParameterFunction, kernel_function
from ellipslice.parameters.parameters import Parameters
from ellipslice.priors.parts.kernels import DISTANCE_HINT, comes_from, covariance_function, covariance_matrix, functions

NUGGET = 1e-8
"""Part of the variance that is added to the diagonal, so that the inverse of a smooth covariance has small errors."""

UNTRACEABLE = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)


class KernelMatrix:
    """Covariance matrices of a kernel with hyperparameters.

    Parameters
    ----------
    kernel : kernel or callable
        A kernel of tinygp or scikit-learn, or a function of hyperparameters that returns one, or that returns a
        function of two sets of inputs.
    priors : mapping of str to distribution
        Priors of the arguments of the kernel.
    inputs : array, shape (n,) or (n, axes)
        Distinct inputs.

    Attributes
    ----------
    traceable : bool
        Whether JAX can trace the kernel. Set by `probe`.
    """

    def __init__(self, kernel: Any, priors: Mapping[str, Any], inputs: np.ndarray):
        self._function: ParameterFunction = kernel_function("GP: kernel", kernel, list(priors))
        if self._function.takes_all and self._function.by_name:
            raise TypeError(
                f"GP: the kernel has the argument {self._function.all_in!r} without a prior. Those with a prior are: "
                f"{', '.join(priors)}. Give each argument a prior: prior={{...}}."
            )
        self._priors, self.inputs = dict(priors), inputs
        self.traceable = True
        self._last: tuple[dict[str, float], np.ndarray] | None = None
        self._compiled = jax.jit(self._traced)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_compiled"} | {"_last": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compiled = jax.jit(self._traced)

    def probe(self) -> None:
        """Evaluate the kernel at the medians of the priors. Raise if the covariance is not positive definite."""
        parameters = Parameters(self._priors)
        with on_cpu():
            middle = parameters.constrained(parameters.gaussian()[0]) if self._priors else {}
        values = {name: float(value) for name, value in middle.items()}
        unused = set(self._priors) - self._function.used(values)
        if unused:
            raise ValueError(f"GP: prior has the name {min(unused)!r}, but the kernel does not use it. Remove it.")
        self.traceable = not comes_from(self._function(values), "sklearn")
        try:
            matrix = self.at(values, self.inputs)
        except UNTRACEABLE:
            self.traceable = False
            matrix = self.at(values, self.inputs)
        if np.isfinite(matrix).all() and np.linalg.eigvalsh(matrix)[0] > 0:
            return
        shown = ", ".join(f"{name} = {value:.4g}" for name, value in values.items()) or "its arguments"
        error = ValueError(
            f"GP: the kernel has no positive definite covariance at the inputs for {shown}, the medians of the priors. "
            "Check the kernel, and whether a hyperparameter can be negative that must be positive."
        )
        if self.inputs.ndim == 2 and self.inputs.shape[1] > 1:
            error.add_note(DISTANCE_HINT)
        raise error

    def at(self, values: Mapping[str, float], inputs: np.ndarray) -> np.ndarray:
        """Return the covariance matrix at inputs, shape (n, n), with a small addition to the diagonal."""
        matrix = self._evaluate(values, inputs)
        matrix = 0.5 * (matrix + matrix.T)
        matrix[np.diag_indices(len(matrix))] *= 1.0 + NUGGET
        return matrix

    def factor(self, values: Mapping[str, float]) -> np.ndarray:
        """Return the lower triangular factor of the covariance at the inputs. The last result is kept.

        It is NaN if the covariance is not positive definite.
        """
        last = self._last
        if last is not None and last[0] == values:
            return last[1]
        lower = lower_factor(self.at(values, self.inputs))
        self._last = dict(values), lower
        return lower

    def _evaluate(self, values: Mapping[str, float], inputs: np.ndarray) -> np.ndarray:
        if self.traceable:
            with on_cpu():
                return np.asarray(self._compiled(np.array([values[name] for name in self._priors]), inputs))
        kernel = self._function(values)
        return (
            covariance_matrix(kernel, inputs)
            if comes_from(kernel, "sklearn")
            else covariance_function(kernel)(inputs, inputs)
        )

    def _traced(self, values: Any, inputs: Any) -> Any:
        kernel = self._function(dict(zip(self._priors, values, strict=True)))
        return functions(kernel, jnp)[0](inputs, inputs)


def lower_factor(matrix: np.ndarray) -> np.ndarray:
    """Return the lower triangular Cholesky factor of a matrix; NaN if it is not positive definite."""
    (factorise,) = get_lapack_funcs(("potrf",), (matrix,))
    lower, failed = factorise(matrix, lower=True, clean=True)
    return np.full_like(matrix, np.nan) if failed or not np.isfinite(matrix).all() else lower


def inverse_of(lower: np.ndarray) -> np.ndarray:
    """Return the lower triangle of the inverse of a matrix, from its lower triangular factor."""
    (invert,) = get_lapack_funcs(("potri",), (lower,))
    return invert(lower, lower=True)[0]
