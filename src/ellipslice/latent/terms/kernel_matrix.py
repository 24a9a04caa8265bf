"""Dense covariance matrices of kernels as functions of hyperparameters, compiled once and evaluated many times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular

from ellipslice.latent.terms.entry_bases import EntryBases
from ellipslice.latent.terms.term_kernel import TermKernel, not_positive_definite
from ellipslice.priors.parts.kernels import DISTANCE_HINT, comes_from, covariance_function, covariance_matrix, functions

NUGGET = 1e-8
"""Part of the variance that is added to the diagonal, so that the inverse of a smooth covariance has small errors."""


class KernelMatrix(TermKernel):
    """Covariance matrices of a kernel with hyperparameters: a latent for each input, and a dense precision."""

    about = "dense covariance"
    most_inputs = 1_000

    def probe(self, values: Mapping[str, float]) -> None:
        self.bases = EntryBases(len(self.inputs))
        self.traceable = not comes_from(self._function(values), "sklearn")
        self._first(values)
        matrix = self.at(values, self.inputs)
        if np.isfinite(matrix).all() and np.linalg.eigvalsh(matrix)[0] > 0:
            return
        error = not_positive_definite(values)
        if self.inputs.ndim == 2 and self.inputs.shape[1] > 1:
            error.add_note(DISTANCE_HINT)
        raise error

    def coefficients(self, values: Mapping[str, float]) -> np.ndarray:
        return self.bases.entries_of(inverse_of(self.factor(values)))

    def log_determinant(self, values: Mapping[str, float]) -> float:
        return -2.0 * float(np.log(self.factor(values).diagonal()).sum())

    def draw(self, values: Mapping[str, float], rng: np.random.Generator) -> np.ndarray:
        return self.factor(values) @ rng.standard_normal(len(self.inputs))

    def conditional(
        self, draws: list[dict[str, float]], new: np.ndarray, effects: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        size = len(self.inputs)
        inputs = np.concatenate([self.inputs, new])
        found = np.empty((len(effects), len(new)))
        for i, (x, noise) in enumerate(zip(effects, rng.standard_normal(found.shape), strict=True)):
            lower = lower_factor(self.at(draws[i], inputs))
            white = solve_triangular(lower[:size, :size], x, lower=True)
            found[i] = lower[size:, :size] @ white + lower[size:, size:] @ noise
        return found

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
        return self._kept(values, lambda own: lower_factor(self.at(own, self.inputs)))

    def _of_kernel(self, kernel: Any, inputs: Any) -> np.ndarray:
        if comes_from(kernel, "sklearn"):
            return covariance_matrix(kernel, inputs)
        return covariance_function(kernel)(inputs, inputs)

    def _traced(self, values: Any, inputs: Any) -> Any:
        return functions(self._kernel(values), jnp)[0](inputs, inputs)


def lower_factor(matrix: np.ndarray) -> np.ndarray:
    """Return the lower triangular Cholesky factor of a matrix; NaN if it is not positive definite."""
    (factorise,) = get_lapack_funcs(("potrf",), (matrix,))
    lower, failed = factorise(matrix, lower=True, clean=True)
    return np.full_like(matrix, np.nan) if failed or not np.isfinite(matrix).all() else lower


def inverse_of(lower: np.ndarray) -> np.ndarray:
    """Return the lower triangle of the inverse of a matrix, from its lower triangular factor."""
    (invert,) = get_lapack_funcs(("potri",), (lower,))
    return invert(lower, lower=True)[0]
