"""A live line in the terminal or notebook; nothing anywhere else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

Show = Callable[[int, int, int, int], None]


@contextlib.contextmanager
def progress_bar(enabled: bool, chains: int, draws: int, warmup: int, thin: int) -> Iterator[Show]:
    """Yield a function to call with (kept draws, updates, evaluations, NaNs) so far."""
    console = _console() if enabled else None
    if console is None:
        yield lambda kept, updates, evaluations, nans: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[what]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    total = chains * (warmup + draws * thin)
    began = time.perf_counter()
    with Progress(*columns, console=console, expand=True) as bar:
        task = bar.add_task("warm-up", total=total, what="starting")

        def show(kept: int, updates: int, evaluations: int, nans: int) -> None:
            rate = updates / (time.perf_counter() - began)
            what = f"{kept:,} of {chains * draws:,} draws · {rate / thin:,.0f} draws/s"
            if updates:
                what += f" · {evaluations / updates:.1f} evaluations per update"
            if nans:
                what += f" · {nans:,} NaN"
            description = "sampling" if updates >= chains * warmup else "warm-up"
            bar.update(task, completed=updates, what=what, description=description)

        yield show


def _console():
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None
