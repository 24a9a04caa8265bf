"""Names in the results of Gaussian processes: columns and index of data frames, dims and coords."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from tinygp import kernels
from tinygp.kernels.distance import L2Distance

import ellipslice as es
from ellipslice.gp import CoxProcess, LatentGP

mpl.use("Agg")

RNG = np.random.default_rng(4)
TABLE = pd.DataFrame(
    {"east": RNG.uniform(0, 3, 12), "north": RNG.uniform(0, 3, 12), "count": RNG.poisson(2, 12), "who": list("ab") * 6},
    index=[f"site {i}" for i in range(12)],
)
PLACES: Any = TABLE[["east", "north"]]
SHORT = {"draws": 20, "warmup": 20, "chains": 2, "seed": 1, "progress": False}
NAMES = {"dims": {"b": ["slope"]}, "coords": {"slope": ["per east", "per north"]}}
FLAT = kernels.Matern32(1.0, distance=L2Distance())
KNOWN = LatentGP(FLAT, es.likelihoods.Poisson)


def posterior(fit) -> Any:
    return fit.tree["posterior"]


def linear(X, b):
    return X @ b


MODEL = LatentGP(
    lambda scale: kernels.Matern32(scale, distance=L2Distance()), es.likelihoods.Poisson, mean=linear,
    parameters={"scale": dist.LogNormal(0.0, 0.3), "b": dist.Normal(np.zeros(2), 1.0).to_event(1)},
)  # fmt: skip


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = tmp_path_factory.mktemp("fit") / "run.zarr"
    return path, MODEL.fit(PLACES, TABLE["count"], store=path, **NAMES, **SHORT)


def check_names(draws):
    assert draws["f"].dims == ("chain", "draw", "point")
    assert draws["point"].values.tolist() == PLACES.index.tolist()
    assert draws["b"].dims == ("chain", "draw", "slope")
    assert draws["slope"].values.tolist() == ["per east", "per north"]
    for name in ("east", "north"):
        assert draws[name].dims == ("point",)
        np.testing.assert_array_equal(draws[name], PLACES[name])


@pytest.mark.long
def test_columns_index_and_names_are_in_the_result(fitted):
    path, fit = fitted
    check_names(posterior(fit))
    check_names(posterior(MODEL.open(path, PLACES, TABLE["count"])))


@pytest.mark.long
def test_a_resumed_fit_has_the_same_names(fitted):
    path, _ = fitted
    again = MODEL.resume(path, PLACES, TABLE["count"], draws=25, progress=False)
    assert posterior(again).sizes["draw"] == 25
    check_names(posterior(again))
    assert again.predict(PLACES).point.values.tolist() == PLACES.index.tolist()


def test_names_do_not_change_draws_or_predictions():
    named, plain = (KNOWN.fit(x, TABLE["count"].to_numpy(), **SHORT) for x in (PLACES, PLACES.to_numpy()))
    np.testing.assert_array_equal(posterior(named)["f"], posterior(plain)["f"])
    assert posterior(plain)["point"].values.tolist() == list(range(12))
    assert "columns" not in plain.tree.attrs
    new = pd.DataFrame({"north": [0.5, 1.0], "who": ["a", "b"], "east": [2.0, 0.1]}, index=["p", "q"])
    expected = plain.predict(new[["east", "north"]].to_numpy())
    predicted = named.predict(new)  # columns in another order, and one more
    for name in ("latent", "expected", "predictive"):
        np.testing.assert_array_equal(predicted[name], expected[name])
    assert predicted["point"].values.tolist() == ["p", "q"]
    np.testing.assert_array_equal(predicted["north"], new["north"])
    np.testing.assert_array_equal(named.predict(new.to_numpy()[:, [2, 0]].astype(float)).latent, expected.latent)
    assert named.log_predictive_density(new, [1, 2]).shape == (2,)


@pytest.mark.long
def test_maps_have_the_names_of_the_columns():
    maps = KNOWN.fit(PLACES, TABLE["count"], **SHORT).plot()
    assert [(axes.get_xlabel(), axes.get_ylabel()) for axes in maps] == [("east", "north")] * 2


def test_a_series_of_times_and_another_name_of_the_dimension(tmp_path):
    dates = pd.date_range("2024-01-01", periods=12, unit="ns")
    times = pd.Series(np.arange(12.0), index=dates, name="week")
    fit = KNOWN.fit(times, TABLE["count"], dims={"f": ["day"]}, store=tmp_path / "run.zarr", **SHORT)
    opened = KNOWN.open(tmp_path / "run.zarr", times, TABLE["count"])
    for each in (fit, opened):
        draws = posterior(each)
        assert draws["f"].dims == ("chain", "draw", "day")
        np.testing.assert_array_equal(draws["day"], dates)
        np.testing.assert_array_equal(draws["week"], np.arange(12.0))
    predicted = opened.predict(pd.DataFrame({"week": [1.5]}))
    assert predicted["latent"].dims == ("chain", "draw", "day")
    assert predicted["day"].values.tolist() == [1.5]  # no index, so the inputs are the labels
    assert predicted["week"].values.tolist() == [1.5]
    assert fit.plot().get_xlabel() == "week"


@pytest.mark.parametrize(
    ("index", "labels"),
    [
        (range(12), np.arange(12.0)),
        (range(1, 13), np.arange(1, 13)),
        (pd.MultiIndex.from_product([["a", "b"], range(6)]), [f"{a}, {i}" for a in "ab" for i in range(6)]),
    ],
    ids=["default", "whole numbers", "several levels"],
)
def test_labels_of_points(index, labels):
    times = pd.Series(np.arange(12.0), index=pd.Index(index))
    draws = posterior(KNOWN.fit(times, TABLE["count"].to_numpy(), **SHORT))
    assert draws["point"].values.tolist() == list(labels)
    assert set(draws.coords) == {"chain", "draw", "point"}  # the series has no name


def test_labels_that_are_given_replace_the_index():
    fit = KNOWN.fit(PLACES, TABLE["count"], coords={"point": np.arange(12) + 50}, **SHORT)
    assert posterior(fit)["point"].values.tolist() == list(range(50, 62))


def test_cells_of_a_cox_process_have_the_columns_of_the_events():
    process = CoxProcess(FLAT, window=[(0, 3), (0, 3)], cells=3)
    named, plain = (process.fit(x, **SHORT) for x in (PLACES, PLACES.to_numpy()))
    draws = posterior(named)
    np.testing.assert_array_equal(draws["f"], posterior(plain)["f"])
    np.testing.assert_array_equal(draws["east"], process.centres[:, 0])
    np.testing.assert_array_equal(draws["north"], process.centres[:, 1])
    predicted = named.predict(PLACES.iloc[:2])
    np.testing.assert_array_equal(predicted["expected"], plain.predict(PLACES.to_numpy()[:2])["expected"])
    assert predicted["point"].values.tolist() == ["site 0", "site 1"]
    assert posterior(process.fit(PLACES, dims={"f": ["cell"]}, **SHORT))["f"].dims[-1] == "cell"


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (TABLE[["east", "who"]], {}, r"X\['who'\] has dtype (object|str)\. Expected real numbers"),
        (PLACES.assign(north=[*range(11), np.nan]), {}, r"X\['north'\] must be finite, but X\['north'\]\[11\] is nan"),
        (
            PLACES.rename(columns={"east": "b"}),
            {},
            "X has the column 'b', but the results of this model have something",
        ),
        (PLACES.rename(columns={"east": "point"}), {}, "X has the column 'point', but the results"),
        (PLACES.rename(columns={"east": "expected"}), {}, "X has the column 'expected', but the results"),
        (PLACES, {"dims": {"b": ["east"]}}, "X has the column 'east', but the results"),
        (PLACES, {"dims": {"c": ["slope"]}}, "dims names 'c', but the stored variables are f, b, scale"),
        (PLACES, {"dims": {"b": "slope"}}, r"dims\['b'\] is 'slope', but b has shape \(2,\)\. Give a list of 1 names"),
        (PLACES, {"coords": {"slope": [1, 2]}}, "coords names 'slope', which is not in dims"),
        (PLACES, {"dims": NAMES["dims"], "coords": {"slope": [1]}}, r"coords\['slope'\] has 1 values"),
    ],
    ids=[
        "text",
        "missing",
        "hyperparameter",
        "dimension",
        "prediction",
        "label",
        "unknown",
        "string",
        "coord",
        "length",
    ],
)
def test_mistakes_in_names_raise_before_the_run(X, options, message, monkeypatch):
    monkeypatch.setattr("ellipslice.gp.model.problem_of", None)
    with pytest.raises((ValueError, TypeError), match=message):
        MODEL.fit(X, TABLE["count"], **options, **SHORT)


def test_several_functions_have_one_dimension():
    def log_likelihood(y):
        return lambda f, g: es.likelihoods.Poisson(y)(f + g)

    model = LatentGP({"f": FLAT, "g": FLAT}, log_likelihood)
    with pytest.raises(ValueError, match="dims gives the names a, b to the dimension of the points"):
        model.fit(PLACES, TABLE["count"], dims={"f": ["a"], "g": ["b"]}, **SHORT)


def test_a_prediction_without_a_column():
    fit = KNOWN.fit(PLACES, TABLE["count"], **SHORT)
    with pytest.raises(ValueError, match=r"X has no column 'north'\. The model was fitted to the columns east, north"):
        fit.predict(TABLE[["east", "count"]])
