"""Sparse Cholesky factors on the host, by SuperLU of SciPy or by CHOLMOD of cvxopt."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

PACKAGES = ("scipy", "cholmod")


class SparseCholesky:
    """The factorisation P Q P' = L L' of a sparse positive definite Q, with a permutation P that keeps L sparse.

    Vectors are rows of arrays (count, size).

    Attributes
    ----------
    log_determinant : float
        Log determinant of Q.
    """

    def __init__(self, matrix: Any, package: str):
        self.matrix = matrix.tocsc()
        if package == "cholmod":
            order, lower = _cholmod(self.matrix)
        elif package == "scipy":
            order, lower = _superlu(self.matrix)
        else:
            raise ValueError(f"cholesky must be one of {PACKAGES}, but it is {package!r}.")
        pivots = lower.diagonal() ** 2
        if pivots.size and (pivots <= SINGULAR_PIVOT_RATIO * self.matrix.diagonal()[np.argsort(order)]).any():
            raise NotPositiveDefiniteError
        self.package = package
        self.log_determinant = float(np.sum(np.log(pivots)))
        self._order, self._lower = order, lower
        self._solver = _triangular_solver(lower) if pivots.size else None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solver": None}  # objects of SuperLU cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._solver = _triangular_solver(self._lower) if self._order.size else None

    def unwhiten(self, z: np.ndarray) -> np.ndarray:
        """Return the vectors x with L' P x = z. They are draws from N(0, inv(Q)) if z are standard normals."""
        if self._solver is None:
            return z
        return self._solver.solve(np.asfortranarray(z.T))[self._order].T

    def whiten(self, x: np.ndarray) -> np.ndarray:
        """Return L' P x, the inverse of `unwhiten`."""
        permuted = np.empty_like(x.T)
        permuted[self._order] = x.T
        return (self._lower.T @ permuted).T

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return the vectors x with Q x = b, with one step of iterative refinement."""
        if self._solver is None:
            return b
        x = self._solve_once(b)
        return x + self._solve_once(b - (self.matrix @ x.T).T)

    def solve_traced(self, b: Any) -> Any:
        """Return the vector x with Q x = b, in code that JAX compiles. The host solves, for a whole batch at a time."""
        # Numbers are passed as 32-bit words. JAX converts the arguments of a callback in another thread, where double
        # precision may be off.
        dtype, words = b.dtype, jax.lax.bitcast_convert_type(b, np.uint32)

        def on_host(words: Any) -> np.ndarray:
            vectors = np.asarray(words).view(dtype).reshape(-1, b.shape[-1])
            solved = np.ascontiguousarray(self.solve(vectors.astype(np.float64)), dtype)
            return solved.view(np.uint32).reshape(words.shape)

        shape = jax.ShapeDtypeStruct(words.shape, np.uint32)
        solved = jax.pure_callback(on_host, shape, words, vmap_method="broadcast_all")
        return jax.lax.bitcast_convert_type(solved, dtype)

    def _solve_once(self, b: np.ndarray) -> np.ndarray:
        """Return the vectors x with Q x = b, without refinement."""
        permuted = np.empty_like(b.T, order="F")
        permuted[self._order] = b.T
        return self._solver.solve(self._solver.solve(permuted, "T"))[self._order].T  # type: ignore[union-attr]


class NotPositiveDefiniteError(ValueError):
    """The matrix has no Cholesky factor in double precision."""


SINGULAR_PIVOT_RATIO = 1e-14
"""Largest pivot that is taken to be rounding error, as a fraction of the diagonal entry."""


def _superlu(matrix: Any) -> tuple[np.ndarray, Any]:
    """Return the permutation and L, by an LDU factorisation without pivoting, which is symmetric if Q is."""
    from scipy.sparse import csc_array, diags_array
    from scipy.sparse.linalg import splu

    if matrix.shape[0] == 0:
        return np.zeros(0, dtype=np.int64), csc_array((0, 0))
    try:
        factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # "Factor is exactly singular"
        raise NotPositiveDefiniteError from None
    pivots = factors.U.diagonal()
    if not np.array_equal(factors.perm_r, factors.perm_c) or not (pivots > 0).all():
        raise NotPositiveDefiniteError
    return factors.perm_c.astype(np.int64), (factors.L @ diags_array(np.sqrt(pivots))).tocsc()


def _cholmod(matrix: Any) -> tuple[np.ndarray, Any]:
    """Return the permutation and L, by CHOLMOD, which factorises large matrices several times faster."""
    try:
        import cvxopt
        from cvxopt import cholmod  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:
        raise ImportError(
            'cholesky="cholmod" requires cvxopt, which contains CHOLMOD. Install it with: pip install '
            "'ellipslice[cholmod]'. Or use cholesky=\"scipy\", which requires no other package."
        ) from None
    from scipy.sparse import csc_array, tril

    if matrix.shape[0] == 0:
        return _superlu(matrix)
    part = tril(matrix).tocoo()
    given = cvxopt.spmatrix(part.data, part.row.tolist(), part.col.tolist(), matrix.shape)
    factor = cholmod.symbolic(given, uplo="L")
    try:
        cholmod.numeric(given, factor)
    except ArithmeticError:
        raise NotPositiveDefiniteError from None
    positions = cvxopt.matrix(np.arange(matrix.shape[0], dtype=np.float64))
    cholmod.solve(factor, positions, sys=8)
    lower = cholmod.getfactor(factor)
    pointers, rows, values = (np.array(part).ravel() for part in lower.CCS)
    return np.array(positions).ravel().astype(np.int64), csc_array((values, rows, pointers), shape=matrix.shape)


def _triangular_solver(lower: Any) -> Any:
    """Return an object that solves with L' for many right-hand sides. Factorising a triangle costs no arithmetic."""
    from scipy.sparse.linalg import splu

    return splu(lower.T.tocsc(), permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
