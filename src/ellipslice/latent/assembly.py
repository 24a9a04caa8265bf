"""The linear predictor and the precision matrices of a model, as sparse matrices with one pattern.

The linear predictor of the observed rows is eta = offset + A x, where x contains the latents of all terms. Precisions
are Q = sum_k c_k B_k of the prior, and H = Q + A' diag(w) A of the prior times sites with precisions w. Both are stored
as the entries of the lower triangle of one pattern, so that a new H needs two sparse products and no search.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from ellipslice.latent.terms.entry_bases import EntryBases

INFLATION = 1e-9
"""Relative increase of the diagonal of sparse precisions in H, so that H is positive definite for intrinsic terms.

Draws do not depend on it, because H only defines coordinates."""


class Block(NamedTuple):
    """The part of a term in the model's sparse matrices."""

    rows: Any
    """The term's part of A, shape (observed rows, size)."""
    bases: Sequence[Any]
    """Sparse symmetric matrices B_k, shape (size, size) each."""
    constraints: np.ndarray
    """Rows c with c x = 0, shape (count, size)."""
    dense: bool = False
    """True if the precision is dense. Its diagonal, which can be much larger than its eigenvalues, is not increased."""


class Assembly:
    """Sparse matrices of a model: rows of the linear predictor, constraints, and precisions as entries of a pattern.

    Parameters
    ----------
    blocks : sequence of Block
        One for each term.
    offset : array, shape (observed rows,)
        Known part of the linear predictor.

    Attributes
    ----------
    A : sparse array, shape (observed rows, size)
    constraints : array, shape (count, size)
        Rows c with c x = 0.
    log_constraints : float
        log |C C'| / 2 for the constraints C.
    rows, cols : arrays of int
        The pattern: positions of the entries, with rows >= cols.
    spans : list of slice
        Positions of each term's latents in x.
    """

    def __init__(self, blocks: Sequence[Block], offset: np.ndarray):
        self.A: Any = scipy.sparse.csr_array(scipy.sparse.hstack([block.rows for block in blocks]), dtype=np.float64)
        self.transposed = scipy.sparse.csr_array(self.A.T)
        self.offset = np.ascontiguousarray(offset, dtype=np.float64)
        self.size = int(self.A.shape[1])
        ends = np.cumsum([0, *(block.rows.shape[1] for block in blocks)])
        self.spans = [slice(int(start), int(stop)) for start, stop in itertools.pairwise(ends)]
        self.constraints = _stacked_constraints(blocks, self.spans, self.size)
        self.log_constraints = 0.5 * float(np.linalg.slogdet(self.constraints @ self.constraints.T)[1])
        self._make_maps(blocks)

    def _make_maps(self, blocks: Sequence[Block]) -> None:
        """Set the pattern, and the linear maps from coefficients and from site precisions to its entries."""
        first, second, observation, products = _products_of_rows(self.A)
        pairs = zip(blocks, self.spans, strict=True)
        bases = [_lower_entries(block.bases, span.start) for block, span in pairs]
        starts = np.cumsum([0, *(len(block.bases) for block in blocks)])
        diagonal = np.arange(self.size)
        positions = [first + self.size * second, diagonal * (self.size + 1)]
        positions += [rows + self.size * cols for rows, cols, _, _ in bases]
        pattern = np.unique(np.concatenate(positions))
        self.rows, self.cols = pattern % self.size, pattern // self.size
        where = np.searchsorted(pattern, positions[0])
        self._from_sites = scipy.sparse.csr_array(
            (products, (where, observation)), shape=(len(pattern), self.A.shape[0])
        )
        numbers = [start + own for start, (_, _, own, _) in zip(starts, bases, strict=False)]
        where = np.searchsorted(pattern, np.concatenate(positions[2:]))
        values = np.concatenate([values for _, _, _, values in bases])
        self._from_coefficients = scipy.sparse.csr_array(
            (values, (where, np.concatenate(numbers))), shape=(len(pattern), int(starts[-1]))
        )
        increase = np.concatenate([np.full(block.rows.shape[1], 0.0 if block.dense else INFLATION) for block in blocks])
        self._inflation = np.where(self.rows == self.cols, 1.0 + increase[self.rows], 1.0)
        self._twice = np.where(self.rows == self.cols, 1.0, 2.0)

    @property
    def basis_values(self) -> np.ndarray:
        """Entries of all bases."""
        return self._from_coefficients.data

    def prior_entries(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the entries of the prior's precision Q for the coefficients of all bases."""
        return self._from_coefficients @ coefficients

    def entries(self, prior_entries: np.ndarray, site_precision: np.ndarray) -> np.ndarray:
        """Return the entries of H = Q + A' diag(site_precision) A, with a slightly larger diagonal of Q."""
        return prior_entries * self._inflation + self._from_sites @ site_precision

    def predictor(self, x: np.ndarray) -> np.ndarray:
        """Return the linear predictor of the observed rows."""
        return self.A @ x + self.offset

    def variances(self, covariances: np.ndarray) -> np.ndarray:
        """Return the variances of A x, from the entries of the covariance of x in the pattern."""
        return self._from_sites.T @ (covariances * self._twice)


def _products_of_rows(A: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the products of all pairs of entries in each row of A: positions (i >= j), the row, and the product."""
    counts = np.diff(A.indptr)
    parts = []
    for count in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == count)
        where = A.indptr[rows][:, None] + np.arange(count)
        index, values = A.indices[where].astype(np.int64), A.data[where]
        i, j = np.repeat(index, count, axis=1).ravel(), np.tile(index, (1, count)).ravel()
        products = (values[:, :, None] * values[:, None, :]).ravel()
        lower = i >= j
        parts.append((i[lower], j[lower], np.repeat(rows, count * count)[lower], products[lower]))
    i, j, observation, products = (np.concatenate(column) for column in zip(*parts, strict=True))
    return i, j, observation, products


def _lower_entries(bases: Sequence[Any], start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns, numbers of the bases and values of the lower triangles of a term's bases."""
    if isinstance(bases, EntryBases):
        return bases.rows + start, bases.columns + start, np.arange(len(bases)), np.ones(len(bases))
    parts = [scipy.sparse.coo_array(basis) for basis in bases]
    rows, cols = (np.concatenate([part.coords[axis] for part in parts]).astype(np.int64) for axis in (0, 1))
    numbers, values = np.repeat(np.arange(len(parts)), [part.nnz for part in parts]), [part.data for part in parts]
    lower = rows >= cols
    return rows[lower] + start, cols[lower] + start, numbers[lower], np.concatenate(values)[lower]


def _stacked_constraints(blocks: Sequence[Block], spans: Sequence[slice], size: int) -> np.ndarray:
    """Return the constraints of all terms as rows over the latents of the model."""
    parts = [np.zeros((0, size))]
    for block, span in zip(blocks, spans, strict=True):
        rows = np.zeros((len(block.constraints), size))
        rows[:, span] = block.constraints
        parts.append(rows)
    return np.concatenate(parts)
