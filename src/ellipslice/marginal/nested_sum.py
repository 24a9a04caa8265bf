"""The evidence sum of nested sampling: prior mass of each point, log Z, information and standard error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class NestedPoints(NamedTuple):
    """All points of nested runs: those that were removed, and the live points at the end. Arrays of shape (points,)."""

    log_likelihood: np.ndarray
    birth: np.ndarray
    """Level above which the point was drawn; NaN for draws from the prior."""
    replicate: np.ndarray

    def select(self, rows: np.ndarray) -> NestedPoints:
        """Return some of the points."""
        return NestedPoints(*(part[rows] for part in self))


def log_masses(points: NestedPoints) -> np.ndarray:
    """Return the logarithm of the prior mass that each point represents.

    The points of all replicates are removed one at a time, in the order of their log-likelihoods, and each removal
    changes the logarithm of the remaining mass by its mean -1 / live, where `live` is the number of points that are
    live just before it: born at a lower level and not yet removed. So k points of equal log-likelihood, and the k
    lowest of n that are replaced together, count as removals from n, n - 1, ..., n - k + 1 points. The last point
    has all mass that remains.
    """
    order = np.argsort(points.log_likelihood, kind="stable")
    from_prior = np.isnan(points.birth)
    born = from_prior.sum() + np.searchsorted(np.sort(points.birth[~from_prior]), points.log_likelihood[order])
    steps = 1.0 / (born - np.arange(len(order)))
    before = np.concatenate([[0.0], -np.cumsum(steps)[:-1]])
    masses = np.empty(len(order))
    masses[order] = before + np.append(np.log(-np.expm1(-steps[:-1])), 0.0)
    return masses


def log_sum(points: NestedPoints) -> float:
    """Return the estimate of log Z: the logarithm of the sum of prior mass times likelihood."""
    return float(np.logaddexp.reduce(log_masses(points) + points.log_likelihood))


@np.errstate(under="ignore")  # a weight that underflows is 0
def information(points: NestedPoints) -> float:
    """Return the information H, the Kullback-Leibler divergence of the posterior from the prior. Nats."""
    log_weights = log_masses(points) + points.log_likelihood
    log_z = np.logaddexp.reduce(log_weights)
    weights, possible = np.exp(log_weights - log_z), points.log_likelihood > -np.inf
    return float(weights[possible] @ points.log_likelihood[possible] - log_z)


def jackknife_error(points: NestedPoints) -> float:
    """Return the standard error of `log_sum` from the estimates that leave out one replicate each.

    It is infinite if such an estimate of Z is zero.
    """
    replicates = np.unique(points.replicate)
    others = np.array([log_sum(points.select(points.replicate != own)) for own in replicates])
    if not np.isfinite(others).all():
        return np.inf
    return float(np.sqrt((len(others) - 1) * others.var()))
