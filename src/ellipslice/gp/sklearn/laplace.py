"""The Laplace approximation of the posterior of f for one value of the hyperparameters, in NumPy.

`approximations.laplace` does the same for any log-likelihood that JAX can trace. It is compiled for every size of the
data, which takes longer than a small fit, and cross-validation makes many small fits of different sizes.
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
"""Largest number of steps of Newton's method, and of halvings of one step."""

MIN_GAIN = 1e-3
"""The search ends if a step increases the log-posterior by less than this."""

SWEEPS = 4
"""Number of EP sweeps. With the sites of the Laplace approximation alone, chains mixed slowly where f was large."""

DIFFERENCE_STEP = 1e-3
"""Step of the finite differences for derivatives of the log-likelihood. Sites need not be exact."""


class Mode(NamedTuple):
    """The mode f = K weights of the posterior, and the sites exp(linear f - precision f^2 / 2) there."""

    weights: np.ndarray
    """Weights of the covariances in the mode, shape (n,)."""
    linear: np.ndarray
    """Linear terms of the sites, shape (n,)."""
    precision: np.ndarray
    """Precisions of the sites, shape (n,). At least 0."""
    log_evidence: float
    """Laplace approximation of the log marginal likelihood."""


class GaussianApproximation(NamedTuple):
    """The prior N(0, C C') times sites, as a Gaussian: f = mean + root eta, with white noise eta.

    The posterior density of eta is proportional to N(eta; 0, I) exp(log_constant) L(f) / sites(f). This is exact for
    any sites.
    """

    lower: np.ndarray
    """C, lower triangular, shape (n, n)."""
    mean: np.ndarray
    """Mean of f, shape (n,)."""
    root: np.ndarray
    """Factor of the covariance of f, shape (n, n)."""
    white_mean: np.ndarray
    """Mean of z, the white noise of f = C z, shape (n,)."""
    inner: np.ndarray
    """R with R R' = I + C' diag(precision) C, so that z = white_mean + inv(R') eta. Shape (n, n)."""
    linear: np.ndarray
    """Linear terms of the sites, shape (n,)."""
    precision: np.ndarray
    """Precisions of the sites, shape (n,)."""
    log_constant: float
    """Logarithm of the integral of the prior times the sites."""
    likelihood: Likelihood

    def log_ratio(self, away: np.ndarray) -> float:
        """Return log_constant + log L(f) - log sites(f) for f = mean + away, where away = root @ eta."""
        f = self.mean + away
        log_sites = self.linear @ f - 0.5 * (self.precision @ (f * f))
        return float(self.likelihood(f) - log_sites) + self.log_constant

    def white(self, eta: np.ndarray) -> np.ndarray:
        """Return the white noise z of f = C z for eta."""
        return self.white_mean + solve_triangular(self.inner, eta, lower=True, trans=1)

    def eta(self, z: np.ndarray) -> np.ndarray:
        """Return eta for the white noise z of f = C z."""
        return self.inner.T @ (z - self.white_mean)


def lower_factor(matrix: np.ndarray) -> np.ndarray:
    """Return the lower triangular factor C of a covariance C C'. Raise if it is not positive definite."""
    lower = factorise(matrix[None])[0]
    if not np.isfinite(lower).all():
        raise ValueError(
            "the kernel has no positive definite covariance at these inputs. Check the kernel. For inputs with several "
            "axes, tinygp's Matern kernels need distance=tinygp.kernels.distance.L2Distance()."
        )
    return lower


def find_mode(matrix: np.ndarray, likelihood: Likelihood, weights: np.ndarray | None = None) -> Mode:
    """Return the mode of N(f; 0, matrix) L(f), by Newton's method from f = matrix @ weights. Default: from f = 0.

    This is Algorithm 3.1 of Rasmussen & Williams (2006), with steps halved until the log-posterior increases. Where the
    pointwise log-likelihood is convex, the site has precision 0.
    """
    weights = np.zeros(len(matrix)) if weights is None else weights
    f = matrix @ weights
    log_posterior = float(likelihood(f)) - 0.5 * weights @ f
    at_zero = float(likelihood(np.zeros_like(f)))
    if not log_posterior > at_zero:  # weights for other hyperparameters can be a bad start
        weights, f, log_posterior = np.zeros_like(f), np.zeros_like(f), at_zero
    for _ in range(MAX_STEPS):
        slope, precision = _derivatives(likelihood.pointwise, f)
        linear = slope + precision * f
        target, _ = _solve(matrix, linear, precision)
        step, gain = target - weights, -np.inf
        for _ in range(MAX_HALVINGS):
            new = weights + step
            f_new = matrix @ new
            gain = float(likelihood(f_new)) - 0.5 * new @ f_new - log_posterior
            if gain > 0:
                break
            step = step / 2
        if not gain > 0:
            break
        weights, f, log_posterior = new, f_new, log_posterior + gain
        if gain < MIN_GAIN:
            break
    slope, precision = _derivatives(likelihood.pointwise, f)
    linear = slope + precision * f
    _, half_log_determinant = _solve(matrix, linear, precision)
    return Mode(weights, linear, precision, float(log_posterior - half_log_determinant))


def find_sites(matrix: np.ndarray, likelihood: Likelihood, weights: np.ndarray | None = None) -> Sites:
    """Return sites by a few sweeps of expectation propagation, from those of the Laplace approximation."""
    lower, mode = lower_factor(matrix), find_mode(matrix, likelihood, weights)
    sites = Sites(mode.linear, mode.precision)
    if isinstance(likelihood, Gaussian):  # the Laplace approximation is exact
        return sites
    try:
        return fit_ep(lower.T, likelihood.pointwise, sites, sweeps=SWEEPS)
    except np.linalg.LinAlgError:  # can happen if the likelihood is not log-concave; any sites are valid
        return sites


def gaussian_from_sites(matrix: np.ndarray, likelihood: Likelihood, sites: Sites) -> GaussianApproximation:
    """Return the prior N(0, matrix) times sites as a Gaussian."""
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
    """Return the weights of the mean K weights given sites, and half the log determinant of I + K diag(precision)."""
    root = np.sqrt(precision)
    lower = cholesky(np.eye(len(matrix)) + root[:, None] * matrix * root, lower=True, overwrite_a=True)
    half = solve_triangular(lower, root * (matrix @ linear), lower=True)
    weights = linear - root * solve_triangular(lower, half, lower=True, trans=1)
    return weights, float(np.log(lower.diagonal()).sum())


def _derivatives(pointwise: Callable[[Any], Any], f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first derivatives of the pointwise log-likelihood, and the negative second ones, at least 0."""
    below, here, above = pointwise(f - DIFFERENCE_STEP), pointwise(f), pointwise(f + DIFFERENCE_STEP)
    return (above - below) / (2 * DIFFERENCE_STEP), np.maximum(-(above - 2 * here + below) / DIFFERENCE_STEP**2, 0.0)
