"""`ellipslice bench`: it runs, and its results are complete. The speed itself is not tested."""

from __future__ import annotations

import importlib
import json
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

from ellipslice.apps.bench.plots import draw_timings
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
