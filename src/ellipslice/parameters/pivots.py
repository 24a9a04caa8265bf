"""Choose pivots for low-rank factors of smooth kernels.

At n inputs the covariance of a smooth kernel often has a numerical rank r far below n. A pivoted factor with r columns
then equals the full one up to rounding error, and costs O(n r^2) instead of O(n^3).
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.priors.dense import pivoted_cholesky

if TYPE_CHECKING:
    from ellipslice.parameters.kernel_factors import KernelFactors

MIN_INPUTS = 200
"""Smallest number of inputs for which pivots are searched. With fewer, a full factor is fast enough."""

WIDTH_MULTIPLE = 8
"""The number of columns of a low-rank factor is a multiple of this."""


class Pivots(NamedTuple):
    """Pivots of the factor of each latent function, for one or two numbers of columns that are tried in turn."""

    pivot_sets: tuple[Any, ...]
    """Indices of the inputs to which the columns belong, shape (latents, r), for each number r of columns."""
    order: Any
    """Indices of all inputs, pivots first, shape (latents, n)."""
    place: Any
    """Position of each input in that order, shape (latents, n)."""

    @classmethod
    def in_order(cls, order: np.ndarray, widths: tuple[int, ...]) -> Pivots:
        """Return pivots from an order of the inputs, shape (latents, n): its first ones, for each number of columns."""
        return cls(tuple(order[:, :width] for width in widths), order, np.argsort(order, axis=1))

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of columns that are tried, in increasing order."""
        return tuple(pivots.shape[1] for pivots in self.pivot_sets)


def find_pivots(factors: KernelFactors, inputs: np.ndarray, values: np.ndarray) -> Pivots | None:
    """Return the pivots with the lowest mean cost over values of u, shape (count, size); None for full factors."""
    n = len(inputs)
    if n < MIN_INPUTS:
        return None
    found = sorted((_pivots(factors, inputs, u) for u in values), key=lambda pivots: max(map(len, pivots)))
    ranks = [-(-max(map(len, pivots)) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE for pivots in found]
    widths = _cheapest(np.array(ranks), n)
    if not widths:
        return None
    chosen = found[ranks.index(widths[-1])]
    others = [np.setdiff1d(np.arange(n), pivots) for pivots in chosen]
    order = np.stack([np.concatenate(parts) for parts in zip(chosen, others, strict=True)])
    return Pivots.in_order(order, widths)


def _cost(widths: tuple[int, ...], ranks: np.ndarray, n: int) -> float:
    """Return the mean cost of a factor, in columns squared, if these widths are tried in turn and then a full one."""
    previous = (0, *widths)
    return float(sum(np.mean(ranks > last) * width**2 for last, width in zip(previous, (*widths, n), strict=True)))


def _cheapest(ranks: np.ndarray, n: int) -> tuple[int, ...]:
    """Return the widths with the lowest mean cost: none, one or two."""
    one = sorted(set(ranks.tolist()))
    return min([(), *((r,) for r in one), *combinations(one, 2)], key=lambda widths: _cost(widths, ranks, n))


def _pivots(factors: KernelFactors, inputs: np.ndarray, u: np.ndarray) -> list[np.ndarray]:
    """Return the pivots of each latent function. Their number is the numerical rank of its covariance."""
    try:
        return [pivoted_cholesky(covariance)[1] for covariance in factors.covariances(u, inputs)]
    except ValueError:  # not positive semi-definite at u, so the rank is unknown: assume full rank
        return [np.arange(len(inputs))] * len(factors.latents)
