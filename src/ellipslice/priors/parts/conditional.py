"""The conditional distribution of a block given the rest (Section 3.3 of the paper)."""

from __future__ import annotations

import abc
import copy
from typing import Any

import numpy as np

from ellipslice.priors.base import Prior
from ellipslice.pytree import pytree, set_fields


class BlockConditional(abc.ABC):
    """The conditional distribution of f[block] given the rest of f: N(mean(f), Sigma of `prior`).

    `Prior.condition` makes it, and factorises everything once. The mean depends on the rest, and the covariance does
    not. For a draw nu of the whole prior, nu[block] - mean(nu) is a draw of `prior`.

    Attributes
    ----------
    block : int array, shape (block,)
        Sorted indices into the flat vector.
    prior : Prior
        Zero-mean prior of the elements of the block, in that order.
    """

    block: Any
    prior: Prior

    by_numpy = False
    """True if `mean` is faster in NumPy than compiled, when it is called with NumPy arrays. Else it is compiled."""

    @abc.abstractmethod
    def mean(self, f: Any) -> Any:
        """Return the conditional mean (..., block) from the centred flat vector f (..., size). f[block] is not used."""

    def only_mean(self) -> BlockConditional:
        """Return a copy without `prior`, for compiled code, which would receive the prior's arrays as arguments."""

        def stripped(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(stripped, value))
            return value.only_mean() if isinstance(value, BlockConditional) else value

        bare = copy.copy(self)
        set_fields(bare, **{name: stripped(value) for name, value in vars(self).items()})
        set_fields(bare, prior=None)
        return bare


@pytree
class Regression(BlockConditional):
    """A conditional whose mean is f[others] @ weights."""

    block: Any
    others: Any
    weights: Any
    prior: Prior

    by_numpy = True

    def __init__(self, block: np.ndarray, others: np.ndarray, weights: np.ndarray, prior: Prior):
        set_fields(self, block=block, others=others, weights=weights, prior=prior)

    def mean(self, f: Any) -> Any:
        return f[..., self.others] @ self.weights


def as_block(block: Any, size: int) -> np.ndarray:
    """Return the indices of a block, sorted. Raise ValueError if they are not distinct indices into the flat vector."""
    given = np.asarray(block)
    indices = np.atleast_1d(given)
    if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu":
        raise ValueError(
            f"block must be a list of whole numbers, indices into the flat vector of {size} elements, but it is an "
            f"array of shape {given.shape} and dtype {given.dtype}. Pass a mask as np.flatnonzero(mask)."
        )
    if indices.min() < 0 or indices.max() >= size:
        wrong = indices[(indices < 0) | (indices >= size)][0]
        raise ValueError(f"block has the index {wrong}, but the flat vector has the indices 0 to {size - 1}.")
    unique = np.unique(indices)
    if len(unique) < len(indices):
        raise ValueError("block has an index twice; expected each index once. Use np.unique(block).")
    return unique.astype(np.int64)


def complement(block: np.ndarray, size: int) -> np.ndarray:
    """Return the indices below `size` that are not in the block."""
    mask = np.ones(size, dtype=bool)
    mask[block] = False
    return np.flatnonzero(mask)


def zero_block(f: Any, block: Any) -> Any:
    """Return a copy of f with 0 at the indices of the block."""
    if not isinstance(f, np.ndarray):
        return f.at[..., block].set(0.0)
    rest = f.copy()
    rest[..., block] = 0.0
    return rest
