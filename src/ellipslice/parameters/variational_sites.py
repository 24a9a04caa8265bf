"""Find sites for several latent functions, where expectation propagation has no one-dimensional integrals.

The variational approximation is the Gaussian nearest to the posterior in which the functions are independent. A site's
precision and slope are then those of the log-likelihood, averaged over the Gaussian (Opper & Archambeau 2009).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri
from scipy.stats import qmc

from ellipslice.approximations.sites import Sites, white_precision_factor
from ellipslice.jax_settings import on_cpu
from ellipslice.parameters.factor import Factor
from ellipslice.parameters.point_likelihood import PointLikelihood

POINTS = 64
"""Number of values of the latent functions at an input over which averages are taken."""

MAX_STEPS, MAX_HALVINGS = 50, 8
"""Steps of the search, and halvings of one step."""

MIN_GAIN = 1e-5
"""A smaller gain of the lower bound, in units of the log-evidence, ends the search."""


def fit_variational_sites(
    factor: Factor, mean: np.ndarray, log_likelihood: PointLikelihood, u: np.ndarray
) -> tuple[Sites, np.ndarray] | str:
    """Return sites for hyperparameters u, and the mean of the functions with them; or why there are none."""
    points = _points(len(mean))

    def at(sites: np.ndarray) -> _There:
        parts = [_one(rows, *site) for rows, site in zip(factor.rows, sites.swapaxes(0, 1), strict=True)]
        centre, deviation, apart = (np.stack(part) for part in zip(*parts, strict=True))
        value, slope, bend = (np.asarray(part) for part in log_likelihood.averages(u, mean + centre, deviation, points))
        precision = np.maximum(-bend, 0.0)
        return _There(float(value) - apart.sum(), slope + precision * centre, precision, mean + centre)

    with on_cpu():
        try:
            together = _is_a_sum(log_likelihood, u, mean)
        except Exception:  # noqa: BLE001  whatever a function raises that JAX cannot trace
            return "JAX cannot trace it"
        if not together:
            return "it is no sum over the inputs"
        sites = np.zeros((2, *mean.shape))
        there = at(sites)
        for _ in range(MAX_STEPS):
            step = np.stack([there.linear, there.precision]) - sites
            for _ in range(MAX_HALVINGS):
                then = at(sites + step)
                if then.bound > there.bound:
                    break
                step = step / 2
            else:
                break
            gain, sites, there = then.bound - there.bound, sites + step, then
            if gain < MIN_GAIN:
                break
    return Sites(sites[0], sites[1], mean), there.f


@cache
def _points(latents: int) -> np.ndarray:
    """Standard normal, (POINTS, latents), whose mean and covariance are exact: so are averages of quadratics."""
    half = ndtri(qmc.Sobol(latents, scramble=True, rng=0).random(POINTS // 2))
    points = np.concatenate([half, -half])
    return solve_triangular(np.linalg.cholesky(points.T @ points / POINTS), points.T, lower=True).T


class _There(NamedTuple):
    """What the log-likelihood is like over a Gaussian, on average."""

    bound: float
    """A lower bound of the log-evidence, which is best for the nearest Gaussian."""
    linear: Any
    precision: Any
    f: Any


def _one(rows: np.ndarray, linear: np.ndarray, precision: np.ndarray) -> tuple[Any, Any, Any]:
    """One function: its mean less the prior's, its deviations, and the divergence from the prior."""
    root = white_precision_factor(rows, precision)
    inverse = solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False)
    narrowed = inverse @ rows
    white = inverse.T @ (narrowed @ linear)
    apart = 0.5 * (white @ white + (inverse**2).sum() - len(root)) + np.log(root.diagonal()).sum()
    return rows.T @ white, np.sqrt((narrowed**2).sum(0)), apart


def _is_a_sum(log_likelihood: PointLikelihood, u: np.ndarray, f: np.ndarray) -> bool:
    """Whether values at different inputs have nothing to do with each other, looked at in one place."""
    rng = np.random.default_rng(0)
    f, weights = f + rng.standard_normal(f.shape), rng.standard_normal(f.shape[1])
    for one in np.eye(len(f))[:, :, None] * np.ones_like(f):
        bends, weighted = (np.asarray(log_likelihood.bends(u, f, along)) for along in (one, one * weights))
        if not np.allclose(weighted, bends * weights, rtol=1e-6, atol=1e-9 * np.abs(bends).max()):
            return False
    return True
