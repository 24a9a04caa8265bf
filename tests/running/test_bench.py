"""The benchmark runs, and says what it should. How fast things are is not for a test to say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from ellipslice.bench.contestants import own_function
from ellipslice.bench.run import hold_against
from ellipslice.cli import app
from ellipslice.paper import PROBLEMS, problem
from ellipslice.priors import Dense


def test_a_short_run_writes_its_results(tmp_path):
    out = tmp_path / "bench.json"
    options = ["bench", "--problems", "R01", "--chains", "1,2", "--seconds", "0.02", "--rounds", "1", "--nuts"]
    result = CliRunner().invoke(app, [*options, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "R01, 2 chains" in result.output
    written = json.loads(out.read_text())
    assert written["machine"]["cores"] >= 1
    names = {row["contestant"] for row in written["results"] if row["chains"] == 1}
    rivals = {"blackjax", "NUTS (NumPyro)", "NumPy loop", "floor: draws alone"}
    assert rivals | {"ours, own function", "ours, ready-made", "ours, host"} == names
    for row in written["results"]:
        if "NUTS" not in row["contestant"] and "floor" not in row["contestant"]:
            assert row["evaluations_per_update"] == pytest.approx(1.0 if "ready" in row["contestant"] else 8.4, abs=0.6)
    assert all(row["updates_per_second"] > 0 for row in written["results"])
    assert [row["ratio"] for row in written["results"] if row["contestant"] == "blackjax"] == [1.0, 1.0]


def test_ratios_that_have_fallen_are_refused():
    def row(ratio, contestant="ours, ready-made"):
        return {"problem": "R01", "chains": 1, "precision": "double", "contestant": contestant, "ratio": ratio}

    hold_against([row(5.0), row(1.0, "blackjax")], [row(6.0), row(1.0, "blackjax")])
    with pytest.raises(ValueError, match=r"R01 \(1\): 3.00, once 6.00"):
        hold_against([row(3.0)], [row(6.0)])
    with pytest.raises(ValueError, match="nothing to compare"):
        hold_against([row(3.0)], [row(3.0) | {"problem": "Mine"}])


def test_a_wrong_name_is_one_line():
    result = CliRunner().invoke(app, ["bench", "--problems", "R11"])
    assert result.exit_code == 2
    assert "R11" in result.output
    assert "R01" in result.output


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_problems_are_the_paper_s(name):
    one = problem(name)
    assert len(one.inputs) == {"USPS": 767, "Mine": 811}.get(name, 200)
    assert one.covariance.diagonal() == pytest.approx(np.exp(7.0) if name == "USPS" else 1.0)
    f = np.asarray(Dense(one.covariance).draw(np.random.default_rng(0), 1))[0]
    assert own_function(one)(np)(f) == pytest.approx(float(one.likelihood(f)), rel=1e-12)


def test_the_synthetic_problems_have_one_dimension_more_each():
    assert [problem(name).inputs.shape[1] for name in PROBLEMS[:10]] == list(range(1, 11))


def test_mine_has_rank_13_or_so_and_usps_is_of_full_rank():
    """What facts of the data the speed of both depends on."""
    assert Dense(problem("Mine").covariance).noise_size < 20
    assert Dense(problem("USPS").covariance).noise_size == 767
