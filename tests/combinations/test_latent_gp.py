"""Options of `LatentGP` in pairs: each combination runs and is correct, or is rejected with the message listed here."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from sklearn.gaussian_process.kernels import RBF
from tinygp import kernels

import ellipslice as es
from combinations.pairs import Refusal, all_pairs, name, refusals_of, refused_rows
from ellipslice.gp import LatentGP
from statistical.monte_carlo import compare

N = 6
X = np.linspace(0.0, 2.0, N)
Y = np.array([1.0, 0.0, 2.0, 1.0, 0.0, 3.0])
L = es.likelihoods

KERNELS = {
    "tinygp": kernels.Matern52(1.0),
    "quasisep": kernels.quasisep.Matern32(1.0),
    "sklearn": RBF(1.0),
    "named": {"g": kernels.Matern52(1.0)},
    "two": {"g": kernels.Matern52(1.0), "h": kernels.Matern32(2.0)},
}
LIKELIHOODS = {
    "poisson": L.Poisson,
    "student": L.StudentT,
    "offset": lambda y: L.Poisson(y, offset=0.5),
    "two": lambda y: lambda g, h: jnp.sum(y * (g + h) - jnp.exp(g + h)),
}
INPUTS = {"sorted": X, "unsorted": X[::-1], "repeated": np.round(X), "column": X[:, None], "plane": np.stack([X, X], 1)}
OPTIONS = {
    "kernel": list(KERNELS),
    "likelihood": list(LIKELIHOODS),
    "mean": ["number", "function"],
    "inputs": list(INPUTS),
    "engine": ["host", "compiled"],
    "reference": [None, "ep"],
    "chains": [2, 1],
    "thin": [1, 2],
    "store": [False, True],
    "parameter_moves": [None, "whitened"],
}
REFUSALS = [
    Refusal(
        "is for unknown hyperparameters, but the model has none",
        lambda parameter_moves: bool(parameter_moves),
    ),
    Refusal(
        r"takes one latent function, but the model has g, h",
        lambda kernel, likelihood: kernel == "two" and likelihood != "two",
    ),
    Refusal(
        r"missing .*required|called with the latent functions by name, g",
        lambda kernel, likelihood: kernel != "two" and likelihood == "two",
    ),
    Refusal(
        "is a kernel for times, one number per input",
        lambda kernel, inputs: kernel == "quasisep" and inputs == "plane",
    ),
    Refusal(
        'reference="ep" requires a log-likelihood that factorises',
        lambda kernel, likelihood, engine, reference: reference == "ep" and (engine == "host" or kernel == "two"),
    ),
    Refusal(  # the elements are selected from those at sorted times
        'reference="ep" requires a log-likelihood that factorises.*gather',
        lambda kernel, inputs, reference: (
            kernel == "quasisep" and reference == "ep" and inputs in ("unsorted", "repeated")
        ),
    ),
]


def fitted(row, path, draws=4):
    given = KERNELS[row["kernel"]]
    model = LatentGP(
        given,
        LIKELIHOODS[row["likelihood"]],
        mean=0.5 if row["mean"] == "number" else lambda X: 0.1 * X.reshape(N, -1)[:, 0],
    )
    options = {key: row[key] for key in ("engine", "reference", "chains", "thin", "parameter_moves")}
    return model.fit(
        INPUTS[row["inputs"]], Y, draws=draws, warmup=draws // 2, seed=1, progress=False, store=path, **options
    )


@pytest.mark.parametrize("row", refused_rows(OPTIONS, REFUSALS), ids=lambda row: name(row, OPTIONS))
def test_refused(row):
    messages = "|".join(one.message for one in refusals_of(row, REFUSALS))
    with pytest.raises((TypeError, ValueError), match=messages):
        fitted(row, None)


ROWS = all_pairs(OPTIONS, REFUSALS)


def latents_of(row):
    given = KERNELS[row["kernel"]]
    return given if isinstance(given, dict) else {"f": given}


@functools.cache
def reference(kernel, likelihood, mean, inputs):
    """Return the posterior means of the latent functions by importance sampling from the prior, with their errors."""
    rng, count = np.random.default_rng(0), 40_000
    x, row = INPUTS[inputs], {"kernel": kernel}
    centre = 0.5 if mean == "number" else 0.1 * x.reshape(N, -1)[:, 0]
    draws = {}
    for one, given in latents_of(row).items():
        shaped = x.reshape(N, -1) if kernel == "sklearn" else x.reshape(N) if kernel == "quasisep" else x
        with jax.enable_x64():
            values, vectors = np.linalg.eigh(np.asarray(given(shaped, shaped), float))
        noise = rng.standard_normal((count, N)) * np.sqrt(np.maximum(values, 0.0))
        draws[one] = centre + noise @ vectors.T
    log_likelihood = LIKELIHOODS[likelihood](Y)
    with jax.enable_x64():
        log_weights = np.asarray(jax.vmap(log_likelihood)(*map(jnp.asarray, draws.values())))
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    means = {one: weights @ f for one, f in draws.items()}
    errors = {one: np.sqrt(weights**2 @ (f - means[one]) ** 2) for one, f in draws.items()}
    return means, errors


def check(row, tmp_path, draws=4):
    path = tmp_path / "run.zarr" if row["store"] else None
    fit = fitted(row, path, draws)
    posterior = fit.tree.posterior
    assert set(posterior.data_vars) == set(latents_of(row))
    again = fitted(row, None, draws)
    for one in latents_of(row):
        assert posterior[one].shape == (row["chains"], draws, N)
        assert posterior[one].dtype == np.float64
        assert np.isfinite(posterior[one]).all()
        np.testing.assert_array_equal(posterior[one], again.tree.posterior[one])
    assert fit.hyperparameters == {}
    return posterior


@pytest.mark.parametrize("row", [r for r in ROWS if r["engine"] == "host"][:4], ids=lambda row: name(row, OPTIONS))
def test_runs_on_the_host(row, tmp_path):
    check(row, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: name(row, OPTIONS))
def test_runs_and_is_right(row, tmp_path):
    posterior = check(row, tmp_path, draws=400)
    means, errors = reference(*(row[key] for key in ("kernel", "likelihood", "mean", "inputs")))
    for one, expected in means.items():
        compare(posterior[one].values, expected, one, errors[one])


PRIORS = {"reach": dist.LogNormal(0.0, 0.5)}


@pytest.mark.long
@pytest.mark.parametrize("ways", [None, "whitened", "sites", "surrogate", "fixed_latent"])
def test_each_way_with_a_store(ways, tmp_path):
    model = LatentGP(lambda reach: kernels.Matern52(reach), L.Poisson, parameters=PRIORS)
    options = {"draws": 4, "warmup": 2, "chains": 1, "seed": 1, "progress": False, "parameter_moves": ways}
    stored = model.fit(X, Y, store=tmp_path / "run.zarr", **options).tree.posterior
    plain = model.fit(X, Y, **options).tree.posterior
    for one in ("reach", "f"):
        np.testing.assert_array_equal(stored[one], plain[one])
        assert np.isfinite(plain[one]).all()


def test_what_unknown_parameters_refuse():
    model = LatentGP(lambda reach: kernels.Matern52(reach), L.Poisson, parameters=PRIORS)
    for options, message in (
        ({"reference": "ep"}, "reference is for models whose hyperparameters are all known"),
        ({"parameter_moves": "blue"}, "parameter_moves must be some of"),
        ({"latent_updates": 0}, "latent_updates must be a whole number"),
        ({"timeout": 3.0}, "timeout"),
    ):
        with pytest.raises((TypeError, ValueError), match=re.escape(message)):
            model.fit(X, Y, draws=4, progress=False, **options)
