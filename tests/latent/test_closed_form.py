"""Whole fits, with pilot runs, against posteriors that are known by dense algebra and quadrature."""

from __future__ import annotations

import functools

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import special, stats

from ellipslice import LatentGaussianModel
from ellipslice.latent.terms import IID, RW1, Fixed
from ellipslice.likelihoods import Gaussian
from latent_models import DATA, Y
from statistical.monte_carlo import SEED, compare, compare_gaussian

pytestmark = pytest.mark.statistical

GRID = np.linspace(-5.5, 3.0, 341)
"""Values of log sd."""
PRIOR = dist.LogNormal(-0.5, 0.8)
LOG_PRIOR = stats.norm(-0.5, 0.8).logpdf(GRID)
KNOWN = functools.partial(Gaussian, noise_scale=0.8)
DESIGN = np.column_stack([np.ones(24), DATA["x"]])
GROUPS = (DATA["g"][:, None] == np.array(list("pqrs"))).astype(float)


def fit(model, draws=500):
    return model.fit(draws=draws, warmup=100, seed=SEED + 7, progress=False).tree.posterior


def moments(log_density, values):
    """Return mean and variance of a quantity over the grid of log sd, weighted by a density."""
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = weights @ values
    return mean, weights @ (values - mean) ** 2


def test_regression_without_hyperparameters():
    """The posterior is Gaussian. The reference is exact, so draws are independent but for the rotation."""
    y = Y["gaussian"]
    model = LatentGaussianModel(y, [Fixed(["1", "x"], sd=[2.0, 0.5])], data=DATA, family=KNOWN)
    covariance = np.linalg.inv(np.diag([0.25, 4.0]) + DESIGN.T @ DESIGN / 0.64)
    mean = covariance @ DESIGN.T @ y / 0.64
    compare_gaussian(fit(model).fixed.values, mean, covariance, "coefficients")


def test_gaussian_response_with_one_hyperparameter():
    """The marginal likelihood of the standard deviation is Gaussian; the rest is an average over a grid."""
    y = Y["gaussian"]
    terms = [Fixed(["1", "x"], sd=2.0), IID("g", prior=PRIOR)]
    posterior = fit(LatentGaussianModel(y, terms, data=DATA, family=KNOWN))
    A = np.hstack([DESIGN, GROUPS])
    log_density, means, seconds = [], [], []
    for log_sd, log_prior in zip(GRID, LOG_PRIOR, strict=True):
        prior = np.diag([4.0, 4.0, *[np.exp(2 * log_sd)] * 4])
        marginal = A @ prior @ A.T + 0.64 * np.eye(24)
        log_density.append(stats.multivariate_normal(np.zeros(24), marginal).logpdf(y) + log_prior)
        gain = prior @ A.T @ np.linalg.inv(marginal)
        means.append(gain @ y)
        seconds.append(means[-1] ** 2 + (prior - gain @ A @ prior).diagonal())
    weights = np.exp(np.array(log_density) - max(log_density))
    weights /= weights.sum()
    x = np.concatenate([posterior.fixed.values, posterior.g.values], axis=2)
    compare(x, weights @ np.array(means), "means")
    compare(x**2, weights @ np.array(seconds), "squares")
    logs = np.log(posterior.g_sd.values)[..., None]
    mean, variance = moments(np.array(log_density), GRID)
    compare(logs, [mean], "log sd")
    compare((logs - mean) ** 2, [variance], "variance of log sd")


NODES = np.linspace(-8.0, 8.0, 1601)
WEIGHTS = stats.norm.pdf(NODES)


def independent_groups(log_likelihoods):
    """Return the log density of log sd for groups that are independent given it.

    `log_likelihoods` is a function from effects to the log-likelihoods of all groups, shape (groups, effects).
    """
    values = [special.logsumexp(log_likelihoods(np.exp(log_sd) * NODES), b=WEIGHTS, axis=1).sum() for log_sd in GRID]
    return np.array(values) + LOG_PRIOR


@pytest.mark.long
@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_groups_with_quadrature(family):
    """Independent groups have an integral over one effect each. Binary responses identify the sd weakly."""
    groups = np.repeat(np.arange(8), 3)
    sums = np.array([0, 3, 1, 3, 0, 2, 3, 0]) if family == "bernoulli" else np.array([0, 9, 2, 4, 1, 3, 14, 5])
    y = np.array([[s // 3 + (i < s % 3) for i in range(3)] for s in sums]).ravel()
    assert (np.bincount(groups, y) == sums).all()

    def log_likelihoods(effects):
        if family == "bernoulli":
            return sums[:, None] * effects - 3 * np.logaddexp(0.0, effects)
        return sums[:, None] * effects - 3 * np.exp(effects)

    posterior = fit(LatentGaussianModel(y, [IID(groups, name="g", prior=PRIOR)], family=family), draws=1500)
    log_density = independent_groups(log_likelihoods)
    mean, variance = moments(log_density, GRID)
    logs = np.log(posterior.g_sd.values)[..., None]
    compare(logs, [mean], "log sd")
    compare((logs - mean) ** 2, [variance], "variance of log sd")
    roots, _ = moments(log_density, np.abs(GRID - mean) ** 0.5)
    compare(np.abs(logs - mean) ** 0.5, [roots], "tails")


@pytest.mark.long
def test_a_constrained_walk_by_brute_force():
    """Three positions and a constraint: the integral is over a grid of log sd and of two directions."""
    t, y = np.array([0, 0, 1, 1, 2, 2]), np.array([3, 1, 0, 1, 6, 4])
    prior = dist.LogNormal(-0.5, 0.8)
    model = LatentGaussianModel(y, [RW1(t, name="t", prior=prior, scale_model=False)], family="poisson")
    posterior = fit(model, draws=1500)
    directions = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
    grid, logs = np.linspace(-5.0, 5.0, 161), np.linspace(-5.0, 3.0, 161)
    a, b = (each.ravel() for each in np.meshgrid(grid, grid))
    x = np.stack([a, b], axis=1) @ directions
    log_likelihood = np.array([x[:, t] @ y]).sum(0) - np.exp(x[:, t]).sum(1)
    square = np.diff(x, axis=1) ** 2
    log_density = (
        log_likelihood - 0.5 * square.sum(1) * np.exp(-2 * logs[:, None]) - 2 * logs[:, None]
        + stats.norm(-0.5, 0.8).logpdf(logs)[:, None]
    )  # fmt: skip
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    compare(posterior.t.values, weights.sum(0) @ x, "means")
    compare(posterior.t.values**2, weights.sum(0) @ x**2, "squares")
    found = np.log(posterior.t_sd.values)[..., None]
    mean = weights.sum(1) @ logs
    compare(found, [mean], "log sd")
    compare((found - mean) ** 2, [weights.sum(1) @ (logs - mean) ** 2], "variance of log sd")
