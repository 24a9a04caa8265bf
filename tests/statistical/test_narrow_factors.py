"""Low-rank factors of smooth kernels: the same draws of f, and the same posterior of the hyperparameters."""

from __future__ import annotations

import math

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF
from tinygp import kernels

import ellipslice as es
from ellipslice.approximations.sites import Sites
from ellipslice.gp.conditional import PredictiveConditional
from ellipslice.gp.fit import Fit
from ellipslice.parameters import pivots as pivots_module
from ellipslice.parameters.joint import JointPrior
from ellipslice.parameters.joint_update import JointUpdate
from ellipslice.parameters.pivots import Pivots, find_pivots
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.parameters.sites import SiteInterpolator
from ellipslice.parameters.update_settings import JointSettings, ParameterGaussian, Step
from statistical.monte_carlo import SEED, compare

X = np.linspace(0.0, 2.0, 14)
Y = np.sin(2 * X)
SIGMA = 0.4
LOG_AMPLITUDE, LOG_SCALE = (-0.2, 0.6), (0.3, 0.6)
PRIORS = {"amplitude": dist.LogNormal(*LOG_AMPLITUDE), "scale": dist.LogNormal(*LOG_SCALE)}
WAYS = ("whitened", "sites", "surrogate")


def tinygp_model():
    return es.gp.LatentGP(
        lambda amplitude, scale: amplitude**2 * kernels.ExpSquared(scale),
        lambda y: es.likelihoods.Gaussian(y, SIGMA),
        parameters=PRIORS,
    )


TINYGP = tinygp_model()
SKLEARN = es.gp.LatentGP(
    lambda amplitude, scale: amplitude**2 * RBF(scale), lambda y: es.likelihoods.Gaussian(y, SIGMA), parameters=PRIORS
)


def ordered(first, *widths):
    """Return pivots in this order, followed by the inputs that it does not contain."""
    order = np.concatenate([first, np.setdiff1d(np.arange(len(X)), first)])[None]
    return Pivots.in_order(order, widths)


SPREAD = ordered([0, 13, 7, 3, 10, 1, 12, 5, 8, 2, 11], 7, 9)


def functions(a, s):
    return [a, s, a * a, s * s, a * s]


def exact(x, y):
    """Return the exact means of the functions, by a grid: f integrates out."""
    a, logs, points = np.linspace(-3, 3, 121), [], []
    for s in np.linspace(-3.0, 2.5, 221):
        values, vectors = np.linalg.eigh(np.exp(-((x[:, None] - x) ** 2) / 2 / math.exp(2 * s)))
        variance = np.exp(2 * a)[:, None] * np.maximum(values, 0) + SIGMA**2
        log_l = -0.5 * ((y @ vectors) ** 2 / variance + np.log(variance)).sum(1)
        logs.append(log_l + stats.norm.logpdf(a, *LOG_AMPLITUDE) + stats.norm.logpdf(s, *LOG_SCALE))
        points.append(np.stack([a, np.full_like(a, s)], 1))
    weights = np.exp(np.concatenate(logs) - np.max(logs))
    return weights @ np.stack(functions(*np.concatenate(points).T), 1) / weights.sum()


def sampled(model, ways, mixture, pivots, draws=2000, chains=4, warmup=200, engine=None):
    joint = model.joint
    joint.factors.probe(X)
    gaussian = ParameterGaussian(np.array([[0.0, 0.0], [-0.2, -0.4]]), np.stack([np.eye(2), 0.5 * np.eye(2)]))
    none = ParameterGaussian(np.zeros((2, 0)), np.zeros((2, 0, 0)))
    sites = Sites((Y / SIGMA**2)[None], np.full((1, len(X)), 1 / SIGMA**2))
    interpolator = SiteInterpolator.constant(sites, 2)
    settings = JointSettings(gaussian, none, np.full((1, len(X)), SIGMA**2), interpolator, mixture, (), pivots)
    move = JointUpdate(joint, (0, 1), (), ways, 2, settings=settings)
    likelihood = PointLikelihood(model.likelihood, joint, Y, len(X))
    tree = es.sample(likelihood, JointPrior(joint, X), move=move, draws=draws, warmup=warmup, chains=chains,
                     seed=SEED, engine=engine, progress=False)  # fmt: skip
    return tree.posterior.f.values


def check(x):
    compare(np.stack(functions(x[..., 0], x[..., 1]), -1), exact(X, Y), "log amplitude, log scale, squares, product")


def widths_used(model, x):
    """Return the number of columns that were used at some of the points."""
    widths = []
    for u in x[:, ::50, :2].reshape(-1, 2):
        model.joint.factors.apply(u, X, SPREAD, lambda factor, mean: widths.append(factor.columns.shape[-1]))
    return widths


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("way", WAYS)
def test_the_posterior_is_the_same(way):
    # Steps are data of the program, so there is only one compilation.
    x = sampled(TINYGP, WAYS, (Step(way, "prior"), Step(way)), SPREAD)
    assert set(widths_used(TINYGP, x)) == {7, 9, 14}  # chains alternate between low-rank and full factors
    check(x)


@pytest.mark.long
@pytest.mark.statistical
def test_kernels_that_jax_cannot_trace():
    x = sampled(
        SKLEARN, ("whitened", "sites"), (Step("whitened", "prior"), Step("sites")), SPREAD, 250, 2, 50, engine="host"
    )
    check(x)


@pytest.mark.long
@pytest.mark.statistical
def test_too_few_columns_would_be_seen(monkeypatch):
    monkeypatch.setattr("ellipslice.parameters.factor.NEGLIGIBLE_FRACTION", math.inf)
    x = sampled(
        tinygp_model(), ("sites",), (Step("sites", "prior"), Step("sites")), ordered([0, 13, 7], 3)
    )  # must be compiled again
    with pytest.raises(AssertionError):
        check(x)


@pytest.mark.long
@pytest.mark.parametrize("model", [TINYGP, SKLEARN], ids=["tinygp", "scikit-learn"])
@pytest.mark.parametrize(("scale", "width"), [(3.0, 7), (1.5, 9), (0.1, 14)])
def test_columns_are_the_first_of_the_whole_factor(model, scale, width):
    joint, u = model.joint, np.log([1.3, scale])
    joint.factors.probe(X)
    whole = joint.factors.at(u, X, SPREAD)[0].columns
    covariance = 1.3**2 * np.exp(-((X[:, None] - X) ** 2) / 2 / scale**2)
    np.testing.assert_allclose(whole[0] @ whole[0].T, covariance, atol=1e-9)
    narrow = joint.factors.apply(u, X, SPREAD, lambda factor, mean: factor.columns)
    assert narrow.shape == (1, 14, width)
    np.testing.assert_allclose(narrow[0] @ narrow[0].T, covariance, atol=1e-9)
    np.testing.assert_allclose(narrow[0], whole[0][:, :width], atol=1e-4)  # the last columns are near rounding error
    z = np.random.default_rng(1).standard_normal((1, 14))
    np.testing.assert_allclose(joint.point(u, z, X, SPREAD).f, (whole @ z[0]), atol=1e-4)


@pytest.mark.long
def test_so_many_columns_as_cost_least():
    joint = TINYGP.joint
    x = np.linspace(0, 10, 300)
    joint.factors.probe(x)
    found = find_pivots(joint.factors, x, np.log([[1.0, scale] for scale in (5.0, 5.0, 5.0, 5.0, 0.5)]))
    assert found is not None
    few, many = found.widths
    assert few < 20 < many < 100
    assert sorted(found.order[0]) == list(range(300))
    np.testing.assert_array_equal(found.order[0][found.place[0]], np.arange(300))
    assert find_pivots(joint.factors, x, np.log([[1.0, 0.01]])) is None  # nothing is left out
    assert find_pivots(joint.factors, x[: pivots_module.MIN_INPUTS - 1], np.log([[1.0, 5.0]])) is None


@pytest.fixture(scope="module")
def long_fit():
    x = np.linspace(0.0, 4.0, 210)
    y = np.sin(2 * x) + SIGMA * np.random.default_rng(5).standard_normal(210)
    return TINYGP.fit(x, y, draws=2000, chains=2, seed=SEED, progress=False)


@pytest.mark.long
@pytest.mark.statistical
def test_from_data_to_draws(long_fit):
    """`fit` finds pivots and reports them. Its posterior is exact, and so are predictions."""
    assert "columns where these are enough" in long_fit.tree.attrs["prior_structure"]
    p = long_fit.tree["posterior"]
    values = np.stack(functions(np.log(p.amplitude.values), np.log(p.scale.values)), -1)
    compare(values, exact(long_fit.X, long_fit.y), "logs of the parameters, from data to draws")


@pytest.mark.long
def test_predictions_are_the_same(long_fit, monkeypatch):
    fit = Fit(TINYGP, long_fit.X, long_fit.y, long_fit.tree.isel(chain=[0], draw=slice(0, 2000, 100)))
    new = np.array([-0.3, 0.011, 1.234, 4.1])
    some = PredictiveConditional(TINYGP, fit.X, new)._pivots_of_draws(
        fit._parameters(fit.tree.posterior.to_dataset()), 20
    )
    assert sum(one is not None and one.shape[1] < 60 for one in some) > 10  # a rare draw may need more
    narrow = fit.predict(new, seed=2).latent.values
    monkeypatch.setattr(pivots_module, "MIN_INPUTS", 1000)
    whole, inside = fit.predict(new, seed=2).latent.values, slice(1, 3)
    np.testing.assert_allclose(narrow[..., inside], whole[..., inside], atol=1e-3)
    np.testing.assert_allclose(narrow, whole, atol=5e-3)  # the low-rank error is larger beyond the data
