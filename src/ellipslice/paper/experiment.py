"""The whole experiment: what `ellipslice paper` runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ellipslice.moves import Hamiltonian
from ellipslice.paper.figures import draw_figures, need_matplotlib
from ellipslice.paper.folder import Folder, write
from ellipslice.paper.protocol import Cell, Protocol, cells, run_together
from ellipslice.paper.report import report
from ellipslice.paper.results import Result, as_json, summarise, together

TOGETHER = 2 * (os.cpu_count() or 1)
"""Runs in one call: enough to keep all cores busy, few enough to lose little when killed."""


def run(problems: Sequence[str], methods: Sequence[str], *, runs: int, iterations: int, seed: int, out: Path) -> None:
    """Make the runs that are not yet in the folder `out`, then its results, figures and report.

    Parameters
    ----------
    problems, methods : names
        Of `PROBLEMS`, and of `METHODS` or `BEYOND`.
    runs : int
        Of each method on each problem; the paper has 100.
    iterations : int
        Kept of each run, after a tenth as many of burn-in; the paper has 100,000.
    seed : int
    out : Path
        A folder with finished runs of the same iterations and seed is completed: nothing is run twice.
    """
    if runs < 1:
        raise ValueError(f"runs must be at least 1, but it is {runs}.")
    console = Console(highlight=False, soft_wrap=True)
    protocol, wanted = Protocol(iterations, seed), cells(problems, methods)
    need_matplotlib()
    if "nuts" in methods:
        Hamiltonian(1.0)  # says so if BlackJAX is missing
    folder = Folder(out, protocol)
    make_runs(folder, wanted, runs, protocol, console)
    write_results(folder, protocol, console)


def make_runs(folder: Folder, wanted: Sequence[Cell], runs: int, protocol: Protocol, console: Console) -> None:
    """Make what is missing, and say what is there already."""
    missing = {cell: [run for run in range(runs) if not folder.has(cell, run)] for cell in wanted}
    total, left = len(wanted) * runs, sum(map(len, missing.values()))
    console.print(f"{total:,} runs of {protocol.burn_in:,} + {protocol.iterations:,} iterations in {folder.path}")
    if left < total:
        console.print(f"resumed: {total - left:,} of them were finished before, {left:,} to go")
    with progress_bar(console, left) as show:
        for cell in wanted:
            for group in groups(cell, missing[cell]):
                show(cell, 0)
                for outcome in run_together(cell, group, protocol):
                    folder.add(outcome)
                show(cell, len(group))
            if missing[cell]:
                console.print(line(together(cell, folder.outcomes(cell), protocol)))


def groups(cell: Cell, runs: Sequence[int]) -> Iterator[Sequence[int]]:
    """Runs to make side by side. With control variables one by one, since each run finds its own control inputs."""
    size = 1 if cell.method == "control" else TOGETHER
    for first in range(0, len(runs), size):
        yield runs[first : first + size]


def line(result: Result) -> str:
    """A cell in one line."""
    return (
        f"{result.problem:5}{result.method:11}{result.effective.text(0):>15} effective samples in 100,000,"
        f"{result.evaluations.mean:6.2f} evaluations an iteration,{result.seconds.mean:8.1f} s"
    )


@contextmanager
def progress_bar(console: Console, total: int) -> Iterator[Callable[[Cell, int], None]]:
    """Yield a function to call with a cell and how many more of its runs are finished."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, expand=True, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda cell, more: bar.update(task, description=f"{cell!s:16}", advance=more)


def write_results(folder: Folder, protocol: Protocol, console: Console) -> None:
    """Results, figures and report of all finished runs in the folder."""
    outcomes = folder.outcomes()
    results = summarise(outcomes, protocol)
    noted = as_json(results, protocol)
    write(folder.path / "results.json", json.dumps(noted, indent=1) + "\n")
    figures = draw_figures(folder.path, results, outcomes)
    write(folder.path / "report.md", report(results, protocol, noted["machine"], figures))
    for name in ("report.md", "results.json", *figures):
        console.print(folder.path / name, markup=False)
