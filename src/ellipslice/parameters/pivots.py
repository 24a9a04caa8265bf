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
"""With fewer inputs a full factor is fast enough, and no pivots are looked for."""

WIDTH_MULTIPLE = 8
"""Numbers of columns are multiples of this."""


class Pivots(NamedTuple):
    """The order of the inputs for a pivoted factor of each latent function, and the numbers of columns to try."""

    pivot_sets: tuple[Any, ...]
    """Indices of the inputs that the columns belong to, shape (latents, r), for each r that is tried in turn."""
    order: Any
    """All inputs, pivots first, shape (latents, n)."""
    place: Any
    """The position of each input in that order, shape (latents, n)."""

    @classmethod
    def in_order(cls, order: np.ndarray, widths: tuple[int, ...]) -> Pivots:
        """Return the pivots that are the first inputs of an order, shape (latents, n), for each number of columns."""
        return cls(tuple(order[:, :width] for width in widths), order, np.argsort(order, axis=1))

    @property
    def widths(self) -> tuple[int, ...]:
        """The numbers of columns that are tried."""
        return tuple(pivots.shape[1] for pivots in self.pivot_sets)


def find_pivots(factors: KernelFactors, inputs: np.ndarray, some: np.ndarray) -> Pivots | None:
    """Return the cheapest pivots for some values u of the hyperparameters, (count, size); None for full factors."""
    n = len(inputs)
    if n < MIN_INPUTS:
        return None
    found = sorted((_pivots(factors, inputs, u) for u in some), key=lambda pivots: max(map(len, pivots)))
    ranks = [-(-max(map(len, pivots)) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE for pivots in found]
    widths = _cheapest(np.array(ranks), n)
    if not widths:
        return None
    usual = found[ranks.index(widths[-1])]
    others = [np.setdiff1d(np.arange(n), pivots) for pivots in usual]
    order = np.stack([np.concatenate(parts) for parts in zip(usual, others, strict=True)])
    return Pivots.in_order(order, widths)


def _cost(widths: tuple[int, ...], ranks: np.ndarray, n: int) -> float:
    """Return the mean cost of a factor, in columns squared, if these widths are tried in turn and then a full one."""
    before = (0, *widths)
    return float(sum(np.mean(ranks > short) * width**2 for short, width in zip(before, (*widths, n), strict=True)))


def _cheapest(ranks: np.ndarray, n: int) -> tuple[int, ...]:
    """Return no, one or two widths."""
    one = sorted(set(ranks.tolist()))
    return min([(), *((r,) for r in one), *combinations(one, 2)], key=lambda widths: _cost(widths, ranks, n))


def _pivots(factors: KernelFactors, inputs: np.ndarray, u: np.ndarray) -> list[np.ndarray]:
    """Return the pivots of each latent function, as many as the rank of its covariance."""
    try:
        return [pivoted_cholesky(covariance)[1] for covariance in factors.covariances(u, inputs)]
    except ValueError:  # not a covariance there, up to rounding error: nothing is known about its rank
        return [np.arange(len(inputs))] * len(factors.latents)
