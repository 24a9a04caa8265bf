"""Options of the estimators in pairs: each runs and is correct, or is rejected with a message listed here."""

import numpy as np
import pytest

from combinations.pairs import Refusal, all_pairs, name, refusals_of, refused_rows

pytest.importorskip("sklearn")

import numpyro.distributions as dist
from sklearn.gaussian_process.kernels import RBF
from tinygp import kernels

from ellipslice.gp import EllipticalGPClassifier, EllipticalGPRegressor

X = np.linspace(0.0, 2.0, 6)
KERNELS = {
    "default": None,
    "sklearn": RBF(1.0),
    "tinygp": kernels.ExpSquared(1.0),
    "function": lambda scale: RBF(scale),
}
OPTIONS = {
    "kernel": list(KERNELS),
    "parameters": ["fitting", "given"],
    "likelihood": ["gaussian", "student-t", "poisson", "logistic", "probit"],
    "noise_scale": [None, 0.3],
    "normalize_y": [True, False],
    "axes": [1, 2],
    "ensemble_size": [2, 3],
    "chains": [1, 2],
}
REFUSALS = [
    Refusal(
        "parameters is for a kernel that is a function of hyperparameters",
        lambda kernel, parameters: parameters == "given" and kernel != "function",
    ),
    Refusal(
        "noise_scale must be positive, or None for likelihood='poisson'",
        lambda likelihood, noise_scale: likelihood == "poisson" and bool(noise_scale),
    ),
]


def fitted(row):
    priors = (
        {"scale": dist.LogNormal(0.0, 0.5)} if "given" in row["parameters"] or row["kernel"] == "function" else None
    )
    options = {"draws": 4, "warmup": 2, "ensemble_refreshes": 1, "random_state": 1, "kernel": KERNELS[row["kernel"]]}
    options |= {"parameters": priors, "ensemble_size": row["ensemble_size"], "chains": row["chains"]}
    inputs = np.stack([X, X[::-1]], 1)[:, : row["axes"]]
    if row["likelihood"] in ("logistic", "probit"):
        return EllipticalGPClassifier(link=row["likelihood"], **options).fit(inputs, [0, 1, 0, 1, 1, 0]), inputs
    model = EllipticalGPRegressor(
        likelihood=row["likelihood"], noise_scale=row["noise_scale"], normalize_y=row["normalize_y"], **options
    )
    return model.fit(inputs, np.array([1.0, 0.0, 2.0, 1.0, 0.0, 3.0])), inputs


@pytest.mark.parametrize("row", refused_rows(OPTIONS, REFUSALS), ids=lambda row: name(row, OPTIONS))
def test_refused(row):
    messages = "|".join(one.message for one in refusals_of(row, REFUSALS))
    with pytest.raises(ValueError, match=messages):
        fitted(row)


ROWS = [  # tinygp kernels are compiled for every fit
    pytest.param(row, marks=[pytest.mark.long] if row["kernel"] == "tinygp" else [], id=name(row, OPTIONS))
    for row in all_pairs(OPTIONS, REFUSALS)
]


@pytest.mark.parametrize("row", ROWS)
def test_runs(row):
    model, inputs = fitted(row)
    again, _ = fitted(row)
    found = model.predict_proba(inputs) if hasattr(model, "predict_proba") else model.predict(inputs)
    assert found.shape == ((6, 2) if hasattr(model, "predict_proba") else (6,))
    assert found.dtype == np.float64
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(model.predict(inputs), again.predict(inputs))
    expected = {"default": {"amplitude", "length_scale"}, "function": {"scale"}}.get(row["kernel"], set())
    if row["likelihood"] in ("gaussian", "student-t") and row["noise_scale"] is None:
        expected = expected | {"noise_scale"}
    assert set(model.parameters_) == expected
    assert all(values.shape == (row["chains"], 4) for values in model.parameters_.values())
