"""Unknown hyperparameters compared with their exact posterior: with Gaussian noise f integrates out, on a grid."""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from tinygp import kernels

import ellipslice as es
from ellipslice.approximations.sites import Sites
from ellipslice.jax_settings import on_cpu
from ellipslice.parameters import factor
from ellipslice.parameters.conditioned_noise import ConditionedNoise
from ellipslice.parameters.joint import JointPrior
from ellipslice.parameters.joint_update import JointUpdate
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.parameters.sites import SiteInterpolator
from ellipslice.parameters.update_settings import JointSettings, ParameterGaussian, Step
from statistical.monte_carlo import SEED, compare

pytestmark = pytest.mark.statistical

X = np.array([0.0, 0.4, 1.0, 1.3, 2.1])
Y = np.array([0.9, 0.2, -0.8, -1.4, 0.3])
SIGMA = 0.4
WAYS = ("whitened", "sites", "surrogate", "fixed_latent")


def kernel(amplitude, scale):
    return amplitude**2 * kernels.Matern32(scale)


PRIORS = {"amplitude": dist.LogNormal(0.0, 0.7), "scale": dist.HalfNormal(1.2)}
UNKNOWN_NOISE = es.gp.LatentGP(
    kernel, es.likelihoods.Gaussian, mean=0.1, parameters=PRIORS | {"noise_scale": dist.LogNormal(-1.0, 0.5)}
)
KNOWN_NOISE = es.gp.LatentGP(kernel, lambda y: es.likelihoods.Gaussian(y, SIGMA), mean=0.1, parameters=PRIORS)


def posterior_on_a_grid(log_noise=None):
    """Return the exact means of log amplitude, log scale, their squares and product, of log sigma and its square."""
    a, s = np.linspace(-3.5, 3.5, 141), np.linspace(-6, 3, 161)
    noises = [math.log(SIGMA)] if log_noise is None else log_noise
    lag = np.abs(X[:, None] - X)
    logs, points = [], []
    for n in noises:
        for one in s:
            r = math.sqrt(3) * lag / math.exp(one)
            correlation = (1 + r) * np.exp(-r)
            values, vectors = np.linalg.eigh(correlation)
            turned = (Y - 0.1) @ vectors
            variance = np.exp(2 * a)[:, None] * values + math.exp(2 * n)
            log_l = -0.5 * (turned**2 / variance + np.log(2 * np.pi * variance)).sum(1)
            log_p = stats.norm.logpdf(a, 0, 0.7) + stats.halfnorm.logpdf(math.exp(one), scale=1.2) + one
            log_p = log_p + (stats.norm.logpdf(n, -1, 0.5) if log_noise is not None else 0.0)
            logs.append(log_l + log_p)
            points.append(np.stack([a, np.full_like(a, one), np.full_like(a, n)], 1))
    weights, points = np.exp(np.concatenate(logs) - np.max(logs)), np.concatenate(points)
    weights /= weights.sum()
    return weights @ np.stack(functions(*points.T), 1)


def functions(a, s, n):
    return [a, s, a * a, s * s, a * s, n, n * n]


@cache
def exact_means():
    return posterior_on_a_grid()


@cache
def exact_means_with_noise():
    return posterior_on_a_grid(np.linspace(-3.2, 1.2, 41))


def centred_gaussians(size, wide):
    """Return two Gaussians for the ellipses, one of them badly placed. Neither changes the posterior."""
    factors = np.stack([wide * np.eye(size), 0.6 * np.eye(size)])
    return ParameterGaussian(np.stack([np.zeros(size), np.full(size, 0.5)]), factors)


def around_both(way):
    """Return a mixture of one parametrisation with ellipses around each of the Gaussians."""
    return Step(way, "prior"), Step(way, "posterior")


def settings(mixture, poor=False):
    sites = Sites((Y / SIGMA**2)[None], np.full((1, 5), 1 / SIGMA**2))
    other = Sites(0.3 * sites.linear + 1.0, 0.5 * sites.precision) if poor else sites
    both = Sites(np.stack([other.linear, sites.linear]), np.stack([other.precision, sites.precision]))
    anchors = np.array([[0.0, 0.0], [0.5, -1.0]])  # different parameters
    gaussians, noise = (centred_gaussians(2, 1.0), centred_gaussians(0, 1.0)), np.full((1, 5), SIGMA**2)
    return JointSettings(*gaussians, noise, SiteInterpolator(anchors, 2.0 * np.eye(2), both), mixture)


def known_noise(mixture, poor=False):
    """Return a move for a known noise scale.

    The steps are data of the compiled program, so it is compiled only once.
    """
    return JointUpdate(KNOWN_NOISE.joint, (0, 1), (), WAYS, 2, settings=settings(mixture, poor))


def following_sites(model, *, poor):
    """Return a move whose sites follow the noise scale at any f. They stay exact if they were exact once."""
    sigma = SIGMA * (1.3 if poor else 1.0)
    sites = Sites((Y / SIGMA**2)[None], np.full((1, 5), 1 / SIGMA**2))
    then = Sites((Y / sigma**2)[None], np.full((1, 5), 1 / sigma**2))
    choice = settings(around_both("sites"))._replace(
        together=centred_gaussians(3, 1.0),
        likelihood=centred_gaussians(1, 1.0),
        sites=SiteInterpolator.constant(sites, 3)._replace(
            f=np.full((1, 5), 0.2), expansions=Sites(then.linear[None], then.precision[None])
        ),
    )
    return JointUpdate(model.joint, (0, 1), (2,), ("sites",), 2, settings=choice)


def run(model, move, draws=4000, chains=4, engine=None, seed=0):
    prior = JointPrior(model.joint, X)
    model.joint.factors.probe(X)
    likelihood = PointLikelihood(model.likelihood, model.joint, Y, 5)
    tree = es.sample(likelihood, prior, move=move, draws=draws, warmup=300, chains=chains, seed=SEED + seed,
                     engine=engine, progress=False)  # fmt: skip
    return tree.posterior.f.values


def check(draws, exact):
    # HalfNormal's u is the logarithm of the scale, LogNormal's that of the amplitude
    names = 5 if exact is exact_means() else 7
    values = np.stack(functions(draws[..., 0], draws[..., 1], draws[..., 2])[:names], -1)
    compare(values, exact[:names], "logs of the parameters, squares, product")


@pytest.mark.parametrize(("way", "poor"), [*((way, False) for way in WAYS), ("sites", True)])
def test_each_way_alone(way, poor):
    check(run(KNOWN_NOISE, known_noise(around_both(way), poor)), exact_means())


@pytest.mark.long
@pytest.mark.parametrize("poor", [False, True])
def test_sites_that_follow_the_noise(poor):
    move = following_sites(UNKNOWN_NOISE, poor=poor)
    check(run(UNKNOWN_NOISE, move, 3000), exact_means_with_noise())


def test_sites_that_were_exact_once_stay_so():
    """With exact sites their white noise is independent of the hyperparameters, and every f is a draw given these."""
    model, interpolator = UNKNOWN_NOISE, following_sites(UNKNOWN_NOISE, poor=False).settings.sites
    model.joint.factors.probe(X)
    likelihood = PointLikelihood(model.likelihood, model.joint, Y, 5)
    follow = jax.jit(lambda u: interpolator.at(u, likelihood)[:2])
    for log_sigma in (-3.0, 0.0, 2.0):
        with on_cpu():
            now = Sites(*follow(jnp.array([0.3, -0.2, log_sigma])))
        np.testing.assert_allclose(now.precision, np.full((1, 5), np.exp(-2 * log_sigma)), rtol=1e-9)
        np.testing.assert_allclose(now.linear, (Y * np.exp(-2 * log_sigma))[None], rtol=1e-9, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_all_ways_in_turn(engine):
    alone = [("prior", name) for name in PRIORS]  # each parameter by itself
    mixture = tuple(Step(way, *rest) for way in WAYS for rest in (("prior",), ("posterior",), *alone))
    check(
        run(KNOWN_NOISE, known_noise(mixture), *((4000, 4) if engine == "compiled" else (400, 2)), engine=engine),
        exact_means(),
    )


def test_f_given_the_parameters():
    """Given the hyperparameters f is Gaussian. Its moments are averaged over the hyperparameters of the same chain."""
    x = run(KNOWN_NOISE, known_noise((Step("whitened", "prior"), Step("sites"), Step("surrogate"))), seed=7)
    f = x[..., 2 + 5 :]
    lag = math.sqrt(3) * np.abs(X[:, None] - X) / np.exp(x[..., 1])[..., None, None]
    covariance = np.exp(2 * x[..., 0])[..., None, None] * (1 + lag) * np.exp(-lag)
    gain = covariance @ np.linalg.inv(covariance + SIGMA**2 * np.eye(5))
    mean = 0.1 + gain @ (Y - 0.1)
    left = covariance - gain @ covariance
    compare(f - mean, 0.0, "f less its mean given the parameters")
    compare((f - mean) ** 2 - np.diagonal(left, axis1=-2, axis2=-1), 0.0, "its variance given the parameters")


def test_white_noise_and_f_belong_together():
    x = run(KNOWN_NOISE, known_noise(tuple(map(Step, WAYS))), draws=200)[0]
    for row in x[::20]:
        point = KNOWN_NOISE.joint.split(row, 5)
        again = KNOWN_NOISE.joint.point(point.u, point.z, X)
        np.testing.assert_allclose(again.f, point.f, rtol=1e-9, atol=1e-9)


@pytest.mark.long
def test_parameters_of_kernel_and_likelihood_from_data_to_draws():
    """The whole of `fit`, including the pilot runs."""
    fit = UNKNOWN_NOISE.fit(X, Y, draws=4000, seed=SEED + 3, progress=False)
    p = fit.tree["posterior"]
    values = functions(*(np.log(p[name].values) for name in ("amplitude", "scale", "noise_scale")))
    compare(np.stack(values, -1), exact_means_with_noise(), "logs of all three parameters")
    assert "sites" in fit.tree.attrs["parameter_moves"]


# --- injected bugs --------------------------------------------------------------------------------------------------


def without_evidence(monkeypatch):
    init = ConditionedNoise.__init__

    def planted(self, *arguments):
        init(self, *arguments)
        self.log_evidence = 0.0

    monkeypatch.setattr(ConditionedNoise, "__init__", planted)


def without_determinant(monkeypatch):
    monkeypatch.setattr(factor, "log_determinant", lambda lower: 0.0)


def without_prior_over_gaussian(monkeypatch):
    monkeypatch.setattr(JointUpdate, "residual", lambda self, x, around, away: 0.0)


def noise_for_variance(monkeypatch):
    inner_root = factor.inner_root
    monkeypatch.setattr(factor, "inner_root", lambda lower, precision: inner_root(lower, precision**0.5))


def without_ratio_of_sites(monkeypatch):
    monkeypatch.setattr(Sites, "log_value", lambda self, f: 0.0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "way"),
    [
        (without_evidence, "surrogate"),
        (without_evidence, "sites"),
        (without_determinant, "fixed_latent"),
        (without_determinant, "surrogate"),
        (without_prior_over_gaussian, "whitened"),
        (noise_for_variance, "surrogate"),
        (without_ratio_of_sites, "sites"),
    ],
)
def test_a_planted_mistake_is_caught(monkeypatch, plant, way):
    plant(monkeypatch)
    model = es.gp.LatentGP(kernel, lambda y: es.likelihoods.Gaussian(y, SIGMA), mean=0.1, parameters=PRIORS)
    move = JointUpdate(model.joint, (0, 1), (), (way,), 3, settings=settings(around_both(way), poor=True))
    with pytest.raises(AssertionError, match="standard errors off"):
        check(run(model, move), exact_means())


def test_sites_that_follow_in_one_place_and_not_in_the_other(monkeypatch):
    sites = Sites((Y / SIGMA**2)[None], np.full((1, 5), 1 / SIGMA**2))
    fixed = Sites.log_value
    monkeypatch.setattr(Sites, "log_value", lambda self, f: fixed(sites, f))
    model = es.gp.LatentGP(kernel, es.likelihoods.Gaussian, mean=0.1, parameters=UNKNOWN_NOISE.parameters.priors)
    with pytest.raises(AssertionError, match="standard errors off"):
        check(run(model, following_sites(model, poor=True), 3000), exact_means_with_noise())
