"""Mistakes in the arguments and data of `ellipslice fit` and `resume` are found before the first draw."""

from __future__ import annotations

import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ellipslice.apps.cli import app
from ellipslice.apps.fits.model import Data, Problem
from ellipslice.apps.fits.settings import FitSettings

pytest.importorskip("zarr")
mpl.use("Agg")

SHORT = ("--draws", 4, "--warmup", 1, "--chains", 2, "--seed", 5)
KNOWN = ("--length-scale", 2.0, "--amplitude", 1.0, "--noise-scale", 0.5)


def ellipslice(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data" / "table.csv"
    path.parent.mkdir()
    days = pd.date_range("2024-02-01", periods=6, freq="7D").strftime("%Y-%m-%d")
    pd.DataFrame({"t": np.arange(6.0), "day": days, "y": np.sin(np.arange(6.0))}).to_csv(path, index=False)
    return path


@pytest.fixture
def no_draws(monkeypatch):
    """Fail the test if a run starts."""

    def begun(self, *_, **__):
        raise AssertionError("a run was started")

    monkeypatch.setattr(Problem, "fit", begun)
    monkeypatch.setattr(Problem, "resume", begun)


# Content of the table of --predict-at, the input column of the data, and the expected message.
WRONG_AT = {
    "another name": ("u\n5\n", "t", "has no column 't'"),
    "text": ("t\n5\nsoon\n", "t", "holds 'soon' in row 2; expected numbers."),
    "a missing value": ("t\n5\nNA\n", "t", "1 of 2 rows have no value.*--drop-missing"),
    "dates for numbers": ("t\n2024-02-01\n", "t", "holds '2024-02-01' in row 1; expected numbers."),
    "numbers for dates": ("day\n5\n", "day", "'day' must hold dates, because it holds dates in the data"),
    "text for dates": ("day\nsoon\n", "day", "holds 'soon' in row 1; expected dates such as"),
    "infinity": ("t\ninf\n", "t", "holds inf in row 1; expected finite"),
    "two columns of the name": ("t,t\n1,2\n", "t", "2 columns named 't'"),
    "no rows": ("t\n", "t", "no rows of data"),
    "another delimiter": ("t#u\n1#2\n", "t", "has no column 't'"),
}


@pytest.mark.parametrize("name", WRONG_AT)
def test_a_mistake_in_the_table_of_at_costs_no_time(name, table, tmp_path, no_draws):
    content, x, says = WRONG_AT[name]
    at = table.parent / "at.csv"
    at.write_text(content)
    found = ellipslice(
        "fit", table, "--x", x, "--y", "y", *SHORT, "--predict-at", at, "--out", tmp_path / "run", code=2
    ).stderr
    assert re.search(says, " ".join(found.split())), found
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_drop_missing_is_for_the_table_of_at_and_resume_checks_it_first(table, tmp_path, monkeypatch):
    out, at = tmp_path / "run", table.parent / "at.csv"
    at.write_text("t\n5\nNA\n7\n")
    given = ("--x", "t", "--y", "y", *KNOWN, *SHORT, "--drop-missing", "--predict-at", at, "--out", out)
    ellipslice("fit", table, *given)
    assert pd.read_csv(out / "predictions.csv")["t"].tolist() == [5.0, 7.0]

    def begun(self, *_, **__):
        raise AssertionError("a run was started")

    with monkeypatch.context() as patched:
        patched.setattr(Problem, "resume", begun)
        for content, says in (("u\n5\n", "no column 't'"), ("t\nNA\n5\n", "--drop-missing")):
            at.write_text(content)
            assert says in ellipslice("resume", out, "--draws", 8, "--predict-at", at, code=2).stderr
    ellipslice("resume", out, "--predict-at", at, "--drop-missing", "--quiet")
    assert pd.read_csv(out / "predictions.csv")["t"].tolist() == [5.0]


@pytest.mark.parametrize("column", ["t", "y"])
@pytest.mark.parametrize("factor", [1e160, 1e-170, 1e308, 1e-320])
def test_a_column_beyond_double_precision_is_to_be_rescaled(column, factor, table, tmp_path, no_draws):
    frame = pd.read_csv(table)
    frame[column] *= factor
    frame.to_csv(table, index=False)
    given = ("fit", table, "--x", "t", "--y", "y", "--out", tmp_path / "run")
    said = " ".join(ellipslice(*given, code=2).stderr.split())
    if factor == 1e308 and column == "t":
        assert "expected finite numbers" in said  # 5e308 overflows to infinity
    else:
        assert f"the column '{column}' has values up to" in said
        assert "Rescale the column" in said
    assert "noise_scale" not in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", ["--amplitude", "--length-scale", "--noise-scale"])
def test_a_parameter_beyond_double_precision_is_refused(option, table, tmp_path, no_draws):
    given = ("fit", table, "--x", "t", "--y", "y", "--out", tmp_path / "run", option, "1e-170")
    assert f"{option} is 1e-170, whose square" in " ".join(ellipslice(*given, code=2).stderr.split())


def test_values_in_common_large_and_small_units_are_taken():
    x = np.arange(5.0)[:, None]
    for factor in (1e-90, 1e-30, 1.0, 1e30, 1e90):
        Problem(FitSettings(inputs=("t",), target="y"), Data(x * factor, np.sin(x[:, 0]) * factor))


@pytest.mark.parametrize(
    ("content", "given", "says"),
    [
        ("t,y\nsoon,1\nlate,2\n", ("--x", "t", "--y", "y"), "holds 'soon' in row 1; expected numbers, or dates"),
        ("t,y\n1,red\n2,blue\n", ("--x", "t", "--y", "y"), "expected numbers (or yes and no)"),
        (
            "t,y,n\n1,1,few\n2,1,many\n",
            ("--x", "t", "--y", "y", "--likelihood", "binomial", "--trials", "n"),
            "expected numbers.",
        ),
    ],
)
def test_yes_and_no_are_spoken_of_only_for_what_was_seen(content, given, says, table, no_draws):
    table.write_text(content)
    assert says in " ".join(ellipslice("fit", table, *given, "--out", table.parent / "run", code=2).stderr.split())


@pytest.mark.long
def test_one_event_in_a_known_window_is_data(table, tmp_path):
    table.write_text("when\n3.5\n")
    given = ("fit", table, "--events", "when", "--cells", 4, "--length-scale", 2.0, "--amplitude", 1.0, *SHORT)
    said = ellipslice(*given, "--out", tmp_path / "run", code=2).stderr
    assert "at least 2 are needed, or --window LOW,HIGH" in " ".join(said.split())
    assert not (tmp_path / "run").exists()
    ellipslice(*given, "--window", "0,10", "--out", tmp_path / "run")
    predictions = pd.read_csv(tmp_path / "run" / "predictions.csv")
    np.testing.assert_allclose(predictions["when"], [1.25, 3.75, 6.25, 8.75])
    assert (predictions["expected_mean"] > 0).all()


def test_other_inputs_than_those_of_very_many_data_are_refused_first():
    data = Data(np.arange(5100.0)[:, None], np.ones(5100))
    asked = FitSettings(inputs=("t",), target="y", likelihood="poisson", amplitude=1.0, length_scale=(3.0,))
    problem = Problem(asked, data)
    problem.check_predicts_at(data.inputs[::7])
    with pytest.raises(ValueError, match=r"--predict-at has inputs that are not in the data.*at most 5,000.*5,100"):
        problem.check_predicts_at(np.array([[1.0], [1.5]]))
