"""Newton's method, the Laplace approximation, expectation propagation and sites, against dense and numerical answers.

Draws are exact for any of them, but slow if they are wrong.
"""

from __future__ import annotations

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import integrate, linalg, optimize, stats

from ellipslice import LatentGaussianModel
from ellipslice.latent.mode import LaplaceMarginal, find_marginal_mode
from ellipslice.latent.newton import expand, find_mode, first_predictor
from ellipslice.latent.propagation import propagate
from ellipslice.latent.scales import Scales
from ellipslice.latent.sites import InterpolatedSites
from ellipslice.latent.student import StudentT
from ellipslice.latent.terms import IID, RW1, Fixed, pc_prior
from latent_models import MODELS, SD, Dense, log_det, model, some_u, wrong_sites

EVERY = pytest.mark.parametrize("name", MODELS)


@EVERY
def test_mode_of_the_latents(name):
    """Newton's mode is the maximum that SciPy finds on {C x = 0}."""
    posterior = MODELS[name].definition.posterior
    u = some_u(posterior)
    at, dense = posterior.at(u), Dense(posterior, u, wrong_sites(posterior))
    mode = find_mode(posterior, at, first_predictor(at.likelihood, dense.offset))

    def loss(t):
        x = dense.inside @ t
        return 0.5 * x @ dense.Q @ x - float(at.likelihood(dense.A @ x + dense.offset))

    def gradient(t):
        x = dense.inside @ t
        return dense.inside.T @ (dense.Q @ x - dense.A.T @ at.likelihood.slope(dense.A @ x + dense.offset))

    start = np.zeros(dense.inside.shape[1])
    found = optimize.minimize(loss, start, jac=gradient, method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(mode.eta, dense.A @ dense.inside @ found.x + dense.offset, atol=1e-3)
    np.testing.assert_allclose(mode.reference.mean, dense.inside @ found.x, atol=1e-3)


@EVERY
def test_laplace_log_density(name):
    """log p(u, x, y) - log q(x | u) at the mode, by dense determinants."""
    posterior = MODELS[name].definition.posterior
    u = some_u(posterior)
    at = posterior.at(u)
    mode = find_mode(posterior, at, first_predictor(at.likelihood, posterior.assembly.offset))
    dense = Dense(posterior, u, mode.sites)
    x = mode.reference.mean
    expected = posterior.hyperparameters.at(u).log_density + dense.log_prior(x) - 0.5 * log_det(dense.precision)
    expected += float(at.likelihood(dense.A @ x + dense.offset))
    assert mode.log_density == pytest.approx(expected, abs=1e-6)


def test_laplace_is_exact_for_gaussian_noise():
    """The marginal density of u is that of a Gaussian response, up to the same constant for all u."""
    chosen = model("gaussian", [Fixed(["1", "x"], sd=2.0), IID("g", prior=SD)])
    posterior, y = chosen.definition.posterior, chosen.definition.y
    differences = []
    for seed in range(4):
        u = some_u(posterior, seed)
        values, at = posterior.hyperparameters.at(u), posterior.at(u)
        mode = find_mode(posterior, at, np.zeros(len(y)))
        A = posterior.assembly.A.toarray()
        prior = linalg.block_diag(4.0 * np.eye(2), values.of_terms[1]["sd"] ** 2 * np.eye(4))
        covariance = A @ prior @ A.T + values.of_family["noise_scale"] ** 2 * np.eye(len(y))
        exact = stats.multivariate_normal(np.zeros(len(y)), covariance).logpdf(y) + values.log_density
        differences.append(mode.log_density - exact)
    np.testing.assert_allclose(differences, differences[0], atol=1e-7)


def test_mode_of_the_hyperparameters():
    posterior = MODELS["flat fixed effects"].definition.posterior
    found = find_marginal_mode(posterior)
    marginal = LaplaceMarginal(posterior, found.latents.eta)
    other = optimize.minimize(marginal, found.u, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-8})
    np.testing.assert_allclose(found.u, other.x, atol=0.02)
    assert marginal(found.u) - other.fun < 1e-3
    values = np.linalg.eigvalsh(found.covariance)
    assert 0 < values.min() <= values.max() <= 9 + 1e-9  # the largest variance is 9


def far_from_the_start(family, seed):
    """Return a posterior whose shape is far from its prior median, so that first steps lead too far."""
    rng, shape, g = np.random.default_rng(seed), {"gamma": 0.02, "weibull": 30.0}[family], np.repeat(np.arange(10), 6)
    x = rng.standard_normal(60)
    eta = 0.5 * x + rng.normal(0, 0.5, 10)[g]
    if family == "gamma":
        y, options = np.maximum(rng.gamma(shape, np.exp(eta) / shape), 1e-300), {}
    else:
        times, ends = np.exp(-eta / shape) * rng.weibull(shape, 60), np.exp(np.linspace(-1.0, 2.0, 60))
        y, options = np.minimum(times, ends), {"known": {"event": 1.0 * (times <= ends)}}
    terms = [Fixed(["1", "x"], sd=1.0), IID("g", prior=pc_prior(1.0, 0.05))]
    return LatentGaussianModel(y, terms, data={"x": x, "g": g}, family=family, **options).definition.posterior


@pytest.mark.parametrize(("family", "seed"), [("gamma", 0), ("weibull", 16)])
def test_the_mode_is_found_from_far_away(family, seed):
    """Without a scale of the first step, or from the mode of the latents at the last u, the search ends elsewhere."""
    posterior = far_from_the_start(family, seed)
    found = find_marginal_mode(posterior)
    marginal = LaplaceMarginal(posterior, found.latents.eta)
    np.testing.assert_allclose(marginal.gradient(found.u), 0.0, atol=0.05)


def test_gradient_and_curvature_of_the_laplace_marginal():
    """Central differences, against a quadratic."""
    H = np.array([[2.0, 0.5], [0.5, 1.0]])

    class Quadratic(LaplaceMarginal):
        def __init__(self):
            pass

        def __call__(self, u):
            return float(0.5 * u @ H @ u + u[0])

    np.testing.assert_allclose(Quadratic().gradient(np.array([1.0, -1.0])), [2.5, -0.5], atol=1e-8)
    np.testing.assert_allclose(Quadratic().curvature(np.array([0.3, 0.2])), H, atol=1e-8)


# --- expectation propagation ------------------------------------------------------------------------------------------


ONE = [("poisson", 4.0, {"exposure": 2.0}), ("bernoulli", 1.0, {}), ("binomial", 2.0, {"trials": 5})]


@pytest.mark.parametrize(("family", "y", "options"), ONE)
def test_propagation_of_one_observation_is_exact(family, y, options):
    """Mean and variance of the linear predictor are those of quadrature."""
    chosen = LatentGaussianModel([y], [Fixed(np.ones((1, 1)), sd=1.3)], family=family, offset=[0.4], **options)
    posterior = chosen.definition.posterior
    at = posterior.at(np.zeros(0))
    mode = find_mode(posterior, at, posterior.assembly.offset)
    found = propagate(posterior, at, mode.sites)
    reference = posterior.reference(at, found.sites)

    def density(x, power):
        return x**power * stats.norm(0, 1.3).pdf(x) * np.exp(float(at.likelihood(np.array([x + 0.4]))))

    total, first, second = (integrate.quad(density, -12, 12, args=(power,), epsabs=1e-13)[0] for power in range(3))
    assert reference.mean[0] == pytest.approx(first / total, abs=2e-3)
    assert reference.variances()[0] == pytest.approx(second / total - (first / total) ** 2, rel=5e-3)
    assert found.eta[0] == pytest.approx(first / total + 0.4, abs=5e-3)


def test_propagation_of_gaussian_noise_is_exact():
    """Sites are those of the likelihood, with precision 1 / noise_scale^2."""
    posterior = MODELS["two components"].definition.posterior
    u = some_u(posterior)
    at = posterior.at(u)
    found = propagate(posterior, at, wrong_sites(posterior))
    scale, y = posterior.hyperparameters.at(u).of_family["noise_scale"], MODELS["two components"].definition.y
    np.testing.assert_allclose(found.sites.precision, scale**-2, rtol=2e-3)
    np.testing.assert_allclose(found.sites.linear, (y - posterior.assembly.offset) / scale**2, atol=5e-3)


@EVERY
def test_moments_of_propagation_are_those_of_the_tilted_marginals(name):
    """At the fixed point every marginal has the moments of the marginal times the likelihood over its site."""
    posterior = MODELS[name].definition.posterior
    at = posterior.at(some_u(posterior))
    mode = find_mode(posterior, at, first_predictor(at.likelihood, posterior.assembly.offset))
    sites = propagate(posterior, at, mode.sites).sites
    reference = posterior.reference(at, sites)
    means, variances = posterior.assembly.A @ reference.mean, reference.variances()
    grid = np.linspace(-7, 7, 4001)
    for row in (0, len(means) // 2, len(means) - 1):
        e = means[row] + np.sqrt(variances[row]) * grid
        eta = np.repeat(means[:, None] + posterior.assembly.offset[:, None], len(e), axis=1)
        eta[row] = e + posterior.assembly.offset[row]
        log_weights = at.likelihood.pointwise(eta.T)[:, row] - (sites.linear[row] - 0.5 * sites.precision[row] * e) * e
        weights = np.exp(log_weights - log_weights.max() - grid**2 / 2)
        mean = (weights @ e) / weights.sum()
        variance = weights @ (e - mean) ** 2 / weights.sum()
        assert mean == pytest.approx(means[row], abs=5e-3 * np.sqrt(variances[row]))
        assert variance == pytest.approx(variances[row], rel=1e-2)


# --- sites between anchors --------------------------------------------------------------------------------------------


def student(posterior, sd):
    """Return t distributions on the unconstrained scale, with one standard deviation."""
    size = posterior.hyperparameters.size
    scales = Scales.of(posterior.hyperparameters.parameters.priors.values(), own=False)
    return StudentT(scales, np.zeros(size), sd * np.eye(size))


def test_sites_at_an_anchor_are_its_own():
    posterior = MODELS["constraints and a trend"].definition.posterior
    ats = [posterior.at(some_u(posterior, seed)) for seed in range(3)]
    own = [wrong_sites(posterior, seed) for seed in range(3)]
    found = list(zip(ats, own, strict=True))
    sites = InterpolatedSites.between(found, student(posterior, 0.02), posterior.assembly.offset, None)
    sites = sites._replace(width=1.0)
    for at, expected in zip(ats, own, strict=True):
        np.testing.assert_allclose(sites(at).precision, expected.precision, rtol=1e-9)
        np.testing.assert_allclose(sites(at).linear, expected.linear, rtol=1e-9)


def test_sites_between_two_anchors_are_averages():
    posterior = MODELS["constraints and a trend"].definition.posterior
    ends = [some_u(posterior, 0), some_u(posterior, 1)]
    own = [wrong_sites(posterior, 0), wrong_sites(posterior, 1)]
    found = [(posterior.at(u), each) for u, each in zip(ends, own, strict=True)]
    sites = InterpolatedSites.between(found, student(posterior, 1.0), posterior.assembly.offset, None)
    middle = sites(posterior.at((ends[0] + ends[1]) / 2))
    np.testing.assert_allclose(middle.precision, (own[0].precision + own[1].precision) / 2)
    np.testing.assert_allclose(middle.linear, (own[0].linear + own[1].linear) / 2)


@pytest.mark.parametrize("anchors", [1, 3])
def test_sites_of_gaussian_noise_are_exact_everywhere(anchors):
    """Sites that were fitted for some noise scales fit for another one."""
    posterior = MODELS["two components"].definition.posterior
    offset, y = posterior.assembly.offset, MODELS["two components"].definition.y
    ats = [posterior.at(some_u(posterior, seed)) for seed in range(anchors)]
    eta = np.random.default_rng(0).standard_normal(len(y))
    found = [(at, expand(at.likelihood, y, offset)) for at in ats]
    sites = InterpolatedSites.between(found, student(posterior, 1.0), offset, eta)(
        posterior.at(np.array([0.1, -2.0, 1.7]))
    )
    scale = posterior.hyperparameters.at(np.array([0.1, -2.0, 1.7])).of_family["noise_scale"]
    np.testing.assert_allclose(sites.precision, scale**-2, rtol=1e-9)
    np.testing.assert_allclose(sites.linear, (y - offset) / scale**2, rtol=1e-9)


def test_sites_far_from_all_anchors_are_finite_and_positive():
    chosen = model("negative_binomial", [Fixed("1"), RW1("t", prior=SD)], priors={"dispersion": dist.LogNormal(0, 1)})
    posterior = chosen.definition.posterior
    found = [(posterior.at(u), expand(posterior.at(u).likelihood, np.zeros(24), np.zeros(24))) for u in np.eye(2)]
    sites = InterpolatedSites.between(found, student(posterior, 0.2), np.zeros(24), np.zeros(24))
    for u in ([-39.0, 39.0], [39.0, -39.0], [0.0, 39.0], [0.0, -39.0]):
        for part in sites(posterior.at(np.array(u))):
            assert np.isfinite(part).all()
        assert (sites(posterior.at(np.array(u))).precision > 0).all()
