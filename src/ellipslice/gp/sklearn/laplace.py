"""The Laplace approximation of the posterior of f for one value of the hyperparameters, in NumPy.

`approximations.laplace` does the same for any log-likelihood that JAX can trace. It is compiled anew for every number
of data, which takes longer than a small fit; estimators are fitted to many small folds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ellipslice.approximations.expectation_propagation import fit_ep
from ellipslice.approximations.sites import Sites, white_precision_factor
from ellipslice.likelihoods import Gaussian, Likelihood
from ellipslice.parameters.factor import factorise

MAX_STEPS, MAX_HALVINGS = 50, 20
"""Steps of Newton's method, and halvings of one step."""

MIN_GAIN = 1e-3
"""A smaller gain of the log-posterior ends the search."""

SWEEPS = 4
"""Sweeps of expectation propagation. With Laplace's sites alone chains got stuck where latent values were large."""

DIFFERENCE_STEP = 1e-3
"""Distance of the three latent values from which derivatives are computed. Sites need not be exact."""


class Mode(NamedTuple):
    """The mode f = K weights of the posterior, and sites exp(linear f - precision f^2 / 2) there."""

    weights: np.ndarray
    linear: np.ndarray
    precision: np.ndarray
    log_evidence: float
    """Laplace's approximation of the logarithm of the marginal likelihood."""


class GaussianApproximation(NamedTuple):
    """The prior N(0, C C') times sites: f = mean + root eta with eta white, times exp(log_constant).

    So the posterior is a standard Gaussian of eta times exp(log_constant) L(f) / sites(f), whatever the sites are.
    """

    lower: np.ndarray
    """C."""
    mean: np.ndarray
    root: np.ndarray
    white_mean: np.ndarray
    inner: np.ndarray
    """R with R R' = I + C' diag(precision) C: the prior's white noise is z = white_mean + inv(R') eta."""
    linear: np.ndarray
    precision: np.ndarray
    log_constant: float
    likelihood: Likelihood

    def log_ratio(self, away: np.ndarray) -> float:
        """Return the logarithm of what multiplies the standard Gaussian of eta, from `away` = root @ eta."""
        f = self.mean + away
        log_sites = self.linear @ f - 0.5 * (self.precision @ (f * f))
        return float(self.likelihood(f) - log_sites) + self.log_constant

    def white(self, eta: np.ndarray) -> np.ndarray:
        """Return the prior's white noise z of f = C z."""
        return self.white_mean + solve_triangular(self.inner, eta, lower=True, trans=1)

    def eta(self, z: np.ndarray) -> np.ndarray:
        """Return the eta of a z."""
        return self.inner.T @ (z - self.white_mean)


def lower_factor(matrix: np.ndarray) -> np.ndarray:
    """Return the lower triangular C of a covariance C C'."""
    lower = factorise(matrix[None])[0]
    if not np.isfinite(lower).all():
        raise ValueError(
            "the kernel has no positive definite covariance at these inputs. Check it: tinygp's Matern kernels need "
            "distance=tinygp.kernels.distance.L2Distance() where inputs have several axes."
        )
    return lower


def find_mode(matrix: np.ndarray, likelihood: Likelihood, weights: np.ndarray | None = None) -> Mode:
    """Newton's method for the mode of N(f; 0, matrix) L(f), from f = matrix weights.

    Rasmussen & Williams (2006), Algorithm 3.1, with steps halved until they lead upwards; terms of the log-likelihood
    that are convex where f is get a site of no precision.
    """
    weights = np.zeros(len(matrix)) if weights is None else weights
    f = matrix @ weights
    height = float(likelihood(f)) - 0.5 * weights @ f
    if not height > float(likelihood(np.zeros_like(f))):  # a start for other parameters may be worse than none
        weights, f = np.zeros_like(f), np.zeros_like(f)
        height = float(likelihood(f))
    for _ in range(MAX_STEPS):
        slope, precision = _slopes(likelihood.pointwise, f)
        linear = slope + precision * f
        there, _ = _solve(matrix, linear, precision)
        step, gain = there - weights, -np.inf
        for _ in range(MAX_HALVINGS):
            new = weights + step
            f_new = matrix @ new
            gain = float(likelihood(f_new)) - 0.5 * new @ f_new - height
            if gain > 0:
                break
            step = step / 2
        if not gain > 0:
            break
        weights, f, height = new, f_new, height + gain
        if gain < MIN_GAIN:
            break
    slope, precision = _slopes(likelihood.pointwise, f)
    linear = slope + precision * f
    _, half_log_determinant = _solve(matrix, linear, precision)
    return Mode(weights, linear, precision, float(height - half_log_determinant))


def find_sites(matrix: np.ndarray, likelihood: Likelihood, weights: np.ndarray | None = None) -> Sites:
    """Sites by a few sweeps of expectation propagation, from Laplace's; a function of its arguments alone."""
    lower, mode = lower_factor(matrix), find_mode(matrix, likelihood, weights)
    sites = Sites(mode.linear, mode.precision)
    if isinstance(likelihood, Gaussian):  # for which these are exact
        return sites
    try:
        return fit_ep(lower.T, likelihood.pointwise, sites, sweeps=SWEEPS)
    except np.linalg.LinAlgError:  # it may break down where terms are not concave
        return sites


def gaussian_from_sites(matrix: np.ndarray, likelihood: Likelihood, sites: Sites) -> GaussianApproximation:
    """Return the Gaussian that is the prior times sites."""
    lower = lower_factor(matrix)
    linear, precision = sites.linear, sites.precision
    inner = white_precision_factor(lower.T, precision)
    toward = solve_triangular(inner, lower.T @ linear, lower=True)
    white_mean = solve_triangular(inner, toward, lower=True, trans=1)
    root = solve_triangular(inner, lower.T, lower=True).T
    log_constant = 0.5 * toward @ toward - np.log(inner.diagonal()).sum()
    return GaussianApproximation(
        lower, lower @ white_mean, root, white_mean, inner, linear, precision, float(log_constant), likelihood
    )


def _solve(matrix: np.ndarray, linear: np.ndarray, precision: np.ndarray) -> tuple[np.ndarray, float]:
    """The weights of the prior's mean given sites, and half the logarithm of the determinant of I + K diag(W)."""
    root = np.sqrt(precision)
    lower = cholesky(np.eye(len(matrix)) + root[:, None] * matrix * root, lower=True, overwrite_a=True)
    half = solve_triangular(lower, root * (matrix @ linear), lower=True)
    weights = linear - root * solve_triangular(lower, half, lower=True, trans=1)
    return weights, float(np.log(lower.diagonal()).sum())


def _slopes(terms: Callable[[Any], Any], f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slope of each term, and how much it bends down, if it does."""
    below, here, above = terms(f - DIFFERENCE_STEP), terms(f), terms(f + DIFFERENCE_STEP)
    return (above - below) / (2 * DIFFERENCE_STEP), np.maximum(-(above - 2 * here + below) / DIFFERENCE_STEP**2, 0.0)
