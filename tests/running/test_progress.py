"""The progress line appears in a terminal and in a notebook, and nowhere else."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import textwrap
import time
from typing import Any

import numpy as np
import pytest

import ellipslice as es
from ellipslice.sampling import progress
from ellipslice.sampling.traces import Diagnostics, Traces

PROGRAM = """
    import fcntl, sys, termios, time
    import numpy as np
    import ellipslice as es

    if sys.stdin.isatty():  # own the terminal, so that Ctrl-C in it becomes a signal
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def log_likelihood(f):
        time.sleep(0.0005)
        if {noisy}:
            print("likelihood speaking", flush=True)
        return {value} - 2.0 * float(np.sum((np.asarray(f) - 0.5) ** 2))

    options = dict(draws={draws}, warmup={warmup}, chains=2, seed=1, **{options})
    tree = es.sample(log_likelihood, es.Diagonal(np.ones(3)), **options)
    print("returned", tree.posterior["f"].shape)
"""


def program(**settings: Any) -> list[str]:
    defaults = {"draws": 600, "warmup": 300, "options": {}, "noisy": False, "value": 0.0}
    return [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM).format(**{**defaults, **settings})]


def in_terminal(columns: int = 120, interrupt_after: float | None = None, **settings: Any) -> str:
    """Return the output that a terminal of this width receives."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "40", "TERM": "xterm-256color"}
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "CI"):
        environment.pop(name, None)
    process = subprocess.Popen(
        program(**settings),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    received = b""
    deadline = time.monotonic() + 90
    try:
        while time.monotonic() < deadline:
            if select.select([master], [], [], 0.2)[0]:
                try:
                    chunk = os.read(master, 65536)
                except OSError:  # Linux raises this if the other side has closed
                    break
                if not chunk:
                    break
                received += chunk
                if interrupt_after is not None and re.search(rb"[1-9]\d*/", received):  # there are draws
                    time.sleep(interrupt_after)
                    os.write(master, b"\x03")  # Ctrl-C, as the terminal sends it
                    interrupt_after = None
        assert process.wait(timeout=30) == 0, received.decode()
    finally:
        process.kill()
        os.close(master)
    return received.decode()


def plain(text: str) -> str:
    """Return the text without colours and cursor movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.long_cases("120")
@pytest.mark.parametrize("columns", [120, 80])
def test_the_bar_says_all_that_is_promised(columns):
    shown = in_terminal(columns)
    text = plain(shown)
    counts = [int(count.replace(",", "")) for count in re.findall(r"([\d,]+)(?: of |/)1,200", text)]
    assert 0 in counts  # during warm-up
    assert counts == sorted(counts)
    assert len(set(counts)) > 4  # it is updated during the run
    assert counts[-1] == 1200
    assert re.search(r"[\d,]+ draws/s", text)
    assert re.search(r"\d+\.\d evaluations(?: per |/)update", text)
    assert re.search(r"\d\d:\d\d left", text)
    assert re.search(r"effective sample size [\d,]+, [\d,]+ effective samples/s, R-hat \d\.\d{3}", text)
    assert "warm-up" in text
    assert "NaN" not in text
    assert "returned (2, 600, 3)" in text
    assert text.rindex("left") < text.index("returned")  # the line stays above the output that follows
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")  # the cursor is visible again


@pytest.mark.long
def test_nan_is_shown_while_it_happens():
    text = plain(in_terminal(value="(float('nan') if f[0] > 1 else 0.0)", options={"initial": [0.0] * 3}, draws=100))
    assert re.search(r"[\d,]+ NaN", text)


@pytest.mark.long
def test_ctrl_c_in_a_terminal():
    shown = in_terminal(draws=100_000, interrupt_after=1.0)
    found = re.search(r"returned \(2, (\d+), 3\)", plain(shown))
    assert found is not None
    assert 0 < int(found.group(1)) < 100_000
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")


@pytest.mark.long
def test_a_likelihood_that_prints_does_not_break_the_bar():
    text = plain(in_terminal(noisy=True, draws=40, warmup=0))
    assert text.count("likelihood speaking") > 100
    assert "80/80" in text


@pytest.mark.long
def test_progress_false_is_silent_in_a_terminal():
    assert plain(in_terminal(options={"progress": False}, draws=50, warmup=0)).strip() == "returned (2, 50, 3)"


@pytest.mark.long
def test_nothing_is_printed_where_there_is_no_terminal():
    process = subprocess.run(program(draws=50, warmup=0), capture_output=True, text=True, timeout=90, check=True)
    assert process.stdout == "returned (2, 50, 3)\n"
    assert process.stderr == ""


def test_nothing_is_printed_here(capfd):
    es.sample(lambda f: -float(np.sum(np.asarray(f) ** 2)), es.Diagonal(np.ones(2)), draws=20, seed=1)
    assert capfd.readouterr() == ("", "")


# --- in a notebook ----------------------------------------------------------------------------------------------------

CELL = """
import numpy as np, time
import ellipslice as es

def log_likelihood(f):
    time.sleep(0.0003)
    if {noisy}:
        print("likelihood speaking")
    return -2.0 * float(np.sum((np.asarray(f) - 0.5) ** 2))

tree = es.sample(log_likelihood, es.Diagonal(np.ones(3)), draws={draws}, warmup=50, chains=2, seed=1)
"""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own packages
@pytest.mark.parametrize(("noisy", "draws"), [(False, 600), (True, 30)])
def test_a_notebook_shows_it_too(noisy, draws, monkeypatch):
    """In its own kernel, as Jupyter runs it, without ipywidgets."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    source = "import sys; sys.modules['ipywidgets'] = None\n" + CELL.format(noisy=noisy, draws=draws)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    seen: list[str] = []
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    before = client.process_message

    def noted(message, *args):
        if message["msg_type"] in ("display_data", "update_display_data"):
            seen.append(message["content"]["data"]["text/plain"])
        return before(message, *args)

    monkeypatch.setattr(client, "process_message", noted)
    client.execute()
    outputs = notebook.cells[0].outputs
    (shown,) = [output["data"]["text/plain"] for output in outputs if output["output_type"] == "display_data"]
    assert f"{2 * draws:,}/{2 * draws:,}" in shown  # one line that changed, and is complete at the end
    assert re.search(r"[\d,]+ draws/s, \d+\.\d evaluations/update", shown)
    assert re.search(r"effective sample size [\d,]+.*, R-hat \d\.\d{3}", shown)
    assert "00:00 left" in shown
    assert len(seen) > (1 if noisy else 4)  # it was updated during the run
    printed = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    assert ("likelihood speaking" in printed) == noisy


# --- how convergence is checked during a run ------------------------------------------------------------------------


class SlowTraces:
    thinned = False

    def __init__(self, clock):
        self.clock, self.looks = clock, []

    def measure(self, draws):
        self.looks.append(self.clock.now)
        self.clock.now += 0.2
        return Diagnostics(100.0, 1.01)


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now


def test_health_takes_a_twentieth_of_the_time_at_most(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    traces = SlowTraces(clock)
    words = progress._ProgressText(False, lambda: progress.RunSize(2, 100_000, 0, 1), traces)
    for step in range(1, 401):  # a turn takes a tenth of a second
        clock.now += 0.1
        assert "draws/s" in words.text(progress.RunProgress(2 * step, step, 2 * step, 6 * step, 0))
    assert len(traces.looks) > 5
    assert 0.2 * len(traces.looks) < 0.06 * clock.now
    assert np.diff(traces.looks).min() >= progress.MIN_DIAGNOSTICS_SECONDS


def test_no_health_before_there_are_draws():
    traces = SlowTraces(Clock())
    words = progress._ProgressText(True, lambda: progress.RunSize(2, 100, 50, 1), traces)
    assert words.stage(None) == "compiling"
    assert "\n" not in words.text(progress.RunProgress(0, 0, 20, 60, 0))
    assert traces.looks == []


def test_traces_of_a_run_that_goes_on_begin_where_it_did():
    rng = np.random.default_rng(0)
    f, log_l = rng.standard_normal((2, 100, 3)), rng.standard_normal((2, 100))
    whole, later = Traces({"f": f[:1, 0]}, 2), Traces({"f": f[:1, 0]}, 2, start=40)
    whole.write(slice(0, 2), 0, {"f": f[:, 40:]}, {"total_log_likelihood": log_l[:, 40:]})
    for a in range(30, 100, 7):  # a chain may be continued from a little earlier
        rows = slice(a, a + 7)
        later.write(slice(0, 2), a, {"f": f[:, rows]}, {"total_log_likelihood": log_l[:, rows]})
    assert later.measure(100) == whole.measure(60)
    assert later.measure(43) == Diagnostics()


def test_it_runs_without_rich(monkeypatch):
    """Rich is used only for display."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    tree = es.sample(lambda f: -float(np.sum(np.asarray(f) ** 2)), es.Diagonal(np.ones(2)), draws=20, seed=1)
    assert tree.posterior["f"].shape == (4, 20, 2)
