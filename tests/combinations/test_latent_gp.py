"""Options of `LatentGP` in pairs: a combination runs and is right, or is refused with the message listed here."""

import re

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from sklearn.gaussian_process.kernels import RBF
from tinygp import kernels

import ellipslice as es
from combinations.pairs import Refusal, all_pairs, name, refusals_of, refused_rows
from ellipslice.gp import LatentGP

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
    "ways": [None, "white"],
}
REFUSALS = [
    Refusal("ways says how to move unknown parameters of the kernel, but there are none", lambda ways: bool(ways)),
    Refusal(
        r"takes one latent function, but the model has g, h",
        lambda kernel, likelihood: kernel == "two" and likelihood != "two",
    ),
    Refusal(
        r"missing .*required|called with the latent functions by name, g",
        lambda kernel, likelihood: kernel != "two" and likelihood == "two",
    ),
    Refusal(
        'reference="ep" needs a log-likelihood that is a sum',
        lambda kernel, likelihood, engine, reference: reference == "ep" and (engine == "host" or kernel == "two"),
    ),
]


def fitted(row, path):
    given = KERNELS[row["kernel"]]
    model = LatentGP(
        given,
        LIKELIHOODS[row["likelihood"]],
        mean=0.5 if row["mean"] == "number" else lambda X: 0.1 * X.reshape(N, -1)[:, 0],
    )
    options = {key: row[key] for key in ("engine", "reference", "chains", "thin", "ways")}
    return model.fit(INPUTS[row["inputs"]], Y, draws=4, warmup=2, seed=1, progress=False, store=path, **options)


@pytest.mark.parametrize("row", refused_rows(OPTIONS, REFUSALS), ids=lambda row: name(row, OPTIONS))
def test_refused(row):
    messages = "|".join(one.message for one in refusals_of(row, REFUSALS))
    with pytest.raises((TypeError, ValueError), match=messages):
        fitted(row, None)


ROWS = all_pairs(OPTIONS, REFUSALS)


def check(row, tmp_path):
    path = tmp_path / "run.zarr" if row["store"] else None
    fit = fitted(row, path)
    latents = list(KERNELS[row["kernel"]]) if isinstance(KERNELS[row["kernel"]], dict) else ["f"]
    posterior = fit.tree.posterior
    assert set(posterior.data_vars) == set(latents)
    again = fitted(row, None)
    for one in latents:
        assert posterior[one].shape == (row["chains"], 4, N)
        assert posterior[one].dtype == np.float64
        assert np.isfinite(posterior[one]).all()
        np.testing.assert_array_equal(posterior[one], again.tree.posterior[one])
    assert fit.hyperparameters == {}


@pytest.mark.parametrize("row", [r for r in ROWS if r["engine"] == "host"][:4], ids=lambda row: name(row, OPTIONS))
def test_runs_on_the_host(row, tmp_path):
    check(row, tmp_path)


PRIORS = {"reach": dist.LogNormal(0.0, 0.5)}


def test_what_unknown_parameters_refuse():
    model = LatentGP(lambda reach: kernels.Matern52(reach), L.Poisson, parameters=PRIORS)
    for options, message in (
        ({"reference": "ep"}, "reference is for models without unknown parameters"),
        ({"ways": "blue"}, "ways must be some of"),
        ({"latent_updates": 0}, "latent_updates must be a whole number"),
        ({"timeout": 3.0}, "timeout"),
    ):
        with pytest.raises((TypeError, ValueError), match=re.escape(message)):
            model.fit(X, Y, draws=4, progress=False, **options)
