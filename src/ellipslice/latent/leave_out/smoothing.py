"""Pareto-smoothed importance sampling over draws (Vehtari et al. 2024), and the Monte Carlo error of its sum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats  # pyright: ignore[reportPrivateImportUsage]

from ellipslice.sampling.measures import TAILS
from ellipslice.sampling.rank_diagnostics import rank_diagnostics

EQUAL = 1e-9
"""Log densities that differ by less than this over all draws are equal: there is nothing to smooth."""

FEWEST_DRAWS = 25
"""Smallest number of draws: a generalised Pareto distribution is fitted to a fifth of them, at least 5."""


class Smoothed(NamedTuple):
    """Log predictive densities of some cases, by importance sampling."""

    elpd: np.ndarray
    """Log predictive density of each case, shape (cases,)."""
    pareto_k: np.ndarray
    """Shape of the tail of the weights. Minus infinity if the weights are equal, infinity if only the largest are."""
    influence: np.ndarray
    """Influence of each draw on each log density, shape (draws, cases). Their sums over the draws are 0."""
    efficiency: float
    """Effective sample size of the draws, relative to their number, at most 1."""


def smoothed(log_density: np.ndarray, log_weight: np.ndarray, chains: int) -> Smoothed:
    """Return log(mean of weight * density / mean of weight) for each case, with smoothed weights.

    Parameters
    ----------
    log_density, log_weight : arrays, shape (draws, cases)
        Chain after chain. At least `FEWEST_DRAWS`.
    chains : int
        Number of chains.
    """
    efficiency = _efficiency(log_weight, chains)
    smooth, pareto_k = log_weight - log_weight.max(axis=0), np.full(log_weight.shape[1], -np.inf)
    tail = int(min(len(log_weight) / 5, 3 * np.sqrt(len(log_weight) / efficiency)))  # the size that psislw has
    largest = np.sort(log_weight, axis=0)[-tail:]
    pareto_k[np.ptp(log_weight, axis=0) > EQUAL] = np.inf  # chains that do not move have equal weights
    different = np.ptp(largest, axis=0) > EQUAL
    if different.any():
        log_ratio = -log_weight[:, different]  # psislw changes the sign
        found, k = array_stats.psislw(log_ratio, r_eff=efficiency, axis=0)  # pyright: ignore[reportArgumentType]
        smooth[:, different], pareto_k[different] = np.moveaxis(np.asarray(found), -1, 0), k
    smooth -= np.logaddexp.reduce(smooth, axis=0)
    elpd = np.logaddexp.reduce(smooth + log_density, axis=0)
    influence = np.exp(smooth) * np.expm1(log_density - elpd)
    return Smoothed(elpd, pareto_k, influence, efficiency)


def error_of_sum(influence: np.ndarray, efficiency: float) -> float:
    """Return the Monte Carlo standard error of the sum of some log densities, whose errors are not independent."""
    return float(np.sqrt((influence.sum(1) ** 2).sum() / efficiency))


def _efficiency(log_weight: np.ndarray, chains: int) -> float:
    """Return the mean effective sample size of the log weights, relative to the number of draws, at most 1."""
    draws = log_weight.reshape(chains, -1, log_weight.shape[1])
    varies = np.ptp(log_weight, axis=0) > EQUAL
    if draws.shape[1] < 4 or not varies.any():
        return 1.0
    bulk = rank_diagnostics(draws[:, :, varies], TAILS).bulk
    return float(np.clip(np.nanmean(bulk) / len(log_weight), 1e-3, 1.0))
