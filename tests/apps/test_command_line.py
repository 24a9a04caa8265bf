"""The commands `ellipslice fit`, `resume`, `summary`, `plot` and `report`."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from typer.testing import CliRunner

import ellipslice as es
from ellipslice.apps.cli import app
from ellipslice.apps.fits.folder import open_folder
from ellipslice.apps.fits.model import Data, Problem
from ellipslice.apps.fits.settings import FitSettings
from stores import assert_same_stores

pytest.importorskip("zarr")
mpl.use("Agg")

N = 12
SHORT = ("--draws", 30, "--warmup", 10, "--chains", 2, "--seed", 5)
KNOWN = ("--length-scale", 2.0, "--amplitude", 1.0)


def ellipslice(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table with a column for every likelihood."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 10, N)
    columns = {
        "time": t,
        "day": pd.date_range("2024-02-01", periods=N, freq="7D").strftime("%Y-%m-%d"),
        "lon": rng.uniform(5, 9, N),
        "lat": rng.uniform(50, 53, N),
        "value": np.sin(t) + 0.3 * rng.standard_normal(N),
        "count": rng.poisson(3, N),
        "label": np.arange(N) % 2,
        "tried": 10,
        "hit": rng.binomial(10, 0.4, N),
        "hours": np.linspace(1, 3, N),
    }
    path = tmp_path_factory.mktemp("table") / "table.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    """A fit with unknown hyperparameters."""
    out = tmp_path_factory.mktemp("runs") / "run"
    ellipslice("fit", table, "--x", "time", "--y", "count", "--likelihood", "poisson", *SHORT, "--out", out)
    return out


# --- files and messages -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_fit_writes_a_folder(run, table):
    names = {path.name for path in run.iterdir()}
    assert names == {"settings.json", "data.csv", "draws.zarr", "predictions.csv", "plot.png"}
    predicted = pd.read_csv(run / "predictions.csv")
    np.testing.assert_allclose(predicted.time, pd.read_csv(table).time, rtol=1e-7)
    assert (predicted.expected_q05 < predicted.expected_mean).all()
    assert (predicted.expected_mean < predicted.expected_q95).all()
    assert (predicted.latent_q05 < predicted.latent_median).all()
    assert (run / "plot.png").read_bytes().startswith(b"\x89PNG")
    settings = json.loads((run / "settings.json").read_text())
    assert settings["command"].startswith("ellipslice")
    assert settings["asked"]["seed"] == 5


@pytest.mark.long
def test_the_draws_are_those_of_the_model(run):
    """The command line gives the same draws as the library with the same priors and data."""
    import numpyro.distributions as dist
    from tinygp import kernels

    data = pd.read_csv(run / "data.csv")
    model = es.gp.LatentGP(
        lambda amplitude, length_scale: amplitude**2 * kernels.Matern52(length_scale),
        es.likelihoods.Poisson,
        mean=float(np.log(data["count"].mean())),
        parameters={"amplitude": dist.LogNormal(0.0, 1.0), "length_scale": dist.LogNormal(np.log(2.0), 1.0)},
    )
    options = {"draws": 30, "warmup": 10, "chains": 2, "seed": 5, "progress": False}
    fit = model.fit(data["time"].to_numpy(), data["count"].to_numpy(), **options)
    found = open_folder(run).fit()
    np.testing.assert_allclose(found.tree.posterior.f, fit.tree.posterior.f, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.tree.posterior.length_scale, fit.tree.posterior.length_scale, rtol=1e-6)


def test_a_summary_for_the_eye_and_for_scripts(run):
    text = ellipslice("summary", run).stdout
    for word in ("table.csv, 12 rows", "amplitude", "length_scale", "log-likelihood", "R-hat", "2 chains of 30 draws"):
        assert word in text
    found = json.loads(ellipslice("summary", run, "--json").stdout)
    draws = open_folder(run).fit().tree.posterior.amplitude.values
    assert found["parameters"]["amplitude"]["mean"] == pytest.approx(draws.mean())
    assert found["parameters"]["amplitude"]["q95"] == pytest.approx(np.quantile(draws, 0.95))
    assert found["draws"] == 30
    assert found["chains"] == 2
    assert found["converged"] is False  # of 30 draws
    assert "chains" in " ".join(found["convergence_report"])


@pytest.mark.short_cases("c.svg-<?xml")
@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("b.pdf", b"%PDF"), ("c.svg", b"<?xml")])
def test_plot(run, tmp_path, name, begins):
    out = tmp_path / "made" / name
    assert ellipslice("plot", run, "--variable", "latent", "--out", out).stdout == f"wrote {out}\n"
    assert out.read_bytes().startswith(begins)


@pytest.mark.long
def test_the_report_is_one_page_with_everything(run, tmp_path):
    out = tmp_path / "report.html"
    ellipslice("report", run, "--out", out)
    text = out.read_text()
    assert not re.search(r"https?://|<script|<link|url\(|src=\"(?!data:image/png;base64,)", text)
    assert text.count("data:image/png;base64,") == 2
    settings = json.loads((run / "settings.json").read_text())
    for word in (
        settings["data"]["sha256"],
        "length_scale",
        "R-hat",
        "effective sample size",
        "jax",
        "medians: amplitude 1",
    ):
        assert word in text


@pytest.mark.browser
@pytest.mark.long
def test_the_report_in_a_browser(run, browser, tmp_path):
    ellipslice("report", run, "--out", tmp_path / "report.html")
    page = browser.new_page(viewport={"width": 500, "height": 800}, offline=True)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto((tmp_path / "report.html").as_uri())
    sizes = page.eval_on_selector_all("img", "images => images.map(i => [i.naturalWidth, i.clientWidth])")
    wide = page.evaluate("document.documentElement.scrollWidth")
    rows = page.locator("table").first.locator("tr").count()
    page.close()
    assert len(sizes) == 2
    assert all(natural > 500 and 0 < shown <= 500 for natural, shown in sizes)
    assert wide <= 510  # the page fits a narrow screen
    assert rows == 5
    assert said == []


# --- models -----------------------------------------------------------------------------------------------------------


def test_known_parameters(table, tmp_path):
    """The other likelihoods: `combinations/test_command_line.py`."""
    out = tmp_path / "run"
    given = ("--likelihood", "logistic", "--y", "label", *KNOWN, *SHORT, "--out", out)
    found = json.loads(ellipslice("fit", table, "--x", "time", *given, "--json").stdout)
    assert found["parameters"] == {}
    assert found["known"]["length_scale"] == 2.0
    predicted, data = pd.read_csv(out / "predictions.csv"), pd.read_csv(table)
    assert (
        abs(predicted.expected_mean.mean() - data.label.mean()) < data.label.std() + 0.1
    )  # in the units that the documentation states


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52", "squared-exponential"])
def test_every_kernel_of_two_inputs(kernel, table):
    """Each axis of the distance has its own length scale; computed here without the library."""
    asked = FitSettings(
        ("lon", "lat"), "value", kernel=kernel, amplitude=2.0, length_scale=(0.5, 3.0), noise_scale=1.0, draws=1,
    )  # fmt: skip
    data = pd.read_csv(table)
    from ellipslice.apps.fits.model import Data

    problem = Problem(asked, Data(data[["lon", "lat"]].to_numpy(), data.value.to_numpy()))
    points = problem._data.points
    r = np.linalg.norm((points[:, None] - points) / [0.5, 3.0], axis=-1)
    shapes = {
        "matern12": np.exp(-r),
        "matern32": (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
        "matern52": (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
        "squared-exponential": np.exp(-(r**2) / 2),
    }
    with es.jax_settings.jax_settings():
        covariance = np.asarray(problem._kernel(points, points))
    np.testing.assert_allclose(covariance, 4 * shapes[kernel], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("likelihood", "target", "mean"),
    [
        ("gaussian", "value", lambda d: d.value.mean()),
        ("student-t", "value", lambda d: d.value.median()),
        ("poisson", "count", lambda d: np.log(d["count"].mean())),
        ("logistic", "label", lambda d: special.logit(6.5 / 13)),
        ("probit", "label", lambda d: stats.norm.ppf(6.5 / 13)),
    ],
)
def test_priors_are_scaled_to_the_data(table, likelihood, target, mean):
    from ellipslice.apps.fits.model import Data

    data = pd.read_csv(table)
    problem = Problem(
        FitSettings(("time",), target, likelihood), Data(data[["time"]].to_numpy(), data[target].to_numpy())
    )
    assert problem.mean == pytest.approx(mean(data))
    assert problem.medians["length_scale"] == pytest.approx(2.0)
    gaussian = likelihood in ("gaussian", "student-t")
    assert problem.medians["amplitude"] == pytest.approx(data.value.std(ddof=0) if gaussian else 1.0)
    assert ("noise_scale" in problem.medians) == gaussian


@pytest.mark.long
def test_two_inputs_have_maps_and_parquet_is_read(table, tmp_path):
    pd.read_csv(table).to_parquet(tmp_path / "table.parquet")
    out = tmp_path / "run"
    given = ("--x", "lon", "--x", "lat", "--y", "value", *KNOWN, "--noise-scale", 0.5, *SHORT, "--out", out)
    ellipslice("fit", tmp_path / "table.parquet", *given, "--quiet")
    assert (out / "plot.png").exists()
    assert json.loads(ellipslice("summary", out, "--json").stdout)["known"]["length_scale"] == [2.0, 2.0]
    ellipslice("report", out)


@pytest.mark.long
def test_three_inputs_have_no_picture(table, tmp_path):
    out = tmp_path / "run"
    given = (
        "--x",
        "lon",
        "--x",
        "lat",
        "--x",
        "time",
        "--y",
        "value",
        *KNOWN,
        "--noise-scale",
        0.5,
        *SHORT,
        "--out",
        out,
    )
    printed = ellipslice("fit", table, *given)
    assert "No plot is written: there are 3 inputs" in printed.stderr
    assert not (out / "plot.png").exists()
    assert "a plot shows one or two" in ellipslice("plot", out, code=2).stderr
    ellipslice("report", out)


@pytest.mark.long
def test_dates(table, tmp_path):
    out = tmp_path / "run"
    later = tmp_path / "later.csv"
    later.write_text("day\n2024-03-01\n2024-05-01T12:00:00\n")
    given = ("--x", "day", "--y", "value", "--length-scale", 20, "--amplitude", 1, "--noise-scale", 0.3, *SHORT)
    ellipslice("fit", table, *given, "--predict-at", later, "--out", out)
    assert pd.read_csv(out / "data.csv").day.tolist() == [7.0 * i for i in range(N)]
    assert pd.read_csv(out / "predictions.csv").day.tolist() == ["2024-03-01T00:00:00", "2024-05-01T12:00:00"]
    assert "counted in days from 2024-02-01" in _report(out)
    later.write_text("day\n2024-03-02\n")
    ellipslice("resume", out, "--predict-at", later, "--quiet")
    assert pd.read_csv(out / "predictions.csv").day.tolist() == ["2024-03-02T00:00:00"]
    later.write_text("day\n17.5\n")
    assert "must hold dates" in ellipslice("resume", out, "--predict-at", later, code=2).stderr


@pytest.mark.long
def test_events(tmp_path):
    coal = es.data.coal_mining()
    pd.DataFrame({"date": [str(date) for date in coal.dates]}).to_csv(tmp_path / "coal.csv", index=False)
    out = tmp_path / "run"
    given = ("--events", "date", "--cells", 20, "--length-scale", 10_000, "--amplitude", 1, *SHORT, "--out", out)
    ellipslice("fit", tmp_path / "coal.csv", *given)
    predicted = pd.read_csv(out / "predictions.csv")
    days = coal.dates[-1].astype(int) - coal.dates[0].astype(int)
    assert predicted.expected_mean.mean() == pytest.approx(191 / days, rel=0.3)  # events per day
    assert len(predicted) == 20
    counted = open_folder(out).fit().y
    assert counted.sum() == 191
    ellipslice("resume", out, "--draws", 40)
    assert "events per day" not in ellipslice("summary", out).stdout


# --- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_more_draws_are_those_of_a_longer_run(table, tmp_path):
    given = ("--x", "time", "--y", "count", "--likelihood", "poisson", *KNOWN, "--chains", 2, "--seed", 5)
    for name, draws in (("part", 20), ("whole", 50)):
        ellipslice("fit", table, *given, "--draws", draws, "--out", tmp_path / name, "--quiet")
    assert "2 chains of 50 draws" in ellipslice("resume", tmp_path / "part", "--draws", 50).stdout
    assert_same_stores(tmp_path / "part/draws.zarr", tmp_path / "whole/draws.zarr")
    one, two = ((tmp_path / name / "predictions.csv").read_bytes() for name in ("part", "whole"))
    assert one == two
    assert "50 draws of each chain already" in ellipslice("resume", tmp_path / "part", "--draws", 10, code=2).stderr


@pytest.mark.long
def test_goals(table, tmp_path):
    given = ("--x", "time", "--y", "count", "--likelihood", "poisson", *KNOWN, "--chains", 2, "--seed", 5)
    goals = ("--effective-sample-size", 150, "--draws", 5000, "--json")
    found = json.loads(ellipslice("fit", table, *given, *goals, "--out", tmp_path / "run").stdout)
    assert found["stopped_by"] == "goals"
    more = json.loads(ellipslice("resume", tmp_path / "run", "--effective-sample-size", 400, "--json").stdout)
    assert more["draws"] > found["draws"]


@pytest.mark.long
def test_a_fit_begun_and_not_yet_drawn_can_be_gone_on_with(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/draws.zarr")
    assert "no draws yet" in ellipslice("summary", tmp_path / "run", code=2).stderr
    ellipslice("resume", tmp_path / "run", "--quiet")
    assert_same_stores(tmp_path / "run/draws.zarr", run / "draws.zarr")


def _complete(journal):
    """Return the number of stored draws of each chain."""
    return json.loads(journal.read_bytes().partition(b"\n")[0])["entries"]["complete"]


def command(*arguments):
    """Return the command line of a separate process."""
    program = "from ellipslice.apps.cli import main; main()"
    return [sys.executable, "-c", program, *map(str, arguments)]


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_stopped_by_ctrl_c_and_gone_on_with(table, tmp_path):
    out = tmp_path / "run"
    given = ("--x", "time", "--y", "count", "--likelihood", "poisson", *KNOWN, "--chains", 2, "--seed", 5)
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command("fit", table, *given, "--draws", 1_000_000, "--out", out), **options)
    journal, deadline = out / "draws.zarr/.ellipslice/journal", time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if journal.exists() and min(_complete(journal)) > 0:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert "Traceback" not in stdout + stderr
    assert process.returncode == 130
    assert f"ellipslice resume {out}" in stderr
    drawn = _complete(journal)
    assert min(drawn) > 0
    ellipslice("summary", out)  # the stored draws can be summarised
    more = max(drawn) + 10
    ellipslice("resume", out, "--draws", more, "--quiet")
    assert open_folder(out).fit().tree.posterior.sizes["draw"] == more


# --- mistakes, faults, help -------------------------------------------------------------------------------------------


def test_a_mistake_leaves_nothing(table, tmp_path):
    given = ("--x", "time", "--y", "value", "--likelihood", "poisson", "--out", tmp_path / "run")
    assert "is not a count" in ellipslice("fit", table, *given, code=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_seen_late_leaves_nothing_either(table, tmp_path, monkeypatch):
    from ellipslice.apps.fits import model

    def refused(self, *_, **__):
        raise ValueError("the kernel has no positive definite covariance")

    monkeypatch.setattr(model.Problem, "fit", refused)
    ellipslice("fit", table, "--x", "time", "--y", "value", "--out", tmp_path / "run", code=2)
    assert list(tmp_path.iterdir()) == []


def test_a_fit_is_not_written_over(run, table):
    before = (run / "settings.json").read_bytes()
    result = ellipslice("fit", table, "--x", "time", "--y", "count", "--out", run, code=2)
    assert f"ellipslice resume {run}" in result.stderr
    assert (run / "settings.json").read_bytes() == before


def test_a_full_disk_is_a_fault_and_says_how_to_go_on(table, tmp_path, monkeypatch):
    from ellipslice.store import arrays

    def full(self, *args):
        raise OSError(28, "No space left on device")

    out = tmp_path / "run"
    given = ("--x", "time", "--y", "count", "--likelihood", "poisson", *KNOWN, *SHORT, "--out", out)
    with monkeypatch.context() as patch:
        patch.setattr(arrays.GrowingArray, "write", full)
        result = ellipslice("fit", table, *given, code=1)
    assert "No space left" in result.stderr
    assert f"ellipslice resume {out}" in result.stderr
    ellipslice("resume", out, "--quiet")
    assert open_folder(out).fit().tree.posterior.sizes["draw"] == 30


def test_quiet_says_nothing(table, tmp_path):
    given = ("--x", "time", "--y", "count", "--likelihood", "poisson", *KNOWN, *SHORT, "--out", tmp_path / "run")
    result = ellipslice("fit", table, *given, "--quiet")
    assert result.output == ""


@pytest.mark.parametrize("name", ["fit", "resume", "summary", "plot", "report"])
def test_help_has_examples(name):
    shown = ellipslice(name, "--help").stdout
    assert f"ellipslice {name} " in shown.replace("Usage: ellipslice", "")
    assert name in ellipslice("--help").stdout


@pytest.mark.long
def test_shell_completion():
    environment = {**os.environ, "_ELLIPSLICE_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    done = [
        subprocess.run(command(), env=environment | {"COMP_WORDS": words, "COMP_CWORD": number}, **OUTPUT).stdout
        for words, number in (("ellipslice su", "1"), ("ellipslice fit x --likelihood po", "4"))
    ]
    assert done[0].split() == ["summary"]
    assert done[1].split() == ["poisson"]


OUTPUT = {"capture_output": True, "text": True, "check": False, "timeout": 60}


@pytest.mark.long
def test_names_of_columns_are_text_and_not_html(tmp_path):
    path, name = tmp_path / "a.csv", "<script>alert(1)</script>"
    pd.DataFrame({name: np.arange(6.0), "y": np.arange(6) % 3}).to_csv(path, index=False)
    given = ("--x", name, "--y", "y", "--likelihood", "poisson", *KNOWN, *SHORT, "--out", tmp_path / "run")
    ellipslice("fit", path, *given, "--quiet")
    assert "<script" not in _report(tmp_path / "run")


def _report(out: Path) -> str:
    ellipslice("report", out, "--quiet")
    return (out / "report.html").read_text()


# --- how many rows ----------------------------------------------------------------------------------------------------


def long_data(n=5100):
    rng = np.random.default_rng(0)
    return Data(rng.uniform(0, 100, (n, 1)), rng.poisson(1.0, n).astype(float))


def asked(**options):
    return FitSettings(inputs=("t",), target="c", **({"likelihood": "poisson", "draws": 2, "warmup": 1} | options))


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52"])
def test_a_long_series_with_known_parameters_is_taken(kernel):
    """The Markov form of the kernel has the same covariance."""
    problem = Problem(asked(kernel=kernel, amplitude=2.0, length_scale=(3.0,)), long_data())
    few = Problem(asked(kernel=kernel, amplitude=2.0, length_scale=(3.0,)), long_data(10))
    x = np.array([0.0, 1.0, 5.0])
    np.testing.assert_allclose(problem._kernel(x, x), few._kernel(x, x), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "5,100 rows, but at most 5,000 .* give --amplitude and --length-scale as well"),
        ({"amplitude": 1.0}, "give --length-scale as well"),
        ({"amplitude": 1.0, "length_scale": (1.0,), "likelihood": "gaussian"}, "give --noise-scale as well"),
        (
            {"amplitude": 1.0, "length_scale": (1.0,), "kernel": "squared-exponential"},
            "one input and the kernel matern12",
        ),
    ],
)
def test_a_long_series_that_cannot_be(options, words):
    with pytest.raises(ValueError, match=words):
        Problem(asked(**options), long_data())


def test_a_large_grid_is_taken_and_other_places_are_not():
    side = np.stack(np.meshgrid(np.arange(72.0), np.arange(72.0)), -1).reshape(-1, 2)
    settings = FitSettings(inputs=("a", "b"), target="c", likelihood="poisson", amplitude=1.0, length_scale=(3.0,))
    Problem(settings, Data(side, np.ones(len(side))))
    with pytest.raises(ValueError, match="complete regular grid"):
        Problem(settings, Data(side + 0.01 * np.arange(len(side))[:, None], np.ones(len(side))))


@pytest.mark.long
def test_a_long_series_from_a_table(tmp_path):
    data = long_data()
    table = tmp_path / "long.csv"
    pd.DataFrame({"t": data.inputs[:, 0], "c": data.y}).to_csv(table, index=False)
    short = ("--draws", 3, "--warmup", 1, "--chains", 2, "--seed", 5)
    ellipslice("fit", table, "-x", "t", "-y", "c", "--likelihood", "Poisson", *KNOWN, *short, "--out", tmp_path / "run")
    assert len(pd.read_csv(tmp_path / "run" / "predictions.csv")) == 5100
    assert (tmp_path / "run" / "plot.png").exists()


def test_the_command_line_as_a_module(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "ellipslice", "--version"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.startswith("ellipslice ")


def test_names_that_a_terminal_cannot_show(monkeypatch, tmp_path):
    """Characters that the encoding of the terminal lacks are escaped, and nothing is raised."""
    from ellipslice.apps.cli import main

    monkeypatch.setattr("ellipslice.apps.explore.show", lambda out, browser: f"wrote {out}")
    for encoding in ("ascii", "latin-1"):
        shown = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", shown)
        monkeypatch.setattr(sys, "argv", ["ellipslice", "explore", "--out", str(tmp_path / "größe-η.html")])
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 0
        print("größe-η", file=shown)  # as rich does, which does not escape
        shown.flush()
        assert b"\\u03b7" in shown.buffer.getvalue()  # type: ignore[attr-defined]
