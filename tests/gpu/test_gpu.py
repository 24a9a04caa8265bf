"""The engines that run on a GPU, compared with closed forms and with each other. `make gpu` runs these tests."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.approximations.sites import SitesReference
from ellipslice.undocumented import gpu_graph
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


SITES = SitesReference(0.5 * Y, np.full(24, 0.5))
"""A poor reference."""

AROUND = {
    "a fitted reference": {"reference": "auto"},
    "a pilot run": {"reference": "pilot"},
    "ellipses": {"move": es.moves.ReferenceSlice(SITES)},
    "independence": {"move": es.moves.ReferenceSlice(SITES, independence=True)},
    "trajectories": {"move": es.moves.SplitHamiltonian(SITES, 3)},
    "trajectories, five kicks": {"move": es.moves.SplitHamiltonian(SITES, 5)},
    "trajectories around the prior": {"move": es.moves.SplitHamiltonian(None, 4)},
}


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("name", AROUND)
def test_draws_around_a_reference_are_from_the_exact_posterior(name, precision):
    tree = es.sample(LIKELIHOODS["own function"], PRIOR, precision=precision, **AROUND[name], **OPTIONS)
    assert tree.attrs["engine"] == "batched"
    mean = MEAN + GAIN @ (Y - MEAN)
    compare_gaussian(
        tree.posterior.f.values.astype(float), mean, COVARIANCE - GAIN @ COVARIANCE, f"{name}, {precision}"
    )


def test_a_gpu_runs_the_loops_of_trajectories_itself():
    tree = es.sample(LIKELIHOODS["own function"], PRIOR, **AROUND["trajectories"], **OPTIONS | {"draws": 20})
    assert gpu_graph.ITEM not in tree.attrs.get("degraded", "")


@pytest.mark.parametrize("name", ["ellipses", "trajectories"])
def test_updates_around_a_reference_have_the_same_bits_for_a_seed(name):
    options = OPTIONS | {"draws": 20, "precision": "single"} | AROUND[name]
    first, second = (es.sample(LIKELIHOODS["built-in"], PRIOR, **options) for _ in range(2))
    np.testing.assert_array_equal(first.posterior.f.values, second.posterior.f.values)


def test_trajectories_in_single_precision_agree_with_double_on_an_ill_conditioned_prior():
    """With the fast products that are JAX's default on some GPUs they do not: the acceptance ratio would be wrong."""
    x = np.linspace(0, 10, 300)
    prior = es.Dense(np.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-6 * np.eye(300))
    likelihood = es.likelihoods.Poisson(np.random.default_rng(0).poisson(np.exp(1 + np.sin(x))), offset=1.0)
    means, errors = [], []
    for precision, seed in (("single", 1), ("double", 2)):
        tree = es.sample(
            likelihood,
            prior,
            move=es.moves.SplitHamiltonian(None, 24),  # with 12 kicks no trajectory is accepted
            engine="batched",
            precision=precision,
            chains=1024,
            draws=300,
            warmup=300,
            seed=seed,
            progress=False,
        )
        f = tree.posterior.f.values.astype(float)
        total = tree.sample_stats.total_log_likelihood.values.astype(float)[..., None]
        by_chain = np.concatenate([f, f**2, np.diff(f, axis=-1) ** 2, total], axis=-1).mean(axis=1)
        means.append(by_chain.mean(axis=0))
        errors.append(by_chain.std(axis=0, ddof=1) / np.sqrt(len(by_chain)))
        assert float(tree.sample_stats.acceptance.mean()) > 0.3
    z = (means[0] - means[1]) / np.hypot(*errors)
    assert np.sqrt(np.mean(z**2)) < 1.6
    assert np.abs(z).max() < 5.5


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
