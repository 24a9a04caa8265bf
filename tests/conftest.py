"""Fixtures and hooks that several test files share."""

from __future__ import annotations

import shutil
import tempfile

import jax
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_CHROMIUM = "no Chromium on this machine (on Debian: apt-get install chromium)"


def pytest_configure(config):
    """Let JAX keep what it compiles in a folder of this run: a program that another test needs too is compiled once.

    Each process has a folder of its own, and those that tests start have none.
    """
    folder = tempfile.TemporaryDirectory(prefix="ellipslice-compiled-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    jax.config.update("jax_compilation_cache_dir", folder.name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    # A thread may read what another one has not yet written to the end, and compiles it then.
    config.addinivalue_line("filterwarnings", "ignore:Error reading persistent compilation cache entry:UserWarning")


@pytest.fixture
def log_compiles():
    """JAX logs what it compiles, in the threads of the chains too."""
    jax.config.update("jax_log_compiles", True)
    yield
    jax.config.update("jax_log_compiles", False)


@pytest.fixture(scope="module")  # not the session: while Playwright runs, nothing else can start an event loop
def browser():
    """The system's Chromium, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items):
    for item in items:
        long = any(item.callspec.id in marker.args for marker in item.iter_markers("long_cases"))
        if long or any(item.callspec.id not in marker.args for marker in item.iter_markers("short_cases")):
            item.add_marker(pytest.mark.long)
        if CHROMIUM is None and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason=NO_CHROMIUM))


def pytest_terminal_summary(terminalreporter):
    """State whether the tests in a browser ran: a skipped test is easily overlooked."""
    reports = {outcome: terminalreporter.stats.get(outcome, []) for outcome in ("passed", "failed", "skipped")}
    counts = {outcome: sum("browser" in report.keywords for report in found) for outcome, found in reports.items()}
    if counts["skipped"]:
        terminalreporter.write_line(f"{counts['skipped']} tests in a browser were SKIPPED: {NO_CHROMIUM}", yellow=True)
    elif counts["passed"] or counts["failed"]:
        terminalreporter.write_line(f"{counts['passed']} tests in a browser passed, {counts['failed']} failed")
