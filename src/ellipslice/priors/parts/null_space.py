"""Directions in which a singular prior does not vary, up to rounding error."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular

DENSE_LIMIT = 2_000
"""Largest number of elements for which a dense matrix (size, size) is made."""


def rounding(size: int) -> float:
    """Return the relative variance that is rounding error in a factorised covariance of this size; see `Dense`."""
    return 100 * size * float(np.finfo(float).eps)


def null_space_of_factor(rows: np.ndarray, tolerance: float) -> np.ndarray:
    """Return orthonormal rows C (M, N) with C @ (f / standard deviation) = 0 for each draw f = z @ rows; M may be 0.

    A direction with a variance below `tolerance`, after each element is divided by its standard deviation, counts as
    one without variance.
    """
    size = rows.shape[1]
    scale = np.linalg.norm(rows, axis=0)
    found: Any = qr(rows / np.where(scale > 0, scale, 1.0), mode="r", pivoting=True)
    upper, order = found[0], found[1]
    diagonal = np.abs(upper.diagonal())
    rank = int(np.sum(diagonal**2 > tolerance * diagonal[0] ** 2)) if diagonal[0] > 0 else 0
    if rank == size:
        return np.zeros((0, size))
    weights = solve_triangular(upper[:rank, :rank], upper[:rank, rank:]) if rank else np.zeros((0, size))
    directions = np.zeros((size - rank, size))
    directions[:, order[:rank]], directions[:, order[rank:]] = -weights.T, np.eye(size - rank)
    return np.ascontiguousarray(np.linalg.qr(directions.T)[0].T)
