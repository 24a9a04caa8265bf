"""Expectation propagation of the latents for one value of the hyperparameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ellipslice.latent.newton import positive
from ellipslice.latent.posterior import Conditional, LatentPosterior, Sites

MOST_ITERATIONS = 30
"""Largest number of iterations."""

TOLERANCE = 1e-3
"""Largest difference of a mean, in standard deviations, or of a log variance at which the iteration ends."""

DAMPING = 0.9
"""Weight of the new sites in each iteration."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class Propagated(NamedTuple):
    """Result of expectation propagation."""

    sites: Sites
    eta: np.ndarray
    """Mean of the linear predictor of the observed rows."""


def propagate(posterior: LatentPosterior, at: Conditional, sites: Sites) -> Propagated:
    """Return the sites whose Gaussian has the moments of the posterior marginals, starting from given sites.

    All sites are updated in parallel. The moments of a marginal times the likelihood over its site are computed at the
    nodes of that marginal. If the iteration does not converge, the last sites are returned; any sites are valid.
    """
    offset, (precision, linear) = posterior.assembly.offset, sites
    eta = offset
    for _ in range(MOST_ITERATIONS):
        reference = posterior.reference(at, Sites(precision, linear))
        if reference is None:
            return Propagated(sites, eta)
        mean, variance = posterior.assembly.A @ reference.mean, reference.variances()
        eta, sites = mean + offset, Sites(precision, linear)
        tilted_mean, tilted_variance = _tilted_moments(at, offset, mean, variance, sites)
        new_precision = positive(1 / tilted_variance - 1 / variance + precision)
        # The mean is matched also where the precision was limited, as for outliers of a heavy-tailed likelihood.
        new_linear = tilted_mean * (new_precision + 1 / variance - precision) - mean / variance + linear
        change = max(
            np.abs((tilted_mean - mean) / np.sqrt(variance)).max(), np.abs(np.log(tilted_variance / variance)).max()
        )
        if not np.isfinite(change):
            break
        precision, linear = _damped(Sites(precision, linear), Sites(new_precision, new_linear), mean)
        if change < TOLERANCE:
            sites = Sites(precision, linear)
            break
    return Propagated(sites, eta)


def _damped(old: Sites, new: Sites, mean: np.ndarray) -> Sites:
    """Return sites between old and new ones: geometric means of precisions, and arithmetic means of slopes at `mean`.

    Means of the linear coefficients would depend on the origin of the linear predictor.
    """
    precision = np.exp((1 - DAMPING) * np.log(old.precision) + DAMPING * np.log(new.precision))
    before, after = (each.linear - each.precision * mean for each in (old, new))
    return Sites(precision, (1 - DAMPING) * before + DAMPING * after + precision * mean)


def _tilted_moments(
    at: Conditional, offset: np.ndarray, mean: np.ndarray, variance: np.ndarray, sites: Sites
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and variances of the marginals times the likelihood over the sites."""
    nodes = mean + np.sqrt(variance) * _NODES[:, None]
    log_weights = at.likelihood.pointwise(nodes + offset) - (sites.linear - 0.5 * sites.precision * nodes) * nodes
    weights = np.exp(log_weights - log_weights.max(0)) * _WEIGHTS[:, None]
    weights /= weights.sum(0)
    tilted_mean = (weights * nodes).sum(0)
    return tilted_mean, np.maximum((weights * (nodes - tilted_mean) ** 2).sum(0), 1e-12 * variance)
