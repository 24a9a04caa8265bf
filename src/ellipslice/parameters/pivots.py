"""Inputs at which a smooth kernel says all: a factor with a column for each of them is whole but for rounding."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.priors.dense import pivoted_cholesky

if TYPE_CHECKING:
    from ellipslice.parameters.joint import Joint

FEWEST = 200
"""With fewer values than this a whole factor is quick."""

ROUND = 8
"""Columns are a multiple of it."""


class Pivots(NamedTuple):
    """The order of the inputs for a pivoted factor, and how many of its columns may do; of each latent function."""

    firsts: tuple[Any, ...]
    """Which inputs the columns belong to, (latents, r), for numbers of columns r that are tried one after another."""
    order: Any
    """These and then the others, (latents, n)."""
    place: Any
    """Where each input is in that order, (latents, n)."""

    @classmethod
    def in_order(cls, order: np.ndarray, widths: tuple[int, ...]) -> Pivots:
        """Those of an order of the inputs, (latents, n)."""
        return cls(tuple(order[:, :width] for width in widths), order, np.argsort(order, axis=1))

    @property
    def widths(self) -> tuple[int, ...]:
        """How many columns are tried."""
        return tuple(first.shape[1] for first in self.firsts)


def find_pivots(joint: Joint, inputs: np.ndarray, some: np.ndarray) -> Pivots | None:
    """Pivots that cost least for some values of the parameters u, (count, size); None if a whole factor does."""
    n = len(inputs)
    if n < FEWEST:
        return None
    found = sorted((_pivots(joint, inputs, u) for u in some), key=lambda pivots: max(map(len, pivots)))
    ranks = [-(-max(map(len, pivots)) // ROUND) * ROUND for pivots in found]
    widths = _cheapest(np.array(ranks), n)
    if not widths:
        return None
    usual = found[ranks.index(widths[-1])]
    others = [np.setdiff1d(np.arange(n), pivots) for pivots in usual]
    order = np.stack([np.concatenate(parts) for parts in zip(usual, others, strict=True)])
    return Pivots.in_order(order, widths)


def _cost(widths: tuple[int, ...], ranks: np.ndarray, n: int) -> float:
    """Of a factor, in columns squared, when these widths are tried one after another, and then a whole one."""
    before = (0, *widths)
    return float(sum(np.mean(ranks > short) * width**2 for short, width in zip(before, (*widths, n), strict=True)))


def _cheapest(ranks: np.ndarray, n: int) -> tuple[int, ...]:
    """None, one or two widths."""
    one = sorted(set(ranks.tolist()))
    return min([(), *((r,) for r in one), *combinations(one, 2)], key=lambda widths: _cost(widths, ranks, n))


def _pivots(joint: Joint, inputs: np.ndarray, u: np.ndarray) -> list[np.ndarray]:
    """Of each latent function, as many as the rank of its covariance."""
    try:
        return [pivoted_cholesky(covariance)[1] for covariance in joint.covariances(u, inputs)]
    except ValueError:  # no covariance there, to rounding: nothing is known of its rank
        return [np.arange(len(inputs))] * len(joint.latents)
