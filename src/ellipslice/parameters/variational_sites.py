"""Find sites for several latent functions, for which expectation propagation would need multivariate integrals.

The variational approximation used here is the Gaussian closest to the posterior among those in which the functions are
independent. Its sites have the first and second derivatives of the log-likelihood, averaged over the Gaussian (Opper &
Archambeau 2009).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from ellipslice.approximations.sites import Sites, white_precision_factor
from ellipslice.jax_settings import on_cpu
from ellipslice.parameters.factor import Factor
from ellipslice.parameters.point_likelihood import PointLikelihood

AVERAGE_POINTS = 64
"""Number of points, at each input, over which the log-likelihood and its derivatives are averaged."""

MAX_STEPS, MAX_HALVINGS = 50, 8
"""Largest number of steps of the search, and of halvings of one step."""

MIN_GAIN = 1e-5
"""The search ends if a step increases the lower bound of the log evidence by less than this."""


def fit_variational_sites(
    factor: Factor, mean: np.ndarray, log_likelihood: PointLikelihood, u: np.ndarray
) -> tuple[Sites, np.ndarray] | str:
    """Return sites for hyperparameters u, and the mean of the functions with them; or the reason why there are none.

    Parameters
    ----------
    factor : Factor
        Factor of the prior covariance.
    mean : array, shape (latents, n)
        Prior mean.
    log_likelihood : PointLikelihood
    u : array, shape (size,)
    """
    points = _standard_points(len(mean))

    def averages(sites: np.ndarray) -> _Averages:
        pairs = zip(factor.rows, sites.swapaxes(0, 1), strict=True)
        parts = [_gaussian_of_function(rows, *site) for rows, site in pairs]
        shift, std, divergence = (np.stack(part) for part in zip(*parts, strict=True))
        value, slope, curvature = (np.asarray(part) for part in log_likelihood.averages(u, mean + shift, std, points))
        precision = np.maximum(-curvature, 0.0)
        return _Averages(float(value) - divergence.sum(), slope + precision * shift, precision, mean + shift)

    with on_cpu():
        try:
            factorises = _factorises_over_inputs(log_likelihood, u, mean)
        except Exception:  # noqa: BLE001  (a function that JAX cannot trace may raise anything)
            return "JAX cannot trace it"
        if not factorises:
            return "it does not factorise over the inputs"
        sites = np.zeros((2, *mean.shape))
        now = averages(sites)
        for _ in range(MAX_STEPS):
            step = np.stack([now.linear, now.precision]) - sites
            for _ in range(MAX_HALVINGS):
                new = averages(sites + step)
                if new.bound > now.bound:
                    break
                step = step / 2
            else:
                break
            gain, sites, now = new.bound - now.bound, sites + step, new
            if gain < MIN_GAIN:
                break
    return Sites(sites[0], sites[1], mean), now.f


@cache
def _standard_points(latents: int) -> np.ndarray:
    """Return quasi-random standard normals, shape (AVERAGE_POINTS, latents).

    Their mean and covariance are exactly 0 and I, so averages of quadratic functions are exact.
    """
    from scipy.stats import qmc  # slow to import, and needed only here

    half = ndtri(qmc.Sobol(latents, scramble=True, rng=0).random(AVERAGE_POINTS // 2))
    points = np.concatenate([half, -half])
    return solve_triangular(np.linalg.cholesky(points.T @ points / AVERAGE_POINTS), points.T, lower=True).T


class _Averages(NamedTuple):
    """Averages over the Gaussian of some sites: the lower bound, and the sites that follow from the derivatives."""

    bound: float
    """Lower bound of the log evidence. It is largest for the closest Gaussian."""
    linear: Any
    """Linear terms of the sites, shape (latents, n)."""
    precision: Any
    """Precisions of the sites, shape (latents, n)."""
    f: Any
    """Mean of the Gaussian, shape (latents, n)."""


def _gaussian_of_function(rows: np.ndarray, linear: np.ndarray, precision: np.ndarray) -> tuple[Any, Any, Any]:
    """Return mean minus prior mean, standard deviations and divergence from the prior, for one function with sites."""
    root = white_precision_factor(rows, precision)
    inverse = solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False)
    narrowed = inverse @ rows
    white = inverse.T @ (narrowed @ linear)
    divergence = 0.5 * (white @ white + (inverse**2).sum() - len(root)) + np.log(root.diagonal()).sum()
    return rows.T @ white, np.sqrt((narrowed**2).sum(0)), divergence


def _factorises_over_inputs(log_likelihood: PointLikelihood, u: np.ndarray, f: np.ndarray) -> bool:
    """Return whether second derivatives between different inputs are 0, checked at one random f."""
    rng = np.random.default_rng(0)
    f, weights = f + rng.standard_normal(f.shape), rng.standard_normal(f.shape[1])
    for one in np.eye(len(f))[:, :, None] * np.ones_like(f):
        plain, weighted = (np.asarray(log_likelihood.hessian_product(u, f, along)) for along in (one, one * weights))
        if not np.allclose(weighted, plain * weights, rtol=1e-6, atol=1e-9 * np.abs(plain).max()):
            return False
    return True
