"""The tail index k of a generalised Pareto distribution, fitted to the largest of some weights.

Weights have finite moments up to the order 1 / k. Vehtari et al. (2024) find averages and their standard errors
reliable below k = 0.7. The estimator is that of Zhang & Stephens (2009), with a weak prior at k = 0.5.
"""

from __future__ import annotations

import numpy as np

SMALLEST_TAIL = 5
"""Smallest number of weights to which the distribution is fitted."""

PRIOR_WEIGHTS = 10
"""Number of weights that the prior at k = 0.5 counts for."""


def tail_index(weights: np.ndarray) -> float:
    """Return the tail index k of non-negative weights; infinity if there are too few different ones.

    Weights that are equal up to rounding error have no tail, and the index is -infinity.
    """
    ordered = np.sort(np.asarray(weights, dtype=np.float64))
    if not ordered[-1] > 0:
        return np.inf
    if ordered[-1] - ordered[0] <= 1e-10 * ordered[-1]:
        return -np.inf
    count = int(np.ceil(min(0.2 * len(ordered), 3 * np.sqrt(len(ordered)))))
    tail = ordered[-count:] - ordered[-count - 1] if len(ordered) > count else ordered[:0]
    tail = tail[tail > 0]
    return _fitted_index(tail) if len(tail) >= SMALLEST_TAIL else np.inf


def _fitted_index(tail: np.ndarray) -> float:
    """Return the tail index of positive values in increasing order."""
    count = len(tail)
    grid = 30 + int(np.sqrt(count))
    quarter = tail[int(count / 4 + 0.5) - 1]
    b = 1 / tail[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quarter)
    k = np.log1p(-b[:, None] * tail).mean(axis=1)
    profile = count * (np.log(-b / k) - k - 1)
    weights = np.exp(profile - profile.max())
    b = float((b * weights).sum() / weights.sum())
    found = float(np.log1p(-b * tail).mean())
    return (count * found + PRIOR_WEIGHTS * 0.5) / (count + PRIOR_WEIGHTS)
