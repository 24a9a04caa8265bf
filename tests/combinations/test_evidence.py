"""`evidence`: its options in combination, on problems whose log Z is known exactly.

f has two elements with a Gaussian prior and is observed with Gaussian noise, so Z is a Gaussian density. Rows that must
be rejected are listed with their message. All others run, agree with the exact value, and are bit-identical when they
are repeated.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ellipslice as es
from combinations.pairs import Refusal, all_pairs, name, refusals_of, refused_rows

Y, NOISE = np.array([0.5, -1.0]), 1.0
COVARIANCE = np.array([[1.0, 0.6], [0.6, 2.0]])
CONSTANT = -np.log(2 * np.pi)


def by_jax(f):
    return -0.5 * jnp.sum((Y - f) ** 2) + CONSTANT


def by_numpy(f):
    return -0.5 * float(np.sum((Y - np.asarray(f)) ** 2)) + CONSTANT


def in_batches(f):
    return -0.5 * ((Y - f) ** 2).sum(axis=-1) + CONSTANT


def named(g):
    return -0.5 * jnp.sum((Y - g) ** 2) + CONSTANT


class Workers(Executor):
    """An executor that runs each task immediately, in this process."""

    def submit(self, function, /, *arguments, **keywords):
        future: Future = Future()
        try:
            future.set_result(function(*arguments, **keywords))
        except Exception as error:  # noqa: BLE001  as a process pool hands it back
            future.set_exception(error)
        return future


PRIORS = {
    "Dense": lambda: es.Dense(COVARIANCE),
    "mean": lambda: es.Dense(COVARIANCE, mean=0.4),
    "LowRank": lambda: es.LowRank(np.linalg.cholesky(COVARIANCE)),
    "Sum": lambda: es.Sum(es.Dense(COVARIANCE / 2), es.Dense(COVARIANCE / 2)),
    "FromDraws": lambda: es.FromDraws(lambda rng: np.linalg.cholesky(COVARIANCE) @ rng.standard_normal(2), 2),
    "Stack": lambda: es.Stack({"g": es.Dense(COVARIANCE)}),
    "truncated": lambda: es.TruncatedGaussian.box(es.Dense(COVARIANCE), lower=0.0),
}
LIKELIHOODS = {"Gaussian": None, "jax": by_jax, "numpy": by_numpy, "batch": in_batches}
OPTIONS: dict[str, list[Any]] = {
    "method": ["tempered", "nested", "auto"],
    "prior": list(PRIORS),
    "likelihood": list(LIKELIHOODS),
    "reference": ["auto", None, "laplace", "ep"],
    "engine": [None, "batched", "host"],
    "executor": [False, True],
    "check": [True, False],
    "updates_per_temperature": [None, 3],
    "replicates": [10, 4],
    "target_effective_fraction": [0.8, 0.5],
    "particles": [200, 205],
}
FITTED = ("laplace", "ep")

REFUSALS = [
    Refusal("replicates cannot share 205 particles equally", lambda particles: particles == 205),
    Refusal("reference is an option of", lambda method, reference: method == "nested" and reference in FITTED),
    Refusal("check is an option of", lambda method, check: method == "nested" and not check),
    Refusal(
        "updates_per_temp.* is an option",
        lambda method, updates_per_temperature: method == "nested" and updates_per_temperature,
    ),
    Refusal(
        "target_.* is an option of",
        lambda method, target_effective_fraction: method == "nested" and target_effective_fraction != 0.8,
    ),
    Refusal("the prior is a TruncatedGaussian", lambda prior: prior == "truncated"),
    Refusal(
        'engine="batched" was given, but JAX cannot trace',
        lambda engine, likelihood: engine == "batched" and likelihood == "numpy",
    ),
    Refusal(
        'engine="batched" was given, but .* draws on the host',
        lambda engine, prior: engine == "batched" and prior == "FromDraws",
    ),
    Refusal(
        "vectorized=True passes all particles to one call",
        lambda executor, likelihood: executor and likelihood == "batch",
    ),
    Refusal(
        "executor is for log-likelihoods that JAX cannot trace",
        lambda executor, engine, likelihood: executor and engine != "host" and likelihood in ("Gaussian", "jax"),
    ),
    Refusal(
        "factorises over the elements of f",
        lambda reference, likelihood: reference in FITTED and likelihood == "numpy",
    ),
    Refusal("is not traced by JAX", lambda reference, engine: reference in FITTED and engine == "host"),
    Refusal("FromDraws", lambda reference, prior: reference in FITTED and prior == "FromDraws"),
]
NOT_TRIED = [
    Refusal(".", lambda reference, likelihood: reference in FITTED and likelihood == "batch"),
    Refusal(".", lambda reference, prior: reference == "auto" and prior == "FromDraws"),
]
"""Combinations that tests of references cover, because they need more checks of the fit."""

ROWS = all_pairs(OPTIONS, [*REFUSALS, *NOT_TRIED])
REFUSED = refused_rows(OPTIONS, REFUSALS)


def run(row):
    function = LIKELIHOODS[row["likelihood"]]
    if row["prior"] == "Stack" and row["likelihood"] != "Gaussian":
        inner = function

        def function(g):
            return inner(g)

    elif row["likelihood"] == "Gaussian":
        function = es.likelihoods.Gaussian(Y, NOISE) if row["prior"] != "Stack" else named
    options = {
        option: row[option]
        for option in (
            "method",
            "reference",
            "engine",
            "check",
            "updates_per_temperature",
            "replicates",
            "target_effective_fraction",
        )
    }
    return es.evidence(
        function,
        PRIORS[row["prior"]](),
        particles=row["particles"],
        seed=3,
        vectorized=True if row["likelihood"] == "batch" else None,
        executor=Workers() if row["executor"] else None,
        **options,
    )


def exact(row):
    mean = np.full(2, 0.4 if row["prior"] == "mean" else 0.0)
    return stats.multivariate_normal(mean, COVARIANCE + NOISE**2 * np.eye(2)).logpdf(Y)


def check_tempered(row, result):
    if row["check"]:
        assert result.estimates_agree is not False
    else:
        assert result.estimates_agree is None
        assert np.isnan(result.ais_log_z)
    if row["updates_per_temperature"] is not None:
        assert (result.updates == 3).all()
    if row["reference"] != "auto":
        assert result.reference == (row["reference"] or "prior")
    if row["method"] == "tempered":
        assert (result.other, result.methods_agree, result.comparison) == (None, None, "")
    else:
        assert result.methods_agree is not False
        assert (result.other is None) == bool(result.comparison)


def check_row(row):
    result = run(row)
    # With 4 replicates, the error follows a t distribution with 3 degrees of freedom, which exceeds 22 once in 10^4.
    limit = stats.t(row["replicates"] - 1).ppf(1 - 1e-4)
    assert abs(result.log_z - exact(row)) <= limit * result.standard_error + 1e-9
    assert result.replicate_log_z.shape == (row["replicates"],)
    assert isinstance(result, es.marginal.NestedEvidence) == (row["method"] == "nested")
    if row["method"] != "nested":
        check_tempered(row, result)
    draws = result.draws["g"] if row["prior"] == "Stack" else result.draws
    assert draws.shape == (200, 2)
    assert draws.dtype == np.float64
    assert np.isfinite(draws).all()
    again = run(row)
    assert (again.log_z, again.standard_error) == (result.log_z, result.standard_error)
    np.testing.assert_array_equal(again.replicate_log_z, result.replicate_log_z)


def is_long(row):
    """Return whether a row is only in the full set, because its compilation takes most of the time."""
    return row["likelihood"] != "numpy" and not (row["likelihood"] == "batch" and row["engine"] == "host")


@pytest.mark.long_cases("reference=ep, check=False, updates_per_temperature=3, replicates=4")
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=name(row, OPTIONS), marks=[pytest.mark.long] if number and is_long(row) else [])
        for number, row in enumerate(ROWS)
    ],
)
@pytest.mark.filterwarnings("ignore:the replacements of live points")  # few live points, and a p-value below 0.05
@pytest.mark.filterwarnings("ignore:the particles mix slowly")  # with an exact reference only rounding errors remain
def test_a_row_runs_and_is_right(row):
    check_row(row)


@pytest.mark.parametrize("row", [pytest.param(row, id=name(row, OPTIONS)) for row in REFUSED])
def test_a_row_is_refused(row):
    expected = refusals_of(row, REFUSALS)
    with pytest.raises((ValueError, TypeError), match="|".join(f"({refusal.message})" for refusal in expected)):
        run(row)
