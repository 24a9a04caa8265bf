"""`ellipslice fit data.csv --formula ...`, and the commands after it."""

from __future__ import annotations

import json
import re
import shutil

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ellipslice as es
from ellipslice.apps.cli import app
from ellipslice.apps.fits.folder import open_folder
from ellipslice.apps.fits.formula.graphs import as_json, from_json, read_graph
from ellipslice.apps.fits.formula.model import FormulaProblem, names_in
from stores import assert_same_stores

pytest.importorskip("zarr")
mpl.use("Agg")

SHORT = ("--draws", 24, "--warmup", 10, "--chains", 2, "--seed", 5)
FORMULA = "visits ~ age + sex + (1 | clinic)"


def ellipslice(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


def said(result):
    return " ".join(result.stderr.split())


def patients():
    rng = np.random.default_rng(0)
    clinic = np.arange(30) % 5
    return pd.DataFrame(
        {
            "visits": rng.poisson(np.exp(0.5 + 0.4 * np.array([-1, 1, 0, 0.5, -0.5])[clinic]) * 2),
            "age": np.linspace(-1, 1, 30).round(3),
            "sex": np.array(["m", "f"])[rng.integers(0, 2, 30)],
            "clinic": np.array(["a", "b", "c", "d", "e"])[clinic],
            "years": np.linspace(1, 2, 30),
            "hit": rng.binomial(6, 0.4, 30),
            "tried": 6,
            "unused": [np.nan] * 30,
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "patients.csv"
    patients().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    ellipslice("fit", table, "--formula", FORMULA, "--family", "poisson", "--exposure", "years", *SHORT, "--out", out)
    return out


@pytest.fixture
def no_draws(monkeypatch):
    """Fail the test if a run starts."""

    def begun(self, *_, **__):
        raise AssertionError("a run was started")

    monkeypatch.setattr(FormulaProblem, "fit", begun)
    monkeypatch.setattr(FormulaProblem, "resume", begun)


# --- draws, files and messages ----------------------------------------------------------------------------------------


def test_the_draws_are_those_of_the_library(run, table):
    model = es.LatentGaussianModel(FORMULA, data=pd.read_csv(table), family="poisson", exposure="years")
    fit = model.fit(draws=24, warmup=10, chains=2, seed=5, progress=False)
    found = open_folder(run).fit()
    assert set(found.tree.posterior.data_vars) == {"fixed", "clinic", "clinic_sd"}
    for name, values in fit.tree.posterior.data_vars.items():
        np.testing.assert_array_equal(found.tree.posterior[name], values)


def test_a_fit_writes_a_folder(run, table):
    assert {path.name for path in run.iterdir()} >= {"settings.json", "data.csv", "draws.zarr", "plot.png"}
    kept = pd.read_csv(run / "data.csv")
    assert list(kept.columns) == ["visits", "age", "sex", "clinic", "years"]
    pd.testing.assert_frame_equal(kept, pd.read_csv(table, usecols=list(kept.columns)))
    predicted = pd.read_csv(run / "predictions.csv")
    fit = open_folder(run).fit()
    draws = fit.predict(seed=5).expected.values.reshape(-1, 30)
    np.testing.assert_allclose(predicted.expected_mean, draws.mean(0), rtol=1e-6)
    np.testing.assert_allclose(predicted.expected_q95, np.quantile(draws, 0.95, axis=0), rtol=1e-6)
    assert predicted.clinic.tolist() == kept.clinic.tolist()
    assert {"linear_predictor_median", "predictive_q05"} < set(predicted.columns)


def test_a_summary_for_the_eye_and_for_scripts(run):
    text = ellipslice("summary", run).stdout
    for word in (
        "30 rows",
        f"{FORMULA}: poisson family, log link",
        "parameter ",
        "clinic_sd",
        "sex[m]",
        "2 chains of 24",
    ):
        assert word in text
    found = json.loads(ellipslice("summary", run, "--json").stdout)
    posterior = open_folder(run).fit().tree.posterior
    assert list(found["parameters"]) == ["clinic_sd", "Intercept", "age", "sex[m]"]
    assert found["parameters"]["age"]["mean"] == pytest.approx(posterior.fixed.values[:, :, 1].mean())
    assert found["parameters"]["clinic_sd"]["q95"] == pytest.approx(np.quantile(posterior.clinic_sd, 0.95))
    assert (found["draws"], found["chains"], found["converged"]) == (24, 2, False)


@pytest.mark.long
def test_more_draws_are_those_of_a_longer_run(run, table, tmp_path):
    given = ("--formula", FORMULA, "--family", "poisson", "--exposure", "years", *SHORT[2:], "--quiet")
    ellipslice("fit", table, *given, "--draws", 36, "--out", tmp_path / "whole")
    shutil.copytree(run, tmp_path / "part")
    ellipslice("resume", tmp_path / "part", "--draws", 36, "--quiet")
    assert_same_stores(tmp_path / "part/draws.zarr", tmp_path / "whole/draws.zarr")
    one, two = ((tmp_path / name / "predictions.csv").read_bytes() for name in ("part", "whole"))
    assert one == two


def test_a_fit_begun_and_not_yet_drawn_can_be_gone_on_with(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/draws.zarr")
    assert "no draws yet" in ellipslice("summary", tmp_path / "run", code=2).stderr
    ellipslice("resume", tmp_path / "run", "--quiet")
    assert_same_stores(tmp_path / "run/draws.zarr", run / "draws.zarr")


def test_predictions_for_other_rows(run, tmp_path):
    at = tmp_path / "at.csv"
    at.write_text("clinic,sex,age,years\nb,m,0.5,2\nnew,f,0,1\n")
    ellipslice("resume", run, "--predict-at", at, "--quiet")
    predicted = pd.read_csv(run / "predictions.csv")
    draws = open_folder(run).fit().predict(pd.read_csv(at), seed=5)
    np.testing.assert_allclose(predicted.expected_mean, draws.expected.mean(("chain", "draw")), rtol=1e-6)
    assert predicted.clinic.tolist() == ["b", "new"]
    ellipslice("resume", run, "--quiet")  # writes those of the data again


def test_plots_of_effects(run, tmp_path):
    for variable in ((), ("--variable", "clinic"), ("--variable", "clinic_sd")):
        ellipslice("plot", run, *variable, "--out", tmp_path / "a.svg")
        text = (tmp_path / "a.svg").read_text()
        assert ("effect of fixed" in text) == (not variable)
        assert ("effect of clinic" in text) == (variable != ("--variable", "clinic_sd"))
    found = said(ellipslice("plot", run, "--variable", "latent", "--out", tmp_path / "b.svg", code=2))
    assert re.search("--variable must be one of (fixed, clinic|clinic, fixed), clinic_sd, but it is 'latent'", found)


def test_the_report_is_one_page_with_everything(run, tmp_path):
    out = tmp_path / "report.html"
    ellipslice("report", run, "--out", out)
    text = out.read_text()
    assert not re.search(r"https?://|<script|<link|url\(|src=\"(?!data:image/png;base64,)", text)
    assert text.count("data:image/png;base64,") == 4
    for word in (
        "<h2>Parameters",
        "Posterior predictive check",
        "Comparison with Laplace",
        "sex[m]",
        "Prior of clinic_sd",
    ):
        assert word in text


# --- missing values ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_row_without_response_is_predicted_and_one_without_predictor_is_dropped(table, tmp_path):
    frame = pd.read_csv(table)
    frame.loc[[2, 7], "visits"] = np.nan
    frame.loc[4, "age"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = ("fit", tmp_path / "t.csv", "--formula", FORMULA, "--family", "poisson", *SHORT, "--out", tmp_path / "run")
    assert "first in the column 'age' of row 5" in said(ellipslice(*given, code=2))
    assert not (tmp_path / "run").exists()
    ellipslice(*given, "--drop-missing", "--quiet")
    kept = pd.read_csv(tmp_path / "run/predictions.csv")
    assert len(kept) == 29
    assert kept.visits.isna().sum() == 2
    assert np.isfinite(kept.predictive_mean).all()
    assert open_folder(tmp_path / "run").problem.model.definition.observed.sum() == 27


def test_names_in_a_formula():
    found = names_in("log(y) ~ x:z + rw2(`birth year`, kind='age') + (1 + x || g) + offset(log(E)) - 1e5")
    assert found == ["birth year", "y", "x", "z", "x", "g", "E"]


# --- mistakes ---------------------------------------------------------------------------------------------------------

MISTAKES = {
    "column": (("--formula", "visits ~ aeg"), "no column 'aeg' in data. Did you mean 'age'"),
    "response": (("--formula", "visit ~ age"), "no column 'visit' in data. Did you mean 'visits'"),
    "family": (("--formula", FORMULA, "--family", "poison"), 'Did you mean "poisson"'),
    "link": (("--formula", FORMULA, "--family", "poisson", "--link", "probit"), "link"),
    "exposure": (("--formula", FORMULA, "--family", "poisson", "--exposure", "hours"), "has no column 'hours'"),
    "no trials": (("--formula", "hit ~ age", "--family", "binomial"), "--family binomial requires --trials"),
    "not counts": (("--formula", "age ~ years", "--family", "poisson"), "count"),
    "kernel": (("--formula", FORMULA, "--kernel", "matern52"), "--kernel was given together with --formula"),
    "x": (("--formula", FORMULA, "--x", "age"), "--x was given together with --formula"),
    "likelihood": (("--formula", FORMULA, "--likelihood", "poisson"), "Give --family instead"),
    "cells": (("--formula", FORMULA, "--cells", "3"), "--cells was given together with --formula"),
    "no formula": (("--x", "age", "--y", "visits", "--family", "poisson"), "--family was given without --formula"),
    "no formula, link": (("--x", "age", "--y", "visits", "--link", "probit"), "--link was given without --formula"),
    "draws": (("--formula", FORMULA, "--draws", "0"), "--draws must be at least 1"),
    "rhat": (("--formula", FORMULA, "--rhat", "1.1", "--chains", "1"), "--rhat compares chains"),
    "no tilde": (("--formula", "visits"), "has no ~"),
    "missing": (("--formula", "visits ~ unused"), "30 of 30 rows have no value, first in the column 'unused'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_costs_no_time_and_leaves_nothing(name, table, tmp_path, no_draws):
    arguments, says = MISTAKES[name]
    assert says in said(ellipslice("fit", table, *arguments, "--out", tmp_path / "run", code=2))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("clinic,sex,age\nb,m,0.5\n", "has no column 'years'"),
        ("clinic,sex,years\nb,m,1\n", "no column 'age'"),
        ("clinic,sex,age,years\nb,x,0.5,1\n", "'x'"),
        ("clinic,sex,age,years\nb,m,,1\n", "1 of 1 rows have no value, first in the column 'age'"),
    ],
)
def test_a_mistake_in_the_table_of_at_costs_no_time(content, says, run, table, tmp_path, no_draws):
    at = tmp_path / "at.csv"
    at.write_text(content)
    assert says in said(ellipslice("resume", run, "--predict-at", at, code=2))
    given = ("--formula", FORMULA, "--family", "poisson", "--exposure", "years", "--predict-at", at)
    assert says in said(ellipslice("fit", table, *given, "--out", tmp_path / "run", code=2))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda found: found["asked"].update(family=3), "family is 3"),
        (lambda found: found["asked"].update(formula=None), "a required setting is null"),
        (lambda found: found["asked"].pop("link"), "its settings are not those of a fit"),
    ],
)
def test_edited_settings_are_refused(change, says, run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    found = json.loads((tmp_path / "run/settings.json").read_text())
    change(found)
    (tmp_path / "run/settings.json").write_text(json.dumps(found))
    assert says in said(ellipslice("summary", tmp_path / "run", code=2))


def test_changed_data_are_refused(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run/data.csv").write_text((run / "data.csv").read_text().replace("a", "b", 1))
    assert "was changed since the fit started" in said(ellipslice("summary", tmp_path / "run", code=2))


# --- graphs -----------------------------------------------------------------------------------------------------------

NEIGHBOURS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "d")]


def square(x, y, name):
    ring = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]
    return {
        "type": "Feature",
        "properties": {"name": name, "n": 1},
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }


def write_graph(folder, kind, edges=NEIGHBOURS):
    """Write a graph in one of the forms and return the value of --graph."""
    if kind == "csv":
        text, name = "from,to\n" + "".join(f"{one},{other}\n" for one, other in edges), "g.csv"
    else:
        regions = sorted({each for edge in edges for each in edge})
        near = {one: [other for edge in edges for other in edge if one in edge and other != one] for one in regions}
        text = f"0 {len(regions)} map name\n" if kind == "gal of a shapefile" else f"{len(regions)}\n"
        text += "".join(f"{one} {len(others)}\n{' '.join(others)}\n" for one, others in near.items())
        name = "g.gal"
    (folder / name).write_text(text)
    return f"W={folder / name}"


@pytest.mark.parametrize("kind", ["csv", "gal", "gal of a shapefile"])
def test_graphs_of_files_are_those_that_were_written(kind, tmp_path):
    file = write_graph(tmp_path, kind).removeprefix("W=")
    expected = {"a": ["b", "d"], "b": ["a", "c"], "c": ["b", "d"], "d": ["a", "c", "e"], "e": ["d"]}
    assert read_graph(file) == expected
    assert from_json(as_json({"W": read_graph(file)})) == {"W": expected}
    numbers = write_graph(tmp_path, kind, [("01", "2"), ("2", "10")]).removeprefix("W=")
    assert {region: sorted(others) for region, others in read_graph(numbers).items()} == {1: [2], 2: [1, 10], 10: [2]}


def test_polygons_with_a_common_border_point_are_neighbours(tmp_path):
    """Squares: b is right of a, c touches a in a corner, d touches none. e has two parts, at b and at d."""
    features = [square(0, 0, "a"), square(1, 0, "b"), square(-1, 1, "c"), square(5, 5, "d"), square(2, 0, "e")]
    parts = [features[4]["geometry"]["coordinates"], square(6, 5, "e")["geometry"]["coordinates"]]
    features[4]["geometry"] = {"type": "MultiPolygon", "coordinates": parts}
    path = tmp_path / "map.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert read_graph(f"{path}:name") == {"a": ["b", "c"], "b": ["a", "e"], "c": ["a"], "d": ["e"], "e": ["b", "d"]}
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [*features[:2], square(9, 9, "far")]}))
    assert read_graph(f"{path}:name")["far"] == []


@pytest.mark.long
def test_a_fit_with_a_graph_is_that_of_the_library(table, tmp_path):
    formula = "visits ~ age + bym2(clinic, graph=W)"
    given = ("--formula", formula, "--family", "poisson", "--graph", write_graph(tmp_path, "csv"), "--quiet")
    ellipslice("fit", table, *given, *SHORT, "--out", tmp_path / "run")
    (tmp_path / "g.csv").unlink()
    W = NEIGHBOURS
    model = es.LatentGaussianModel(formula, data=pd.read_csv(table), family="poisson", variables={"W": W})
    fit = model.fit(draws=24, warmup=10, chains=2, seed=5, progress=False)
    found = open_folder(tmp_path / "run").fit()
    assert repr(found.model) == repr(model)
    for name, values in fit.tree.posterior.data_vars.items():
        np.testing.assert_array_equal(found.tree.posterior[name], values)
    assert json.loads(ellipslice("summary", tmp_path / "run", "--json").stdout)["draws"] == 24
    graphs = tmp_path / "run/graphs.json"
    graphs.write_text(graphs.read_text().replace('"e"', '"f"'))
    assert "was changed since the fit started" in said(ellipslice("summary", tmp_path / "run", code=2))


WRONG_GRAPHS = {
    "no name": ("g.csv", "from,to\na,b\n", "{}", "--graph must be NAME=FILE"),
    "no file": (None, "", "W={}", "there is no file"),
    "three columns": ("g.csv", "from,to,w\na,b,1\n", "W={}", "has 3 columns, but a list of edges has two"),
    "own neighbour": ("g.csv", "from,to\na,a\nb,c\nd,e\n", "W={}", "is its own neighbour"),
    "absent region": ("g.csv", "from,to\na,b\nb,c\nc,d\n", "W={}", "has regions that are not in the graph: e"),
    "not used": ("g.csv", "from,to\na,b\n", "V={}", "Give --graph W=FILE"),
    "not GAL": ("g.gal", "a b\n", "W={}", "is not a GAL file: its first line is 'a b'"),
    "short GAL": ("g.gal", "3\na 1\nb\nb 1\na\n", "W={}", "it has 2 regions, but its first line states 3"),
    "asymmetric GAL": ("g.gal", "2\na 1\nb\nb 0\n\n", "W={}", "graph is not symmetric"),
    "not GeoJSON": ("g.geojson", "[]", "W={}:name", "is not a GeoJSON file"),
    "no property": ("g.geojson", json.dumps({"features": [square(0, 0, "a")]}), "W={}", "Its properties are: name, n."),
    "other property": ("g.geojson", json.dumps({"features": [square(0, 0, "a")]}), "W={}:id", "regions without 'id'"),
}


@pytest.mark.parametrize("name", WRONG_GRAPHS)
def test_a_mistake_in_a_graph_costs_no_time(name, table, tmp_path, no_draws):
    file, content, option, says = WRONG_GRAPHS[name]
    if file:
        (tmp_path / file).write_text(content)
    given = ("--formula", "visits ~ icar(clinic, graph=W)", "--family", "poisson", "--graph")
    result = ellipslice(
        "fit", table, *given, option.format(tmp_path / (file or "none.csv")), "--out", tmp_path / "run", code=2
    )
    assert says in said(result)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("formula", "graphs", "says"),
    [
        ("visits ~ icar(clinic, graph=W)", 0, "the formula has graph=W, but there is no graph of this name"),
        ("visits ~ age", 1, "was given, but the formula does not use it"),
        ("visits ~ icar(clinic, graph=W)", 2, "was given twice"),
    ],
)
def test_graphs_and_formula_agree(formula, graphs, says, table, tmp_path, no_draws):
    given = ["--graph", write_graph(tmp_path, "csv")] * graphs
    assert says in said(ellipslice("fit", table, "--formula", formula, *given, "--out", tmp_path / "run", code=2))
