"""All runs of `ellipslice paper`, and the files that it writes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ellipslice.apps.paper.figures import can_draw, draw_figures
from ellipslice.apps.paper.folder import Folder, write
from ellipslice.apps.paper.protocol import Cell, Protocol, RunOutcome, run_cell
from ellipslice.apps.paper.report import report
from ellipslice.apps.paper.results import Result, as_json, summarise, summarise_cell
from ellipslice.machine import available_cores, commit, use_cores
from ellipslice.moves import Hamiltonian

CORES = available_cores()
RUNS_PER_CALL = 2 * CORES
"""Runs in one call: enough to use all cores, and few enough to lose little work when killed."""

MAX_CORES_FOR_THREADS = 4
"""Largest number of cores that threads can use. With more, threads wait for Python's lock, and processes are faster."""

RUNS_PER_GPU_CALL = 100
"""Runs in one call on a GPU, where 100 runs take little longer than one."""


def run(selected: Sequence[Cell], *, runs: int, protocol: Protocol, out: Path) -> None:
    """Run what is missing in the folder `out`, and write results, figures and report.

    Parameters
    ----------
    selected : sequence of Cell
        Problems and methods, from `protocol.cells`.
    runs : int
        Number of runs of each cell. The paper has 100.
    protocol : Protocol
    out : Path
        A folder with finished runs of the same protocol is completed: no run is repeated.
    """
    if runs < 1:
        raise ValueError(f"runs must be at least 1, but it is {runs}.")
    if protocol.precision == "single" and (others := {cell.method for cell in selected} - {"elliptical"}):
        raise ValueError(
            f"--precision single is only for the method elliptical, not for {', '.join(others)}. Use double."
        )
    console = Console(highlight=False, soft_wrap=True)
    if not can_draw():
        console.print(
            "Figures are omitted because matplotlib is not installed. After pip install 'ellipslice[plots]', "
            "the same command draws them.",
            markup=False,
        )
    if any(cell.method == "nuts" for cell in selected):
        Hamiltonian(1.0)  # raises if BlackJAX is missing
    folder = Folder(out, protocol)
    arguments = {"cells": [str(cell) for cell in selected], "runs": runs}
    about = {"commit": commit(), "arguments": arguments}  # of the start: files may change during the run
    make_runs(folder, selected, runs, protocol, console)
    write_results(folder, protocol, about, console)


def make_runs(folder: Folder, selected: Sequence[Cell], runs: int, protocol: Protocol, console: Console) -> None:
    """Run the missing runs of all cells and print the result of each cell."""
    missing = {cell: [run for run in range(runs) if not folder.has(cell, run)] for cell in selected}
    total, left = len(selected) * runs, sum(map(len, missing.values()))
    console.print(f"{total:,} runs of {protocol.burn_in:,} + {protocol.iterations:,} iterations in {folder.path}")
    if left < total:
        console.print(f"resumed: {total - left:,} runs are finished, {left:,} remain")
    with progress_bar(console, left) as show, workers() as pool:
        for cell in selected:
            show(cell, 0)
            for outcomes in finished_runs(cell, missing[cell], protocol, pool):
                for outcome in outcomes:
                    folder.add(outcome)
                show(cell, len(outcomes))
            if missing[cell]:
                console.print(summary_line(summarise_cell(cell, folder.outcomes(cell), protocol)))


def finished_runs(
    cell: Cell, runs: Sequence[int], protocol: Protocol, pool: Callable[[], Pool]
) -> Iterator[list[RunOutcome]]:
    """Run a cell and yield the outcomes of its runs in the order in which they finish."""
    on_gpu = cell.method == "elliptical" and jax.default_backend() == "gpu"
    if runs and not on_gpu and (cell.method == "control" or CORES > MAX_CORES_FOR_THREADS):
        # With control variables each run searches its own control inputs, mostly in Python, so use processes.
        one_by_one = [[run] for run in runs]
        yield from pool().imap_unordered(partial(run_cell, cell, protocol=protocol), one_by_one)
        return
    size = RUNS_PER_GPU_CALL if on_gpu else RUNS_PER_CALL
    for first in range(0, len(runs), size):
        yield run_cell(cell, runs[first : first + size], protocol)


@contextmanager
def workers() -> Iterator[Callable[[], Pool]]:
    """Yield a function that returns a pool with one process per core. It is started at the first call."""
    with ExitStack() as ended:
        yield cache(lambda: ended.enter_context(get_context("spawn").Pool(CORES, init_worker)))


def init_worker() -> None:
    """Prepare a worker process: one core, no GPU, and no reaction to Ctrl-C, which the main process handles."""
    use_cores(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jax.config.update("jax_platforms", "cpu")


def summary_line(result: Result) -> str:
    """Return the result of a cell in one line."""
    return (
        f"{result.problem:5}{result.method:11}{result.effective.text(0):>15} effective samples in 100,000 iterations,"
        f"{result.evaluations.mean:6.2f} evaluations per iteration,{result.seconds.mean:8.1f} s"
    )


@contextmanager
def progress_bar(console: Console, total: int) -> Iterator[Callable[[Cell, int], None]]:
    """Yield a function that advances the progress bar, with a cell and the number of newly finished runs."""
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


def write_results(folder: Folder, protocol: Protocol, about: dict[str, Any], console: Console) -> None:
    """Write results, figures and report of all finished runs in the folder.

    `about` has the commit and the arguments of this command, which are stored with the results. Runs that were finished
    before may be from other commits.
    """
    outcomes = folder.outcomes()
    results = summarise(outcomes, protocol)
    machines = sorted({outcome.machine for outcome in outcomes})
    record = {**about, **as_json(results, protocol, machines)}
    write(folder.path / "results.json", json.dumps(record, indent=1) + "\n")
    figures = draw_figures(folder.path, results, outcomes) if can_draw() else []
    write(folder.path / "report.md", report(results, protocol, machines, figures))
    for name in ("report.md", "results.json", *figures):
        console.print(folder.path / name, markup=False)
