"""The whole experiment: what `ellipslice paper` runs."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ellipslice.apps.paper.figures import can_draw, draw_figures
from ellipslice.apps.paper.folder import Folder, write
from ellipslice.apps.paper.protocol import Cell, Protocol, RunOutcome, run_together
from ellipslice.apps.paper.report import report
from ellipslice.apps.paper.results import Result, as_json, summarise, together
from ellipslice.machine import available_cores, use_cores
from ellipslice.moves import Hamiltonian

CORES = available_cores()
TOGETHER = 2 * CORES
"""Runs in one call: enough to keep all cores busy, few enough to lose little when killed."""

FEW = 4
"""Cores that threads can keep busy: with more, they wait for each other's Python, and processes do better."""

TOGETHER_ON_GPU = 100
"""The same where a GPU runs them: 100 take hardly longer there than one."""


def run(wanted: Sequence[Cell], *, runs: int, protocol: Protocol, out: Path) -> None:
    """Make the runs that are not yet in the folder `out`, then its results, figures and report.

    Parameters
    ----------
    wanted : cells
        Problems and methods, as `protocol.cells` makes them.
    runs : int
        Of each; the paper has 100.
    protocol : Protocol
    out : Path
        A folder with finished runs of the same protocol is completed: nothing is run twice.
    """
    if runs < 1:
        raise ValueError(f"runs must be at least 1, but it is {runs}.")
    if protocol.precision == "single" and (others := {cell.method for cell in wanted} - {"elliptical"}):
        raise ValueError(f"precision is single, which is for the elliptical method, not for {', '.join(others)}.")
    console = Console(highlight=False, soft_wrap=True)
    if not can_draw():
        console.print("figures are left out, as there is no matplotlib here; later, the same command draws them")
    if any(cell.method == "nuts" for cell in wanted):
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
    with progress_bar(console, left) as show, workers() as pool:
        for cell in wanted:
            show(cell, 0)
            for outcomes in made(cell, missing[cell], protocol, pool):
                for outcome in outcomes:
                    folder.add(outcome)
                show(cell, len(outcomes))
            if missing[cell]:
                console.print(line(together(cell, folder.outcomes(cell), protocol)))


def made(cell: Cell, runs: Sequence[int], protocol: Protocol, pool: Callable[[], Pool]) -> Iterator[list[RunOutcome]]:
    """The runs of a cell as they are finished."""
    on_gpu = cell.method == "elliptical" and jax.default_backend() == "gpu"
    if runs and not on_gpu and (cell.method == "control" or CORES > FEW):
        # With control variables each run finds its own inputs, mostly in Python.
        one_by_one = [[run] for run in runs]
        yield from pool().imap_unordered(partial(run_together, cell, protocol=protocol), one_by_one)
        return
    together = TOGETHER_ON_GPU if on_gpu else TOGETHER
    for first in range(0, len(runs), together):
        yield run_together(cell, runs[first : first + together], protocol)


@contextmanager
def workers() -> Iterator[Callable[[], Pool]]:
    """Processes, one for each core: started when first asked for, and ended with us."""
    with ExitStack() as ended:
        yield cache(lambda: ended.enter_context(get_context("spawn").Pool(CORES, in_process)))


def in_process() -> None:
    """What a process does first: leave Ctrl-C to us, and other cores and a GPU to others."""
    use_cores(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jax.config.update("jax_platforms", "cpu")


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
    machines = sorted({outcome.machine for outcome in outcomes})
    noted = as_json(results, protocol, machines)
    write(folder.path / "results.json", json.dumps(noted, indent=1) + "\n")
    figures = draw_figures(folder.path, results, outcomes) if can_draw() else []
    write(folder.path / "report.md", report(results, protocol, machines, figures))
    for name in ("report.md", "results.json", *figures):
        console.print(folder.path / name, markup=False)
