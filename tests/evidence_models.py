"""Small models whose log marginal likelihood is known by quadrature, for tests and injected bugs."""

from __future__ import annotations

import functools

import numpy as np
import numpyro.distributions as dist
from scipy import special, stats

import ellipslice as es
from ellipslice.latent.terms import IID, RW1, Fixed
from ellipslice.likelihoods import Gaussian
from latent_models import DATA, Y, model
from statistical.monte_carlo import LIMIT

PRIOR, LOG_PRIOR = dist.LogNormal(-0.5, 0.8), stats.norm(-0.5, 0.8).logpdf
GRID = np.linspace(-7.0, 4.0, 111)
"""Values of the logarithm of a standard deviation."""
NODES = np.linspace(-9.0, 9.0, 1801)
LOG_WEIGHTS = stats.norm.logpdf(NODES) + np.log(NODES[1] - NODES[0])
DESIGN = np.column_stack([np.ones(24), DATA["x"]])


def integral(log_density, *grids):
    """Return the log of the integral over regular grids."""
    return special.logsumexp(log_density) + sum(np.log(grid[1] - grid[0]) for grid in grids)


def gaussian(y, covariances):
    """Return the log densities of N(0, covariance) at y, for covariances of shape (..., n, n)."""
    square = (y * np.linalg.solve(covariances, y[:, None])[..., 0]).sum(-1)
    return -0.5 * (square + np.linalg.slogdet(covariances)[1] + len(y) * np.log(2 * np.pi))


def check(found, exact, largest=0.1):
    """Check that log Z is within its error of the exact value, and that the error is small."""
    off = abs(found.log_z - exact)
    assert off < LIMIT * found.standard_error + 1e-6, f"log Z is wrong: {found} but it is {exact:.4f}"
    assert found.standard_error < largest


def walk_covariances():
    """Return the covariances of the fixed effects, and of a walk with sd 1 and a sum of zero, at the 24 responses."""
    differences = np.diff(np.eye(7), axis=0)
    at = np.eye(7)[DATA["t"]]
    return 4.0 * DESIGN @ DESIGN.T, at @ np.linalg.pinv(differences.T @ differences) @ at.T


def walk(family="gaussian", **options):
    """Return a model of Gaussian responses with fixed effects and a random walk with a sum of zero."""
    terms = [Fixed(["1", "x"], sd=2.0), RW1("t", prior=PRIOR, values=np.arange(7), scale_model=False)]
    return model(family, terms, y=Y["gaussian"], **options)


def walk_with_known_noise():
    """Return a model with one hyperparameter, and its log Z."""
    fixed, smooth = walk_covariances()
    covariances = fixed + 0.64 * np.eye(24) + np.exp(2 * GRID)[:, None, None] * smooth
    exact = integral(gaussian(Y["gaussian"], covariances) + LOG_PRIOR(GRID), GRID)
    return walk(functools.partial(Gaussian, noise_scale=0.8)), exact


def independent_groups(log_likelihoods):
    """Return log Z for groups that are independent given their standard deviation, by nested quadrature.

    `log_likelihoods` is a function from effects to the log-likelihoods of all groups, shape (groups, effects).
    """
    values = [special.logsumexp(log_likelihoods(np.exp(a) * NODES) + LOG_WEIGHTS, axis=1).sum() for a in GRID]
    return integral(np.array(values) + LOG_PRIOR(GRID), GRID)


def one_group_of_counts():
    """Return a model of counts of one group, and its log Z. Factorials and the exposure are part of it."""
    y, exposure = np.array([3, 1, 4, 2, 6]), np.array([0.5, 1.0, 1.5, 2.0, 0.8])

    def log_likelihoods(effects):
        return stats.poisson(exposure[:, None] * np.exp(effects)).logpmf(y[:, None]).sum(0)[None]

    terms = [IID(np.zeros(5, int), name="g", prior=PRIOR)]
    counts = es.LatentGaussianModel(y, terms, family="poisson", exposure=exposure)
    return counts, independent_groups(log_likelihoods)
