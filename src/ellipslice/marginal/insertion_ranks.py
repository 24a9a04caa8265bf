"""Test of constrained sampling by insertion ranks (Fowlie, Handley & Su 2020).

A replacement should be an independent draw from the same distribution as the live points that survive, the prior above
the level. Its rank among them is then uniform, and independent of the point that it was moved from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import kolmogorov


class InsertionRanks(NamedTuple):
    """Ranks of replacements, in the order of their iterations. Both arrays are uniform on [0, 1] for independent draws.

    A test of `rank` alone would be too weak: it is uniform even for copies that never move, because the copied point is
    a random one.
    """

    rank: np.ndarray
    """Rank among the points above the level, divided by their number. Ties are broken at random."""
    distance: np.ndarray
    """Twice the distance on a circle of length 1 between this rank and that of the point it was moved from."""

    def p_value(self, least: int) -> float:
        """Return the p-value of a test that both arrays are uniform, in the whole run and in parts of it.

        Both arrays are tested as a whole, in halves, in quarters, and so on, as long as a part has at least `least`
        ranks: a part of the run can mix slowly although most of it does not. The p-value is corrected for the number
        of tests. It is 1 if there are no ranks.
        """
        parts = [1]
        while len(self.rank) >= 2 * parts[-1] * least:
            parts.append(2 * parts[-1])
        smallest = [
            count * min(uniform_p_value(part) for values in self for part in np.array_split(values, count))
            for count in parts
        ]
        return min(1.0, 2 * len(parts) * min(smallest))


def join_ranks(iterations: list[InsertionRanks]) -> InsertionRanks:
    """Return the ranks of several iterations as one."""
    empty = InsertionRanks(np.empty(0), np.empty(0))
    return InsertionRanks(*(np.concatenate(parts) for parts in zip(empty, *iterations, strict=True)))


def insertion_ranks(
    survivors: np.ndarray, parents: np.ndarray, new: np.ndarray, rng: np.random.Generator
) -> InsertionRanks:
    """Return the ranks of the replacements of one iteration.

    Replacement j is ranked among the survivors and the replacements before it, so that the ranks are independent.

    Parameters
    ----------
    survivors, parents, new : array
        Log-likelihoods of the points above the level, of the point that each replacement was moved from, and of the
        replacements.
    rng : numpy.random.Generator
        Breaks ties.
    """
    survivors, earlier = np.sort(survivors), np.tri(len(new), k=-1, dtype=bool)

    def below_and_equal(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        below = np.searchsorted(survivors, values)
        return below, np.searchsorted(survivors, values, side="right") - below

    below, equal = below_and_equal(new)
    below = below + ((new < new[:, None]) & earlier).sum(axis=1)
    equal = equal + ((new == new[:, None]) & earlier).sum(axis=1)
    rank = (below + rng.random(len(new)) * (equal + 1)) / (len(survivors) + np.arange(len(new)) + 1)
    below, equal = below_and_equal(parents)
    apart = np.abs(rank - (below + 0.5 * equal) / len(survivors))
    return InsertionRanks(rank, 2 * np.minimum(apart, 1 - apart))


def uniform_p_value(values: np.ndarray) -> float:
    """Return the p-value of the Kolmogorov-Smirnov test that values are uniform on [0, 1] (Stephens 1970)."""
    count = len(values)
    if not count:
        return 1.0
    above = np.arange(1, count + 1) / count - np.sort(values)
    largest = max(float(above.max()), float((1 / count - above).max()))
    return float(kolmogorov(largest * (np.sqrt(count) + 0.12 + 0.11 / np.sqrt(count))))
