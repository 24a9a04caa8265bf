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
