"""Expectation propagation: sites such that Q has the mean and variance of every value that its own likelihood gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from ellipslice.approximations.sites import Sites, narrow

SWEEPS = 60

DAMPING, CAREFUL = 0.9, 0.6
"""How far sites go towards what is right for them now; and once a sweep has moved more than the one before."""

CLOSE = 1e-3
"""Of a standard deviation: when no mean or deviation moves by more, it has converged."""

NODES, _weights = hermegauss(64)
LOG_WEIGHTS = np.log(_weights)

WIDER = 1.5
"""Times the variance under Q: where the likelihood of a value is looked at."""


@np.errstate(all="ignore")  # what underflows has no weight, and sites that are not finite are left as they were
def propagate(
    rows: np.ndarray, terms: Callable[[np.ndarray], np.ndarray], start: Sites, *, sweeps: int = SWEEPS
) -> Sites:
    """Sites by expectation propagation (Minka 2001), all of them updated at once, from where Laplace's are.

    Parameters
    ----------
    rows : array, shape (rank, size)
        The prior's covariance is rows.T @ rows.
    terms : callable
        The log-likelihood of each value: batches of centred flat vectors (count, size) to (count, size).
    start : Sites
    sweeps : int
        At most; fewer than it takes to converge give sites that fit less well.
    """
    sites, damping, last = start, DAMPING, np.inf
    mean, variance = _moments(rows, sites)
    for _ in range(sweeps):
        cavity_precision = 1 / variance - sites.precision
        sound = cavity_precision > 1e-10 / variance  # where Q without the site is a Gaussian at all
        cavity = 1 / np.where(sound, cavity_precision, 1 / variance)
        centre = cavity * (mean / variance - sites.linear)
        tilted_mean, tilted_variance = _tilted(terms, centre, cavity, mean, np.sqrt(WIDER * variance))
        sound &= np.isfinite(tilted_mean) & (tilted_variance > 0)
        precision = np.maximum(1 / tilted_variance - 1 / cavity, 0.0)
        linear = tilted_mean * (precision + 1 / cavity) - centre / cavity
        sites = Sites(
            np.where(sound, (1 - damping) * sites.linear + damping * linear, sites.linear),
            np.where(sound, (1 - damping) * sites.precision + damping * precision, sites.precision),
        )
        before = mean, variance
        mean, variance = _moments(rows, sites)
        moved = (np.abs(mean - before[0]) / np.sqrt(variance) + np.abs(np.log(variance / before[1]))).max()
        if moved < CLOSE:
            break
        damping, last = CAREFUL if not moved < last else damping, moved
    return sites


def _moments(rows: np.ndarray, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances under Q."""
    narrowed = narrow(rows, sites.precision)
    return narrowed.T @ (narrowed @ sites.linear), np.einsum("ij,ij->j", narrowed, narrowed)


@np.errstate(under="ignore")
def tilted_log_masses(
    terms: Callable[[np.ndarray], np.ndarray], sites: Sites, mean: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """By how much each site must be raised, in logarithms, to have the integral under its cavity that its term has.

    `mean` and `variance` are those under Q.
    """
    precision = 1 / variance - sites.precision
    if (precision <= 0).any():
        raise ValueError("expectation propagation did not converge: a site is narrower than Q itself.")
    cavity = 1 / precision
    centre = cavity * (mean / variance - sites.linear)
    _, log_weights = _quadrature(terms, centre, cavity, mean, np.sqrt(WIDER * variance))
    # log of the cavity's constant and of dx, less the integral of cavity times site, which is Gaussian too
    log_mass = (
        np.logaddexp.reduce(log_weights, axis=0) + 0.5 * np.log(WIDER * variance) - 0.5 * np.log(2 * np.pi * cavity)
    )
    site_mass = 0.5 * np.log(variance / cavity) + 0.5 * (mean**2 / variance - centre**2 / cavity)
    return log_mass - site_mass


def _tilted(
    terms: Callable[[np.ndarray], np.ndarray],
    centre: np.ndarray,
    cavity: np.ndarray,
    middle: np.ndarray,
    deviation: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each value under its cavity N(centre, cavity) times its own likelihood."""
    points, log_weights = _quadrature(terms, centre, cavity, middle, deviation)
    weights = np.exp(log_weights - log_weights.max(axis=0))
    weights = weights / weights.sum(axis=0)
    mean = (weights * points).sum(axis=0)
    return mean, (weights * (points - mean) ** 2).sum(axis=0)


def _quadrature(
    terms: Callable[[np.ndarray], np.ndarray],
    centre: np.ndarray,
    cavity: np.ndarray,
    middle: np.ndarray,
    deviation: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Points, and the logarithms of their weights in an integral of cavity (without its constant) times likelihood.

    By Gauss and Hermite's rule around `middle`, where the two together are: the cavity may be a thousand times wider.
    """
    steps = NODES[:, None]
    points = middle + deviation * steps
    log_weights = terms(points) - 0.5 * (points - centre) ** 2 / cavity + 0.5 * steps**2
    return points, LOG_WEIGHTS[:, None] + np.where(np.isnan(log_weights), -np.inf, log_weights)
