"""The engines that run on a GPU, compared with closed forms and with each other. `make gpu` runs these tests."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from statistical.monte_carlo import compare_gaussian

pytestmark = pytest.mark.gpu

X = np.linspace(0, 3, 24)
COVARIANCE = np.exp(-0.5 * (X[:, None] - X) ** 2) + 0.2 * np.eye(24)
MEAN = np.sin(X)
Y, NOISE = np.cos(X), 0.7
PRIOR = es.Dense(COVARIANCE, mean=MEAN)
GAIN = COVARIANCE @ np.linalg.inv(COVARIANCE + NOISE**2 * np.eye(24))
OPTIONS = {"draws": 400, "warmup": 200, "thin": 5, "chains": 256, "seed": 1, "progress": False}


@pytest.fixture(scope="session", autouse=True)
def gpu():
    if jax.default_backend() != "gpu":
        pytest.fail(
            "JAX finds no GPU on this machine. Install JAX for your GPU, or name an interpreter that has it: "
            "GPU_PYTHON=python3 make gpu"
        )


def own_function(f):
    return -0.5 * jnp.sum(((f - Y) / NOISE) ** 2)


LIKELIHOODS = {"built-in": es.likelihoods.Gaussian(Y, NOISE), "own function": own_function}


def test_a_gpu_is_used_when_there_is_one():
    tree = es.sample(LIKELIHOODS["built-in"], PRIOR, **OPTIONS | {"draws": 20})
    assert tree.attrs["engine"] == "fused"


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("engine", ["fused", "batched"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_draws_are_from_the_exact_posterior(likelihood, engine, precision):
    tree = es.sample(LIKELIHOODS[likelihood], PRIOR, engine=engine, precision=precision, **OPTIONS)
    draws = tree.posterior.f.values
    assert draws.dtype == (np.float32 if precision == "single" else np.float64)
    mean = MEAN + GAIN @ (Y - MEAN)
    compare_gaussian(draws.astype(float), mean, COVARIANCE - GAIN @ COVARIANCE, f"{likelihood}, {engine}, {precision}")


@pytest.mark.parametrize("engine", ["fused", "batched"])
def test_the_same_seed_gives_the_same_bits(engine):
    options = OPTIONS | {"draws": 50, "engine": engine, "precision": "single"}
    first, second = (es.sample(LIKELIHOODS["built-in"], PRIOR, **options) for _ in range(2))
    np.testing.assert_array_equal(first.posterior.f.values, second.posterior.f.values)


def test_kernel_and_loop_agree_to_rounding():
    options = OPTIONS | {"draws": 5, "warmup": 0, "thin": 1, "precision": "double"}
    trees = [es.sample(LIKELIHOODS["built-in"], PRIOR, engine=engine, **options) for engine in ("fused", "batched")]
    fused, batched = (tree.posterior.f.values for tree in trees)
    same = np.isclose(fused, batched, rtol=1e-9, atol=1e-9).all(axis=(1, 2))
    assert same.mean() > 0.99  # chains may differ after a value that is equal to the slice level up to rounding error


def test_keep_on_the_gpu():
    options = OPTIONS | {"draws": 50, "precision": "single", "keep": lambda f: {"largest": f.max(), "first": f[:2]}}
    tree = es.sample(LIKELIHOODS["built-in"], PRIOR, **options)
    assert tree.posterior.largest.dtype == np.float32
    assert tree.posterior["first"].shape == (256, 50, 2)


def test_a_stored_run_has_the_same_bits(tmp_path):
    pytest.importorskip("zarr")
    options = OPTIONS | {"draws": 50, "precision": "single"}
    plain = es.sample(LIKELIHOODS["built-in"], PRIOR, **options)
    stored = es.sample(LIKELIHOODS["built-in"], PRIOR, store=tmp_path / "run.zarr", **options)
    np.testing.assert_array_equal(plain.posterior.f.values, stored.posterior.f.values)
