"""Gaussian process models: structure, results, predictions, plots and errors."""

from __future__ import annotations

import math
import re

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import numpyro.distributions as dist
import pytest
import sklearn.gaussian_process.kernels as sk
from scipy import stats
from tinygp import kernels
from tinygp.kernels import quasisep

import ellipslice as es
from ellipslice.gp import CoxProcess, LatentGP
from ellipslice.gp.conditional import PredictiveConditional
from ellipslice.gp.fit import Fit
from ellipslice.gp.structure import prior_from_kernel
from ellipslice.likelihoods import Gaussian, Logistic, NegativeBinomial, Poisson, StudentT
from statistical.monte_carlo import SEED, compare

mpl.use("Agg")

X = np.linspace(0.0, 3.0, 12)
Y = np.array([2, 1, 3, 2, 4, 5, 3, 2, 2, 0, 1, 1])
SHORT = {"draws": 40, "warmup": 20, "chains": 2, "seed": 1, "progress": False}
EUCLID = kernels.distance.L2Distance()


def amplitude_and_scale(amplitude, scale):
    return amplitude**2 * kernels.ExpSquared(scale)


PRIORS = {"amplitude": dist.LogNormal(0.0, 1.0), "scale": dist.LogNormal(0.0, 1.0)}
UNKNOWN = LatentGP(
    amplitude_and_scale, NegativeBinomial, mean=lambda level: level,
    parameters=PRIORS | {"dispersion": dist.LogNormal(1.0, 0.5), "level": dist.Normal(0.0, 1.0)},
)  # fmt: skip
"""One model for several tests, so that it is compiled once."""


@pytest.fixture(scope="module")
def unknown_fit():
    return UNKNOWN.fit(X, Y, **SHORT)


# --- structure --------------------------------------------------------------------------------------------------------


def grid(*counts):
    return np.stack(np.meshgrid(*(np.arange(c) * 0.5 for c in counts), indexing="ij"), -1).reshape(-1, len(counts))


@pytest.mark.parametrize(
    ("kernel", "inputs", "said"),
    [
        (kernels.ExpSquared(1.0), X, "dense, 12 values"),
        (sk.RBF(1.0), X, "dense, 12 values"),
        (quasisep.Matern32(1.0), X, "Markov in time, 12 times"),
        (quasisep.Matern32(1.0), X[:, None], "Markov in time, 12 times"),
        (quasisep.Matern52(1.0), X[::-1], "Markov in time, 12 times"),
        (quasisep.Matern52(1.0), np.repeat(X, 2), "Markov in time, 12 times"),
        (kernels.Matern32(1.0), np.arange(1500.0), "stationary on a grid of 1500"),
        (kernels.ExpSquared(0.7), grid(40, 30), "stationary on a grid of 40 x 30"),
        (kernels.ExpSquared(0.7), grid(40, 30)[:-1], "dense, 1199 values"),
    ],
    ids=[
        "dense",
        "sklearn",
        "time",
        "time, a column",
        "time backwards",
        "times twice",
        "line",
        "plane",
        "plane with a hole",
    ],
)
def test_structure_is_chosen_from_kernel_and_inputs(kernel, inputs, said):
    found = prior_from_kernel(kernel, inputs, 0.0)
    assert found.description == said


TIMES = X[:5]


def test_a_kernel_for_times_takes_a_column_like_a_row():
    model = LatentGP(lambda scale: quasisep.Matern32(scale), Poisson, parameters={"scale": dist.LogNormal(0.0, 0.3)})
    model.joint.factors.probe(TIMES)
    column, row = (model.joint.factors.at(np.zeros(1), inputs)[0].lower for inputs in (TIMES[:, None], TIMES))
    np.testing.assert_array_equal(column, row)


@pytest.mark.parametrize("parameters", [{}, {"scale": dist.LogNormal(0.0, 0.3)}], ids=["known", "unknown"])
def test_a_kernel_for_times_takes_no_plane(parameters):
    kernel = (lambda scale: quasisep.Matern32(scale)) if parameters else quasisep.Matern32(1.0)
    with pytest.raises(ValueError, match=r"kernel for times.*\(5, 2\)\. In several dimensions use"):
        LatentGP(kernel, Poisson, parameters=parameters).fit(np.stack([TIMES, TIMES], 1), np.arange(5.0), draws=3)


@pytest.mark.long_cases("time-False")
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("case", ["time", "grid", "dense"])
def test_whatever_the_structure_values_are_those_at_the_inputs(case, shuffled):
    kernel, inputs = {
        "time": (quasisep.Matern32(1.0), np.sort(np.random.default_rng(0).uniform(0, 9, 40))),
        "grid": (kernels.ExpSquared(0.7), grid(40, 30)),
        "dense": (kernels.ExpSquared(0.7), X),
    }[case]
    if shuffled:
        inputs = np.random.default_rng(1).permutation(inputs)
    mean = inputs.reshape(len(inputs), -1)[:, 0]
    found = prior_from_kernel(kernel, inputs, mean)
    latent = np.asarray(found.prior.mean).reshape(found.prior.shape)
    np.testing.assert_allclose(found.pick(latent), mean, rtol=0, atol=1e-12)
    rng = np.random.default_rng(2)
    draws = np.stack([found.pick(f) for f in found.prior.simulate(rng, 4000, mean=False)])
    some = slice(0, 4)
    expected = np.asarray(kernel(inputs[some], inputs[some]))
    products = draws[:, some, None] * draws[:, None, some]
    compare(products.reshape(1, 4000, -1), expected.ravel(), "covariance of values at the inputs")


# --- results ----------------------------------------------------------------------------------------------------------


def test_a_known_kernel_gives_the_draws_of_sample():
    model = LatentGP(kernels.ExpSquared(1.0), Poisson, mean=0.5)
    fit = model.fit(X, Y, **SHORT)
    covariance = np.exp(-0.5 * (X[:, None] - X) ** 2)
    tree = es.sample(Poisson(Y), es.Dense(covariance, 0.5), **SHORT)
    np.testing.assert_allclose(fit.tree.posterior.f, tree.posterior.f, rtol=1e-6, atol=1e-6)
    assert fit.tree.attrs["prior_structure"] == "f: dense, 12 values"
    np.testing.assert_array_equal(fit.tree.posterior.point, X)


@pytest.mark.long
def test_unknown_parameters_are_named_in_the_result(unknown_fit):
    fit = unknown_fit
    posterior = fit.tree.posterior
    assert set(posterior.data_vars) == {"amplitude", "scale", "dispersion", "level", "f"}
    assert posterior.f.dims == ("chain", "draw", "point")
    assert posterior.amplitude.shape == (2, 40)
    assert (posterior.dispersion > 0).all()
    assert {"factorisations", "evaluations", "total_log_likelihood"} <= set(fit.tree.sample_stats.data_vars)
    assert sum(fit.parameter_moves.values()) >= 1.0
    assert max(fit.parameter_moves.values()) == 1.0
    assert fit.tree.attrs["parameter_moves"].split(" and ")[0] in fit.parameter_moves
    assert (
        repr(fit) == "Fit(LatentGP(f; hyperparameters: amplitude (kernel), scale (kernel), dispersion (likelihood), "
        "level (mean)), 12 points, 2 chains of 40 draws)"
    )


@pytest.mark.long
def test_the_same_seed_gives_the_same_draws(unknown_fit):
    one, two = unknown_fit, UNKNOWN.fit(X, Y, **SHORT)
    np.testing.assert_array_equal(one.tree.posterior.f, two.tree.posterior.f)
    np.testing.assert_array_equal(one.tree.posterior.scale, two.tree.posterior.scale)


def test_a_fit_may_have_a_goal():
    model = LatentGP(kernels.ExpSquared(1.0), lambda y: Gaussian(y, 0.5))
    fit = model.fit(X, np.sin(X), chains=2, seed=1, until=es.Until(effective_sample_size=50), progress=False)
    assert fit.tree.attrs["stopped_by"] == "goals"


@pytest.mark.long
def test_parameters_may_be_arrays_and_come_in_a_mapping():
    inputs = np.random.default_rng(0).uniform(0, 2, (12, 2))
    model = LatentGP(
        lambda p: kernels.ExpSquared(1.0, distance=EUCLID) if p is None else _scaled(p["scales"]),
        lambda y, p: Gaussian(y, p["noise_scale"]),
        parameters={"scales": dist.LogNormal(jnp.zeros(2), 1.0), "noise_scale": dist.HalfNormal(1.0)},
    )
    fit = model.fit(inputs, Y - 2.0, **SHORT)
    assert fit.tree.posterior.scales.shape == (2, 40, 2)
    assert fit.predict(inputs[:3]).latent.shape == (2, 40, 3)


def _scaled(scales):
    import tinygp

    return tinygp.transforms.Linear(1 / scales, kernels.ExpSquared(1.0, distance=EUCLID))


@pytest.mark.long
def test_a_black_box_and_a_scikit_learn_kernel_run_on_the_host(short_pilots):
    def likelihood(y):
        return lambda f: float(stats.poisson.logpmf(y, np.exp(np.asarray(f))).sum())

    model = LatentGP(lambda scale: sk.RBF(float(scale)), likelihood, parameters={"scale": dist.LogNormal(0.0, 0.5)})
    fit = model.fit(X, Y, **SHORT, latent_updates=1)
    assert fit.tree.attrs["engine"] == "host"
    assert set(fit.predict(X[:2]).data_vars) == {"latent"}


@pytest.mark.long
def test_several_latent_functions():
    def likelihood(y):
        return lambda mean, log_noise: jnp.sum(jax.scipy.stats.norm.logpdf(y, mean, jnp.exp(log_noise)))

    both = {"mean": kernels.ExpSquared(1.0), "log_noise": lambda scale: kernels.ExpSquared(scale)}
    known = LatentGP(both | {"log_noise": kernels.ExpSquared(2.0)}, likelihood, mean={"log_noise": -1.0})
    fit = known.fit(X, Y / 2.0, **SHORT)
    assert set(fit.tree.posterior.data_vars) == {"mean", "log_noise"}
    assert set(fit.predict(X[:3]).data_vars) == {"mean", "log_noise"}
    unknown = LatentGP(both, likelihood, parameters={"scale": dist.LogNormal(0.0, 0.5)})
    fit = unknown.fit(X, Y / 2.0, **SHORT)
    assert set(fit.tree.posterior.data_vars) == {"mean", "log_noise", "scale"}
    assert set(fit.parameter_moves) == {"whitened", "sites", "surrogate"}


# --- predictions ------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.statistical
def test_points_by_themselves_have_the_same_means_and_spreads():
    """Predictions with joint=False are made in groups of points, independently."""
    model = LatentGP(kernels.Matern32(1.0), Poisson, mean=0.5)
    fit = model.fit(X, Y, **{**SHORT, "draws": 1000})
    points = np.linspace(-1.0, 4.0, 450)  # two and a half groups
    apart = fit.predict(points, draws=2000, joint=False).latent
    assert apart.dims == ("chain", "draw", "point")
    np.testing.assert_array_equal(apart.point, points)
    weights = PredictiveConditional(model, X, points)._maps({}, np)
    mean, left = weights[0][0], (weights[2][0] ** 2).sum(axis=1)
    given = (fit.tree.posterior.f.values - weights[3][0]) @ weights[1][0] + mean
    away = apart.values - given  # the conditional noise, independent in every draw
    some = slice(0, 450, 30)
    compare(away[:, :, some].reshape(1, 2000, -1), np.zeros(15), "means of single points")
    compare(away[:, :, some].reshape(1, 2000, -1) ** 2, left[some], "variances of single points")


def matern32(x, y):
    """Compare with a direct computation in double precision."""
    r = math.sqrt(3) * np.abs(x[:, None] - y)
    return (1 + r) * np.exp(-r)


def test_values_at_new_points_given_old_ones():
    """Compare weights and conditional variances with the standard formulas."""
    model = LatentGP(kernels.Matern32(1.0), Gaussian, mean=lambda X: 0.3 * X)
    new = np.array([0.5, 1.77, 4.0])
    mean, weights, root, old_mean = (part[0] for part in PredictiveConditional(model, X, new)._maps({}, np))
    across = matern32(X, new)
    expected = np.linalg.solve(matern32(X, X), across)
    np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-8)
    left = matern32(new, new) - across.T @ expected
    np.testing.assert_allclose(root @ root.T, left, rtol=0, atol=1e-8)
    np.testing.assert_allclose([mean, old_mean[:3]], [0.3 * new, 0.3 * X[:3]])


@pytest.mark.short_cases("dense")
@pytest.mark.statistical
@pytest.mark.parametrize("kernel", [kernels.Matern32(1.0), quasisep.Matern32(1.0)], ids=["dense", "time"])
def test_predictions_have_the_exact_mean_and_variance(kernel):
    y, new = np.sin(2 * X), np.array([0.1, 1.5, 3.6])
    fit = LatentGP(kernel, lambda y: Gaussian(y, 0.5)).fit(X, y, draws=3000, seed=SEED + 1, progress=False)
    predicted = fit.predict(new, draws=12000, seed=SEED + 2)
    gain = np.linalg.solve(matern32(X, X) + 0.25 * np.eye(12), matern32(X, new)).T
    mean = gain @ y
    variance = np.diag(matern32(new, new) - gain @ matern32(X, new))
    compare(predicted.latent.values, mean, "latent mean")
    compare((predicted.latent.values - mean) ** 2, variance, "latent variance")
    compare((predicted.predictive.values - mean) ** 2, variance + 0.25, "variance of observations")
    np.testing.assert_array_equal(predicted.expected, predicted.latent)


def predicted_on_a_grid(y, new, sigma):
    """Return weights of a grid of hyperparameters, and means and variances at new points given each of them."""
    logs, means, variances = [], [], []
    amplitudes = np.exp(np.linspace(-4.0, 5.0, 121))[:, None]
    at = np.concatenate([X, new])
    for log_scale in np.linspace(-5.0, 5.0, 161):
        correlation = np.exp(-0.5 * ((at[:, None] - at) / math.exp(log_scale)) ** 2)
        values, vectors = np.linalg.eigh(correlation[:12, :12])
        across = amplitudes[..., None] ** 2 * (correlation[12:, :12] @ vectors)
        variance = amplitudes**2 * np.maximum(values, 0.0) + sigma**2
        log_l = -0.5 * ((y @ vectors) ** 2 / variance + np.log(variance)).sum(1)
        logs.append(log_l + stats.norm.logpdf(np.log(amplitudes[:, 0])) + stats.norm.logpdf(log_scale))
        means.append((across * (y @ vectors / variance)[:, None]).sum(-1))
        variances.append(amplitudes**2 - (across**2 / variance[:, None]).sum(-1))
    weights = np.exp(np.concatenate(logs) - np.max(logs))
    return weights / weights.sum(), np.concatenate(means), np.concatenate(variances)


@pytest.fixture(scope="module")
def with_unknown_parameters():
    """Return a fit, new points, and the weights, means and variances of `predicted_on_a_grid`."""
    y, new = np.sin(2 * X) + 0.2 * np.cos(17 * X), np.array([0.7, 3.3, 3.7, 6.0])
    model = LatentGP(amplitude_and_scale, lambda y: Gaussian(y, 0.3), parameters=PRIORS)
    fit = model.fit(X, y, draws=2000, warmup=100, seed=SEED + 3, progress=False)
    return fit, new, *predicted_on_a_grid(y, new, 0.3)


def compare_near(fit, new, weights, means, variances):
    """Compare probabilities near the mean. The variance would depend too much on rare, large amplitudes."""
    mean = weights @ means
    predicted = fit.predict(new, draws=8000, seed=SEED + 4)
    for name, variance in (("latent", variances), ("predictive", variances + 0.3**2)):
        compare(predicted[name].values, mean, f"{name}, mean")
        for near in np.sqrt(weights @ variance) * np.array([[0.3], [1.0], [2.0]]):
            low, high = (stats.norm.cdf((mean + end - means) / np.sqrt(variance)) for end in (-near, near))
            inside = abs(predicted[name].values - mean) < near
            compare(inside * 1.0, weights @ (high - low), f"{name}, near its mean")


@pytest.mark.long
@pytest.mark.statistical
def test_predictions_hold_what_is_not_known_of_the_parameters(with_unknown_parameters):
    compare_near(*with_unknown_parameters)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("plant", [lambda v: np.roll(v, 5000), lambda v: np.full_like(v, np.median(v))])
def test_parameters_of_another_draw_would_be_seen(with_unknown_parameters, monkeypatch, plant):
    own = Fit._parameters
    monkeypatch.setattr(Fit, "_parameters", lambda *given: {k: plant(v) for k, v in own(*given).items()})
    with pytest.raises(AssertionError, match="standard errors off"):
        compare_near(*with_unknown_parameters)


@pytest.mark.long
def test_predictions_are_compiled_once(unknown_fit):
    fit = Fit(UNKNOWN, X, Y, unknown_fit.tree)
    one, other = (fit.predict(new, draws=4).latent.values for new in (X[:3], X[:3] + 0.1))
    assert fit._compiled._cache_size() == 1
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(one, fit.predict(X[:3], draws=4).latent.values)


def test_scores_of_held_out_data():
    fit = LatentGP(kernels.ExpSquared(1.0), Poisson).fit(X, Y, **SHORT)
    f = fit.predict(X[:2]).latent.values.reshape(-1, 2)
    expected = np.log(stats.poisson.pmf([2, 1], np.exp(f)).mean(0))
    np.testing.assert_allclose(fit.log_predictive_density(X[:2], [2, 1]), expected, rtol=1e-10)


def test_observations_that_differ_from_point_to_point():
    exposure = np.linspace(0.0, 1.0, 12)
    fit = LatentGP(kernels.ExpSquared(1.0), lambda y: Poisson(y, offset=exposure)).fit(X, Y, **SHORT)
    with pytest.raises(ValueError, match="does not broadcast") as raised:
        fit.predict(X[:2])
    assert "likelihood=lambda" in "".join(raised.value.__notes__)
    given = fit.predict(X[:2], likelihood=lambda y: Poisson(y, offset=1.0))
    np.testing.assert_allclose(given.expected, np.exp(given.latent + 1.0))


# --- Cox processes ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_events_in_time():
    events = np.array([0.1, 0.2, 0.25, 0.9, 1.5])
    process = CoxProcess(kernels.ExpSquared(0.5), (0.0, 2.0), 4)
    np.testing.assert_array_equal(process.counts(events), [3, 1, 0, 1])
    np.testing.assert_array_equal(process.centres, [0.25, 0.75, 1.25, 1.75])
    fit = process.fit(events, **SHORT)
    assert fit.model.means["f"] == pytest.approx(math.log(5 / 2))
    predicted = fit.predict([0.3])
    np.testing.assert_allclose(predicted.expected, np.exp(predicted.latent))
    assert "predictive" not in predicted
    np.testing.assert_array_equal(fit.shown, [6, 2, 0, 2])


def test_a_fit_to_events_takes_the_options_of_sample():
    fit = CoxProcess(kernels.ExpSquared(0.5), (0.0, 2.0), 4).fit([0.1, 0.9, 1.5], thin=3, reference="ep", **SHORT)
    assert fit.tree.attrs["thin"] == 3
    assert fit.tree.attrs["reference"] == "ep"


@pytest.mark.long
def test_points_in_a_window():
    points = np.random.default_rng(0).uniform([0, 0], [2, 1], (50, 2))
    process = CoxProcess(kernels.ExpSquared(0.5), [(0, 2), (0, 1)], [6, 3])
    assert process.counts(points).sum() == 50
    fit = process.fit(points, **SHORT)
    assert fit.tree.posterior.f.shape == (2, 40, 18)
    inside = (points // (1 / 3)).astype(int)
    expected = np.bincount(inside[:, 0] * 3 + inside[:, 1], minlength=18)
    np.testing.assert_array_equal(process.counts(points), expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CoxProcess(None, (2.0, 0.0), 4), "window must be (low, high)"),
        (lambda: CoxProcess(None, (0.0, 2.0), 0), "cells must be a whole number"),
        (lambda: CoxProcess(None, (0.0, 2.0), 2.5), "cells must be a whole number"),
        (lambda: CoxProcess(None, (0.0, 2.0), 4).counts([3.0]), "events[0] = [3.] is outside the window"),
        (lambda: CoxProcess(None, (0.0, 2.0), 4).counts([[0.1, 0.2]]), "events have 2 axes"),
    ],
)
def test_cox_processes_refuse(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


# --- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_pictures():
    curve = LatentGP(kernels.ExpSquared(1.0), Poisson).fit(X, Y, **SHORT).plot()
    assert curve.get_ylabel() == "expected"
    assert [text.get_text() for text in curve.get_legend().get_texts()][-1] == "data"
    inputs = np.random.default_rng(0).uniform(0, 2, (12, 2))
    fit = LatentGP(kernels.ExpSquared(1.0), Logistic).fit(inputs, np.resize([1, -1], 12), **SHORT)
    maps = fit.plot(variable="latent")
    assert maps[0].get_title() == "latent, mean"
    with pytest.raises(ValueError, match="variable must be one of latent, expected, predictive"):
        fit.plot(variable="f")
    cube = LatentGP(kernels.ExpSquared(1.0), Poisson).fit(np.ones((12, 3)) * X[:, None], Y, **SHORT)
    with pytest.raises(ValueError, match="the inputs have 3 axes, but only one or two"):
        cube.plot()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LatentGP(kernels.ExpSquared, Poisson), TypeError, "must be a kernel of tinygp"),
        (lambda: LatentGP(3.0, Poisson), TypeError, "but it is a float"),
        (lambda: LatentGP({}, Poisson), ValueError, "empty mapping"),
        (lambda: LatentGP(kernels.ExpSquared(1.0), Poisson(Y)), TypeError, "Give the data to fit"),
        (lambda: LatentGP(lambda a: a, Poisson), TypeError, "an argument 'a' that is not a hyperparameter"),
        (
            lambda: LatentGP(amplitude_and_scale, Poisson, parameters={"amplitude": 1.0, "scale": 1.0}),
            TypeError,
            "must be a distribution of numpyro",
        ),
        (
            lambda: LatentGP(lambda k: kernels.ExpSquared(k), Poisson, parameters={"k": dist.Poisson(1.0)}),
            TypeError,
            "has a discrete prior",
        ),
        (
            lambda: LatentGP({"mean": kernels.ExpSquared(1.0)}, Poisson, parameters={"mean": dist.Normal(0, 1)}),
            ValueError,
            "name of a latent function and of a hyperparameter",
        ),
        (lambda: LatentGP(kernels.ExpSquared(1.0), Poisson, mean={"g": 1.0}), ValueError, "mean has the name 'g'"),
    ],
)
def test_models_that_cannot_be(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (
            LatentGP(kernels.ExpSquared(1.0), Poisson),
            {"parameter_moves": "whitened"},
            ValueError,
            "but the model has none",
        ),
        (
            LatentGP(amplitude_and_scale, Poisson, parameters=PRIORS),
            {"parameter_moves": ("blue",)},
            ValueError,
            "parameter_moves must be some of 'whitened', 'sites', 'surrogate', 'fixed_latent'",
        ),
        (
            LatentGP(amplitude_and_scale, Poisson, parameters=PRIORS),
            {"latent_updates": 0},
            ValueError,
            "latent_updates must be a whole number",
        ),
        (
            LatentGP(amplitude_and_scale, Poisson, parameters=PRIORS),
            {"reference": "ep"},
            ValueError,
            "reference is for models whose hyperparameters are all known",
        ),
        (
            LatentGP(lambda amplitude: -amplitude * kernels.ExpSquared(1.0), Poisson,
                     parameters={"amplitude": dist.LogNormal(0, 1)}),
            {},
            ValueError,
            "no positive definite covariance",
        ),
        (
            LatentGP(amplitude_and_scale, lambda y: lambda f: jnp.sum(f[:-1] * f[1:]), parameters=PRIORS),
            {"parameter_moves": ("sites",)},
            ValueError,
            'parameter_moves has "sites", which needs a log-likelihood that factorises',
        ),
        (LatentGP(amplitude_and_scale, lambda y: 3.0, parameters=PRIORS), {}, TypeError, "it returned 3.0"),
    ],
)  # fmt: skip
def test_fits_that_cannot_be(model, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        model.fit(X, Y, **SHORT | options)


def test_data_of_another_length():
    for parameters in (None, PRIORS):
        kernel = amplitude_and_scale if parameters else kernels.ExpSquared(1.0)
        with pytest.raises(ValueError, match="11"):
            LatentGP(kernel, Poisson, parameters=parameters).fit(X, Y[:11], **SHORT)


def test_inputs_of_another_shape():
    fit = LatentGP(kernels.ExpSquared(1.0), Poisson).fit(X, Y, **SHORT)
    with pytest.raises(ValueError, match="was fitted to inputs of shape"):
        fit.predict(np.ones((3, 2)))


def test_tinygp_distances_are_named_when_they_are_no_covariance():
    inputs = np.random.default_rng(0).uniform(0, 1, (60, 3))
    with pytest.raises(ValueError, match="not positive semi-definite") as raised:
        LatentGP(kernels.Matern52(5.0), Poisson).fit(inputs, np.ones(60), **SHORT)
    assert "L2Distance" in "".join(raised.value.__notes__)


@pytest.mark.long
def test_robust_noise_has_unknown_parameters_too():
    model = LatentGP(
        kernels.ExpSquared(1.0), StudentT,
        parameters={"noise_scale": dist.HalfNormal(1.0), "degrees_of_freedom": dist.Uniform(2.0, 20.0)},
    )  # fmt: skip
    tree = model.fit(X, np.sin(X), **SHORT).tree
    assert ((tree.posterior.degrees_of_freedom > 2) & (tree.posterior.degrees_of_freedom < 20)).all()
    assert tree.attrs["parameter_moves"] == "f fixed"


# --- at the data, and far from 0 ------------------------------------------------------------------------------------


def test_at_the_data_the_prediction_is_what_was_drawn():
    """Inputs of the data may be among others, in any order. Other points are drawn given them."""
    fit = LatentGP(kernels.Matern32(1.0), Poisson).fit(X, Y, **SHORT)
    new = np.array([X[5], 1.234, X[0], X[5], -0.0])
    drawn = fit.predict(new, draws=80).latent
    f = fit.tree.posterior.f.values
    np.testing.assert_array_equal(drawn.values[..., [0, 2, 3, 4]], f[..., [5, 0, 5, 0]])
    assert drawn.values[..., 1].std() > 0


def test_a_kernel_with_noise_of_its_own_is_drawn_anew_at_the_data():
    kernel = sk.RBF(1.0) + sk.WhiteKernel(0.5)
    fit = LatentGP(kernel, Poisson).fit(X, Y, **SHORT)
    apart = fit.predict(X, draws=80).latent.values - fit.tree.posterior.f.values
    assert 0.3 < apart.std() < 1.5  # sqrt(0.5), with a tolerance for the noise of the draws


@pytest.mark.long
def test_large_data_are_predicted_and_drawn_where_they_are():
    times = np.random.default_rng(1).uniform(0, 100, 5200)
    model = LatentGP(quasisep.Matern32(scale=20.0), Poisson)
    fit = model.fit(times, np.random.default_rng(2).poisson(1.0, 5200), draws=3, warmup=2, chains=1, progress=False)
    np.testing.assert_array_equal(fit.predict(times[:9]).latent.values, fit.tree.posterior.f.values[..., :9])
    (line,) = (line for line in fit.plot().lines if "median" in line.get_label())
    assert set(line.get_xdata()) <= set(times)
    assert len(line.get_xdata()) > 180
    assert np.isfinite(fit.predict([1.0]).latent.values).all()


@pytest.mark.long
def test_large_grids_have_maps_at_their_points():
    fit = LatentGP(kernels.Matern32(3.0, distance=EUCLID), Poisson).fit(
        grid(72, 73), np.ones(72 * 73), draws=2, warmup=1, chains=1, progress=False
    )
    mean, _ = fit.plot()
    assert mean.collections[0].get_array().size == 40 * 40
    with pytest.raises(ValueError, match="5256 inputs, but predictions at inputs that are not in the data"):
        fit.predict([[-1.0, 0.3]])


@pytest.mark.long
def test_data_far_from_0_can_be_sampled():
    """Squares of such inputs exceed the precision, so distances must be computed from differences."""
    rng = np.random.default_rng(4)
    y = np.sin(2 * X) + 0.1 * rng.standard_normal(len(X))
    priors = {"scale": dist.LogNormal(0.0, 0.5), "noise": dist.LogNormal(-2.0, 0.5)}
    found = []
    for far in (0.0, 2.0**30):
        model = LatentGP(
            lambda scale: kernels.Matern52(scale), lambda y, noise: Gaussian(y, noise), mean=far, parameters=priors
        )
        fit = model.fit(X, y + far, parameter_moves=("sites",), **SHORT)
        assert fit.tree.attrs["failed_searches"] == 0
        found.append(fit.tree.attrs["evaluations"])
    assert found[1] < 1.5 * found[0]
