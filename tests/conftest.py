"""Fixtures and hooks that are used by several test files."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from pathlib import Path

import jax
import pytest

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell script starts its background processes with Ctrl-C ignored. The tests of interrupts need it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" not in os.environ:  # which inherits the folder
    # Compiled programs are kept for this session only, also those of the processes that tests start.
    fonts = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "matplotlib"
    if fonts.exists():
        os.environ.setdefault("MPLCONFIGDIR", str(fonts))  # building this cache takes seconds
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="ellipslice-tests-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_CHROMIUM = "no Chromium on this machine (on Debian: apt-get install chromium)"


MAPS = Path("/proc/self/maps")
MAX_MAPS = 30_000
"""Linux allows a process 65,530 memory maps by default. With more, XLA's compiler ends with a segmentation fault."""


@pytest.fixture(scope="module", autouse=True)
def few_memory_maps():
    """Discard the programs that JAX keeps before they occupy all the memory maps that a process may have."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MAX_MAPS:
        jax.clear_caches()


@pytest.fixture
def log_compiles():
    """Let JAX log what it compiles, also in the threads of the chains."""
    jax.config.update("jax_log_compiles", True)
    yield
    jax.config.update("jax_log_compiles", False)


@pytest.fixture
def short_pilots(monkeypatch):
    """Shorten the pilot runs of fits with unknown hyperparameters, which take most of the time of a fit on the host."""
    from ellipslice.parameters import choose_parametrisation

    for name, value in (("PILOT_WARMUP", 10), ("PILOT_DRAWS", 10), ("MAX_PILOT_ROUNDS", 1)):
        monkeypatch.setattr(choose_parametrisation, name, value)


@pytest.fixture(scope="module")  # not the session, because no other event loop can start while Playwright runs
def browser():
    """The Chromium of the system, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.hookimpl(tryfirst=True)  # must run before pytest selects tests by their marks
def pytest_collection_modifyitems(items):
    for item in items:
        long = any(item.callspec.id in marker.args for marker in item.iter_markers("long_cases"))
        if long or any(item.callspec.id not in marker.args for marker in item.iter_markers("short_cases")):
            item.add_marker(pytest.mark.long)
        if CHROMIUM is None and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason=NO_CHROMIUM))


def pytest_terminal_summary(terminalreporter):
    """Print whether the tests in a browser ran, because skipped tests are easily overlooked."""
    reports = {outcome: terminalreporter.stats.get(outcome, []) for outcome in ("passed", "failed", "skipped")}
    counts = {outcome: sum("browser" in report.keywords for report in found) for outcome, found in reports.items()}
    if counts["skipped"]:
        terminalreporter.write_line(f"{counts['skipped']} tests in a browser were SKIPPED: {NO_CHROMIUM}", yellow=True)
    elif counts["passed"] or counts["failed"]:
        terminalreporter.write_line(f"{counts['passed']} tests in a browser passed, {counts['failed']} failed")
