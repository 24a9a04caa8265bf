"""Gaussian processes in time as terms: quasi-separable kernels, whose cost is linear in the number of times."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tinygp.kernels import quasisep

import ellipslice as es
from catalogue_terms import GP_PRIORS, exponential, exponential_covariance, forgetting, matern32_states, quasiseparable
from ellipslice.jax_settings import on_cpu
from ellipslice.latent.terms import AR1, GP

TIMES = 3.0 + np.array([0, 1e-12, 1e-9, 1e-6, 1e-3, 0.5, 0.7, 0.70001, 3, 10, 10.5, 100, 1000, 1e4, 1e4 + 1e-7])


def matern52(sd, length):
    return sd**2 * quasisep.Matern52(length)


def underdamped(sd, length):
    return quasisep.SHO(omega=1 / length, quality=3.0, sigma=sd)


def critical(sd, length):
    return quasisep.SHO(omega=1 / length, quality=0.5, sigma=sd)


def celerite(sd, length):
    return quasisep.Celerite(a=sd**2, b=0.3 * sd**2, c=1 / length, d=0.5 / length)


def cosine(sd, length):
    return quasisep.Cosine(length, sigma=sd)


def a_sum(sd, length):
    return quasisep.Matern32(length, sigma=sd) + quasisep.Exp(0.3, sigma=2.0)


def a_product(sd, length):
    return quasisep.Matern52(length, sigma=sd) * quasisep.Cosine(4.0)


def with_a_walk(sd, length):
    return es.Markov.random_walk(0.5, start=1.0) + quasisep.Matern32(length, sigma=sd)


KERNELS = (
    exponential,
    quasiseparable,
    matern52,
    underdamped,
    critical,
    celerite,
    cosine,
    a_sum,
    a_product,
    with_a_walk,
)


def covariance_of(kernel, times, sd, length):
    with on_cpu():
        return np.array(jax.jit(lambda kernel, t: kernel(t, t))(kernel(sd, length), times)) * forgetting(len(times))


def covariance_in(bound, **values):
    """Return the covariance of the effects that the precision of a term implies."""
    effect = bound.state.structure.effect.toarray()
    return effect @ np.linalg.inv(bound.precision(**values).toarray()) @ effect.T


@pytest.mark.short_cases("exponential", "underdamped")
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_effects_have_the_covariance_of_the_kernel_at_very_close_and_far_times(kernel):
    bound = GP("t", kernel=kernel, prior=GP_PRIORS).bind({"t": TIMES[::-1]})
    for sd, length in ((1.3, 0.8), (0.5, 30.0), (2.0, 1000.0)):
        expected = covariance_of(kernel, TIMES, sd, length)
        unit = np.sqrt(expected.diagonal())
        error = (covariance_in(bound, sd=sd, length=length) - expected) / unit / unit[:, None]
        assert np.abs(error).max() < 5e-5
        logdet = np.linalg.slogdet(bound.precision(sd=sd, length=length).toarray())[1]
        assert bound.log_determinant(sd=sd, length=length) == pytest.approx(logdet, abs=1e-4)


def test_an_overdamped_oscillator_is_finite_over_a_long_time():
    """tinygp's own covariance is NaN there, because it multiplies an overflow by 0."""

    def overdamped(sd):
        return quasisep.SHO(omega=4.0, quality=0.02, sigma=sd)

    times = np.array([0.0, 1.0, 16.0])
    bound = GP("t", kernel=overdamped, prior={"sd": dist.HalfNormal(1.0)}).bind({"t": times})
    covariance = covariance_in(bound, sd=1.5)
    root = np.sqrt(1 - 4 * 0.02**2)
    slow, fast = (4.0 * (1 - sign * root) / (2 * 0.02) for sign in (1, -1))
    lag = np.abs(np.subtract.outer(times, times))
    expected = 1.5**2 * (fast * np.exp(-slow * lag) - slow * np.exp(-fast * lag)) / (fast - slow)
    np.testing.assert_allclose(covariance, expected * forgetting(3), atol=1e-6)


def test_an_exponential_kernel_at_equal_steps_is_an_autoregression():
    days = {"day": np.arange(12)}
    bound, other = GP("day", kernel=exponential, prior=GP_PRIORS).bind(days), AR1("day").bind(days)
    values = {"sd": 1.3, "rho": np.exp(-1 / 5.0)}
    np.testing.assert_allclose(
        bound.precision(sd=1.3, length=5.0).toarray(), other.precision(**values).toarray(), rtol=1e-8, atol=1e-8
    )
    assert bound.log_determinant(sd=1.3, length=5.0) == pytest.approx(other.log_determinant(**values), abs=1e-7)


def test_equal_times_share_an_effect_and_nothing_dense_is_made():
    times = np.repeat(np.arange(30_000.0), 2)[::-1]
    bound = GP("t", kernel=quasiseparable, prior=GP_PRIORS).bind({"t": times})
    assert bound.size == 60_000
    assert len(bound.bases) == 3 * 30_000 + 4 * 29_999
    assert bound.coefficients(sd=1.0, length=3.0).shape == (len(bound.bases),)
    assert bound.coords["t_level"].shape == (30_000,)
    assert bound.effects(np.ones((2, 60_000)))["t"][1].shape == (2, 30_000)
    np.testing.assert_array_equal(bound.level_rows()[[0, 1, -1]].indices, [29_999, 29_999, 0])


def test_a_kernel_that_jax_cannot_trace():
    def untraceable(sd, length):
        return quasisep.Matern32(float(length), sigma=float(sd))

    bound = GP("t", kernel=untraceable, prior=GP_PRIORS).bind({"t": [0.0, 0.5, 2.0]})
    expected = GP("t", kernel=quasiseparable, prior=GP_PRIORS).bind({"t": [0.0, 0.5, 2.0]})
    np.testing.assert_allclose(
        bound.coefficients(sd=1.3, length=0.8), expected.coefficients(sd=1.3, length=0.8), rtol=1e-12
    )
    again = pickle.loads(pickle.dumps(expected))
    np.testing.assert_array_equal(again.coefficients(sd=1.3, length=0.8), expected.coefficients(sd=1.3, length=0.8))


def test_mistakes():
    with pytest.raises(ValueError, match=r"Matern32 of tinygp\.kernels\.quasisep is a kernel for times"):
        GP(("x", "y"), kernel=quasisep.Matern32(1.0)).bind({"x": [0.0, 1.0], "y": [0.0, 2.0]})
    with pytest.raises(ValueError, match="no positive definite covariance at the inputs for its arguments"):
        GP("t", kernel=-1.0 * quasisep.Exp(1.0)).bind({"t": [0.0, 1.0]})
    with pytest.raises(ValueError, match="no positive definite covariance"):  # a random walk is 0 at its origin
        GP("t", kernel=es.Markov.random_walk(1.0)).bind({"t": [0.0, 1.0]})


def test_one_time():
    bound = GP("t", kernel=quasiseparable, prior=GP_PRIORS).bind({"t": [2.0, 2.0]})
    np.testing.assert_allclose(bound.precision(sd=2.0, length=1.0).toarray(), np.eye(2) / 4)


@pytest.mark.short_cases("quasiseparable")
@pytest.mark.parametrize("kernel", [exponential, quasiseparable], ids=lambda kernel: kernel.__name__)
def test_effects_at_new_times_have_the_conditional_distribution(kernel):
    old, new = np.array([0.0, 1.0, 2.5, 2.5 + 1e-6]), np.array([-1.0, 0.5, 1.7, 4.0])
    count, x = 4000, np.array([0.5, -1.0, 2.0, 2.0])
    bound = GP("t", kernel=kernel, prior=GP_PRIORS).bind({"t": old})
    draws = {"sd": np.full(count, 1.3), "length": np.full(count, 0.8)}
    found = bound.conditional_effects(
        {"t": np.append(new[::-1], 4.0)}, np.tile(x, (count, 1)), draws, np.random.default_rng(0)
    )
    np.testing.assert_array_equal(found[:, 0], found[:, 4])
    joint = covariance_of(kernel, np.concatenate([old, new]), 1.3, 0.8) / forgetting(8)
    gain = np.linalg.solve(joint[:4, :4] + 1e-12 * np.eye(4), joint[:4, 4:]).T
    covariance = joint[4:, 4:] - gain @ joint[:4, 4:]
    white = np.linalg.solve(np.linalg.cholesky(covariance), (found[:, 3::-1] - gain @ x).T)
    assert np.abs(white.mean(axis=1)).max() < 5 / np.sqrt(count)
    np.testing.assert_allclose(white @ white.T / count, np.eye(4), atol=5 * np.sqrt(2 / count))


def test_states_are_the_function_and_its_slope():
    times = np.array([0.0, 0.4, 2.0])
    bound = GP("t", kernel=quasiseparable, prior=GP_PRIORS).bind({"t": times})
    np.testing.assert_allclose(
        bound.precision(sd=1.3, length=0.8).toarray(), matern32_states(times, 1.3, 0.8), rtol=1e-8, atol=1e-8
    )


@pytest.mark.long
def test_a_fit_agrees_with_the_autoregression():
    """The same posterior by two terms, the kernel as a function of rho."""

    def kernel(sd, rho):
        return quasisep.Exp(-1 / jnp.log(rho), sigma=sd)

    rng = np.random.default_rng(3)
    f = np.linalg.cholesky(exponential_covariance(np.arange(80.0), 0.9, 6.0)) @ rng.standard_normal(80)
    y, priors = rng.poisson(np.exp(1.0 + f)), {"sd": dist.HalfNormal(1.0), "rho": dist.Uniform(0.05, 0.99)}
    found = []
    for term in (GP("day", kernel=kernel, prior=priors, name="f"), AR1("day", prior=priors, name="f")):
        data = {"one": np.ones(80), "day": np.arange(80)}
        model = es.LatentGaussianModel(y, [es.terms.Fixed(["one"]), term], data=data, family="poisson")
        posterior = model.fit(draws=1000, seed=2, progress=False).tree["posterior"]
        found.append([posterior["f_sd"], posterior["f_rho"], posterior["f"][..., 0], posterior["f"][..., 40]])
    for one, other in zip(*found, strict=True):
        error = np.sqrt(float(one.var() + other.var()) / 1000)  # each has at least 1,000 effective samples
        assert abs(float(one.mean() - other.mean())) < 5 * error
        assert 0.85 < float(one.std() / other.std()) < 1.18
