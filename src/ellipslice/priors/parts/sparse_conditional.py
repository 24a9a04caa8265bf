"""A block of a Gaussian Markov random field given the rest, by its sparse precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.priors.base import Prior, inverse_factor
from ellipslice.priors.dense import Dense
from ellipslice.priors.parts.conditional import BlockConditional, complement
from ellipslice.pytree import pytree, set_fields

if TYPE_CHECKING:
    from ellipslice.priors.sparse_precision import SparsePrecision


@pytree
class SparseConditional(BlockConditional):
    """The conditional of a block given its neighbours and, with constraints, weighted sums of all other elements."""

    block: Any
    neighbours: Any
    weights: Any
    matrix: Any
    """Matrix of the constraints, shape (M, N); None if there are none."""
    constraint_weights: Any
    """(block, M): from the products of the constraints with the rest to the conditional mean, with opposite sign."""
    prior: Prior

    by_numpy = True

    def __init__(self, block: np.ndarray, whole: SparsePrecision):
        from scipy.sparse import coo_array

        entries = (whole.values, (whole.rows, whole.columns))
        block_rows = coo_array(entries, shape=(whole.size, whole.size)).tocsr()[block]
        precision = block_rows[:, block].toarray()
        others = complement(block, whole.size)
        to_others = block_rows[:, others]
        adjacent = np.unique(to_others.indices)
        matrix = None if whole.constraints is None else whole.constraints.matrix
        if matrix is None:
            factor = inverse_factor(precision)
            covariance, constraint_weights, prior = factor @ factor.T, None, Dense(factor=factor)
        else:
            left, values, right = np.linalg.svd(matrix[:, block])
            rank = int(np.sum(values > 1e-10))  # the rows of `matrix` have unit length, so this is relative
            plane = right[rank:].T
            covariance = plane @ np.linalg.solve(plane.T @ precision @ plane, plane.T)
            particular = (right[:rank].T / values[:rank]) @ left[:, :rank].T
            constraint_weights = particular - covariance @ (precision @ particular)
            prior = Dense((covariance + covariance.T) / 2)
        set_fields(self, block=block, neighbours=others[adjacent], matrix=matrix, prior=prior)
        set_fields(self, constraint_weights=constraint_weights)
        set_fields(self, weights=-(to_others[:, adjacent].toarray().T @ covariance))

    def mean(self, f: Any) -> Any:
        mean = f[..., self.neighbours] @ self.weights
        if self.matrix is None:
            return mean
        rest = f @ self.matrix.T - f[..., self.block] @ self.matrix[:, self.block].T
        return mean - rest @ self.constraint_weights.T
