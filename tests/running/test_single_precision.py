"""Single precision is used for any prior mean, `keep` and data, also after runs in double precision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tinygp.kernels import quasisep

import catalogue
import ellipslice as es
from ellipslice.engines.device.engine import BatchedEngine
from ellipslice.jax_settings import jax_settings
from ellipslice.likelihoods import LinearPredictor, Poisson, StudentT
from ellipslice.posterior import Posterior
from ellipslice.testing import check_prior

X = np.linspace(0, 1, 5)
COVARIANCE = np.exp(-np.abs(X[:, None] - X) / 0.4)
COUNTS = np.array([1, 0, 2, 1, 3])
NUMBERS = COUNTS + 0.1  # NumPy data in double precision
with jax.enable_x64(True):
    OF_JAX = jnp.asarray(NUMBERS)


@jax.jit
def jitted(f):
    return jnp.sum(NUMBERS * f - jnp.exp(f))


def with_numbers(f):
    return jnp.sum(NUMBERS * f - jnp.exp(f))


LIKELIHOODS = {
    "whole numbers": lambda f: jnp.sum(COUNTS * f - jnp.exp(f)),
    "double precision of NumPy": with_numbers,
    "a NumPy number": lambda f: np.float64(0.3) * jnp.sum(f) - jnp.sum(jnp.exp(f)),
    "double precision of JAX": lambda f: jnp.sum(OF_JAX * f - jnp.exp(f)),
    "asks for double precision": lambda f: jnp.sum(jnp.asarray(COUNTS, float) * f) - jnp.float64(2) * jnp.sum(f**2),
    "returns a constant": lambda f: jnp.float64(0.5),
    "jitted": jitted,
    "calls a jitted function": lambda f: 2.0 * jitted(f),
    "where and clip": lambda f: jnp.sum(jnp.where(f > 0, NUMBERS, f)) - jnp.sum(jnp.clip(f, NUMBERS - 1, NUMBERS) ** 2),
    "a matrix": lambda f: -jnp.sum((COVARIANCE @ f - NUMBERS) ** 2),
    "Poisson": Poisson(COUNTS),
    "StudentT": StudentT(NUMBERS),
    "LinearPredictor": LinearPredictor(COVARIANCE[:2], lambda a: -jnp.sum((a - NUMBERS[:2]) ** 2)),
}


@pytest.mark.parametrize("mean", [1.0, pytest.param(0.0, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_likelihood_is_compiled_in_the_precision_asked_for(name, mean):
    """Single precision after double, double after single, and again, with all of them in use."""
    posterior = Posterior(es.Dense(COVARIANCE, mean=mean), LIKELIHOODS[name])
    f = np.asarray(posterior.points(np.random.default_rng(0), 1))[0]
    in_use, found = [], []
    for double in (True, False, True, False):
        dtype = np.float64 if double else np.float32
        engine = BatchedEngine(posterior, double=double)
        with jax_settings(double):
            value = jax.jit(lambda likelihood, f: jnp.asarray(likelihood(f), f.dtype))(
                engine.likelihood, f.astype(dtype)
            )
        assert value.dtype == dtype
        leaves = [leaf.dtype for leaf in jax.tree.leaves(engine.likelihood) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        assert double or name == "double precision of JAX" or set(leaves) <= {np.dtype(np.float32)}
        in_use.append(engine)
        found.append(float(value))
    np.testing.assert_allclose(found, found[0], rtol=1e-5)
    assert found[0] == found[2]
    assert found[1] == found[3]


# --- through sample: programs are compiled once for all of these ----------------------------------------------------

PRIOR = es.Dense(COVARIANCE, mean=1.0)
OPTIONS = {"draws": 12, "warmup": 2, "chains": 2, "seed": 1, "progress": False}
SINGLE = OPTIONS | {"precision": "single", "look_ahead": 1}

KEEPS = {
    "everything": (None, {"f": np.float32}),
    "a number": (lambda f: {"m": f.mean()}, {"m": np.float32}),
    "an array": (lambda f: f[:2], {"f": np.float32}),
    "of JAX": (lambda f: jnp.exp(f), {"f": np.float32}),
    "several": (lambda f: {"a": f.max(), "b": f[:3] ** 2, "c": 2 * f}, dict.fromkeys("abc", np.float32)),
    "by NumPy": (lambda f: np.sort(np.asarray(f))[:2], {"f": np.float32}),
    "which are positive": (lambda f: f > 0, {"f": np.bool_}),
    "how many are positive": (lambda f: (f > 0).sum(), {"f": np.int64}),
    "with numbers in double precision": (lambda f: f * NUMBERS, {"f": np.float64}),
    "a Python number": (lambda f: float(f.sum()), {"f": np.float64}),
    "nothing": (False, {}),
}


@pytest.mark.long_cases("everything")
@pytest.mark.parametrize("name", KEEPS)
def test_what_is_kept_is_in_single_precision(name):
    keep, dtypes = KEEPS[name]
    es.sample(with_numbers, PRIOR, **OPTIONS | {"draws": 2})  # a run in double precision before it
    for engine in (None, "batched"):
        tree = es.sample(with_numbers, PRIOR, **SINGLE, keep=keep, engine=engine)
        assert tree.attrs["engine"] == "batched"
        assert {key: values.dtype for key, values in tree.posterior.data_vars.items()} == dtypes
        for values in tree.posterior.data_vars.values():
            assert np.isfinite(values).all()
    if name == "a number":
        everything = es.sample(with_numbers, PRIOR, **SINGLE).posterior.f
        np.testing.assert_allclose(tree.posterior.m, everything.mean("f_dim_0"), rtol=1e-5)


@pytest.mark.long
def test_draws_have_the_mean_of_the_prior_in_them():
    """The draws of a prior with a mean are those of the prior without it, plus the mean."""
    moved = es.sample(with_numbers, PRIOR, **SINGLE).posterior.f.values
    centred = es.sample(lambda f: with_numbers(f + 1.0), es.Dense(COVARIANCE), **SINGLE).posterior.f.values
    assert moved.dtype == centred.dtype == np.float32
    np.testing.assert_allclose(moved, centred + 1.0, rtol=0, atol=1e-4)


def test_a_store_and_dims(tmp_path):
    named = {"dims": {"f": ["place"]}, "coords": {"place": list("abcde")}}
    in_memory = es.sample(with_numbers, PRIOR, **SINGLE, **named)
    es.sample(with_numbers, PRIOR, **SINGLE | {"draws": 5}, **named, store=tmp_path / "run.zarr")
    stored = es.resume(tmp_path / "run.zarr", with_numbers, draws=12, progress=False)
    for tree in (in_memory, stored):
        assert tree.posterior.f.dtype == np.float32
        assert tree.posterior.f.dims == ("chain", "draw", "place")
    np.testing.assert_array_equal(in_memory.posterior.f, stored.posterior.f)


PRIORS = {
    "Diagonal": (es.Diagonal(np.ones(5), mean=0.5), with_numbers),
    "a mean per value": (es.Dense(COVARIANCE, mean=X), with_numbers),
    "LowRank": (es.LowRank(COVARIANCE[:, :2], mean=0.5), with_numbers),
    "Markov": (es.Markov(quasisep.Matern32(scale=0.7), X, 0.5), with_numbers),
    "Stack": (
        es.Stack({"f": es.Dense(COVARIANCE, mean=0.5), "b": es.Diagonal(4.0, mean=-1.0)}),
        lambda f, b: with_numbers(f + b),
    ),
    "LinearPredictor": (
        es.Dense(COVARIANCE, mean=0.5),
        LinearPredictor(COVARIANCE[:2], lambda a: -jnp.sum((a - NUMBERS[:2]) ** 2)),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", PRIORS)
def test_priors(name):
    prior, log_likelihood = PRIORS[name]
    first, second = (es.sample(log_likelihood, prior, **SINGLE) for _ in range(2))
    for key, values in first.posterior.data_vars.items():
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, second.posterior[key])


# --- double precision after a user's function in single precision -----------------------------------------------------


def used_in_single_precision(prior):
    """Return jitted functions that have used a prior in single precision. JAX keeps its arrays while they exist."""
    by_hand = [jax.jit(getattr(prior, name)) for name in ("unwhiten", *(prior.capabilities - {"condition"}))]
    for function, size in zip(by_hand, (prior.noise_size, prior.size, prior.size), strict=False):
        assert function(np.zeros(size)).dtype == np.float32
    return by_hand


@pytest.mark.short_cases("Dense", "Stationary")
@pytest.mark.parametrize("name", ["Dense", "Diagonal", "Stack", "Stationary", "Kronecker", "Markov, walk"])
def test_the_laws_of_a_prior_that_was_used_in_single_precision(name):
    prior = catalogue.PRIORS[name]()
    by_hand = used_in_single_precision(prior)
    check_prior(prior, covariance=catalogue.COVARIANCES.get(name))
    assert by_hand[0](np.ones(prior.noise_size)).dtype == np.float32


@pytest.mark.long
@pytest.mark.parametrize("move", [es.moves.RandomWalk(0.5), es.moves.Hamiltonian(0.3, 2)], ids=repr)
def test_a_prior_that_was_used_in_single_precision_is_sampled_in_double(move):
    options = {"move": move, "draws": 20, "warmup": 0, "chains": 1, "seed": 1, "progress": False}
    expected = es.sample(with_numbers, es.Dense(COVARIANCE), **options)
    prior = es.Dense(COVARIANCE)
    by_hand = used_in_single_precision(prior)
    np.testing.assert_array_equal(es.sample(with_numbers, prior, **options).posterior.f, expected.posterior.f)
    assert by_hand[0](np.ones(5)).dtype == np.float32


def test_a_stack_that_was_used_in_single_precision_is_sampled_in_double():
    """Checks of the log-likelihood call `unwhiten` of its parts directly."""
    prior = es.Stack({"f": es.Dense(COVARIANCE), "b": es.Diagonal(4.0)})
    by_hand = used_in_single_precision(prior)
    tree = es.sample(lambda f, b: with_numbers(f + b), prior, draws=20, warmup=0, chains=1, seed=1, progress=False)
    assert tree.posterior.f.dtype == np.float64
    assert by_hand[0](np.ones(6)).dtype == np.float32
