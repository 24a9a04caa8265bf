"""The symbolic factorisation: the order of elimination, the supernodes, and where each entry of the matrix goes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ellipslice.latent.sparse import symbolic_kernels as kernels
from ellipslice.latent.sparse.ordering import elimination_order


class Structure(NamedTuple):
    """Order of elimination, supernodes and positions of entries for one pattern. Indices are unsigned.

    Attributes
    ----------
    order : array, shape (size,)
        Variable that is eliminated at each step.
    places : array, shape (entries,)
        Position of each entry of the matrix among the stored entries of L.
    diagonal : array, shape (size,)
        Positions of the diagonal.
    first : array, shape (supernodes + 1,)
        First column of each supernode, and the number of columns.
    row_starts, rows : array
        Rows of supernode s are rows[row_starts[s]:row_starts[s + 1]], its own columns first.
    entry_starts : array, shape (supernodes + 1,)
        Position of the first entry of each supernode.
    update_starts, updates, positions : array
        Supernodes that each one updates: see `symbolic_kernels.update_targets`.
    """

    order: np.ndarray
    places: np.ndarray
    diagonal: np.ndarray
    first: np.ndarray
    row_starts: np.ndarray
    rows: np.ndarray
    entry_starts: np.ndarray
    update_starts: np.ndarray
    updates: np.ndarray
    positions: np.ndarray


def symbolic_factorisation(rows: np.ndarray, cols: np.ndarray, size: int) -> Structure:
    """Return the structure for the entries of a lower triangle."""
    order = elimination_order(rows, cols, size)
    starts, columns, _, _ = _by_rows(rows, cols, order)
    parent = kernels.elimination_tree(starts, columns)
    count = kernels.column_counts(starts, columns, parent)
    order = order[kernels.postorder(parent, count)]
    starts, columns, high, low = _by_rows(rows, cols, order)
    parent = kernels.elimination_tree(starts, columns)
    count = kernels.column_counts(starts, columns, parent)
    first = kernels.supernode_starts(parent, count)
    row_starts, all_rows, group = kernels.supernode_rows(starts, columns, parent, count, first)
    update_starts, updates, positions = kernels.update_targets(first, row_starts, all_rows, group)
    width, height = np.diff(first), np.diff(row_starts)
    entry_starts = np.concatenate([[0], np.cumsum(width * height)])
    supernode = group[low]
    keys = np.repeat(np.arange(len(width)) * size, height) + all_rows  # ascending
    row = np.searchsorted(keys, supernode * size + high) - row_starts[supernode]
    places = entry_starts[supernode] + (low - first[supernode]) * height[supernode] + row
    diagonal = np.empty(size, dtype=np.int64)
    diagonal[low[high == low]] = places[high == low]
    arrays = (order, places, diagonal, first, row_starts, all_rows, entry_starts, update_starts, updates)
    return Structure(*[each.astype(np.uint64) for each in arrays], positions=positions.astype(np.uint32))


def _by_rows(
    rows: np.ndarray, cols: np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the strict lower triangle in the order of elimination by rows, and row and column of all entries."""
    step = np.empty(len(order), dtype=np.int64)
    step[order] = np.arange(len(order))
    high, low = np.maximum(step[rows], step[cols]), np.minimum(step[rows], step[cols])
    off = high != low
    by_row = np.lexsort((low[off], high[off]))
    starts = np.concatenate([[0], np.cumsum(np.bincount(high[off], minlength=len(order)))])
    return starts, low[off][by_row], high, low
