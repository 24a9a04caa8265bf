"""Options of `ellipslice fit --formula` in combination, and the commands after it.

Every row of options runs, and its draws and predictions are those of `LatentGaussianModel` with the same data and seed;
or it is rejected with a message that is listed here, before anything is written.
"""

from __future__ import annotations

import json
import re
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ellipslice as es
from combinations.pairs import Refusal, each_value, name, refusals_of, refused_rows
from ellipslice.apps.cli import app
from ellipslice.apps.fits.folder import open_folder

pytest.importorskip("zarr")
pytest.importorskip("pyarrow")
mpl.use("Agg")

DRAWS, WARMUP = 16, 6
EDGES = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
COUNTED, TRIED = ("poisson", "negative_binomial", "zero_inflated_poisson"), ("binomial",)

# The first value of each option is the default.
OPTIONS: dict[str, list[str]] = {
    "family": ["poisson", "gaussian", "student_t", "gamma", "bernoulli", *COUNTED[1:], *TRIED],
    "link": ["default", "probit", "cloglog"],
    "column": ["none", "exposure", "trials"],
    "terms": ["x", "x + (1 | place)", "1 + rw2(t)", "x + icar(place, graph=W)"],
    "graph": ["none", "csv", "gal"],
    "file": ["csv", "semicolons", "parquet"],
    "at": ["none", "other rows"],
    "chains": ["2", "1"],
    "output": ["text", "json", "quiet"],
    "then": ["look", "resume"],
}
RESPONSES = dict.fromkeys(COUNTED, "count") | {"bernoulli": "label", "binomial": "hit"}

REFUSALS = [
    Refusal("link", lambda family, link: link != "default" and family not in ("bernoulli", "binomial")),
    Refusal("requires --trials", lambda family, column: family in TRIED and column != "trials"),
    Refusal("trials", lambda family, column: column == "trials" and family not in TRIED),
    Refusal("exposure", lambda family, column: column == "exposure" and family not in COUNTED),
    Refusal("no graph of this name", lambda terms, graph: "graph" in terms and graph == "none"),
    Refusal("the formula does not use it", lambda terms, graph: "graph" not in terms and graph != "none"),
]
ROWS = each_value(OPTIONS, REFUSALS)


def the_table() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "count": rng.poisson(3, 24), "value": rng.gamma(3.0, 1.0, 24).round(4), "label": np.arange(24) % 3 % 2,
            "hit": rng.binomial(5, 0.5, 24), "tried": 5, "hours": np.linspace(1, 2, 24).round(4),
            "x": rng.standard_normal(24).round(4), "t": np.arange(24) // 3,
            "place": np.array(list("abcd"))[np.arange(24) % 4],
        }
    )  # fmt: skip


def write(frame: pd.DataFrame, path: Any, file: str) -> Any:
    """Write a table in one of the formats and return its path."""
    if file == "parquet":
        frame.to_parquet(path.with_suffix(".parquet"))
        return path.with_suffix(".parquet")
    form: dict[str, Any] = {"sep": ";", "decimal": ","} if file == "semicolons" else {}
    frame.to_csv(path, index=False, **form)
    return path


def formula(row: dict[str, str]) -> str:
    return f"{RESPONSES.get(row['family'], 'value')} ~ {row['terms']}"


def command(row: dict[str, str], folder: Any) -> list[str]:
    """Return the arguments of `ellipslice fit` for a row."""
    arguments = ["fit", write(the_table(), folder / "data.csv", row["file"]), "--formula", formula(row)]
    arguments += [
        "--family",
        row["family"],
        "--draws",
        DRAWS,
        "--warmup",
        WARMUP,
        "--chains",
        row["chains"],
        "--seed",
        7,
    ]
    arguments += [] if row["link"] == "default" else ["--link", row["link"]]
    arguments += {"none": [], "exposure": ["--exposure", "hours"], "trials": ["--trials", "tried"]}[row["column"]]
    if row["graph"] != "none":
        near = {one: [two for edge in EDGES if one in edge for two in edge if two != one] for one in "abcd"}
        gal = "4\n" + "".join(f"{one} {len(others)}\n{' '.join(others)}\n" for one, others in near.items())
        edges = "one,two\n" + "".join(f"{one},{two}\n" for one, two in EDGES)
        (folder / f"g.{row['graph']}").write_text(gal if row["graph"] == "gal" else edges)
        arguments += ["--graph", f"W={folder / 'g'}.{row['graph']}"]
    if row["at"] != "none":
        arguments += ["--predict-at", write(the_table().iloc[[0, 5, 6]], folder / "at.csv", row["file"])]
    arguments += ["--decimal", ","] if row["file"] == "semicolons" else []
    arguments += {"text": [], "json": ["--json"], "quiet": ["--quiet"]}[row["output"]]
    return [str(argument) for argument in arguments]


def ellipslice(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (arguments, result.output, result.exception)
    return result


def of_library(row: dict[str, str]) -> Any:
    """Return the fit of the same model by the library."""
    column = {"none": {}, "exposure": {"exposure": "hours"}, "trials": {"trials": "tried"}}[row["column"]]
    link = None if row["link"] == "default" else row["link"]
    given = {"data": the_table(), "family": row["family"], "link": link, "variables": {"W": EDGES}, **column}
    model = es.LatentGaussianModel(formula(row), **given)
    return model.fit(draws=DRAWS, warmup=WARMUP, chains=int(row["chains"]), seed=7, progress=False)


@pytest.mark.parametrize("row", refused_rows(OPTIONS, REFUSALS), ids=lambda row: name(row, OPTIONS))
def test_what_means_nothing_together_is_refused_and_leaves_nothing(row, tmp_path):
    said = " ".join(ellipslice(*command(row, tmp_path), "--out", tmp_path / "run", code=2).stderr.split())
    assert any(re.search(refusal.message, said) for refusal in refusals_of(row, REFUSALS)), said
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: name(row, OPTIONS))
def test_every_value_of_the_options_runs_and_is_right(row, tmp_path):
    out = tmp_path / "run"
    result, expected = ellipslice(*command(row, tmp_path), "--out", out), of_library(row)
    assert (result.stdout == "") == (row["output"] == "quiet")
    assert row["output"] != "json" or json.loads(result.stdout)["draws"] == DRAWS
    found = open_folder(out).fit()
    for each, values in expected.tree.posterior.data_vars.items():
        np.testing.assert_array_equal(found.tree.posterior[each], values)
    at = None if row["at"] == "none" else the_table().iloc[[0, 5, 6]]
    predicted, table = expected.predict(at, seed=7), pd.read_csv(out / "predictions.csv")
    for each in ("linear_predictor", "expected", "predictive"):
        np.testing.assert_allclose(table[f"{each}_mean"], predicted[each].mean(("chain", "draw")), rtol=1e-6, atol=1e-9)
    if row["then"] == "look":
        ellipslice("plot", out, "--out", tmp_path / "effects.svg")
        ellipslice("report", out, "--quiet")
        assert "Comparison with Laplace" in (out / "report.html").read_text()
        return
    ellipslice("resume", out, "--draws", DRAWS + 4, "--quiet")
    longer = open_folder(out).fit().tree.posterior
    for each, values in expected.tree.posterior.data_vars.items():
        np.testing.assert_array_equal(longer[each][:, :DRAWS], values)
        assert longer.sizes["draw"] == DRAWS + 4
