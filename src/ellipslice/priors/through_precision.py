"""Conditionals from products with the precision: what a prior with `whiten` can do without being dense."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ellipslice.priors.base import Prior
from ellipslice.priors.conditional import Conditional
from ellipslice.priors.dense import Dense
from ellipslice.pytree import pytree, set_fields
from ellipslice.settings import jax_settings

BLOCK_LIMIT = 5_000
"""Most values in a block whose conditional is a dense matrix."""


@pytree
class ThroughPrecision(Conditional):
    """With Q the inverse of Sigma and C that of Q[block, block], the mean is -C (Q f)[block] for f with the block at 0.

    One product with Q, through the whole prior's `whiten` and its transpose; C is the conditional covariance.
    """

    block: Any
    whole: Prior
    covariance: Any
    prior: Prior

    def __init__(self, block: np.ndarray, whole: Prior, precision: np.ndarray):
        try:
            factor = inverse_factor(precision)
        except LinAlgError:
            raise ValueError(
                f"{whole!r} has no precision to double precision: its covariance is singular, or nearly. Use Dense "
                "below 5,000 values, which can condition such a one."
            ) from None
        set_fields(self, block=block, whole=whole, covariance=factor @ factor.T, prior=Dense(factor=factor))

    def mean(self, f: Any) -> Any:
        rest = jnp.asarray(f).at[..., self.block].set(0.0)
        return -precision_times(self.whole, rest)[..., self.block] @ self.covariance


def inverse_factor(precision: np.ndarray) -> np.ndarray:
    """The lower triangular F with F @ F.T the inverse of a precision; LinAlgError if there is none."""
    lower = cholesky(precision[::-1, ::-1], lower=True)  # backwards, so that the inverse is lower triangular again
    return solve_triangular(lower, np.eye(len(lower)), lower=True).T[::-1, ::-1]


def precision_times(prior: Prior, f: Any) -> Any:
    """Q f, for the inverse Q of a covariance that is not singular."""
    z, transpose = jax.vjp(prior.whiten, f)
    return transpose(z)[0]


_precision_times = jax.jit(precision_times)


def precision_block(prior: Prior, block: np.ndarray, step: int = 64) -> np.ndarray:
    """Q[block, block], from products with unit vectors, a few at a time."""
    pieces = []
    with jax_settings():
        for start in range(0, len(block), step):
            some = block[start : start + step]
            units = np.zeros((step, prior.size))  # always as many, so that one compiled product does
            units[np.arange(len(some)), some] = 1.0
            pieces.append(np.asarray(_precision_times(prior, units))[: len(some), block])
    precision = np.concatenate(pieces)
    return (precision + precision.T) / 2


def check_small(block: np.ndarray) -> np.ndarray:
    """A block whose conditional may be a dense matrix."""
    if len(block) > BLOCK_LIMIT:
        raise ValueError(
            f"block has {len(block)} values, and its conditional would be a dense matrix of that size. Use blocks "
            f"of at most {BLOCK_LIMIT} values."
        )
    return block
