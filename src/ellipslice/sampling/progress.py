"""A live line in the terminal or notebook; nothing anywhere else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

Show = Callable[[int, int, int, int], None]


@contextlib.contextmanager
def progress_bar(enabled: bool, engine: str, chains: int, draws: int, warmup: int, thin: int) -> Iterator[Show]:
    """Yield a function to call with (kept draws, updates, evaluations, NaNs) so far."""
    console = _console() if enabled else None
    if console is None:
        yield lambda kept, updates, evaluations, nans: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[what]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    total = chains * (warmup + draws * thin)
    with Progress(*columns, console=console, expand=True) as bar:
        task = bar.add_task("warm-up" if engine == "host" else "compiling", total=total, what="")
        began: list[tuple[float, int]] = []

        def show(kept: int, updates: int, evaluations: int, nans: int) -> None:
            now = time.perf_counter()
            if not began and updates:
                began.append((now, updates))  # from the first updates on, for before them comes the compiler
            since, before = began[0] if began else (now, updates)
            rate = (updates - before) / max(now - since, 1e-9) / thin
            cost = evaluations / max(updates, 1)
            what = f"{kept:,}/{chains * draws:,} · {rate:,.0f} draws/s · {cost:.1f} evaluations/update"
            if nans:
                what += f" · {nans:,} NaN"
            bar.update(task, completed=updates, what=what, description="draws" if kept else "warm-up")

        yield show


def _console():
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None
