"""The sparse Cholesky factorisation of this library, by supernodes, compiled by numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.latent.sparse import kernels, products
from ellipslice.latent.sparse.analysis import Analysis, Factor
from ellipslice.latent.sparse.symbolic import Structure, symbolic_factorisation
from ellipslice.priors.parts.sparse_cholesky import SINGULAR_PIVOT_RATIO, NotPositiveDefiniteError


class SupernodalAnalysis(Analysis):
    """The symbolic factorisation of a pattern: see `analyse`."""

    solver = "numba"

    def __init__(self, rows: np.ndarray, cols: np.ndarray, size: int):
        self.size, self.entries = size, len(rows)
        self._pattern = rows.astype(np.uint64), cols.astype(np.uint64)
        self._structure = symbolic_factorisation(rows, cols, size)

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size, "entries": self.entries, "arrays": (*self._pattern, *self._structure)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.size, self.entries = state["size"], state["entries"]
        # Some executors return arrays that cannot be written, for which numba would compile everything again.
        rows, cols, *arrays = (_for_numba(each) for each in state["arrays"])
        self._pattern, self._structure = (rows, cols), Structure(*arrays)

    def factorise(self, values: np.ndarray) -> SupernodalFactor:
        values = _for_numba(np.asarray(values, dtype=np.float64))
        self._check(values, self.entries, "values")
        lower, log_determinant = kernels.factorise(values, self._structure, SINGULAR_PIVOT_RATIO)
        if log_determinant != log_determinant:
            raise NotPositiveDefiniteError
        return SupernodalFactor(self, lower, log_determinant)

    def quadratic(self, values: np.ndarray, x: np.ndarray) -> float:
        values = _for_numba(np.asarray(values, dtype=np.float64))
        x = _for_numba(np.asarray(x, dtype=np.float64))
        self._check(values, self.entries, "values")
        self._check(x, self.size, "x")
        return products.quadratic(values, *self._pattern, x)


class SupernodalFactor(Factor):
    """A factorisation: see `Factor`."""

    __slots__ = ("_analysis", "_lower")

    def __init__(self, analysis: SupernodalAnalysis, lower: np.ndarray, log_determinant: float):
        self._analysis, self._lower, self.log_determinant = analysis, lower, log_determinant

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_factor, (self._analysis, self._lower, self.log_determinant)

    def solve(self, b: np.ndarray) -> np.ndarray:
        return self._solve(b, True, True)

    def unwhiten(self, z: np.ndarray) -> np.ndarray:
        return self._solve(z, False, True)

    def half_solve(self, g: np.ndarray) -> np.ndarray:
        return self._solve(g, True, False)

    def whiten(self, x: np.ndarray) -> np.ndarray:
        vectors = self._as_rows(x)
        return self._as_given(products.whiten(self._lower, self._analysis._structure, vectors), x)

    def selected_inverse(self) -> np.ndarray:
        inverse = products.selected_inverse(self._lower, self._analysis._structure)
        return inverse[self._analysis._structure.places]

    def _solve(self, b: np.ndarray, forward: bool, backward: bool) -> np.ndarray:
        """Return the solution with L P, with its transpose, or with both."""
        vectors = self._as_rows(b)
        solved = products.solve(self._lower, self._analysis._structure, vectors, forward, backward)
        return self._as_given(solved, b)

    def _as_rows(self, vectors: np.ndarray) -> np.ndarray:
        """Return vectors as rows of an array (vectors, size)."""
        vectors = np.asarray(vectors, dtype=np.float64)
        self._analysis._check(vectors, self._analysis.size, "the right-hand side")
        return _for_numba(vectors.reshape(1, -1) if vectors.ndim == 1 else vectors.T)

    def _as_given(self, rows: np.ndarray, given: np.ndarray) -> np.ndarray:
        """Return rows in the shape of the vectors that were given."""
        return rows[0] if np.ndim(given) == 1 else rows.T


def _make_factor(analysis: SupernodalAnalysis, lower: np.ndarray, log_determinant: float) -> SupernodalFactor:
    """Return a factor that was pickled."""
    return SupernodalFactor(analysis, _for_numba(lower), log_determinant)


def _for_numba(array: np.ndarray) -> np.ndarray:
    """Return a contiguous array that can be written, because numba compiles a function anew for other arrays."""
    return array if array.flags.carray else np.array(array, order="C")
