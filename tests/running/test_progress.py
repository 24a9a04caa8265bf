"""The live line: there in a terminal, nowhere else."""

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
    """What a terminal of this width receives."""
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
                except OSError:  # Linux's way to say that the other side has closed
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
    """Without colours and cursor movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize("columns", [120, 80])
def test_the_bar_says_all_that_is_promised(columns):
    shown = in_terminal(columns)
    text = plain(shown)
    counts = [int(count.replace(",", "")) for count in re.findall(r"([\d,]+)(?: of |/)1,200", text)]
    assert 0 in counts  # during warm-up
    assert counts == sorted(counts)
    assert len(set(counts)) > 4  # it is live
    assert counts[-1] == 1200
    assert re.search(r"[\d,]+ draws/s", text)
    assert re.search(r"\d+\.\d evaluations(?: per |/)update", text)
    assert re.search(r"\d\d:\d\d left", text)
    assert "warm-up" in text
    assert "NaN" not in text
    assert "returned (2, 600, 3)" in text
    assert text.rindex("left") < text.index("returned")  # the line stays above what follows
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")  # the cursor is back


def test_nan_is_shown_while_it_happens():
    text = plain(in_terminal(value="(float('nan') if f[0] > 1 else 0.0)", options={"initial": [0.0] * 3}, draws=100))
    assert re.search(r"[\d,]+ NaN", text)


def test_ctrl_c_in_a_terminal():
    shown = in_terminal(draws=100_000, interrupt_after=1.0)
    found = re.search(r"returned \(2, (\d+), 3\)", plain(shown))
    assert found is not None
    assert 0 < int(found.group(1)) < 100_000
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")


def test_a_likelihood_that_prints_does_not_break_the_bar():
    text = plain(in_terminal(noisy=True, draws=40, warmup=0))
    assert text.count("likelihood speaking") > 100
    assert "80/80" in text


def test_progress_false_is_silent_in_a_terminal():
    assert plain(in_terminal(options={"progress": False}, draws=50, warmup=0)).strip() == "returned (2, 50, 3)"


def test_nothing_is_printed_where_there_is_no_terminal():
    process = subprocess.run(program(draws=50, warmup=0), capture_output=True, text=True, timeout=90, check=True)
    assert process.stdout == "returned (2, 50, 3)\n"
    assert process.stderr == ""


def test_nothing_is_printed_here(capfd):
    es.sample(lambda f: -float(np.sum(np.asarray(f) ** 2)), es.Diagonal(np.ones(2)), draws=20, seed=1)
    assert capfd.readouterr() == ("", "")


def test_it_runs_without_rich(monkeypatch):
    """Rich is for the eyes only."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    tree = es.sample(lambda f: -float(np.sum(np.asarray(f) ** 2)), es.Diagonal(np.ones(2)), draws=20, seed=1)
    assert tree.posterior["f"].shape == (4, 20, 2)
