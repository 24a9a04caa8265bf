"""Options of `ellipslice fit` in combination, and the other commands after it, on tables of six rows.

Every row of options runs and is correct, or is rejected with a message that is listed here before anything is written.
Correct means: the draws are finite and have the requested number, their mean agrees within Monte Carlo error with one
that NumPy computes by importance sampling, the written tables and plots are complete, and the same command gives
bit-identical draws again.

The rejected rows and one valid row always run. The long tests run all pairs of the options of the model. The format of
the table, the output and the next command are random, with each value at least once.
"""

from __future__ import annotations

import json
import re
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats
from typer.testing import CliRunner

from combinations.pairs import Refusal, all_pairs, name, refusals_of, refused_rows
from ellipslice.apps.cli import app
from ellipslice.apps.fits import settings
from ellipslice.apps.fits.folder import open_folder
from statistical.monte_carlo import compare
from stores import assert_same_stores

pytest.importorskip("zarr")
pytest.importorskip("pyarrow")
mpl.use("Agg")

DRAWS, WARMUP, MORE = 150, 30, 20
FEW = 40
"""Draws of fits with unknown hyperparameters. Few, because their mean is not compared and predictions are slow."""

AMPLITUDE, LENGTH_SCALE, NOISE, DISPERSION, MEAN = 0.8, 2.0, 0.6, 4.0, 0.3
WINDOW, CELLS = (-1.0, 7.0), 3
CONTINUOUS, COUNTED = ("gaussian", "student-t"), ("poisson", "negative-binomial")
LIKELIHOODS = (*CONTINUOUS, *COUNTED, "logistic", "probit", "binomial")

# The first value of each option is the default.
OPTIONS: dict[str, list[str]] = {
    "likelihood": ["poisson", *(one for one in LIKELIHOODS if one != "poisson")],
    "inputs": ["time", "dates", "two", "events", "events of two"],
    "kernel": ["matern52", "matern12", "matern32", "squared-exponential"],
    "column": ["none", "exposure", "trials"],
    "given": ["none", "noise", "dispersion"],
    "mean": ["of the data", "given"],
    "area": ["none", "window", "cells"],  # events always have --cells, so that there are few
    "file": ["csv", "semicolons", "parquet", "missing dropped", "missing"],
    "at": ["none", "other inputs"],
    "goals": ["draws", "effective sample size", "rhat", "seconds"],
    "chains": ["2", "1"],
    "output": ["text", "json", "quiet"],
    "then": ["look", "resume", "resume at"],
}


def are_events(inputs: str) -> bool:
    return inputs.startswith("events")


REFUSALS = [
    Refusal(
        "--noise-scale is for gaussian and student-t, but it was given with",
        lambda likelihood, given, inputs: given == "noise" and (likelihood not in CONTINUOUS or are_events(inputs)),
    ),
    Refusal(
        "--dispersion is for negative-binomial, but it was given with",
        lambda likelihood, given, inputs: (
            given == "dispersion" and (likelihood != "negative-binomial" or are_events(inputs))
        ),
    ),
    Refusal(
        "--exposure is for poisson and negative-binomial, but it was given with",
        lambda likelihood, column, inputs: column == "exposure" and (likelihood not in COUNTED or are_events(inputs)),
    ),
    Refusal(
        "--trials is for binomial, but it was given with",
        lambda likelihood, column, inputs: column == "trials" and (likelihood != "binomial" or are_events(inputs)),
    ),
    Refusal(
        "--likelihood binomial requires --trials",
        lambda likelihood, column: likelihood == "binomial" and column != "trials",
    ),
    Refusal(
        "--events counts events, which requires --likelihood poisson, but it is",
        lambda likelihood, inputs: likelihood != "poisson" and are_events(inputs),
    ),
    Refusal(
        "--window and --cells are for --events",
        lambda area, inputs: area != "none" and not are_events(inputs),
    ),
    Refusal(r"--rhat compares chains, but there is only one", lambda goals, chains: goals == "rhat" and chains == "1"),
    Refusal(r"1 of 7 rows have no value.*--drop-missing", lambda file: file == "missing"),
]
# Fits with unknown noise scale or dispersion take longer, so they have their own few rows.
UNKNOWN = Refusal(
    "nothing: it runs",
    lambda likelihood, given: (
        (likelihood in CONTINUOUS and given != "noise") or (likelihood == "negative-binomial" and given != "dispersion")
    ),
)
ROWS = all_pairs(
    OPTIONS, [*REFUSALS, UNKNOWN], among=("likelihood", "inputs", "column", "given", "mean", "area", "chains")
)
REFUSED = refused_rows(OPTIONS, REFUSALS)
DEFAULTS = {option: values[0] for option, values in OPTIONS.items()}
SHORT = DEFAULTS | {
    "likelihood": "gaussian", "given": "noise", "inputs": "dates", "file": "semicolons", "at": "other inputs",
    "output": "json", "then": "resume",
}  # fmt: skip
UNKNOWNS = [
    {"likelihood": likelihood, "inputs": inputs, "column": "trials" if likelihood == "binomial" else "none"}
    for likelihood, inputs in (
        *zip(LIKELIHOODS, ("time", "dates", "two", "time", "dates", "two", "time"), strict=True),
        ("poisson", "events"),
    )
]


# --- the data, and the command ----------------------------------------------------------------------------------------


def the_table() -> pd.DataFrame:
    t = np.array([0.0, 1.0, 2.0, 3.5, 4.0, 6.0])
    return pd.DataFrame(
        {
            "time": t,
            "day": (pd.Timestamp("2024-02-01") + pd.to_timedelta(t, "D")).strftime("%Y-%m-%d %H:%M"),
            "east": [0.0, 2.0, 1.0, 3.0, 5.0, 4.0],
            "north": [1.0, 0.0, 3.0, 2.0, 4.0, 6.0],
            "value": [0.5, -0.4, 0.1, 1.2, 0.8, -0.3],
            "count": [1, 0, 2, 4, 1, 3],
            "label": [0, 1, 1, 0, 1, 1],
            "hit": [1, 2, 0, 3, 4, 2],
            "tried": [4, 4, 3, 5, 4, 6],
            "hours": [1.0, 2.0, 1.0, 1.5, 1.0, 2.0],
        }
    )


INPUTS = {
    "time": ["time"],
    "dates": ["day"],
    "two": ["east", "north"],
    "events": ["time"],
    "events of two": ["east", "north"],
}
TARGETS = {"logistic": "label", "probit": "label", "binomial": "hit"} | dict.fromkeys(CONTINUOUS, "value")


def write(frame: pd.DataFrame, path: Any, file: str) -> Any:
    """Write a table in one of the formats and return its path."""
    if file.startswith("missing"):
        frame = pd.concat([frame.iloc[:3], frame.iloc[:1].astype(object).map(lambda _: None), frame.iloc[3:]])
    if file == "parquet":
        frame.to_parquet(path.with_suffix(".parquet"))
        return path.with_suffix(".parquet")
    form = {"sep": ";", "decimal": ","} if file == "semicolons" else {}
    frame.to_csv(path, index=False, **form)
    return path


def command(row: dict[str, str], folder: Any, *, known: bool = True) -> list[str]:
    """Return the arguments of `ellipslice fit` for a row."""
    frame, columns = the_table(), INPUTS[row["inputs"]]
    arguments = ["fit", write(frame, folder / "data.csv", row["file"]), "--seed", 7, "--chains", row["chains"]]
    arguments += ["--warmup", WARMUP, "--draws", DRAWS if known else FEW]
    arguments += ["--kernel", row["kernel"], "--likelihood", row["likelihood"]]
    arguments += ["--amplitude", AMPLITUDE, "--length-scale", LENGTH_SCALE] if known else []
    for column in columns:
        arguments += ["--events" if are_events(row["inputs"]) else "--x", column]
    if not are_events(row["inputs"]):
        arguments += ["--y", TARGETS.get(row["likelihood"], "count")]
    arguments += {"none": [], "exposure": ["--exposure", "hours"], "trials": ["--trials", "tried"]}[row["column"]]
    arguments += {"none": [], "noise": ["--noise-scale", NOISE], "dispersion": ["--dispersion", DISPERSION]}[
        row["given"]
    ]
    arguments += ["--mean", MEAN] if row["mean"] == "given" else []
    arguments += ["--window", "{},{}".format(*WINDOW)] if row["area"] == "window" else []
    arguments += ["--cells", CELLS] if row["area"] == "cells" or are_events(row["inputs"]) else []
    arguments += {
        "draws": [], "effective sample size": ["--effective-sample-size", 30], "rhat": ["--rhat", 1.5],
        "seconds": ["--max-seconds", 30],
    }[row["goals"]]  # fmt: skip
    arguments += at(row, folder) if row["at"] != "none" else []
    arguments += reading(row)
    arguments += {"text": [], "json": ["--json"], "quiet": ["--quiet"]}[row["output"]]
    return [str(argument) for argument in arguments]


def at(row: dict[str, str], folder: Any) -> list[Any]:
    """Return the option with a table of four other inputs, in the same form as the data."""
    return ["--predict-at", write(the_table().iloc[[0, 2, 3, 5]], folder / "at.csv", row["file"])]


def reading(row: dict[str, str]) -> list[str]:
    """Return the options that determine how tables are read."""
    return {"semicolons": ["--decimal", ","], "missing dropped": ["--drop-missing"]}.get(row["file"], [])


def ellipslice(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (arguments, result.output, result.exception)
    assert "Traceback" not in result.output
    return result


# --- what is right ----------------------------------------------------------------------------------------------------


def posterior_mean(row: dict[str, str], out: Any, count: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of f at the inputs of the data given hyperparameters, and its error, by importance sampling."""
    folder, frame = open_folder(out), the_table()
    points = frame[["time"] if row["inputs"] == "dates" else INPUTS[row["inputs"]]].to_numpy(float)
    y, volume = frame[TARGETS.get(row["likelihood"], "count")].to_numpy(), 1.0
    if are_events(row["inputs"]):
        axes = points.shape[1]
        both = [WINDOW] * axes if row["area"] == "window" else [(c.min(), c.max()) for c in points.T]
        y, edges = np.histogramdd(points, (CELLS,) * axes, both)
        y, volume = y.ravel(), float(np.prod([edge[1] - edge[0] for edge in edges]))
        centres = np.meshgrid(*[(edge[1:] + edge[:-1]) / 2 for edge in edges], indexing="ij")
        points = np.stack([centre.ravel() for centre in centres], axis=1)
    mean = MEAN if row["mean"] == "given" else folder.problem.mean
    r = np.linalg.norm(points[:, None] - points, axis=-1) / LENGTH_SCALE
    shape = {
        "matern12": np.exp(-r), "matern32": (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
        "matern52": (1 + 5**0.5 * r + 5 * r**2 / 3) * np.exp(-(5**0.5) * r), "squared-exponential": np.exp(-(r**2) / 2),
    }[row["kernel"]]  # fmt: skip
    factor = np.linalg.cholesky(AMPLITUDE**2 * shape + 1e-12 * np.eye(len(r)))

    def terms(z: np.ndarray) -> np.ndarray:
        return log_likelihood(row, mean + z @ factor.T, y, frame, volume)

    # The proposal for z (f = mean + factor z) is a t distribution around the mode, which may be far from the prior.
    found = optimize.minimize(lambda z: 0.5 * z @ z - terms(z[None]).sum(), np.zeros(len(r)), method="BFGS").x
    f, step = mean + factor @ found, 1e-4
    bend = sum(
        c * log_likelihood(row, (f + h)[None], y, frame, volume)[0] for c, h in ((-1, step), (2, 0), (-1, -step))
    )
    precision = np.eye(len(r)) + factor.T @ (np.maximum(bend / step**2, 0)[:, None] * factor)
    proposal = stats.multivariate_t(found, np.linalg.inv(precision), df=5, seed=3)
    z = proposal.rvs(count)
    log_weight = terms(z).sum(axis=1) - 0.5 * np.sum(z**2, axis=1) - proposal.logpdf(z)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 0.05 * count, "importance sampling is too imprecise"
    expected = mean + factor @ (weight @ z)
    return expected, np.sqrt(weight**2 @ (mean + z @ factor.T - expected) ** 2)


def log_likelihood(row: dict[str, str], f: np.ndarray, y: np.ndarray, frame: pd.DataFrame, volume: float) -> np.ndarray:
    """Return the log-likelihood of each observation, by SciPy."""
    rate = np.exp(f) * (frame["hours"].to_numpy() if row["column"] == "exposure" else volume)
    match row["likelihood"]:
        case "gaussian":
            return stats.norm(f, NOISE).logpdf(y)
        case "student-t":
            return stats.t(4, f, NOISE).logpdf(y)
        case "poisson":
            return stats.poisson(rate).logpmf(y)
        case "negative-binomial":
            return stats.nbinom(DISPERSION, DISPERSION / (DISPERSION + rate)).logpmf(y)
        case "probit":
            return stats.norm.logcdf(np.where(y > 0, f, -f))
        case "logistic":
            return special.log_expit(np.where(y > 0, f, -f))
        case _:
            return stats.binom(frame["tried"].to_numpy(), special.expit(f)).logpmf(y)


def check_written(row: dict[str, str], out: Any, count: int, others: bool) -> None:
    """Check that there are finite predictions for each requested input, under its own name."""
    found = pd.read_csv(out / "predictions.csv")
    assert list(found.columns[: len(INPUTS[row["inputs"]])]) == INPUTS[row["inputs"]]
    assert len(found) == (4 if others else count)
    assert np.isfinite(found.select_dtypes("number").to_numpy()).all()
    assert ((found["latent_q05"] <= found["latent_median"]) & (found["latent_median"] <= found["latent_q95"])).all()
    if others or not are_events(row["inputs"]):
        table = the_table().iloc[[0, 2, 3, 5]] if others else the_table()
        for column in INPUTS[row["inputs"]]:
            given = pd.to_datetime(table[column]) if column == "day" else table[column]
            again = pd.to_datetime(found[column]) if column == "day" else found[column]
            assert (given.to_numpy() == again.to_numpy()).all()


def check_units(row: dict[str, str], out: Any) -> None:
    """Check the units of `expected`: rates per unit of exposure, and fractions of the trials."""
    table = the_table().iloc[[0, 2, 3, 5]] if row["at"] != "none" else the_table()
    seen = table[TARGETS.get(row["likelihood"], "count")]
    seen = seen / {"none": 1.0, "exposure": table["hours"], "trials": table["tried"]}[row["column"]]
    assert abs(pd.read_csv(out / "predictions.csv")["expected_mean"].mean() - seen.mean()) < seen.std() + 0.1


def check_row(row: dict[str, str], folder: Any, *, known: bool = True) -> None:
    """Check that a row and the commands after it run and are correct."""
    out = folder / "run"
    arguments = command(row, folder, known=known)
    result = ellipslice(*arguments, "--out", out)
    assert (result.stdout == "") == (row["output"] == "quiet")
    told = json.loads(result.stdout) if row["output"] == "json" else None
    tree = open_folder(out).fit().tree
    f = tree.posterior.f.values
    size = CELLS ** len(INPUTS[row["inputs"]]) if are_events(row["inputs"]) else len(the_table())
    assert f.shape[0] == int(row["chains"])
    assert f.shape[2:] == (size,)
    draws = DRAWS if known else FEW
    assert f.shape[1] == draws if row["goals"] in ("draws", "seconds") else f.shape[1] <= draws
    assert f.dtype == np.float64
    assert np.isfinite(f).all()
    assert told is None or (told["draws"], told["chains"]) == (f.shape[1], f.shape[0])
    check_written(row, out, size, row["at"] != "none")
    assert (out / "plot.png").read_bytes()[:4] == b"\x89PNG"
    if known:
        expected, error = posterior_mean(row, out)
        compare(f, expected, f"posterior mean of {row}", error)
        if not are_events(row["inputs"]):
            check_units(row, out)
    if row["then"] == "look":
        assert json.loads(ellipslice("summary", out, "--json").stdout)["draws"] == f.shape[1]
        ellipslice("plot", out, "--variable", "latent", "--out", folder / "latent.svg")
        ellipslice("report", out, "--quiet")
        assert "<html" in (out / "report.html").read_text()[:200].lower()
        if row["goals"] != "seconds":
            ellipslice(*arguments, "--out", folder / "again")
            assert_same_stores(out / "draws.zarr", folder / "again" / "draws.zarr")
            assert (out / "predictions.csv").read_bytes() == (folder / "again" / "predictions.csv").read_bytes()
        return
    others = [*at(row, folder), *reading(row)] if row["then"] == "resume at" else []
    ellipslice("resume", out, "--draws", draws + MORE, *others, "--quiet")
    longer = open_folder(out).fit().tree.posterior.f.values
    assert longer.shape[1] == draws + MORE
    np.testing.assert_array_equal(longer[:, : f.shape[1]], f)
    check_written(row, out, size, row["then"] == "resume at")


# --- tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: name(row, OPTIONS))
def test_what_means_nothing_together_is_refused_and_leaves_nothing(row, tmp_path):
    said = " ".join(ellipslice(*command(row, tmp_path), "--out", tmp_path / "run", code=2).stderr.split())
    assert any(re.search(refusal.message, said) for refusal in refusals_of(row, REFUSALS)), said
    assert not (tmp_path / "run").exists()


def test_a_combination_runs_and_is_right(tmp_path):
    assert not refusals_of(SHORT, REFUSALS)
    check_row(SHORT, tmp_path)


def test_every_value_is_in_a_row():
    seen = {(option, value) for row in ROWS for option, value in row.items()}
    assert {(option, value) for option in OPTIONS for value in OPTIONS[option]} - seen == {("file", "missing")}
    assert set(settings.LIKELIHOODS) == {*LIKELIHOODS, "bernoulli"}  # another name of logistic


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: name(row, OPTIONS))
def test_all_pairs_of_options_run_and_are_right(row, tmp_path):
    check_row(row, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("row", [DEFAULTS | row for row in UNKNOWNS], ids=lambda row: name(row, OPTIONS))
def test_parameters_that_are_not_given_are_found(row, tmp_path):
    check_row(row, tmp_path, known=False)
    parameters = json.loads(ellipslice("summary", tmp_path / "run", "--json").stdout)["parameters"]
    own = {"negative-binomial": {"dispersion"}} | {likelihood: {"noise_scale"} for likelihood in CONTINUOUS}
    scales = {f"length_scale[{x}]" for x in INPUTS[row["inputs"]]} if row["inputs"] == "two" else {"length_scale"}
    assert set(parameters) == {"amplitude"} | scales | own.get(row["likelihood"], set())
    assert all(one["mean"] > 0 for one in parameters.values())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--x", "time"], "--x was given without --y"),
        (["--y", "count"], "--y was given without --x"),
        ([], "no input is named"),
        (["--x", "time", "--y", "count", "--events", "time"], "--events was given together with --x or --y"),
        (["--x", "time", "--y", "time"], "the column 'time' is named twice"),
        (["--x", "time", "--y", "count", "--likelihood", "possion"], "Did you mean 'poisson'"),
        (["--x", "time", "--y", "count", "--kernel", "rbf"], "Did you mean 'squared-exponential'"),
        (["--x", "time", "--y", "count", "--length-scale", "1", "--length-scale", "2"], "2 times for 1 inputs"),
        (["--events", "time", "--window", "2,1"], "LOW < HIGH"),
        (["--events", "time", "--window", "2"], "two numbers"),
        (["--events", "time", "--window", "1,2"], "outside the window"),
        (["--x", "time", "--y", "value", "--likelihood", "poisson"], "is not a count"),
        (["--x", "time", "--y", "count", "--draws", "0"], "--draws must be at least 1"),
        (["--x", "time", "--y", "count", "--max-seconds", "0"], "--max-seconds must be finite and above 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_options_that_do_not_fit_the_table_are_refused(arguments, says, tmp_path):
    table = write(the_table(), tmp_path / "data.csv", "csv")
    said = ellipslice("fit", table, *arguments, "--out", tmp_path / "run", code=2).stderr
    assert says in " ".join(said.split())
    assert not (tmp_path / "run").exists()
