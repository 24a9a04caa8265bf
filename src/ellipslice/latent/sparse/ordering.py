"""An order of elimination that keeps the Cholesky factor sparse."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

DENSE_ROW = 10.0
"""A row is dense if it has more than this number times the square root of the size entries, and more than 16."""


def elimination_order(rows: np.ndarray, cols: np.ndarray, size: int) -> np.ndarray:
    """Return the variables in an order by minimum degree, shape (size,), with dense rows last.

    Dense rows, such as an intercept's, are neighbours of almost all variables: minimum degree takes long with them, and
    would eliminate them last anyway.

    Parameters
    ----------
    rows, cols : array of int
        Entries of the lower triangle.
    size : int
        Number of variables.
    """
    off = rows != cols
    low, high = cols[off], rows[off]
    degree = np.bincount(low, minlength=size) + np.bincount(high, minlength=size)
    dense = degree > max(16.0, DENSE_ROW * np.sqrt(size))
    among_sparse = ~(dense[low] | dense[high])
    number = np.cumsum(~dense) - 1
    sparse, last = np.flatnonzero(~dense), np.flatnonzero(dense)
    order = _minimum_degree(number[low[among_sparse]], number[high[among_sparse]], len(sparse))
    return np.concatenate([sparse[order], last[np.argsort(degree[last], kind="stable")]])


def _minimum_degree(low: np.ndarray, high: np.ndarray, size: int) -> np.ndarray:
    """Return the order that SuperLU uses for a symmetric matrix with these entries off the diagonal."""
    if not len(low):
        return np.arange(size)
    # The values make the matrix diagonally dominant, so that SuperLU does not change the order while it factorises.
    degree = np.bincount(low, minlength=size) + np.bincount(high, minlength=size)
    diagonal = np.arange(size)
    values = np.concatenate([np.full(2 * len(low), -1.0), degree + 1.0])
    at = (np.concatenate([low, high, diagonal]), np.concatenate([high, low, diagonal]))
    matrix = csc_array((values, at), shape=(size, size))
    factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return np.argsort(factors.perm_c)
