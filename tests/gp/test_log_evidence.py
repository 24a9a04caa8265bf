"""`Fit.log_evidence` of `LatentGP` against dense algebra and quadrature, with all constants."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from sklearn.gaussian_process import kernels as sklearn_kernels
from tinygp import kernels
from tinygp.kernels import quasisep

import ellipslice as es
from ellipslice.approximations.sites import Sites
from ellipslice.bridge.proposal import Proposal
from ellipslice.gp.log_evidence import Weights
from ellipslice.gp.problem import problem_of
from ellipslice.parameters.sites import SiteInterpolator
from evidence_models import check, gaussian, integral
from statistical.monte_carlo import SEED

pytestmark = pytest.mark.statistical

X = np.linspace(0.0, 5.0, 12)
Y = np.sin(X) + 0.4 * np.random.default_rng(3).standard_normal(12)
DISTANCE = np.sqrt(5) * np.abs(X[:, None] - X) / 1.2
CORRELATION = (1 + DISTANCE + DISTANCE**2 / 3) * np.exp(-DISTANCE)
PRIORS = {"amplitude": dist.LogNormal(0.0, 1.0), "noise": dist.HalfNormal(1.0)}


def matern(amplitude):
    return amplitude**2 * kernels.Matern52(1.2)


def noisy(y, noise):
    return es.likelihoods.Gaussian(y, noise)


def log_prior(a, b):
    """Return the log density of the logarithms of amplitude and noise."""
    return stats.norm.logpdf(a) + stats.halfnorm.logpdf(np.exp(b)) + b


# --- the weights ------------------------------------------------------------------------------------------------------


def sklearn_matern(amplitude):
    return sklearn_kernels.ConstantKernel(amplitude**2) * sklearn_kernels.Matern(1.2, nu=2.5)


@pytest.mark.parametrize("kernel", [matern, sklearn_matern])
def test_weights_are_the_dense_ones(kernel):
    """At any point and for any sites: log p(u) + log p(f | u) + log p(y | f, u) - log q(f | u), with every constant."""
    rng = np.random.default_rng(SEED)
    linear, precision, origin = rng.standard_normal(12), rng.uniform(0.1, 3.0, 12), rng.standard_normal(12)
    sites = SiteInterpolator.constant(Sites(linear[None], precision[None], origin[None]), 2)
    model = es.gp.LatentGP(kernel, noisy, mean=0.3, parameters=PRIORS)
    weights = Weights(problem_of(model, X, Y).joint, sites, None)
    u, f = 0.3 * rng.standard_normal((3, 2)), 0.3 + rng.standard_normal((3, 1, 12))
    for (a, b), h, found in zip(u, f[:, 0] - 0.3, weights.of_rows(weights.at, u, f), strict=True):
        prior = np.exp(2 * a) * CORRELATION
        covariance = np.linalg.inv(np.linalg.inv(prior) + np.diag(precision))
        mean = covariance @ (linear + precision * (origin - 0.3))
        likelihood = stats.norm(h + 0.3, np.exp(b)).logpdf(Y).sum()
        expected = log_prior(a, b) + gaussian(h, prior) + likelihood - gaussian(h - mean, covariance)
        assert found == pytest.approx(expected, abs=1e-5)


def fitted_weights(kernel, x, y):
    """Return weights with fitted sites, and values of the hyperparameters."""
    u = 0.3 * np.random.default_rng(SEED + 1).standard_normal((60, 2))
    model = es.gp.LatentGP(kernel, noisy, parameters=PRIORS)
    return Weights.fitted(problem_of(model, x, y).joint, u, Proposal.fitted(model.parameters, u)), u


@pytest.mark.long
def test_draws_of_the_proposal():
    """For Gaussian noise the sites are exact, so that the weight is p(y | u) p(u) at every draw."""
    weights, u = fitted_weights(matern, X, Y)
    found = weights.of_rows(weights.at_noise, u, np.random.default_rng(0).standard_normal((60, 1, 12)))
    noise = np.exp(2 * u[:, 1])[:, None, None] * np.eye(12)
    expected = gaussian(Y, np.exp(2 * u[:, 0])[:, None, None] * CORRELATION + noise) + log_prior(*u.T)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.long
def test_low_rank_factors_do_not_change_the_weights():
    x = np.linspace(0.0, 5.0, 220)
    y = np.sin(x) + 0.4 * np.random.default_rng(4).standard_normal(220)
    weights, u = fitted_weights(lambda amplitude: amplitude**2 * kernels.ExpSquared(2.0), x, y)
    assert weights.pivots is not None
    eta = np.random.default_rng(5).standard_normal((6, 1, 220))
    full = weights._replace(pivots=None)
    for one, other in ((weights, full), (full, weights)):
        found = one.of_rows(one.at_noise, u[:6], eta)
        np.testing.assert_allclose(found, other.of_rows(other.at_noise, u[:6], eta), atol=1e-5)


# --- whole fits -------------------------------------------------------------------------------------------------------


def fit_of(model, x, y, seed):
    return model.fit(x, y, draws=600, warmup=100, seed=SEED + seed, progress=False)


@pytest.mark.long
def test_gaussian_noise_with_two_hyperparameters(short_pilots):
    fit = fit_of(es.gp.LatentGP(matern, noisy, parameters=PRIORS), X, Y, 1)
    a, b = np.linspace(-5.0, 5.0, 121), np.linspace(-4.0, 1.8, 121)
    rest = np.exp(2 * b)[:, None, None] * np.eye(12)
    log_density = [gaussian(Y, rest + np.exp(2 * one) * CORRELATION) + log_prior(one, b) for one in a]
    exact = integral(log_density, a, b)
    found = fit.log_evidence(1200)
    check(found, exact, 0.05)
    assert found == fit.log_evidence(1200)
    assert fit.log_evidence(1200, seed=1).log_z != found.log_z


@pytest.mark.long
def test_counts_at_two_inputs(short_pilots):
    """The integral is over a grid of the amplitude and of both values of f. Factorials are part of it."""
    x, y = np.array([0.0, 1.0]), np.array([4, 1])
    model = es.gp.LatentGP(matern, es.likelihoods.Poisson, mean=0.5, parameters={"amplitude": dist.LogNormal(0.0, 0.7)})
    distance = np.sqrt(5) / 1.2
    rho = (1 + distance + distance**2 / 3) * np.exp(-distance)
    root = np.linalg.cholesky([[1.0, rho], [rho, 1.0]])
    z, a = np.linspace(-8.0, 8.0, 161), np.linspace(-4.0, 3.5, 121)
    white = np.stack(np.meshgrid(z, z, indexing="ij"), -1)
    values = []
    for one in a:
        f = 0.5 + np.exp(one) * white @ root.T
        likelihood = stats.poisson(np.exp(np.minimum(f, 600.0))).logpmf(y).sum(-1)
        values.append(integral(likelihood + stats.norm.logpdf(white).sum(-1), z, z))
    exact = integral(np.array(values) + stats.norm(0.0, 0.7).logpdf(a), a)
    check(fit_of(model, x, y, 2).log_evidence(1200), exact, 0.05)


@pytest.mark.long
def test_two_latent_functions(short_pilots):
    """Sites of two functions are an approximation, here of a Gaussian likelihood of their sum."""

    def likelihood(y, noise):
        return lambda f, g: -0.5 * jnp.sum(((y - f - g) / noise) ** 2) - y.size * jnp.log(noise * jnp.sqrt(2 * jnp.pi))

    model = es.gp.LatentGP({"f": matern, "g": kernels.Constant(0.5)}, likelihood, parameters=PRIORS)
    fit = fit_of(model, X, Y, 3)
    a, b = np.linspace(-5.0, 5.0, 121), np.linspace(-4.0, 1.8, 121)
    rest = 0.5 + np.exp(2 * b)[:, None, None] * np.eye(12)
    log_density = [gaussian(Y, rest + np.exp(2 * one) * CORRELATION) + log_prior(one, b) for one in a]
    found = fit.log_evidence(1200)
    check(found, integral(log_density, a, b), 0.2)


# --- fits without an estimate -----------------------------------------------------------------------------------------


def test_known_hyperparameters_and_few_draws_raise():
    options = {"draws": 40, "chains": 2, "warmup": 1, "engine": "host", "seed": 1, "progress": False}
    known = es.gp.LatentGP(kernels.Matern52(1.2), es.likelihoods.Poisson).fit(X, np.ones(12), **options)
    with pytest.raises(ValueError, match=r"no unknown hyperparameters .* Use es\.evidence"):
        known.log_evidence()
    unknown = es.gp.Fit(es.gp.LatentGP(matern, noisy, parameters=PRIORS), X, Y, known.tree)
    with pytest.raises(ValueError, match=r"the chains of the fit have 40 draws each, but .* requires at least 100"):
        unknown.log_evidence()
    with pytest.raises(ValueError, match="draws must be at least 100, but it is 50"):
        unknown.log_evidence(50)


def test_a_likelihood_without_sites_raises():
    def of_neighbours(y):
        return lambda f: -0.5 * jnp.sum((y - f) ** 2) - jnp.sum(f[1:] * f[:-1]) ** 2

    model = es.gp.LatentGP(matern, of_neighbours, parameters={"amplitude": dist.LogNormal(0.0, 0.7)})
    u = 0.3 * np.random.default_rng(0).standard_normal((40, 1))
    with pytest.raises(ValueError, match=r"factorises over the elements of f, but .* Use es\.evidence"):
        Weights.fitted(problem_of(model, X, Y).joint, u, Proposal.fitted(model.parameters, u))


@pytest.mark.long
def test_a_long_time_series():
    """More than 100 times with a quasi-separable kernel have another sampler, and an unknown mean among its latents."""
    x = np.linspace(0.0, 20.0, 130)
    y = 0.5 + np.sin(x) + 0.4 * np.random.default_rng(6).standard_normal(130)
    priors = {"amplitude": dist.LogNormal(0.0, 1.0), "noise": dist.HalfNormal(1.0), "level": dist.Normal(0.2, 0.7)}
    model = es.gp.LatentGP(
        lambda amplitude: quasisep.Matern32(1.2, sigma=amplitude), noisy, mean=lambda level: level, parameters=priors
    )
    fit = fit_of(model, x, y, 9)
    distance = np.sqrt(3) * np.abs(x[:, None] - x) / 1.2
    a, b = np.linspace(-2.0, 2.0, 61), np.linspace(-2.0, 0.5, 61)
    smooth = np.exp(2 * a)[:, None, None, None] * (1 + distance) * np.exp(-distance)
    covariances = smooth + np.exp(2 * b)[:, None, None] * np.eye(130) + 0.49
    exact = integral(gaussian(y - 0.2, covariances) + log_prior(a[:, None], b), a, b)
    check(fit.log_evidence(seed=1), exact)
