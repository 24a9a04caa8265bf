"""Precisions as sums of bases with a single entry, for terms that compute their precision entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csc_array


class EntryBases(Sequence[Any]):
    """Bases of a symmetric matrix: one for each entry of the lower triangle. Made when accessed.

    Parameters
    ----------
    size : int
        Number of rows of the matrix.
    rows, columns : array of int, optional
        Positions of the entries, with rows >= columns. Default: those of a dense matrix, row by row.
    """

    def __init__(self, size: int, rows: Any = None, columns: Any = None):
        self.size = size
        self.rows, self.columns = np.tril_indices(size) if rows is None else (np.asarray(rows), np.asarray(columns))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        i, j = self.rows[index], self.columns[index]
        places = ([i], [j]) if i == j else ([i, j], [j, i])
        return csc_array((np.ones(len(places[0])), places), (self.size, self.size))

    def entries_of(self, matrix: np.ndarray) -> np.ndarray:
        """Return the coefficients of a matrix."""
        return matrix[self.rows, self.columns]

    def matrix(self, coefficients: np.ndarray) -> Any:
        """Return the sum of the bases with these coefficients, a sparse array."""
        below = self.rows > self.columns
        values = np.concatenate([coefficients, coefficients[below]])
        rows = np.concatenate([self.rows, self.columns[below]])
        columns = np.concatenate([self.columns, self.rows[below]])
        return csc_array((values, (rows, columns)), (self.size, self.size))
