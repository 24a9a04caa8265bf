"""The sparse Cholesky factorisation of CHOLMOD, by cvxopt."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.latent.sparse.analysis import Analysis, Factor
from ellipslice.latent.sparse.supernodal import SupernodalAnalysis
from ellipslice.priors.parts.sparse_cholesky import SINGULAR_PIVOT_RATIO, NotPositiveDefiniteError

try:
    import cvxopt
    from cvxopt import cholmod  # pyright: ignore[reportAttributeAccessIssue]
except ImportError:
    raise ImportError(
        'solver="cholmod" requires cvxopt, which contains CHOLMOD. Install it with: pip install '
        "'ellipslice[cholmod]'. Or use solver=\"numba\"."
    ) from None

A, LOWER, UPPER, PERMUTE, PERMUTE_BACK = 0, 4, 5, 7, 8
"""Systems that CHOLMOD solves: with H, L, L', and the permutation P and its inverse."""


class CholmodAnalysis(Analysis):
    """The symbolic factorisation of a pattern: see `analyse`.

    CHOLMOD cannot copy a symbolic factorisation. So each factor has one, and returns it here when it is deleted. The
    selected inverse, which CHOLMOD does not have, is computed by the library's own factorisation.
    """

    solver = "cholmod"

    def __init__(self, rows: np.ndarray, cols: np.ndarray, size: int):
        self.size, self.entries = size, len(rows)
        self._rows, self._cols = rows, cols
        self._own = SupernodalAnalysis(rows, cols, size)
        self._by_column = np.lexsort((rows, cols))
        self._matrix = cvxopt.spmatrix(np.ones(len(rows)), rows.tolist(), cols.tolist(), (size, size))
        self._free: list[Any] = []
        steps = cvxopt.matrix(np.arange(size, dtype=np.float64))
        symbolic = self._symbolic()
        cholmod.numeric(self._identity(), symbolic)
        cholmod.solve(symbolic, steps, sys=PERMUTE)
        self._order = np.array(steps).ravel().astype(np.int64)
        self._diagonal = np.flatnonzero(rows == cols)[np.argsort(rows[rows == cols])][self._order]
        self._free.append(symbolic)

    def __reduce__(self) -> tuple[Any, ...]:
        return CholmodAnalysis, (self._rows, self._cols, self.size)

    def factorise(self, values: np.ndarray) -> CholmodFactor:
        values = np.array(values, dtype=np.float64)
        self._check(values, self.entries, "values")
        symbolic = self._free.pop() if self._free else self._symbolic()
        factor = CholmodFactor(self, symbolic, values)
        try:
            cholmod.numeric(self._with_values(values), symbolic)
        except ArithmeticError:
            raise NotPositiveDefiniteError from None
        pivots = np.array(cholmod.diag(symbolic)).ravel() ** 2
        if not (pivots > SINGULAR_PIVOT_RATIO * values[self._diagonal]).all():
            raise NotPositiveDefiniteError
        factor.log_determinant = float(np.sum(np.log(pivots)))
        return factor

    def quadratic(self, values: np.ndarray, x: np.ndarray) -> float:
        return self._own.quadratic(values, x)

    def _identity(self) -> Any:
        """Return the identity with the pattern of the matrix."""
        return self._with_values((self._rows == self._cols).astype(np.float64))

    def _with_values(self, values: np.ndarray) -> Any:
        """Return the matrix of cvxopt with these values."""
        matrix = +self._matrix  # a copy, because other threads may factorise with the same analysis
        matrix.V = cvxopt.matrix(values[self._by_column])
        return matrix

    def _symbolic(self) -> Any:
        """Return a new symbolic factorisation."""
        return cholmod.symbolic(self._matrix, uplo="L")


class CholmodFactor(Factor):
    """A factorisation: see `Factor`."""

    __slots__ = ("_analysis", "_symbolic", "_values")

    def __init__(self, analysis: CholmodAnalysis, symbolic: Any, values: np.ndarray):
        self._analysis, self._symbolic, self._values = analysis, symbolic, values

    def __del__(self) -> None:
        self._analysis._free.append(self._symbolic)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._analysis.factorise, (self._values,)

    def solve(self, b: np.ndarray) -> np.ndarray:
        return self._solve(b, A)

    def unwhiten(self, z: np.ndarray) -> np.ndarray:
        return self._solve(z, UPPER, PERMUTE_BACK)

    def half_solve(self, g: np.ndarray) -> np.ndarray:
        return self._solve(g, PERMUTE, LOWER)

    def whiten(self, x: np.ndarray) -> np.ndarray:
        from scipy.sparse import csc_array

        x = np.asarray(x, dtype=np.float64)
        analysis, size = self._analysis, self._analysis.size
        analysis._check(x, size, "the vectors")
        again = analysis._symbolic()  # `getfactor` returns L, and then the factorisation is no longer usable
        cholmod.numeric(analysis._with_values(self._values), again)
        pointers, rows, entries = (np.array(part).ravel() for part in cholmod.getfactor(again).CCS)
        return csc_array((entries, rows, pointers), shape=(size, size)).T @ x[analysis._order]

    def selected_inverse(self) -> np.ndarray:
        return self._analysis._own.factorise(self._values).selected_inverse()

    def _solve(self, b: np.ndarray, *systems: int) -> np.ndarray:
        """Return the solutions of systems, one after the other."""
        b = np.asarray(b, dtype=np.float64)
        self._analysis._check(b, self._analysis.size, "the right-hand side")
        x = cvxopt.matrix(b)
        for system in systems:
            cholmod.solve(self._symbolic, x, sys=system)
        return np.array(x).reshape(b.shape)
