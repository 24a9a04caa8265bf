"""Values of a product grid given the rest, through the precision of each axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from scipy.linalg import LinAlgError

from ellipslice.jax_settings import jax_settings
from ellipslice.priors.base import Prior
from ellipslice.priors.dense import Dense
from ellipslice.priors.parts.conditional import Conditional, without
from ellipslice.priors.through_precision import BLOCK_LIMIT, inverse_factor
from ellipslice.pytree import pytree, set_fields

Axis = Any
"""The precision of a factor: a matrix, or for a long axis the prior itself, through whose `whiten` it multiplies."""


@pytree
class ThroughAxes(Conditional):
    """With Q the inverse of Sigma and C that of Q[block, block], the mean is -C (Q f)[block] for f with the block at 0.

    Q is the product of the axes' precisions: Q f is a product along each axis, and an entry of Q a product of entries.
    """

    block: Any
    axes: tuple[Axis, ...]
    covariance: Any
    prior: Prior

    def __init__(self, block: np.ndarray, axes: tuple[Axis, ...]):
        places = np.unravel_index(block, [_size(axis) for axis in axes])
        precision = np.ones((len(block), len(block)))
        for axis, place in zip(axes, places, strict=True):
            precision *= _entries(axis, place)
        try:
            factor = inverse_factor(precision)
        except LinAlgError:
            raise ValueError(
                "the product has no precision to double precision: its covariance is singular, or nearly. Use Dense "
                "below 5,000 values, which can condition such a one."
            ) from None
        set_fields(self, block=block, axes=axes, covariance=factor @ factor.T, prior=Dense(factor=factor))

    @property
    def by_numpy(self) -> bool:  # type: ignore[override]
        return not any(isinstance(axis, Prior) for axis in self.axes)

    def mean(self, f: Any) -> Any:
        rest = without(f, self.block)
        product = each_axis(rest, [_size(axis) for axis in self.axes], [partial(_times, axis) for axis in self.axes])
        return -product[..., self.block] @ self.covariance


def each_axis(values: Any, sizes: Sequence[int], maps: Sequence[Callable[[Any], Any]]) -> Any:
    """Flat vectors (..., product of sizes) mapped along each axis in turn."""
    batch = values.shape[:-1]
    values = values.reshape(*batch, *sizes)
    for axis, apply in enumerate(maps):
        at = len(batch) + axis
        values = apply(values.swapaxes(at, -1)).swapaxes(at, -1)
    return values.reshape(*batch, -1)


def can_be_axis(prior: Prior) -> bool:
    """Whether its precision can be had: as a matrix, or in compiled code."""
    return prior.size <= BLOCK_LIMIT or prior.traceable


def as_axis(prior: Prior) -> Axis:
    """The precision of a factor whose covariance is not singular."""
    if prior.size > BLOCK_LIMIT:
        return prior
    with jax_settings():
        white = np.asarray(prior.whiten(np.eye(prior.size)))
    return white @ white.T


def _size(axis: Axis) -> int:
    return axis.size if isinstance(axis, Prior) else len(axis)


def _times(axis: Axis, f: Any) -> Any:
    """Q f along the last axis."""
    if not isinstance(axis, Prior):
        return f @ axis
    z, transpose = jax.vjp(axis.whiten, f)
    return transpose(z)[0]


def _entries(axis: Axis, places: np.ndarray, step: int = 64) -> np.ndarray:
    """Q[places, places]; of a long axis from products with unit vectors, a few at a time."""
    if not isinstance(axis, Prior):
        return axis[np.ix_(places, places)]
    distinct, which = np.unique(places, return_inverse=True)
    pieces = []
    with jax_settings():
        for start in range(0, len(distinct), step):
            some = distinct[start : start + step]
            units = np.zeros((step, axis.size))  # always as many, so that one compiled product does
            units[np.arange(len(some)), some] = 1.0
            pieces.append(np.asarray(_compiled_times(axis, units))[: len(some), distinct])
    precision = np.concatenate(pieces)
    return ((precision + precision.T) / 2)[np.ix_(which, which)]


_compiled_times = jax.jit(_times)
