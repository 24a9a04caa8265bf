"""Long time series with unknown hyperparameters, which `LatentGP` samples in linear time."""

from __future__ import annotations

import pickle

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from tinygp import kernels
from tinygp.kernels import quasisep

import ellipslice as es
from ellipslice.gp import LatentGP
from ellipslice.gp.problem import problem_of
from ellipslice.gp.time_series import draw_series, time_series
from ellipslice.likelihoods import Gaussian, Poisson, StudentT

RNG = np.random.default_rng(4)
TIMES = np.append(RNG.permutation(np.cumsum(RNG.uniform(0.05, 1.5, 108))), [0.9, 0.9])
COUNTS = RNG.poisson(2.0, 110)
FEW = {"draws": 8, "chains": 2, "warmup": 3, "seed": 3, "progress": False}


def exponential(sd, length):
    return quasisep.Exp(length, sigma=sd)


def trend(level, slope, X):
    return 0.3 + level + slope * X


def heavy_tailed(y, noise_scale):
    return StudentT(y, noise_scale=noise_scale, degrees_of_freedom=4.0)


KERNEL = {"sd": dist.HalfNormal(1.0), "length": dist.LogNormal(1.0, 0.7)}
LEVEL = {"level": dist.Normal(0.5, 2.0)}
LINE = {**LEVEL, "slope": dist.Normal(0.0, 0.1)}


def noisy():
    """Return a model whose hyperparameters enter kernel, mean and likelihood, in mixed order."""
    parameters = {"slope": LINE["slope"], "noise_scale": dist.HalfNormal(1.0), **KERNEL, **LEVEL}
    return LatentGP(exponential, heavy_tailed, mean=trend, parameters=parameters)


def counts(kernel=exponential, mean=lambda level: level, priors=None):
    return LatentGP(kernel, Poisson, mean=mean, parameters={**(KERNEL if priors is None else priors), **LEVEL})


def covariance(one, other, sd, length):
    return sd**2 * np.exp(-np.abs(np.subtract.outer(one, other)) / length)


def test_the_joint_density_is_that_of_the_model():
    model, y = noisy(), RNG.standard_normal(110)
    series = time_series(model, TIMES, y)
    assert series is not None
    assert series.structure == "f: Markov in time, 109 times, states of 1 elements"
    times, where = np.unique(TIMES, return_inverse=True)
    differences = []
    for _ in range(5):
        u = 0.5 * RNG.standard_normal(3)  # of sd, length and the noise, which is the order in the posterior
        x = RNG.standard_normal(111)
        at = series.posterior.at(u)
        flat = np.concatenate([u, np.zeros(111), x])
        kept = series.keep(flat)
        assert list(kept) == ["slope", "noise_scale", "sd", "length", "level", "f"]
        sd, length, noise = np.exp(u)
        level, slope = 0.5 + 2.0 * x[-1], 0.1 * x[-2]
        for name, value in (("sd", sd), ("length", length), ("noise_scale", noise), ("level", level), ("slope", slope)):
            assert kept[name] == pytest.approx(value)
        f = 0.3 + level + slope * TIMES + x[where]
        np.testing.assert_allclose(kept["f"], f, rtol=1e-12)
        expected = model.parameters.log_density(np.array([slope, u[2], u[0], u[1], level]))
        expected += multivariate_normal(np.zeros(109), covariance(times, times, sd, length)).logpdf(x[:109])
        expected += StudentT(y, noise_scale=noise, degrees_of_freedom=4.0)(f)
        differences.append(series.posterior.log_joint(at, x) - expected)
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-5)
    at_worker, keep_at_worker = pickle.loads(pickle.dumps((series.posterior, series.keep)))
    assert at_worker.log_joint(at_worker.at(u), x) == series.posterior.log_joint(series.posterior.at(u), x)
    np.testing.assert_array_equal(keep_at_worker(flat)["f"], kept["f"])


SHORT_OF = {
    "few inputs": (counts(), TIMES[:100], COUNTS[:100]),
    "several axes": (
        counts(lambda sd, length: sd**2 * kernels.ExpSquared(length)), np.column_stack([TIMES, TIMES]), COUNTS
    ),
    "another kernel": (counts(lambda sd, length: sd**2 * kernels.Matern32(length)), TIMES, COUNTS),
    "two latent functions": (
        LatentGP(
            {"a": exponential, "b": quasisep.Exp(1.0)}, lambda y: lambda a, b: Poisson(y)(a + b), parameters=KERNEL
        ), TIMES, COUNTS,
    ),
    "another likelihood": (
        LatentGP(exponential, lambda y: lambda f: -jnp.sum((y - f) ** 2), parameters=KERNEL), TIMES, COUNTS
    ),
    "an array of hyperparameters": (
        LatentGP(
            lambda scales: quasisep.Exp(scales[0], sigma=scales[1]), Poisson,
            parameters={"scales": dist.LogNormal(np.zeros(2), np.ones(2))},
        ), TIMES, COUNTS,
    ),
    "a mean that is not linear": (counts(mean=lambda level: level**2), TIMES, COUNTS),
    "a mean with a kink": (counts(mean=lambda level: np.maximum(level, -3.0)), TIMES, COUNTS),
    "a mean with a kink that is far above": (counts(mean=lambda level: np.minimum(level, 12.0)), TIMES, COUNTS),
    "a mean that is a product": (
        LatentGP(exponential, Poisson, mean=lambda level, slope: level * slope, parameters={**KERNEL, **LINE}),
        TIMES, COUNTS,
    ),
    "another prior of the mean": (
        LatentGP(exponential, Poisson, mean=lambda a: a, parameters={**KERNEL, "a": dist.Cauchy(0.0, 1.0)}),
        TIMES, COUNTS,
    ),
    "a shared hyperparameter": (
        LatentGP(exponential, Poisson, mean=lambda sd: sd, parameters=KERNEL, shared=("sd",)), TIMES, COUNTS
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SHORT_OF)
def test_other_models_stay_as_they_are(case):
    model, inputs, y = SHORT_OF[case]
    assert time_series(model, inputs, y) is None


def test_a_kernel_that_jax_cannot_trace():
    model = LatentGP(lambda sd: es.Markov.random_walk(sd, start=2.0), Poisson, parameters={"sd": KERNEL["sd"]})
    series = time_series(model, TIMES, COUNTS)
    assert series is not None
    times = np.unique(TIMES)
    at = series.posterior.at(np.array([np.log(0.7)]))
    expected = 4.0 + 0.7**2 * np.minimum.outer(times, times)
    x = RNG.standard_normal(109)
    assert series.posterior.analysis.quadratic(at.prior_entries, x) == pytest.approx(
        x @ np.linalg.solve(expected, x), rel=1e-6
    )


def test_known_means():
    for mean, expected in ((1.5, 1.5), (lambda X: 0.1 * X, 0.1 * TIMES)):
        series = time_series(LatentGP(exponential, Poisson, mean=mean, parameters=KERNEL), TIMES, COUNTS)
        assert series is not None
        np.testing.assert_allclose(series.posterior.assembly.offset, np.broadcast_to(expected, 110))


def test_a_linear_mean_of_jax_is_recognised():
    """Its values are of single precision outside of the library."""
    series = time_series(counts(mean=lambda level, X: level + jnp.sin(X)), TIMES, COUNTS)
    assert series is not None
    np.testing.assert_allclose(series.posterior.assembly.offset, 0.5 + np.sin(TIMES), rtol=1e-14)


def test_inputs_with_one_column_reach_the_mean():
    problem = problem_of(counts(mean=lambda level, X: level + X[:, 0]), TIMES[:, None], COUNTS)
    assert problem.series is not None
    np.testing.assert_allclose(problem.series.assembly.offset, 0.5 + TIMES, rtol=1e-14)


def test_labels_of_0_and_1_give_one_warning():
    model = LatentGP(exponential, es.likelihoods.Logistic, parameters=KERNEL)
    with pytest.warns(UserWarning, match="0") as found:
        time_series(model, TIMES, np.arange(110) % 2)
    assert len(found) == 1


def test_options_without_a_meaning_raise():
    for option in ({"engine": "compiled"}, {"parameter_moves": ("whitened",)}):
        with pytest.raises(ValueError, match="has its own sampler, on the host"):
            counts().fit(TIMES, COUNTS, **FEW, **option)
    with pytest.raises(ValueError, match="Time series can be longer, with one kernel of tinygp"):
        counts(mean=lambda level: level**2).fit(np.arange(5001.0), np.ones(5001), **FEW)


def test_values_at_new_times_have_the_conditional_distribution():
    count, new = 4000, np.array([-1.0, 0.7, 400.0, 0.7])
    values = {"sd": 1.2, "length": 3.0, "level": 0.4, "slope": 0.02, "noise_scale": 1.0}
    parameters = {name: np.full(count, value) for name, value in values.items()}
    f = RNG.standard_normal(110)
    f[-1] = f[-2]
    drawn = draw_series(noisy(), TIMES, new, parameters, np.tile(f, (count, 1)), np.random.default_rng(0))
    np.testing.assert_array_equal(drawn[:, 1], drawn[:, 3])
    old, own = TIMES[:-1], new[:3]
    gain = np.linalg.solve(covariance(old, old, 1.2, 3.0), covariance(old, own, 1.2, 3.0)).T
    mean = trend(0.4, 0.02, own) + gain @ (f[:-1] - trend(0.4, 0.02, old))
    left = covariance(own, own, 1.2, 3.0) - gain @ covariance(old, own, 1.2, 3.0)
    white = np.linalg.solve(np.linalg.cholesky(left), (drawn[:, :3] - mean).T)
    assert np.abs(white.mean(axis=1)).max() < 5 / np.sqrt(count)
    np.testing.assert_allclose(white @ white.T / count, np.eye(3), atol=5 * np.sqrt(2 / count))


@pytest.mark.long
def test_services_of_a_fit(tmp_path):
    model = counts()
    whole = model.fit(TIMES, COUNTS, **FEW)
    model.fit(TIMES, COUNTS, **{**FEW, "draws": 5}, store=tmp_path / "a.zarr")
    fit = model.resume(tmp_path / "a.zarr", TIMES, COUNTS, draws=8)
    for name in ("sd", "length", "level", "f"):
        np.testing.assert_array_equal(fit.tree.posterior[name].values, whole.tree.posterior[name].values)
    assert fit.tree.posterior.f.dims == ("chain", "draw", "point")
    np.testing.assert_array_equal(fit.tree.posterior.point, TIMES)
    assert fit.hyperparameters == {"sd": ["kernel"], "length": ["kernel"], "level": ["mean"]}
    assert fit.parameter_moves == {}
    opened = model.open(tmp_path / "a.zarr", TIMES, COUNTS)
    predicted = opened.predict([TIMES[7], 500.0], draws=6)
    assert set(predicted.data_vars) == {"latent", "expected", "predictive"}
    assert set(predicted.latent.values[:, :, 0].ravel()) <= set(whole.tree.posterior.f.values[:, :, 7].ravel())
    assert len(fit.plot().lines)
    for other, times in (
        (counts(lambda sd, length: quasisep.Exp(2 * length, sigma=sd)), TIMES),
        (counts(), TIMES + np.linspace(0.0, 1.0, 110)),
        (counts(priors={**KERNEL, "sd": dist.HalfNormal(2.0)}), TIMES),
        (counts(mean=lambda level: 2 * level), TIMES),
    ):
        with pytest.raises(ValueError, match=r"a\.zarr"):
            other.resume(tmp_path / "a.zarr", times, COUNTS, draws=9)


@pytest.mark.long
@pytest.mark.statistical
def test_a_fit_has_the_exact_posterior():
    """With Gaussian noise, level and function have closed forms given the length, whose posterior is a quadrature."""
    rng = np.random.default_rng(8)
    times = np.sort(rng.uniform(0, 40, 120))
    y = 0.7 + np.linalg.cholesky(covariance(times, times, 1.0, 2.5)) @ rng.standard_normal(120)
    y += 0.5 * rng.standard_normal(120)
    model = LatentGP(
        lambda length: quasisep.Exp(length),
        lambda y: Gaussian(y, 0.5),
        mean=lambda level: level,
        parameters={"length": dist.LogNormal(1.0, 0.7), "level": dist.Normal(0.0, 2.0)},
    )
    log_length = np.linspace(-2.5, 5.0, 400)
    log_weights, levels, firsts = [], [], []
    for each in log_length:
        K = covariance(times, times, 1.0, np.exp(each))
        total = K + 4.0 + 0.25 * np.eye(120)
        log_weights.append(norm(1.0, 0.7).logpdf(each) + multivariate_normal(np.zeros(120), total).logpdf(y))
        solved = np.linalg.solve(total, y)
        levels.append(4.0 * solved.sum())
        firsts.append((K[0] + 4.0) @ solved)
    weights = np.exp(np.array(log_weights) - logsumexp(log_weights))
    posterior = model.fit(times, y, draws=1500, seed=5, progress=False).tree.posterior
    for found, exact in (
        (np.log(posterior["length"]), weights @ log_length),
        (posterior["level"], weights @ levels),
        (posterior["f"][..., 0], weights @ firsts),
    ):
        size = es.diagnostics.effective_sample_size(found.values)
        assert abs(float(found.mean()) - exact) < 5 * float(found.std()) / np.sqrt(size)


@pytest.mark.long
def test_events_in_time():
    events = np.sort(RNG.uniform(0.0, 50.0, 300))
    process = es.gp.CoxProcess(exponential, (0.0, 50.0), 200, parameters=KERNEL)
    fit = process.fit(events, draws=100, seed=1, progress=False)
    rate = fit.predict(np.linspace(1.0, 49.0, 25)).expected.mean(("chain", "draw")).values
    assert (np.abs(rate / 6.0 - 1) < 0.5).all()
