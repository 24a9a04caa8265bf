"""Dense precisions as sums of bases with a single entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csc_array


class EntryBases(Sequence[Any]):
    """Bases of a dense symmetric matrix: one for each entry of the lower triangle, row by row. Made when accessed.

    Parameters
    ----------
    size : int
        Number of rows of the matrix.
    """

    def __init__(self, size: int):
        self.size = size
        self.rows, self.columns = np.tril_indices(size)

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
