"""`ellipslice bench`: it runs, and its results are complete. The speed itself is not tested."""

from __future__ import annotations

import importlib
import json
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from ellipslice.apps.bench.effective import join, measure, methods, problems, tables
from ellipslice.apps.bench.plots import draw_timings, effective_figure
from ellipslice.apps.bench.process import LocalSampler, peak_memory, workers
from ellipslice.apps.bench.run import _caption, _time, compare_with_earlier
from ellipslice.apps.bench.samplers import FAST_CPU_SUFFIX, Timing, make, names, own_function
from ellipslice.apps.cli import app
from ellipslice.apps.paper import PROBLEMS, problem
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import EllipticalSlice, State
from ellipslice.posterior import Posterior
from ellipslice.priors import Dense
from engine_rows import begin

EVALUATIONS_SPREAD = 3.8
"""Standard deviation of the evaluations per update on R01, from 200 means over 200 updates, so with autocorrelation."""


def only(monkeypatch, *wanted):
    """Restrict a benchmark to some samplers, because each has its own process, which imports everything again."""
    module = importlib.import_module("ellipslice.apps.bench.run")
    monkeypatch.setattr(module, "names", lambda *asked: [name for name in names(*asked) if name in wanted])


@pytest.mark.long
def test_a_short_run_writes_its_results(tmp_path, monkeypatch):
    """There is a sampler of each kind: the baseline, ours with fast_cpu, NUTS, and the lower bound."""
    some = {"blackjax", "ours, ready-made" + FAST_CPU_SUFFIX, "NUTS (NumPyro)", "floor: draws alone"}
    only(monkeypatch, *some)
    out = tmp_path / "bench.json"
    options = ["bench", "--problems", "R01", "--chains", "1", "--seconds", "0.02", "--rounds", "1", "--nuts"]
    result = CliRunner().invoke(app, [*options, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "R01, 1 chain" in result.output
    assert "minus its memory before" in result.output
    assert out.with_suffix(".png").stat().st_size > 10_000
    written = json.loads(out.read_text())
    assert re.fullmatch(r"[0-9a-f]{40}\+?|not a git checkout", written["commit"])
    assert written["arguments"]["problems"] == ["R01"]
    assert written["machine"]["cores"] >= 1
    assert {row["contestant"] for row in written["results"]} == some
    assert len(written["machine"]["load"]) == len(written["machine"]["load_after"]) == 3
    for row in written["results"]:
        if "NUTS" not in row["contestant"] and "floor" not in row["contestant"]:
            expected = (1.0, 0.0) if "ready" in row["contestant"] else (8.4, EVALUATIONS_SPREAD / row["updates"] ** 0.5)
            assert row["evaluations_per_update"] == pytest.approx(expected[0], abs=1e-9 + 5 * expected[1])
    assert all(row["updates_per_second"] > 0 for row in written["results"])
    assert all(row["peak_memory"] >= 0 for row in written["results"])
    assert not multiprocessing.active_children()
    assert [row["ratio"] for row in written["results"] if row["contestant"] == "blackjax"] == [1.0]


def some_results():
    shared = {"precision": "double", "ratio_range": [0.9, 1.3]}
    return [
        {"problem": problem, "chains": chains, "contestant": contestant, "ratio": 1.0, **shared}
        for problem in ("R01", "Mine")
        for chains in (1, 4)
        for contestant in ("blackjax", "ours, ready-made + fast_cpu", *(["NUTS (NumPyro)"] if chains == 1 else []))
    ]


MACHINE = {"device": "cpu", "cores": 2, "processor": "some processor", "jax": "1", "blackjax": "1"}


def test_the_picture_has_a_panel_for_each_problem_and_number_of_chains():
    pytest.importorskip("matplotlib")
    figure = draw_timings(some_results(), MACHINE)
    titles = [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes]
    assert titles == ["R01, 1 chain", "Mine, 1 chain", "R01, 4 chains", "Mine, 4 chains"]
    named = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert named == ["blackjax", "ours, ready-made + fast_cpu", "NUTS (NumPyro)"]
    assert "2 cores, some processor" in figure.texts[1].get_text()


@pytest.mark.long
def test_several_chains_with_other_settings():
    contestants = ["blackjax" + FAST_CPU_SUFFIX, "ours, own function" + FAST_CPU_SUFFIX]
    with workers(contestants, "R01", np.zeros(200), 2) as made:
        for name in contestants:
            assert made[name].time(256) > 0
            told = made[name].measures()
            assert told["evaluations_per_update"] == pytest.approx(8.4, abs=0.6)
            assert told["peak_memory"] > 10**6


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_states_of_many_chains_are_few_and_said_to_be(monkeypatch, tmp_path, backend):
    """On a GPU nothing is stored, so the number of updates is not limited."""
    module = importlib.import_module("ellipslice.apps.bench.run")
    asked = []

    def advance(updates):
        asked.append(updates)
        return Timing(3 * 8192 * updates, np.zeros((8192, updates)))

    @contextmanager
    def no_processes(*_):
        yield {"blackjax": LocalSampler(advance, 8192)}

    monkeypatch.setattr(module, "jax", SimpleNamespace(default_backend=lambda: backend))
    monkeypatch.setattr(module, "device_samplers", lambda *_: {"blackjax": advance})
    monkeypatch.setattr(module, "workers", no_processes)
    monkeypatch.setattr(module, "_common_start", lambda _: np.zeros(200))
    [row] = module.run(["R01"], [8192], seconds=1e-4, rounds=2)
    assert row["updates"] in asked  # the number of updates in the first calls depends on the load of the machine
    assert max(asked) == 40 if backend == "cpu" else min(asked) == 256
    assert row["evaluations_per_update"] == 3
    assert ("effective_per_update" in row) == (backend == "gpu")  # 40 updates are too few for an effective sample size
    assert ("as few as 40 updates" in (_caption([row]) or "")) == (backend == "cpu")


def test_short_runs_of_many_chains_hold_no_more_than_their_states():
    """Compiled code returns a whole block of rows, and the random numbers of a chain have the same length."""
    engine = CompiledEngine(Posterior(Dense(problem("R01").covariance), problem("R01").likelihood))
    start = np.zeros(200)
    with jax_settings():
        run = begin(engine, EllipticalSlice(), 1, range(8), [State(start, engine.evaluate(start))] * 8, 20)
        while not run.finished:
            run.advance()
    made = run.take()
    run.close()
    assert sum(rows.draws for rows in made) == 8 * 20
    for rows in made:
        assert rows.f.base is None or rows.f.base.nbytes <= 2 * rows.f.nbytes
    assert not any(chain._noise._current for chain in run._chains)


def test_a_timing_is_about_as_long_as_asked_for():
    rows = _time(
        {"blackjax": LocalSampler(lambda updates: time.sleep(updates * 1e-5) or Timing(), 1)}, 1, 10**6, 0.1, 1
    )
    assert 5_000 < rows[0]["updates"] <= 11_000
    assert _caption(rows) is None


@pytest.mark.long
def test_every_name_is_a_contestant():
    assert set(names(1)) == {
        *(name for name in ("blackjax", "ours, own function", "ours, ready-made")),
        *(name + FAST_CPU_SUFFIX for name in ("blackjax", "ours, own function", "ours, ready-made")),
        "ours, host", "NumPy loop", "floor: draws alone",
    }  # fmt: skip
    for name in names(1):
        if not name.endswith(FAST_CPU_SUFFIX):
            contestant = LocalSampler(make(name, problem("R01"), np.zeros(200), 1), 1)
            assert contestant.time(1024) > 0
            expected = (1.0, 1e-9) if "ready" in name else (8.4, 5 * EVALUATIONS_SPREAD / 1024**0.5)
            told = contestant.measures().get("evaluations_per_update")
            assert "floor" in name or told == pytest.approx(expected[0], abs=expected[1])
    assert names(1, nuts=True) == [*names(1)[:6], "NUTS (NumPyro)", *names(1)[6:]]
    assert names(4) == names(1)[:6]
    with pytest.raises(ValueError, match="no sampler 'nobody'"):
        make("nobody", problem("R01"), np.zeros(200), 1)


@pytest.mark.long
def test_a_process_has_settings_and_memory_of_its_own():
    """The memory is that of the sampler's process, which stores 41 MB, and not that of this process."""
    here = np.ones(2**26)
    with workers(["NumPy loop"], "R01", np.zeros(200), 1) as made:
        assert made["NumPy loop"].time(2**14) > 0
        told = made["NumPy loop"].measures()
    assert 2**14 * 200 * 8 <= told["peak_memory"] < here.nbytes / 2 < peak_memory()
    assert told["evaluations_per_update"] == pytest.approx(8.4, abs=0.6)
    assert told["effective_per_update"] > 0


@pytest.mark.long
def test_an_error_in_a_process_is_the_error_here():
    with pytest.raises(ValueError, match="no sampler 'nobody'"), workers(["nobody"], "R01", np.zeros(200), 1):
        pass
    with workers(["NumPy loop"], "R01", np.zeros(200), 1) as made:
        made["NumPy loop"].time(0)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            made["NumPy loop"].measures()  # divides by zero updates
        assert made["NumPy loop"].time(256) > 0
    assert not multiprocessing.active_children()


@pytest.mark.long
def test_a_process_that_is_killed_is_an_error():
    with workers(["NumPy loop"], "R01", np.zeros(200), 1) as made:
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
        with pytest.raises(OSError, match="NumPy loop ended unexpectedly with exit code -9"):
            made["NumPy loop"].time(256)
    assert not multiprocessing.active_children()


@pytest.mark.long
def test_a_missing_package_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "blackjax.py").write_text("raise ModuleNotFoundError(\"No module named 'blackjax'\")")
    monkeypatch.syspath_prepend(str(tmp_path))  # the processes inherit sys.path
    only(monkeypatch, "blackjax", "NumPy loop")
    result = CliRunner().invoke(app, ["bench", "--problems", "R01", "--chains", "1"])
    assert result.exit_code == 2
    assert result.output.strip() == "error: No module named 'blackjax'"
    assert not multiprocessing.active_children()


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no process groups")
def test_an_interrupt_leaves_no_process_behind(tmp_path):
    """Ctrl-C reaches all processes of a terminal. All of them end, and the workers print no traceback."""
    code = """
        import numpy as np
        from ellipslice.apps.bench.process import workers

        if __name__ == "__main__":
            with workers(["NumPy loop", "ours, host"], "R01", np.zeros(200), 1) as made:
                print("ready", flush=True)
                made["NumPy loop"].time(10**7)
    """
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert errors.count("Traceback") == 1  # of the main process
    assert errors.strip().endswith("KeyboardInterrupt")
    with pytest.raises(ProcessLookupError):
        wait_for_the_end_of(process.pid)


def wait_for_the_end_of(group):
    """Wait up to ten seconds for Python's helper process. Raises ProcessLookupError when all have ended."""
    for _ in range(100):
        os.killpg(group, 0)
        time.sleep(0.1)


def test_ratios_that_have_fallen_are_refused():
    def row(ratio, contestant="ours, ready-made"):
        return {"problem": "R01", "chains": 1, "precision": "double", "contestant": contestant, "ratio": ratio}

    compare_with_earlier([row(5.0), row(1.0, "blackjax")], [row(6.0), row(1.0, "blackjax")])
    with pytest.raises(ValueError, match=r"R01 \(1\): 3.00, earlier 6.00"):
        compare_with_earlier([row(3.0)], [row(6.0)])
    with pytest.raises(ValueError, match="nothing to compare"):
        compare_with_earlier([row(3.0)], [row(3.0) | {"problem": "Mine"}])


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
    f = np.asarray(Dense(one.covariance).draw_zero_mean(np.random.default_rng(0), 1))[0]
    assert own_function(one)(np)(f) == pytest.approx(float(one.likelihood(f)), rel=1e-12)


def test_the_synthetic_problems_have_one_dimension_more_each():
    assert [problem(name).inputs.shape[1] for name in PROBLEMS[:10]] == list(range(1, 11))


def test_mine_has_rank_13_or_so_and_usps_is_of_full_rank():
    """The speed on both problems depends on these ranks."""
    assert Dense(problem("Mine").covariance).noise_size < 20
    assert Dense(problem("USPS").covariance).noise_size == 767


def effective_bench(*options):
    return CliRunner().invoke(app, ["bench", *options], env={"COLUMNS": "200"})


@pytest.mark.long
def test_effective_writes_a_table_a_file_and_a_plot(tmp_path):
    out = tmp_path / "effective.json"
    options = ("--problems", "R01", "--methods", "auto,plain", "--seeds", "1", "--seconds", "0.1", "--out", str(out))
    before = os.sched_getaffinity(0)
    result = effective_bench("--effective", *options)
    assert result.exit_code == 0, result.output
    assert os.sched_getaffinity(0) == before
    assert "worst element of f" in result.output
    written = json.loads(out.read_text())
    assert written["arguments"][0]["methods"] == ["auto", "plain"]
    assert re.fullmatch(r"[0-9a-f]{40}\+?|not a git checkout", written["commit"])
    rows = {row["method"]: row for row in written["effective_samples"]}
    assert set(rows) == {"auto", "plain"}
    assert rows["auto"]["chosen"] == "independent"
    assert rows["auto"]["converged"]
    assert rows["auto"]["effective_sample_size"] > 0.5 * rows["auto"]["updates"]
    assert all(row["sampling_seconds"] > 0 for row in rows.values())
    assert out.with_suffix(".png").stat().st_size > 10_000


@pytest.mark.long
def test_choice_measures_each_move(tmp_path):
    out = tmp_path / "choice.json"
    result = effective_bench("--choice", "--problems", "R01", "--seeds", "1", "--seconds", "0.1", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "The largest ratio of the best move to the chosen one is" in result.output
    rows = json.loads(out.read_text())["effective_samples"]
    assert {row["method"] for row in rows} == set(methods.CHOICE_METHODS)
    assert [row["method"] for row in rows if row["preparation_seconds"] is not None] == ["auto"]
    (found,) = tables.choices(rows)
    assert found.chosen == "independent"
    assert found.loss < 20  # the timing of a tenth of a second is noisy


@pytest.mark.long
def test_processes_measure_rivals(tmp_path):
    """Two processes, each pinned to a core."""
    out = tmp_path / "rivals.json"
    cores = len(os.sched_getaffinity(0))
    options = ("--methods", "mgrad,NUTS-dense", "--seeds", "1", "--processes", str(min(2, cores)), "--out", str(out))
    result = effective_bench("--effective", "--problems", "R01", "--seconds", "0.3", *options)
    assert result.exit_code == 0, result.output
    rows = {row["method"]: row for row in json.loads(out.read_text())["effective_samples"]}
    assert rows["mgrad"]["acceptance"] == pytest.approx(0.55, abs=0.2)
    assert all(row["effective_sample_size"] > 50 for row in rows.values())
    assert all(row["preparation_seconds"] > 0 for row in rows.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--effective", "--choice"], "both given"),
        (["--effective", "--chains", "2"], "--chains was given with --effective"),
        (["--choice", "--nuts"], "--nuts was given with --choice"),
        (["--seeds", "2"], "--seeds requires --effective or --choice"),
        (["--effective", "--problems", "R11"], "no problem 'R11'. Choose from pines"),
        (["--effective", "--methods", "slow"], "no method 'slow'. Choose from auto"),
        (["--effective", "--processes", "999"], "--processes must be between 1 and"),
        (["--effective", "--seeds", "0"], "--seeds must be at least 1"),
    ],
)
def test_options_of_another_table_are_one_line(options, message):
    result = effective_bench(*options)
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.count("\n") == 1


def effective_row(method, rate, seed=1, problem="R10", converged=True, **more):
    ess = 1000.0 if converged else 50.0
    shared = {"problem": problem, "method": method, "seed": seed, "converged": converged, "rhat": 1.01}
    times = {"preparation_seconds": 1.0, "sampling_seconds": ess / rate}
    return {**shared, "effective_sample_size": ess, **times, **more}


def test_ratios_are_of_medians_and_only_of_methods_that_converged():
    rows = [effective_row("auto", rate, seed) for seed, rate in enumerate((90.0, 100.0, 500.0))]
    rows += [effective_row("mgrad", 10.0), effective_row("plain", 10.0, converged=False)]
    found = tables.summaries(rows)
    assert found[0].rate == pytest.approx(100.0)
    assert (found[0].low, found[0].high) == pytest.approx((90.0, 500.0))
    assert tables.ratio(found, "R10", "mgrad") == pytest.approx(10.0)
    assert tables.ratio(found, "R10", "plain") is None
    assert tables.ratio(found, "R10", "NUTS-dense") is None
    assert tables.goal("R10", "NUTS-dense") == tables.goal("R10", "NUTS-diagonal") == 40
    assert tables.goal("R10", "plain") is None


def test_the_choice_is_compared_with_the_best_move_of_each_seed():
    rows = []
    for seed, (ellipses, kicks) in enumerate([(100.0, 30.0), (100.0, 250.0)], 1):
        rows += [effective_row("only-ellipses", ellipses, seed), effective_row("only-kicks", kicks, seed)]
        rows += [effective_row("only-independent", 1e6, seed, converged=False)]
        rows += [effective_row("auto", 100.0, seed, chosen="ellipses")]
    one, two = tables.choices(rows)
    assert (one.best, one.loss) == ("ellipses", pytest.approx(1.0))
    assert (two.best, two.loss) == ("kicks", pytest.approx(2.5))
    assert tables.worst_choice([one, two]) == (
        "The largest ratio of the best move to the chosen one is 2.50 (R10, seed 2: ellipses was chosen, and kicks is "
        "the best). In 1 of 2 choices it is at most 2."
    )
    rows[-1] = effective_row("auto", 100.0, 2, chosen="ellipses", converged=False)
    assert "it has not converged" in tables.worst_choice(tables.choices(rows))


def test_results_of_one_commit_are_joined(tmp_path):
    about = {"machine": {"processor": "some", "jax": "1"}, "commit": "abc", "arguments": [{"seeds": [1]}]}
    paths = [tmp_path / f"{seed}.json" for seed in (1, 2)]
    for seed, path in enumerate(paths, 1):
        rows = [effective_row("auto", 100.0, seed), effective_row("auto", 10.0, seed, "pines")]
        path.write_text(json.dumps(about | {"effective_samples": rows}))
    joined = join(paths, tmp_path / "joined.json")
    assert [(row["problem"], row["seed"]) for row in joined] == [("pines", 1), ("pines", 2), ("R10", 1), ("R10", 2)]
    assert json.loads((tmp_path / "joined.json").read_text())["arguments"] == 2 * about["arguments"]
    with pytest.raises(ValueError, match="auto on R10 with seed 1 is in several files"):
        join([paths[0], paths[0]], None)
    paths[1].write_text(json.dumps(about | {"commit": "def", "effective_samples": []}))
    with pytest.raises(ValueError, match="different commits, abc, def"):
        join(paths, None)
    paths[1].write_text(json.dumps({"results": []}))
    with pytest.raises(ValueError, match="is not a result of"):
        join(paths, None)


def test_methods_without_their_package_are_left_out(monkeypatch):
    monkeypatch.setattr(methods.importlib.util, "find_spec", lambda name: None)
    assert methods.why_not("mgrad", "R01") == "it requires blackjax, which is not installed"
    assert methods.why_not("NUTS-dense", "R01") == "it requires numpyro, which is not installed"
    assert methods.why_not("auto", "R01") is None


def test_a_dense_mass_matrix_needs_a_small_problem():
    pytest.importorskip("numpyro")
    assert methods.why_not("NUTS-dense", "USPS") == "the warm-up is too short for a dense mass matrix of 767 rows"
    assert methods.why_not("NUTS-dense", "Mine") is None


def test_the_worst_element_is_found():
    """One element of 50 has an autocorrelation of 0.9, so an autocorrelation time of 19."""
    rng = np.random.default_rng(0)
    f = rng.standard_normal((4, 5000, 50))
    for i in range(1, 5000):
        f[:, i, 7] = 0.9 * f[:, i - 1, 7] + math.sqrt(1 - 0.9**2) * f[:, i, 7]
    quick = measure.quick_ess(f)
    assert np.argmin(quick) == 7
    assert quick[7] == pytest.approx(20_000 / 19, rel=0.25)
    found = measure.worst(f)
    assert found.ess == pytest.approx(20_000 / 19, rel=0.25)
    assert found.converged
    f[0, :, 3] += 3.0
    assert measure.worst(f).rhat > 1.2
    assert not measure.worst(np.zeros((4, 100, 5))).converged


def test_a_run_is_planned_by_speed_autocorrelation_and_memory(monkeypatch):
    rng = np.random.default_rng(0)
    fast = measure.Drawn(rng.standard_normal((4, 500, 10)), 0.5)
    assert measure.plan(fast, 1, 10.0) == (10_000, 1)
    slow = measure.Drawn(np.repeat(rng.standard_normal((4, 50, 10)), 100, axis=1), 0.5)
    draws, thin = measure.plan(slow, 1, 10.0)
    assert 10 <= thin <= 30
    assert draws * thin == pytest.approx(100_000, rel=0.01)
    monkeypatch.setattr(measure, "MAX_STORED_VALUES", 4 * 10 * 300)
    assert measure.plan(fast, 1, 10.0) == (300, 1)


class SimulatedSampler:
    """Independent draws, each of which takes a millisecond."""

    preparation = 1.0

    def __init__(self):
        self.details = {"chosen": "kicks"}
        self.lengths = []

    def draw(self, draws, thin):
        self.lengths.append(draws)
        return measure.Drawn(np.random.default_rng(draws).standard_normal((4, draws, 3)), 1e-3 * draws * thin)


def test_short_runs_are_repeated(monkeypatch):
    sampler = SimulatedSampler()
    found = measure.measure(sampler, 4.0)
    assert found["sampling_seconds"] == pytest.approx(4.0, rel=0.01)
    assert len(found["timings"]) == 1
    assert found["effective_sample_size"] == pytest.approx(16_000, rel=0.2)
    assert found["chosen"] == "kicks"
    monkeypatch.setattr(measure, "MAX_STORED_VALUES", 4 * 3 * 600)
    found = measure.measure(sampler, 4.0)
    assert found["sampling_seconds"] == pytest.approx(0.6)
    assert len(found["timings"]) == 4


@pytest.mark.parametrize("name", problems.SYNTHETIC)
def test_the_problems_of_the_choice_are_posteriors(name):
    given = problems.latent_problem(name)
    assert len(given.covariance) == {"pines": 900, "NB1600": 1600}.get(name, len(given.covariance))
    np.testing.assert_array_equal(given.covariance, given.covariance.T)
    with jax_settings():
        assert np.isfinite(float(given.log_likelihood(np.zeros(len(given.covariance)))))


def test_a_plot_has_a_point_for_each_seed():
    pytest.importorskip("matplotlib")
    rows = [effective_row("auto", 100.0, seed) for seed in (1, 2)] + [effective_row("mgrad", 9.0, converged=False)]
    (axes,) = effective_figure(rows, {"processor": "some", "jax": "1"}).axes
    faces = [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "o"]
    assert len(faces) == 3
    assert faces.count("white") == 1
    assert axes.get_yscale() == "log"
