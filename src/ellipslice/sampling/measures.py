"""Effective sample size and R-hat of all quantities of a run, and the limits that a converged run must satisfy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtri  # scipy.stats, which has it as chi2.isf, is slow to import

from ellipslice.sampling.rank_diagnostics import rank_diagnostics

MIN_ESS_PER_CHAIN = 100
"""Required effective sample size per chain: 400 for four chains (Vehtari et al. 2021)."""

RHAT_ERROR_RATE = 0.05
"""Largest probability that R-hat of a converged run with the smallest effective sample size exceeds its limit."""

TAILS = 0.05, 0.95
"""Quantiles of the tail estimate (Vehtari et al. 2021), which a user's settings of ArviZ do not change."""

MIN_DRAWS = 4
"""Smallest number of draws per chain for ArviZ's estimators."""


class Diagnostics(NamedTuple):
    """The smallest effective sample size and the largest R-hat, with the names of their quantities; NaN if unknown."""

    effective_sample_size: float = math.nan
    effective_sample_size_of: str = "none"
    rhat: float = math.nan
    rhat_of: str = "none"

    def converged(self, limits: Limits) -> bool:
        """Return whether both measures are within their limits. With one chain there is no R-hat."""
        return self.effective_sample_size >= limits.effective_sample_size and not self.rhat >= limits.rhat


class Limits(NamedTuple):
    """Limits that a converged run must satisfy."""

    effective_sample_size: float
    """Smallest effective sample size."""
    rhat: float
    """R-hat must be below this."""


def limits(chains: int, quantities: int) -> Limits:
    """Return the limits for a number of chains and of quantities.

    The effective sample size must be S = 100 per chain. The limit of R-hat follows from it. Each chain is split into
    two halves, and the mean of each of the m halves has S / m effective samples. If the run has converged, R-hat^2 - 1
    is therefore about (m / S) * chi2 / (m - 1), where chi2 has a chi-squared distribution with m - 1 degrees of
    freedom. R-hat is the larger of two estimates for each quantity, so that the largest of all quantities is the
    largest of 2 * quantities such numbers. The limit is their upper bound with an error rate of 5 % in total.
    """
    smallest, halves = MIN_ESS_PER_CHAIN * chains, 2 * chains
    quantile = float(chdtri(halves - 1, RHAT_ERROR_RATE / (2 * max(1, quantities))))
    return Limits(smallest, math.sqrt(1.0 + halves / smallest * quantile / (halves - 1)))


def number_of_quantities(values: Mapping[str, np.ndarray]) -> int:
    """Return the number of quantities that vary and have only finite values. Shapes are (chains, draws, ...)."""
    return sum(int(_usable(_flat(array)).sum()) for array in values.values())


def measure(values: Mapping[str, np.ndarray], at_most: int | None = None) -> Diagnostics:
    """Return the diagnostics of some variables, by the estimators of ArviZ.

    The effective sample size is the smaller of the bulk and the tail estimate, and R-hat is rank-normalised. Quantities
    that are constant, or have values that are not finite, are ignored.

    Parameters
    ----------
    values : mapping of str to array
        Variables, shape (chains, draws, ...) each.
    at_most : int, optional
        Largest number of quantities of each variable, which are evenly spaced. Default: all of them.
    """
    smallest: list[tuple[float, str]] = []
    largest: list[tuple[float, str]] = []
    for name, array in values.items():
        flat = _flat(array)
        columns = np.flatnonzero(_usable(flat))
        if at_most is not None and len(columns) > at_most:
            columns = columns[np.linspace(0, len(columns) - 1, at_most).astype(int)]
        if not len(columns) or flat.shape[1] < MIN_DRAWS:
            continue
        found = rank_diagnostics(flat[:, :, columns], TAILS)
        labels = _Labels(name, array.shape[2:], columns)
        smallest.append(labels.extreme(np.minimum(found.bulk, found.tail), np.nanargmin))
        if len(flat) > 1:
            largest.append(labels.extreme(found.rhat, np.nanargmax))
    size, size_of = min(smallest, default=(math.nan, "none"))
    rhat, rhat_of = max(largest, default=(math.nan, "none"))
    return Diagnostics(size, size_of, rhat, rhat_of)


class _Labels(NamedTuple):
    """Names of the quantities of a variable, such as f[3]."""

    name: str
    shape: tuple[int, ...]
    columns: np.ndarray

    def extreme(self, measures: np.ndarray, choose: Callable[[np.ndarray], Any]) -> tuple[float, str]:
        """Return the extreme measure and the name of its quantity."""
        best = int(choose(measures))
        index = [int(i) for i in np.unravel_index(self.columns[best], self.shape)]
        return float(measures[best]), f"{self.name}{index}" if index else self.name


def _flat(array: np.ndarray) -> np.ndarray:
    """Return the values of a variable as floats, shape (chains, draws, quantities)."""
    return np.asarray(array, np.float64).reshape(*array.shape[:2], -1)


def _usable(flat: np.ndarray) -> np.ndarray:
    """Return which quantities vary and have only finite values."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(flat).all(axis=(0, 1)) & (flat.max(axis=(0, 1)) > flat.min(axis=(0, 1)))
