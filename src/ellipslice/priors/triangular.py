"""Draws from a factor: normals times a matrix, for half the price if it is triangular."""

from __future__ import annotations

import numpy as np

from ellipslice.noise import aligned_empty
from ellipslice.undocumented.blas import times_triangular


def draw_by_rows(rows: np.ndarray, triangular: bool, rng: np.random.Generator, count: int) -> np.ndarray:
    """Draws from N(0, rows.T @ rows), shape (count, size). Triangular rows are square, with zeros below."""
    z = rng.standard_normal(out=aligned_empty((count, len(rows))))
    if not triangular:
        return np.matmul(z, rows, out=aligned_empty((count, rows.shape[1])))
    times_triangular(z, np.ascontiguousarray(rows))
    return z
