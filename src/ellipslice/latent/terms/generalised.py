"""Log determinants, variances and draws of sparse precisions that are singular in known directions.

A precision Q with null space N is made positive definite by a constant on the diagonal at as many elements as N has
dimensions. The result H is factorised in blocks: Q is permuted to a small bandwidth, so that H is block tridiagonal.
The inverse of H is a generalised inverse of Q, and det(H) = |Q|* a^k det(N E)^2 for orthonormal rows N and the
columns E of the identity at the k elements with the constant a.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular
from scipy.sparse import csc_array, csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

MIN_BLOCK = 64
"""Smallest size of a block."""


class GeneralisedInverse:
    """The generalised inverse of a sparse, symmetric, positive semi-definite matrix.

    Parameters
    ----------
    matrix : sparse array, shape (size, size)
    null : array, shape (k, size)
        Rows that span its null space.

    Attributes
    ----------
    log_determinant : float
        Logarithm of the product of the eigenvalues that are not 0.
    """

    def __init__(self, matrix: Any, null: np.ndarray):
        size = matrix.shape[0]
        self.null = orthonormal_rows(null)
        grounded = csr_array(matrix, copy=True).tolil()
        constant, shift = float(matrix.diagonal().mean()), 0.0
        if len(self.null):
            factorised: Any = qr(self.null, pivoting=True, mode="r")
            nodes = factorised[1][: len(self.null)]
            for node in nodes:
                grounded[node, node] += constant
            shift = len(nodes) * np.log(constant) + 2 * np.linalg.slogdet(self.null[:, nodes])[1]
        grounded = csr_array(grounded)
        self._order = np.asarray(reverse_cuthill_mckee(grounded, symmetric_mode=True))
        self._factorise(grounded[self._order][:, self._order].tocoo(), size)
        pivots = np.concatenate([block.diagonal() for block in self._diagonal])
        self.log_determinant = float(2 * np.log(pivots).sum() - shift)

    def _factorise(self, matrix: Any, size: int) -> None:
        """Compute the blocks of the Cholesky factor: those on the diagonal, and those below them."""
        rows, columns = matrix.coords
        block = max(MIN_BLOCK, int(np.abs(rows - columns).max(initial=0)))
        self._starts = list(range(0, size, block))
        compressed = csr_array(matrix)
        self._diagonal: list[np.ndarray] = []
        self._below: list[np.ndarray] = []
        for start in self._starts:
            here = slice(start, start + block)
            pivot = compressed[here, here].toarray()
            if start:
                coupling = compressed[here, start - block : start].toarray()
                below = solve_triangular(self._diagonal[-1], coupling.T, lower=True).T
                self._below.append(below)
                pivot -= below @ below.T
            self._diagonal.append(cholesky(pivot, lower=True))
        self._slices = [slice(start, min(start + block, size)) for start in self._starts]

    def _half_solve(self, b: np.ndarray) -> np.ndarray:
        """Return inv(L) b in the permuted order."""
        x = b[self._order]
        for i, (lower, here) in enumerate(zip(self._diagonal, self._slices, strict=True)):
            if i:
                x[here] -= self._below[i - 1] @ x[self._slices[i - 1]]
            x[here] = solve_triangular(lower, x[here], lower=True)
        return x

    def unwhiten(self, z: np.ndarray) -> np.ndarray:
        """Return draws from N(0, inv(H)), shape (size, draws), for standard normals of the same shape."""
        x = z.copy()
        for i in reversed(range(len(self._slices))):
            here = self._slices[i]
            if i + 1 < len(self._slices):
                x[here] -= self._below[i].T @ x[self._slices[i + 1]]
            x[here] = solve_triangular(self._diagonal[i], x[here], lower=True, trans=1)
        out = np.empty_like(x)
        out[self._order] = x
        return out

    def variances(self) -> np.ndarray:
        """Return the diagonal of the Moore-Penrose inverse, shape (size,)."""
        size = len(self._order)
        permuted, later = np.empty(size), np.zeros((0, 0))
        for i in reversed(range(len(self._slices))):
            lower = self._diagonal[i]
            inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
            covariance = inverse.T @ inverse
            if i + 1 < len(self._slices):
                gain = self._below[i] @ inverse
                covariance += gain.T @ later @ gain
            permuted[self._slices[i]], later = covariance.diagonal(), covariance
        out = np.empty(size)
        out[self._order] = permuted
        if not len(self.null):
            return out
        across = self.unwhiten(self._half_solve(self.null.T.copy()))
        inner = self.null @ across
        return out - 2 * np.sum(self.null.T * across, axis=1) + np.sum(self.null * (inner @ self.null), axis=0)


def orthonormal_rows(rows: np.ndarray) -> np.ndarray:
    """Return orthonormal rows with the span of `rows`, which must be linearly independent."""
    if not len(rows):
        return np.zeros(rows.shape)
    return np.ascontiguousarray(np.linalg.qr(np.asarray(rows, dtype=np.float64).T)[0].T)


def geometric_mean_variance(matrix: Any, null: np.ndarray) -> float:
    """Return the geometric mean of the variances of a precision's Moore-Penrose inverse."""
    return float(np.exp(np.log(GeneralisedInverse(csc_array(matrix), null).variances()).mean()))
