"""Expectation propagation (EP).

Sites are fitted such that the Gaussian Q, the prior times sites, has the right mean and variance for each element of f:
those of the tilted distribution, in which the site of the element is replaced by its likelihood.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from ellipslice.approximations.sites import Sites, posterior_factor

MAX_SWEEPS = 60
"""Largest number of sweeps over all sites."""

DAMPING, REDUCED_DAMPING = 0.9, 0.6
"""Weight of new sites in an update, and its value after the first sweep that changes Q more than the one before."""

TOLERANCE = 1e-3
"""Change of a mean, in standard deviations, plus that of a log variance, below which EP has converged."""

NODES, _weights = hermegauss(64)
"""Nodes of the Gauss-Hermite rule for the standard normal density."""
LOG_WEIGHTS = np.log(_weights)
"""Log weights of the Gauss-Hermite rule."""

VARIANCE_INFLATION = 1.5
"""Variance of the Gauss-Hermite rule for an element of f, divided by its variance under Q."""


@np.errstate(all="ignore")  # weights that underflow are 0, and sites that are not finite are not changed
def fit_ep(
    rows: np.ndarray, terms: Callable[[np.ndarray], np.ndarray], start: Sites, *, sweeps: int = MAX_SWEEPS
) -> Sites:
    """Fit sites by expectation propagation (Minka 2001), with parallel updates of all sites.

    Parameters
    ----------
    rows : array, shape (rank, size)
        The prior's covariance is rows.T @ rows.
    terms : callable
        Pointwise log-likelihood: centred flat vectors (count, size) to (count, size).
    start : Sites
        Initial sites, for example those of the Laplace approximation.
    sweeps : int
        Largest number of sweeps. Default: 60. If they are too few to converge, the sites are less accurate.
    """
    sites, damping, last = start, DAMPING, np.inf
    mean, variance = _moments(rows, sites)
    for _ in range(sweeps):
        cavity_precision = 1 / variance - sites.precision
        valid = cavity_precision > 1e-10 / variance  # elsewhere Q without the site is not a Gaussian
        cavity = 1 / np.where(valid, cavity_precision, 1 / variance)
        centre = cavity * (mean / variance - sites.linear)
        tilted_mean, tilted_variance = _tilted_moments(
            terms, centre, cavity, mean, np.sqrt(VARIANCE_INFLATION * variance)
        )
        valid &= np.isfinite(tilted_mean) & (tilted_variance > 0)
        precision = np.maximum(1 / tilted_variance - 1 / cavity, 0.0)
        linear = tilted_mean * (precision + 1 / cavity) - centre / cavity
        sites = Sites(
            np.where(valid, (1 - damping) * sites.linear + damping * linear, sites.linear),
            np.where(valid, (1 - damping) * sites.precision + damping * precision, sites.precision),
        )
        before = mean, variance
        mean, variance = _moments(rows, sites)
        moved = (np.abs(mean - before[0]) / np.sqrt(variance) + np.abs(np.log(variance / before[1]))).max()
        if moved < TOLERANCE:
            break
        damping, last = REDUCED_DAMPING if not moved < last else damping, moved
    return sites


def _moments(rows: np.ndarray, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Return the means and variances of the elements of f under Q."""
    factor = posterior_factor(rows, sites.precision)
    return factor.T @ (factor @ sites.linear), np.einsum("ij,ij->j", factor, factor)


@np.errstate(under="ignore")
def tilted_log_masses(
    terms: Callable[[np.ndarray], np.ndarray], sites: Sites, mean: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Return the log scale of each site that gives it the same integral under its cavity as its likelihood.

    `mean` and `variance` are those of the elements of f under Q.
    """
    precision = 1 / variance - sites.precision
    if (precision <= 0).any():
        raise ValueError(
            "expectation propagation did not converge: a site is narrower than the approximation itself. Use "
            'method="laplace" or `es.evidence`.'
        )
    cavity = 1 / precision
    centre = cavity * (mean / variance - sites.linear)
    _, log_weights = _quadrature(terms, centre, cavity, mean, np.sqrt(VARIANCE_INFLATION * variance))
    # The quadrature omits the cavity's normalising constant and the scale of the nodes.
    log_mass = (
        np.logaddexp.reduce(log_weights, axis=0)
        + 0.5 * np.log(VARIANCE_INFLATION * variance)
        - 0.5 * np.log(2 * np.pi * cavity)
    )
    site_mass = 0.5 * np.log(variance / cavity) + 0.5 * (mean**2 / variance - centre**2 / cavity)
    return log_mass - site_mass


def _tilted_moments(
    terms: Callable[[np.ndarray], np.ndarray],
    centre: np.ndarray,
    cavity: np.ndarray,
    middle: np.ndarray,
    standard_deviation: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and variance of each element of f under its cavity N(centre, cavity) times its likelihood."""
    points, log_weights = _quadrature(terms, centre, cavity, middle, standard_deviation)
    weights = np.exp(log_weights - log_weights.max(axis=0))
    weights = weights / weights.sum(axis=0)
    mean = (weights * points).sum(axis=0)
    return mean, (weights * (points - mean) ** 2).sum(axis=0)


def _quadrature(
    terms: Callable[[np.ndarray], np.ndarray],
    centre: np.ndarray,
    cavity: np.ndarray,
    middle: np.ndarray,
    standard_deviation: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return points, and their log weights in the integral of the cavity (not normalised) times the likelihood.

    The Gauss-Hermite rule is centred at `middle`, the mean under Q. Around the centre of the cavity, which may be a
    thousand times wider than the product, the nodes would miss the product.
    """
    steps = NODES[:, None]
    points = middle + standard_deviation * steps
    log_weights = terms(points) - 0.5 * (points - centre) ** 2 / cavity + 0.5 * steps**2
    return points, LOG_WEIGHTS[:, None] + np.where(np.isnan(log_weights), -np.inf, log_weights)
