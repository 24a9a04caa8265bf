"""The bridge estimator of a normalising constant, from draws of the posterior and of a proposal distribution.

Let p be the unnormalised posterior density with the integral Z, q a normalised proposal density, and l = log p - log q.
With n draws of the posterior and m of the proposal, the optimal estimate of Z (Meng & Wong 1996) solves

    n mean_posterior expit(t - l) = m mean_proposal expit(l - t),    log Z = t + log(n / m).

The equation has one solution. Both averages are bounded, so that the estimate has a finite variance for any tails.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from ellipslice.bridge.pareto import tail_index
from ellipslice.sampling.rank_diagnostics import effective_size


class Bridge(NamedTuple):
    """A bridge estimate, with its diagnostics."""

    log_z: float
    standard_error: float
    overlap: float
    """Share that posterior and proposal have in common, between 0 and 1: 1 if they are equal."""
    pareto_k: float
    """Larger one of the tail indices of the two averages."""
    effective_sample_size: float
    """Effective sample size of the posterior draws for their average, at most their number."""


def bridge(at_posterior: np.ndarray, at_proposal: np.ndarray) -> Bridge:
    """Return the bridge estimate of log Z.

    The standard error is the square root of the relative mean-squared error (Frühwirth-Schnatter 2004). The posterior
    draws count with their effective sample size, because they are correlated.

    Parameters
    ----------
    at_posterior : array, shape (chains, draws)
        l at draws of the posterior. If one is NaN, so is the estimate.
    at_proposal : array, shape (count,)
        l at independent draws of the proposal; -inf where the posterior density is 0.
    """
    draws, count = mean_effective_size(at_posterior), len(at_proposal)
    t = _solve(at_posterior, at_proposal, np.log(draws / count))
    share = draws / (draws + count)
    of_posterior, of_proposal = expit(t - at_posterior) / (1 - share), expit(at_proposal - t) / share
    overlap, effective = float(of_proposal.mean()), mean_effective_size(of_posterior)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (of_proposal.var() / count + of_posterior.var() / effective) / overlap**2
    k = max(tail_index(of_posterior.ravel()), tail_index(of_proposal))
    return Bridge(t + float(np.log(draws / count)), float(np.sqrt(variance)), overlap, k, effective)


def _solve(at_posterior: np.ndarray, at_proposal: np.ndarray, log_ratio: float) -> float:
    """Return the solution t of the equation of the bridge estimator; NaN if there is none."""
    finite = at_proposal[np.isfinite(at_proposal)]
    if not len(finite) or np.isnan(at_posterior).any():
        return np.nan
    low = min(at_posterior.min(), finite.min())
    high = max(at_posterior.max(), finite.max())

    def excess(t: float) -> float:
        of_proposal = np.logaddexp.reduce(_log_expit(finite - t)) - np.log(len(at_proposal))
        of_posterior = np.logaddexp.reduce(_log_expit(t - at_posterior), axis=None) - np.log(at_posterior.size)
        return float(log_ratio + of_posterior - of_proposal)

    width = 1.0 + abs(log_ratio)
    while excess(low - width) > 0 or excess(high + width) < 0:
        width *= 2
    root: Any = brentq(excess, low - width, high + width, xtol=1e-12)
    return float(root)


def _log_expit(x: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0.0, -x)


def mean_effective_size(values: np.ndarray) -> float:
    """Return the effective sample size for the mean of a quantity, shape (chains, draws), at most their number.

    It compares the halves of all chains, so that it is small if they differ.
    """
    half = values.shape[1] // 2
    split = np.concatenate([values[:, :half], values[:, -half:]])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = float(effective_size(split[None])[0])
    return min(found, float(values.size)) if np.isfinite(found) else float(values.size)
