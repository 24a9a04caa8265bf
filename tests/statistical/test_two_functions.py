"""Unknown hyperparameters of two latent functions, compared with their exact posterior."""

from __future__ import annotations

import jax.numpy as jnp
import jax.scipy.stats
import numpy as np
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from scipy import stats
from tinygp import kernels

import ellipslice as es
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.parameters.variational_sites import fit_variational_sites
from statistical.monte_carlo import SEED, compare

pytestmark = pytest.mark.statistical

RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(0, 6, 25))
Y = np.sin(X) + 0.4 * np.sin(6 * X) + 0.2 * RNG.standard_normal(25)
SIGMA = 0.2
X_NOISY = np.sort(RNG.uniform(0, 10, 60))
Y_NOISY = np.sin(X_NOISY) + np.exp(np.sin(X_NOISY / 2) - 2) * RNG.standard_normal(60)
SMOOTH, ROUGH = kernels.ExpSquared(1.5), kernels.Matern32(0.3)


def their_sum(y):
    """Only the sum of the functions is well determined, so independent sites are poor.

    The posterior must be exact anyway.
    """
    return lambda smooth, rough: jax.scipy.stats.norm.logpdf(y, smooth + rough, SIGMA).sum()


MODEL = es.gp.LatentGP(
    {"smooth": lambda a: a**2 * SMOOTH, "rough": lambda b: b**2 * ROUGH},
    their_sum,
    parameters={"a": dist.LogNormal(0.0, 1.0), "b": dist.LogNormal(-1.0, 1.0)},
)


def functions(a, b):
    return np.stack([a, b, a * a, a * b, b * b], -1)


def posterior_on_a_grid():
    a, b = np.linspace(-3, 4, 71), np.linspace(-5, 3, 81)
    matrices = [np.asarray(kernel(X, X)) for kernel in (SMOOTH, ROUGH)]
    logs = np.empty((len(a), len(b)))
    for i, one in enumerate(a):
        for j, two in enumerate(b):
            covariance = np.exp(2 * one) * matrices[0] + np.exp(2 * two) * matrices[1] + SIGMA**2 * np.eye(len(X))
            logs[i, j] = stats.multivariate_normal.logpdf(Y, cov=covariance)
    logs += stats.norm.logpdf(a)[:, None] + stats.norm.logpdf(b, -1)
    weights = np.exp(logs - logs.max())
    return (weights[..., None] * functions(*np.broadcast_arrays(a[:, None], b))).sum((0, 1)) / weights.sum()


@pytest.mark.long
def test_the_sum_of_two_functions():
    fit = MODEL.fit(X, Y, draws=1500, seed=SEED, progress=False)
    drawn = functions(*(np.log(fit.tree["posterior"][name].values) for name in "ab"))
    compare(drawn, posterior_on_a_grid(), "amplitudes of two functions")


@pytest.mark.long
def test_noise_that_changes_moves_well():
    """Without sites for several functions, the effective sample size of 4,000 draws was 20."""

    def changing_noise(y):
        return lambda mean, noise: jax.scipy.stats.norm.logpdf(y, mean, jnp.exp(noise)).sum()

    model = es.gp.LatentGP(
        {"mean": lambda a, s: a**2 * kernels.Matern52(s), "noise": lambda b, t: b**2 * kernels.ExpSquared(t)},
        changing_noise,
        mean={"mean": 0.0, "noise": -1.0},
        parameters={name: dist.LogNormal(0.5, 1.0) for name in "asbt"},
    )
    fit = model.fit(X_NOISY, Y_NOISY, draws=500, seed=SEED, progress=False)
    assert fit.tree.attrs["parameter_moves"].startswith("sites")
    drawn = np.stack([np.log(fit.tree["posterior"][name].values) for name in "asbt"])
    sizes = [array_stats.ess(one, chain_axis=0, draw_axis=1) for one in drawn]
    assert min(sizes) > 100, sizes


# --- the sites themselves ------------------------------------------------------------------------------------


def likelihood_of(function):
    model = es.gp.LatentGP({"one": lambda a: a**2 * SMOOTH, "two": ROUGH}, function, parameters={"a": dist.Normal()})
    model.joint.factors.probe(X)
    return model.joint, PointLikelihood(model.likelihood, model.joint, Y, len(X))


def sites_of(function):
    joint, likelihood = likelihood_of(function)
    u = np.array([1.0])
    return fit_variational_sites(*joint.factors.at(u, X), likelihood, u)


@pytest.mark.long
def test_gaussian_noise_of_each_is_its_own_site():
    sites, f = sites_of(lambda y: lambda one, two: -0.5 * ((y - one) ** 2 / 0.3 + (two - 2) ** 2 / 0.1).sum())
    np.testing.assert_allclose(sites.precision, np.repeat([[1 / 0.3], [10.0]], len(X), 1), rtol=1e-9)
    np.testing.assert_allclose(sites.linear, [Y / 0.3, np.full(len(X), 20.0)], rtol=1e-9, atol=1e-9)
    covariance = np.exp(-0.5 * ((X[:, None] - X) / 1.5) ** 2)
    exact = covariance @ np.linalg.solve(covariance + 0.3 * np.eye(len(X)), Y)
    np.testing.assert_allclose(f[0], exact, rtol=1e-6, atol=1e-8)


@pytest.mark.long
def test_counts_of_each_are_those_of_each_alone():
    """The likelihood has one term for each function, so the sites of one do not depend on the other."""
    both, _ = sites_of(lambda y: lambda one, two: (one - jnp.exp(one)).sum() + (2 * two - jnp.exp(two)).sum())
    other, _ = sites_of(lambda y: lambda one, two: (one - jnp.exp(one)).sum() - 3 * (two**2).sum())
    np.testing.assert_allclose(both.precision[0], other.precision[0], rtol=0.02)


@pytest.mark.long
def test_what_is_no_sum_over_the_inputs():
    found = sites_of(lambda y: lambda one, two: -((one.sum() - two.sum()) ** 2))
    assert found == "it does not factorise over the inputs"
    assert "trace" in str(sites_of(lambda y: lambda one, two: float(np.sum(np.asarray(one)))))
