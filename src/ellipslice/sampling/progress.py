"""Progress display of a run: two live lines in a terminal or notebook, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ellipslice.sampling.measures import Diagnostics
from ellipslice.sampling.traces import Traces

MIN_DIAGNOSTICS_SECONDS = 1.0
"""Shortest time between two computations of effective sample size and R-hat."""

MAX_DIAGNOSTICS_FRACTION = 0.05
"""Largest fraction of the running time that these computations take, approximately."""

NOTEBOOK_REFRESH_SECONDS = 0.25
"""Time between two updates of the display in a notebook."""


class RunProgress(NamedTuple):
    """Current progress of a run."""

    total: int
    """Number of draws of all chains."""
    draws: int
    """Number of draws that every chain has."""
    updates: int
    evaluations: int
    nan_evaluations: int


class RunSize(NamedTuple):
    """Size of a run: its chains, draws, warm-up and thinning."""

    chains: int
    draws: int
    """Number of draws of each chain."""
    warmup: int
    thin: int

    @property
    def updates(self) -> int:
        """Number of updates of all chains."""
        return self.chains * (self.warmup + self.draws * self.thin)


Show = Callable[[RunProgress], None]


@contextlib.contextmanager
def progress_bar(
    enabled: bool, compiled: bool, size: Callable[[], RunSize], watch: Callable[[], Traces]
) -> Iterator[Show]:
    """Yield a function that displays the progress of a run. It does nothing without a terminal or notebook.

    `compiled` is True if code is compiled first. `size` returns the current size of the run. `watch` is called if
    something is displayed, and returns the traces whose diagnostics are displayed.
    """
    console = _console() if enabled else None
    if console is None:
        yield lambda now: None
        return
    text = _ProgressText(compiled, size, watch())
    with _notebook(text) if console.is_jupyter else _terminal(console, text) as show:
        yield show


class _ProgressText:
    """Text of the progress display.

    Effective sample size and R-hat are computed at most once a second, between two advances of the chains.
    """

    def __init__(self, compiled: bool, size: Callable[[], RunSize], traces: Traces):
        self._size, self._traces = size, traces
        self._waiting = "compiling" if compiled else "warm-up"
        self._began: tuple[float, int] | None = None
        self._first_draw_at: float | None = None
        self._next_diagnostics, self._diagnostics_text = 0.0, ""

    @property
    def size(self) -> RunSize:
        """Size of the run, which may grow."""
        return self._size()

    def stage(self, now: RunProgress | None) -> str:
        """Return the stage of the run: "compiling", "warm-up" or "draws"."""
        return self._waiting if now is None else "draws" if now.total else "warm-up"

    def text(self, now: RunProgress) -> str:
        """Return a line with draws, speed and evaluations, and a second one with diagnostics once there are draws."""
        clock = time.perf_counter()
        if self._began is None and now.updates:
            self._began = clock, now.updates  # measure the speed from the first updates on, without compilation
        since, before = self._began or (clock, now.updates)
        rate = (now.updates - before) / max(clock - since, 1e-9) / self.size.thin
        cost = now.evaluations / max(now.updates, 1)
        total_draws = self.size.chains * self.size.draws
        line = f"{now.total:,}/{total_draws:,}, {rate:,.0f} draws/s, {cost:.1f} evaluations/update"
        if now.nan_evaluations:
            line += f", {now.nan_evaluations:,} NaN"
        self._update_diagnostics(now, clock)
        return f"{line}\n{self._diagnostics_text}" if self._diagnostics_text else line

    def _update_diagnostics(self, now: RunProgress, clock: float) -> None:
        """Compute the diagnostics if they are due."""
        if not now.draws:
            return
        self._first_draw_at = clock if self._first_draw_at is None else self._first_draw_at
        last = now.total >= self.size.chains * self.size.draws
        if math.isinf(self._next_diagnostics) and not last:
            self._next_diagnostics = 0.0  # the run was made longer
        if clock < self._next_diagnostics and not (last and self._next_diagnostics < math.inf):
            return
        found = self._traces.measure(now.draws)
        # The time of the first is not counted, because it may have waited for the import.
        took = time.perf_counter() - clock if self._diagnostics_text else 0.0
        self._next_diagnostics = (
            math.inf if last else clock + max(MIN_DIAGNOSTICS_SECONDS, took / MAX_DIAGNOSTICS_FRACTION)
        )
        self._diagnostics_text = self._describe(found, clock - self._first_draw_at) or self._diagnostics_text

    def _describe(self, found: Diagnostics, seconds: float) -> str:
        """Return the diagnostics after `seconds` of drawing, as text."""
        if not math.isfinite(found.effective_sample_size):
            return ""
        least = "at least " if self._traces.thinned else ""
        parts = [f"effective sample size {least}{found.effective_sample_size:,.0f}"]
        if seconds > 0.5:
            parts.append(f"{found.effective_sample_size / seconds:,.0f} effective samples/s")
        if math.isfinite(found.rhat):
            parts.append(f"R-hat {found.rhat:.3f}")
        return ", ".join(parts)


@contextlib.contextmanager
def _terminal(console: Any, text: _ProgressText) -> Iterator[Show]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[what]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    with Progress(*columns, console=console, expand=True) as bar:
        task = bar.add_task(text.stage(None), total=text.size.updates, what="")

        def show(now: RunProgress) -> None:
            bar.update(
                task, total=text.size.updates, completed=now.updates, what=text.text(now), description=text.stage(now)
            )

        yield show


@contextlib.contextmanager
def _notebook(text: _ProgressText) -> Iterator[Show]:
    """Display progress by IPython, because rich needs ipywidgets and captures what the likelihood prints."""
    from IPython.display import display  # pyright: ignore[reportMissingImports]

    began, due, latest = time.perf_counter(), 0.0, None
    handle: Any = display({"text/plain": text.stage(None)}, raw=True, display_id=True)

    def write(now: RunProgress) -> None:
        done = now.updates / text.size.updates
        bar = ("━" * round(24 * done)).ljust(24, "·")
        left = (time.perf_counter() - began) * (1 - done) / max(done, 1e-9)
        minutes, seconds = divmod(round(min(left, 359_999)), 60)
        head = f"{text.stage(now)} {bar} {minutes:02}:{seconds:02} left, "
        handle.update({"text/plain": head + text.text(now)}, raw=True)

    def show(now: RunProgress) -> None:
        nonlocal due, latest
        latest = now
        if time.perf_counter() >= due:
            write(now)
            due = time.perf_counter() + NOTEBOOK_REFRESH_SECONDS

    try:
        yield show
    finally:
        if latest is not None:
            write(latest)


def _console() -> Any:
    """Return the console for the display; None if there is no terminal or notebook, or rich is not installed."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None
