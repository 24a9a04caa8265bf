"""How a run goes, while it goes: two live lines in a terminal or a notebook; nothing anywhere else."""

from __future__ import annotations

import contextlib
import importlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ellipslice.sampling.traces import Found, Traces

HEALTH_EVERY = 1.0
"""Seconds between two looks at effective sample size and R-hat, at least."""

HEALTH_SHARE = 0.05
"""Of the time that these looks may take."""

NOTEBOOK_EVERY = 0.25
"""Seconds between two changes of what a notebook shows."""


class RunProgress(NamedTuple):
    """Where a run is."""

    total: int
    """Draws of all chains together."""
    draws: int
    """Draws that every chain has."""
    updates: int
    evaluations: int
    nan_evaluations: int


class RunSize(NamedTuple):
    """What a run will be."""

    chains: int
    draws: int
    warmup: int
    thin: int

    @property
    def updates(self) -> int:
        """Of all chains."""
        return self.chains * (self.warmup + self.draws * self.thin)


Show = Callable[[RunProgress], None]


@contextlib.contextmanager
def progress_bar(enabled: bool, compiled: bool, size: RunSize, watch: Callable[[], Traces]) -> Iterator[Show]:
    """Yield a function to call with the progress of a run.

    `compiled` is whether code is compiled first. `watch` is called if something is shown, and returns the traces whose
    diagnostics are shown.
    """
    console = _console() if enabled else None
    if console is None:
        yield lambda now: None
        return
    # What judges the draws takes most of a second to import: beside the compiler, and not in the middle of the run.
    threading.Thread(target=importlib.import_module, args=("arviz_stats",), daemon=True).start()
    words = _ProgressText(compiled, size, watch())
    with _notebook(words) if console.is_jupyter else _terminal(console, words) as show:
        yield show


class _ProgressText:
    """What is said of a run.

    Effective sample size and R-hat are looked at once a second at most, and never in the loop: between two turns of it.
    """

    def __init__(self, compiled: bool, size: RunSize, traces: Traces):
        self.size, self._traces = size, traces
        self._waiting = "compiling" if compiled else "warm-up"
        self._began: tuple[float, int] | None = None
        self._drawing: float | None = None
        self._due, self._health = 0.0, ""

    def stage(self, now: RunProgress | None) -> str:
        """In a word."""
        return self._waiting if now is None else "draws" if now.total else "warm-up"

    def said(self, now: RunProgress) -> str:
        """One line, and once there are draws to judge a second one."""
        clock = time.perf_counter()
        if self._began is None and now.updates:
            self._began = clock, now.updates  # from the first updates on, for before them comes the compiler
        since, before = self._began or (clock, now.updates)
        rate = (now.updates - before) / max(clock - since, 1e-9) / self.size.thin
        cost = now.evaluations / max(now.updates, 1)
        whole = self.size.chains * self.size.draws
        line = f"{now.total:,}/{whole:,}, {rate:,.0f} draws/s, {cost:.1f} evaluations/update"
        if now.nan_evaluations:
            line += f", {now.nan_evaluations:,} NaN"
        self._look(now, clock)
        return f"{line}\n{self._health}" if self._health else line

    def _look(self, now: RunProgress, clock: float) -> None:
        if not now.draws:
            return
        self._drawing = clock if self._drawing is None else self._drawing
        last = now.total >= self.size.chains * self.size.draws
        if clock < self._due and not (last and self._due < math.inf):
            return
        found = self._traces.measure(now.draws)
        took = time.perf_counter() - clock if self._health else 0.0  # the first may have waited for the import
        self._due = math.inf if last else clock + max(HEALTH_EVERY, took / HEALTH_SHARE)
        self._health = self._judged(found, clock - self._drawing) or self._health

    def _judged(self, found: Found, seconds: float) -> str:
        if not math.isfinite(found.effective_sample_size):
            return ""
        least = "at least " if self._traces.thinned else ""
        parts = [f"{least}{found.effective_sample_size:,.0f} effective"]
        if seconds > 0.5:
            parts.append(f"{found.effective_sample_size / seconds:,.0f} effective draws/s")
        if math.isfinite(found.rhat):
            parts.append(f"R-hat {found.rhat:.3f}")
        return ", ".join(parts)


@contextlib.contextmanager
def _terminal(console: Any, words: _ProgressText) -> Iterator[Show]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[what]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    with Progress(*columns, console=console, expand=True) as bar:
        task = bar.add_task(words.stage(None), total=words.size.updates, what="")

        def show(now: RunProgress) -> None:
            bar.update(task, completed=now.updates, what=words.said(now), description=words.stage(now))

        yield show


@contextlib.contextmanager
def _notebook(words: _ProgressText) -> Iterator[Show]:
    """By IPython's own display: rich's needs ipywidgets, and takes what the likelihood prints into its box."""
    from IPython.display import display  # pyright: ignore[reportMissingImports]

    began, due, latest = time.perf_counter(), 0.0, None
    handle: Any = display({"text/plain": words.stage(None)}, raw=True, display_id=True)

    def write(now: RunProgress) -> None:
        done = now.updates / words.size.updates
        bar = ("━" * round(24 * done)).ljust(24, "·")
        left = (time.perf_counter() - began) * (1 - done) / max(done, 1e-9)
        minutes, seconds = divmod(round(min(left, 359_999)), 60)
        head = f"{words.stage(now)} {bar} {minutes:02}:{seconds:02} left, "
        handle.update({"text/plain": head + words.said(now)}, raw=True)

    def show(now: RunProgress) -> None:
        nonlocal due, latest
        latest = now
        if time.perf_counter() >= due:
            write(now)
            due = time.perf_counter() + NOTEBOOK_EVERY

    try:
        yield show
    finally:
        if latest is not None:
            write(latest)


def _console() -> Any:
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None
