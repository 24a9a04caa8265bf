"""A block of values given all the others (Section 3.3): a mean that depends on them, and a prior that does not."""

from __future__ import annotations

import abc
import copy
from typing import Any

import numpy as np

from ellipslice.priors.base import Prior
from ellipslice.pytree import pytree, set_fields


class BlockConditional(abc.ABC):
    """The distribution of f[block] given the rest of f: N(mean(f), Sigma of `prior`).

    Made by `Prior.condition`, with everything factorised once. For a draw nu of the whole prior,
    nu[block] - mean(nu) is a draw of `prior`.

    Attributes
    ----------
    block : int array, shape (block,)
        Indices into the flat vector, sorted.
    prior : Prior
        Zero-mean, over the block's values in that order.
    """

    block: Any
    prior: Prior

    by_numpy = False
    """Whether `mean` is quickest as it stands, by NumPy, when it is given NumPy arrays; else it is compiled."""

    @abc.abstractmethod
    def mean(self, f: Any) -> Any:
        """Return the conditional mean (..., block) from the centred flat vector f (..., size). f[block] is not used."""

    def only_mean(self) -> BlockConditional:
        """The same with no prior: what an update needs in compiled code, which takes every array as an argument."""

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
    """The mean as a matrix times the values that matter: f[others] @ weights."""

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
    """Validate the indices of a block, and sort them."""
    given = np.asarray(block)
    indices = np.atleast_1d(given)
    if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu":
        raise ValueError(
            f"block must be a list of whole numbers, indices into the flat vector of {size} values, but it is an array "
            f"of shape {given.shape} and dtype {given.dtype}. A mask goes in as np.flatnonzero(mask)."
        )
    if indices.min() < 0 or indices.max() >= size:
        wrong = indices[(indices < 0) | (indices >= size)][0]
        raise ValueError(f"block has the index {wrong}, but the flat vector has the indices 0 to {size - 1}.")
    unique = np.unique(indices)
    if len(unique) < len(indices):
        raise ValueError("block names an index twice. Name each once: np.unique(block).")
    return unique.astype(np.int64)


def complement(block: np.ndarray, size: int) -> np.ndarray:
    """The indices that are not in the block."""
    mask = np.ones(size, dtype=bool)
    mask[block] = False
    return np.flatnonzero(mask)


def zero_block(f: Any, block: Any) -> Any:
    """A copy of f with 0 at the indices of the block."""
    if not isinstance(f, np.ndarray):
        return f.at[..., block].set(0.0)
    rest = f.copy()
    rest[..., block] = 0.0
    return rest
