"""The command `ellipslice paper`: runs, resumption, figures and report, with short runs."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ellipslice.apps.cli import ALL_METHODS, ALL_PROBLEMS, app
from ellipslice.apps.paper import PROBLEMS, agreement, experiment
from ellipslice.apps.paper.figures import ellipse, extra_methods, figure4, figure5, figure6
from ellipslice.apps.paper.folder import Folder
from ellipslice.apps.paper.methods import METHODS, set_up
from ellipslice.apps.paper.protocol import Cell, Protocol, RunOutcome, cell_seed, cells, run_cell
from ellipslice.apps.paper.report import report
from ellipslice.apps.paper.results import summarise
from ellipslice.data import published_figure6

EVERY = [Cell(*names) for names in published_figure6()]
SHORT = Protocol(iterations=1000, seed=5)
OPTIONS = {"--problems": "R01", "--methods": "elliptical,neal", "--runs": "2", "--iterations": "1000", "--seed": "5"}


def paper(out, **changed):
    options = OPTIONS | {f"--{name}": str(value) for name, value in changed.items()}
    return CliRunner().invoke(
        app, ["paper", *(word for option in options.items() for word in option), "--out", str(out)]
    )


def timeless(outcome):
    """Return an outcome without times. The last digits depend on the alignment of memory, so they are rounded."""
    return replace(outcome, seconds=0.0, elapsed=0.0, effective=float(f"{outcome.effective:.6g}"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper") / "made" / "on the way"
    result = paper(out)
    assert result.exit_code == 0, result.output
    return result, out


def test_one_folder_has_everything(finished):
    result, out = finished
    assert "4 runs of 100 + 1,000 iterations" in result.output
    assert "resumed" not in result.output
    for name in ("figure3.png", "figure4.png", "figure6.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
        assert f"]({name})" in (out / "report.md").read_text(encoding="utf8")
    assert not (out / "figure5.png").exists()  # R10 was not run


def test_other_methods_have_a_figure_of_their_own(finished, tmp_path):
    _, out = finished
    assert not (out / "beyond.png").exists()
    outcomes = [RunOutcome("R01", method, 0, 50.0, 2000, 2000, 1.0, 1.0, -50.0, None, "", []) for method in METHODS]
    assert extra_methods(summarise(outcomes, SHORT)) is None
    more = [*outcomes, replace(outcomes[0], method="recentred", effective=500.0)]
    drawn = extra_methods(summarise(more, SHORT))
    assert {text.get_text() for text in drawn.legends[0].get_texts()} > {"Elliptical slice, reference Gaussian"}
    paper_s = figure6(summarise(more, SHORT))
    assert "Elliptical slice, reference Gaussian" not in {text.get_text() for text in paper_s.legends[0].get_texts()}


def test_results_are_means_over_runs_with_standard_errors(finished):
    _, out = finished
    written = json.loads((out / "results.json").read_text(encoding="utf8"))
    assert written["settings"] == {"iterations": 1000, "burn_in": 100, "seed": 5, "precision": "double"}
    assert written["commit"]
    assert written["arguments"]["runs"] == 2
    assert len(written["machines"]) == 1
    assert "cores; ellipslice" in written["machines"][0]
    runs = [json.loads((out / "runs" / f"R01-elliptical-00{run}.json").read_text(encoding="utf8")) for run in (0, 1)]
    row = next(row for row in written["results"] if row["method"] == "elliptical")
    sizes = np.array([100 * run["effective"] for run in runs])  # for 100,000 iterations
    assert row["effective"]["mean"] == pytest.approx(sizes.mean())
    assert row["effective"]["standard_error"] == pytest.approx(sizes.std(ddof=1) / math.sqrt(2))
    assert row["evaluations"]["mean"] == pytest.approx(np.mean([run["evaluations"] for run in runs]) / 1100)
    assert row["paper"]["effective"] == 1598


def test_the_same_seed_gives_the_same_runs_and_another_does_not(finished, tmp_path):
    _, out = finished
    first = Folder(out, SHORT).outcomes(Cell("R01", "elliptical"))
    assert paper(tmp_path / "again", runs=1, methods="elliptical").exit_code == 0
    again = Folder(tmp_path / "again", SHORT).outcomes()
    assert [timeless(outcome) for outcome in again] == [timeless(first[0])]
    other = run_cell(Cell("R01", "elliptical"), [0], Protocol(1000, seed=6))[0]
    assert other.trace != first[0].trace
    assert first[0].effective != first[1].effective


def test_a_killed_experiment_goes_on_where_it_was(finished, tmp_path, monkeypatch):
    _, whole = finished
    made = []

    def killed(cell, runs, protocol):
        if made:
            raise KeyboardInterrupt
        made.append(cell)
        return run_cell(cell, runs, protocol)

    monkeypatch.setattr(experiment, "run_cell", killed)
    result = paper(tmp_path / "out")
    assert result.exit_code == 130
    assert "Run the same command again to continue" in result.output
    assert made == [Cell("R01", "elliptical")]

    monkeypatch.setattr(experiment, "run_cell", lambda *given: (made.append(given[0]), run_cell(*given))[1])
    result = paper(tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "resumed: 2 runs are finished, 2 remain" in result.output
    assert made[1:] == [Cell("R01", "neal")]
    resumed = [timeless(outcome) for outcome in Folder(tmp_path / "out", SHORT).outcomes()]
    assert resumed == [timeless(outcome) for outcome in Folder(whole, SHORT).outcomes()]


def test_a_run_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    folder, cell = Folder(tmp_path, SHORT), Cell("R01", "neal")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            folder.add(outcome(cell, 0))
    assert not folder.has(cell, 0)
    assert folder.outcomes() == []
    folder.add(outcome(cell, 0))
    assert folder.has(cell, 0)
    assert folder.outcomes() == [outcome(cell, 0)]


def test_a_damaged_run_is_named(tmp_path):
    folder = Folder(tmp_path, SHORT)
    (tmp_path / "runs" / "R01-neal-000.json").write_text("{")
    with pytest.raises(ValueError, match=r"R01-neal-000\.json is not a finished run.*Delete it"):
        folder.outcomes()


@pytest.mark.parametrize("name", ["iterations", "seed"])
def test_a_folder_with_other_settings_is_refused_by_name(finished, name):
    _, out = finished
    result = paper(out, **{name: 2000})
    assert result.exit_code == 2
    assert f"made with {name} {OPTIONS[f'--{name}']}, but now it is 2000" in result.stderr
    assert paper(out).exit_code == 0


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    result = paper(tmp_path)
    assert result.exit_code == 2
    assert "do not belong to an experiment" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("problems", "R11", "there is no problem 'R11'. Choose from R01"),
        ("methods", "gibbs", "there is no method 'gibbs'"),
        ("methods", "neal,neal", "twice"),
        ("runs", "0", "runs must be at least 1, but it is 0"),
        ("iterations", "10", "iterations must be at least 1000, but it is 10"),
        ("seed", "-1", "seed must be at least 0, but it is -1"),
    ],
)
def test_a_mistake_gives_a_sentence_before_anything_is_written(tmp_path, name, value, says):
    result = paper(tmp_path / "out", **{name: value})
    assert result.exit_code == 2
    assert says in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_without_matplotlib_runs_are_made_and_figures_drawn_later(tmp_path, monkeypatch):
    found = importlib.util.find_spec
    with monkeypatch.context() as without:
        without.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
        result = paper(tmp_path / "out", methods="elliptical")
    assert result.exit_code == 0
    assert result.output.startswith("Figures are omitted because matplotlib is not installed.")
    assert not list((tmp_path / "out").glob("*.png"))
    result = paper(tmp_path / "out", methods="elliptical")
    assert "resumed: 2 runs are finished, 0 remain" in result.output
    assert (tmp_path / "out" / "figure6.png").exists()


@pytest.mark.long
def test_single_precision_is_for_elliptical_slices_and_noted(tmp_path):
    result = paper(tmp_path / "out", precision="single")
    assert result.exit_code == 2
    assert "--precision single is only for the method elliptical, not for neal" in result.stderr
    assert not (tmp_path / "out").exists()
    assert paper(tmp_path / "out", precision="single", methods="elliptical", runs=1).exit_code == 0
    written = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf8"))
    assert written["settings"]["precision"] == "single"
    refused = paper(tmp_path / "out", methods="elliptical", runs=1)
    assert "were made with precision single, but now it is double" in refused.stderr


# --- the protocol ---------------------------------------------------------------------------------------------------


def test_all_cells_are_the_paper_s():
    assert ALL_PROBLEMS.split(",") == list(PROBLEMS)
    assert ALL_METHODS.split(",") == list(METHODS)
    assert set(cells(PROBLEMS, METHODS)) == set(published_figure6())
    with pytest.raises(ValueError, match="omitted, as in the paper"):
        cells(["USPS"], ["control"])


def test_a_run_has_the_same_numbers_in_any_company():
    cell = Cell("R01", "neal")
    alone, among = run_cell(cell, [1], SHORT), run_cell(cell, [0, 1, 2], SHORT)
    assert timeless(alone[0]) == timeless(among[1])
    assert [len(outcome.trace) for outcome in among] == [1000, 0, 0]


def test_methods_start_together_on_synthetic_data_and_have_their_own_noise():
    np.testing.assert_array_equal(
        *(set_up("R02", method, start=1, seed=2).initial for method in ("elliptical", "line"))
    )
    assert len({cell_seed(SHORT, cell) for cell in EVERY}) == len(EVERY)
    assert set_up("Mine", "elliptical", start=1, seed=2).initial is None


def test_the_authors_jitter_is_there_for_lines():
    """Without jitter a line slice on Mine takes 2.9 evaluations; the paper has 4.29. Of 1,100 updates, the sd is 2."""
    found = run_cell(Cell("Mine", "line"), [0], SHORT)[0]
    assert found.evaluations / 1100 == pytest.approx(4.29, abs=0.4)


@pytest.fixture(scope="module")
def with_controls():
    return run_cell(Cell("R01", "control"), [0], SHORT)[0]


@pytest.mark.long
def test_an_iteration_of_control_variables_moves_one_of_them(with_controls):
    found = with_controls
    assert found.controls is not None
    assert 3 <= found.controls <= 10
    sweeps = math.ceil(100 / found.controls) + math.ceil(1000 / found.controls)
    assert found.evaluations == 1 + found.controls * sweeps
    assert len(found.trace) == math.ceil(1000 / found.controls)


@pytest.mark.long
def test_a_run_in_a_process_of_its_own_is_the_same(finished, with_controls, monkeypatch):
    with experiment.workers() as pool:
        (outcomes,) = experiment.finished_runs(Cell("R01", "control"), [0], SHORT, pool)
        assert [timeless(one) for one in outcomes] == [timeless(with_controls)]
        monkeypatch.setattr(experiment, "CORES", 16)
        both = [one for (one,) in experiment.finished_runs(Cell("R01", "neal"), [0, 1], SHORT, pool)]
    theirs = Folder(finished[1], SHORT).outcomes(Cell("R01", "neal"))
    assert [timeless(one) for one in sorted(both, key=lambda one: one.run)] == [timeless(one) for one in theirs]


@pytest.mark.short_cases("recentred-1-3")
@pytest.mark.parametrize(("method", "least", "most"), [("nuts", 3, 100), ("recentred", 1, 3)])
def test_methods_beyond_the_paper_draw_from_the_same_posterior(method, least, most):
    """Runs of 100,000 elliptical updates have mean -44.27. Here the ESS is at least 300, and the sd 1.4."""
    found = run_cell(Cell("R01", method), [0], SHORT)[0]
    assert found.mean_log_likelihood == pytest.approx(-44.27, abs=5 * 1.4 / math.sqrt(300))
    assert least * 1100 < found.evaluations < most * 1100


# --- figures and report, of invented runs ----------------------------------------------------------------------------


def outcome(cell: Cell, run: int, scale: float = 1.0) -> RunOutcome:
    """Return an outcome with the numbers of the paper times `scale`, slightly larger in odd runs."""
    theirs = published_figure6()[cell]
    effective = theirs.effective * scale * (1.01 if run % 2 else 0.99) / 100
    count = round(theirs.evaluations * 1100 * scale)
    controls = 5 if cell.method == "control" else None
    trace = tuple(np.linspace(-40, -30, 200 if controls else 1000).tolist()) if run == 0 else ()
    return RunOutcome(*cell, run, effective, count, count, theirs.seconds / 100, 1.0, -35.0, controls, "here", trace)


def made_up(scale=lambda cell: 1.0):
    return [outcome(cell, run, scale(cell)) for cell in EVERY for run in range(4)]


def test_the_paper_agrees_with_itself():
    results = summarise(made_up(), SHORT)
    for judge in (agreement.effective, agreement.evaluations):
        verdicts = {cell: judge(cell, results) for cell in results}
        assert [cell for cell, verdict in verdicts.items() if verdict.agrees is False] == []
        assert sum(verdict.agrees is True for verdict in verdicts.values()) > 25
    page = report(results, SHORT, ["here"], [])
    assert "Evaluations per iteration: 47 of 47 rows agree with the paper." in page
    assert "Effective sample sizes on USPS and Mine: 7 of 7 rows" in page
    assert "Not compared: 3 rows in which the methods are too close." in page
    assert "elliptical 1.00, line 1.00" in page  # rank correlations


def test_what_differs_is_said_row_by_row():
    bad = {Cell("Mine", "line"): 1.5, Cell("USPS", "neal"): 0.6, Cell("R01", "neal"): 3.0}
    results = summarise(made_up(lambda cell: bad.get(cell, 1.0)), SHORT)
    page = report(results, SHORT, ["here"], [])
    assert "Different: R01 neal, USPS neal, Mine line." in page
    assert "Different: USPS neal, Mine line." in page
    assert "Order of the methods on R01 to R10: 26 of 27 rows agree with the paper. Different: R01 neal." in page
    assert "| Mine | line | 682 ± 4 |" in page


def test_one_run_is_not_judged():
    results = summarise([outcome(cell, 0, 2.0) for cell in EVERY], SHORT)
    assert agreement.effective(Cell("Mine", "line"), results).agrees is None
    assert agreement.effective(Cell("R01", "line"), results).agrees is None


@pytest.mark.parametrize(("draw", "name", "sweep", "slip"), [(figure4, "R01", 3, False), (figure5, "R10", 71, True)])
def test_traces_have_a_point_for_each_sweep(draw, name, sweep, slip):
    figure = draw(made_up())
    left, right = (axes.lines[0].get_xydata() for axes in figure.axes)
    np.testing.assert_array_equal(left[:, 0], 5 * np.arange(1, 201))
    np.testing.assert_array_equal(left[:, 1], outcome(Cell(name, "control"), 0).trace)
    np.testing.assert_array_equal(right[:, 1], outcome(Cell(name, "elliptical"), 0).trace[4::5])
    assert ("by mistake" in figure.texts[-1].get_text()) == slip
    left, right = draw([one for one in made_up() if one.method != "control"]).axes
    assert "not run" in [text.get_text() for text in left.texts]
    assert right.lines[0].get_xdata()[0] == sweep
    assert draw([one for one in made_up() if one.method != "elliptical"]) is None


@pytest.mark.long
def test_bars_are_ours_beside_the_paper_s():
    figure = figure6(summarise(made_up(), SHORT))
    for axes in figure.axes:
        heights = [bar.get_height() for bar in axes.patches]
        assert len(heights) == 2 * 47
        np.testing.assert_allclose(heights[0::2], heights[1::2], rtol=0.01)  # ours and those of the paper alternate
    assert figure6({}) is None


@pytest.mark.long
def test_nuts_has_bars_of_its_own_and_no_verdict():
    nuts = [replace(one, method="nuts") for one in made_up() if one.method == "neal"]
    results = summarise([*made_up(), *nuts], SHORT)
    assert len(figure6(results).axes[0].patches) == 2 * 47
    assert len(extra_methods(results).axes[0].patches) == 2 * 47 + 12
    assert agreement.effective(Cell("Mine", "nuts"), results).text == "not in the paper"
    assert "| Mine | nuts |" in report(results, SHORT, ["here"], [])


def test_figure_3_shows_three_rejections_and_a_move():
    found = ellipse.search()
    assert [bool(ellipse.on_slice(theta)) for theta in found.angles] == [False, False, False, True]
    assert ellipse.on_slice(0.0)
    assert len(ellipse.figure3().axes) == 6
