"""The paper's protocol (Section 4): what a run of a method on a problem does, and what is noted of it.

As in the authors' scripts there are 10^4 iterations of burn-in and 10^5 that are kept; the trace is the log-likelihood
after every iteration, and its effective sample size is that of R's package coda. Evaluations and time count the burn-in
too.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ellipslice import sample
from ellipslice.apps.paper.methods import BEYOND, METHODS, MethodSetup, set_up
from ellipslice.apps.paper.problems import PROBLEMS, problem
from ellipslice.diagnostics import effective_sample_size
from ellipslice.machine import machine

NO_RESULT = ("USPS", "control")
"""Left out, as in the paper, where it "ran exceedingly slowly" without "any meaningful results"."""

TRACE = 10_000
"""Iterations whose log-likelihoods are kept of a cell's first run: as many as Figure 5 shows."""

LEAST = 1_000
"""Iterations: with fewer, control variables would leave a trace too short to judge."""


class Cell(NamedTuple):
    """A problem and a method."""

    problem: str
    method: str

    def __str__(self) -> str:
        return f"{self.problem} {self.method}"


@dataclass(frozen=True)
class Protocol:
    """What all runs of an experiment have in common: iterations kept (burn-in is a tenth as many), seed, precision."""

    iterations: int = 100_000
    seed: int = 2010
    precision: str = "double"

    def __post_init__(self) -> None:
        if self.iterations < LEAST:
            raise ValueError(f"iterations must be at least {LEAST}, but it is {self.iterations}.")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, but it is {self.seed}.")
        if self.precision not in ("single", "double"):
            raise ValueError(f'precision must be "single" or "double", but it is {self.precision!r}.')

    @property
    def burn_in(self) -> int:
        """Iterations that come first."""
        return self.iterations // 10


@dataclass(frozen=True)
class RunOutcome:
    """What is noted of one run."""

    problem: str
    method: str
    run: int
    effective: float
    """Effective samples of the kept iterations."""
    evaluations: int
    """Of the likelihood, as the paper counts: every proposal and the first state, burn-in included."""
    computed: int
    """Of these, how many were computed: the rest were known to be too low (see `sample`, log_concave)."""
    seconds: float
    """Processor time of all threads: its share of that of the runs made with it."""
    elapsed: float
    """The same by the clock."""
    mean_log_likelihood: float
    controls: int | None
    """How many control variables."""
    machine: str
    """Where it was made."""
    trace: tuple[float, ...]
    """The log-likelihoods of the first iterations kept, of run 0 alone; with control variables one for each sweep."""


def cells(problems: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    """What an experiment consists of: every problem by every method, less what the paper had to leave out."""
    check_names("problem", problems, PROBLEMS)
    check_names("method", methods, (*METHODS, *BEYOND))
    made = [Cell(name, method) for name in problems for method in methods if (name, method) != NO_RESULT]
    if not made:
        raise ValueError("control variables on USPS are left out, as in the paper: nothing else was asked for.")
    return made


def check_names(kind: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse names that are not known, or given twice."""
    given = list(given)
    for name in given:
        if name not in known:
            raise ValueError(f"there is no {kind} {name!r}; there are {', '.join(known)}.")
    if len(set(given)) < len(given):
        raise ValueError(f"{kind}s names one of them twice: {', '.join(given)}.")


def quick_cells() -> list[Cell]:
    """What takes little time: some problems, and control variables where there are few."""
    some = cells(("R01", "R05", "R10", "USPS", "Mine"), ("elliptical", "line", "neal"))
    return [*some, Cell("R01", "control"), Cell("Mine", "control")]


def run_together(cell: Cell, runs: Sequence[int], protocol: Protocol) -> list[RunOutcome]:
    """Some runs of a cell, by their numbers, side by side on the machine's cores.

    A run's numbers do not depend on which others are made with it, but for its share of the time.
    """
    began = time.process_time(), time.perf_counter()
    setup = set_up(*cell, start=protocol.seed, seed=seed_of(protocol, cell, *runs))
    burn_in, kept = (math.ceil(count / setup.sweep) for count in (protocol.burn_in, protocol.iterations))
    engine, statistics = run_chains(cell, setup, runs, burn_in + kept, seed_of(protocol, cell), protocol.precision)
    seconds = (time.process_time() - began[0]) / len(runs)
    elapsed = (time.perf_counter() - began[1]) / len(runs)
    traces = statistics["total_log_likelihood"][:, burn_in:]
    return [
        RunOutcome(
            *cell,
            run=run,
            effective=float(effective_sample_size(trace)),
            evaluations=int(statistics["proposals"][row].sum()) + 1,
            computed=int(statistics["evaluations"][row].sum()) + 1,
            seconds=seconds,
            elapsed=elapsed,
            mean_log_likelihood=float(trace.mean()),
            controls=setup.sweep if cell.method == "control" else None,
            machine=where(engine),
            trace=tuple(trace[: math.ceil(TRACE / setup.sweep)].round(4).tolist()) if run == 0 else (),
        )
        for row, (run, trace) in enumerate(zip(runs, traces, strict=True))
    ]


def run_chains(
    cell: Cell, setup: MethodSetup, runs: Sequence[int], updates: int, seed: int, precision: str
) -> tuple[str, dict[str, np.ndarray]]:
    """The engine, and statistics of every update from the first on, for burn-in is counted; shape (runs, updates)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "stopped by Ctrl-C")  # nothing is returned: see below
        tree = sample(
            problem(cell.problem).likelihood,
            setup.prior,
            move=setup.move,
            initial=setup.initial,
            draws=updates,
            warmup=0,
            chains=runs,
            seed=seed,
            precision=precision,
            keep=False,
            progress=False,
        )
    if tree.attrs["interrupted"]:
        raise KeyboardInterrupt
    statistics = {str(name): values.to_numpy() for name, values in tree["sample_stats"].data_vars.items()}
    return tree.attrs["engine"], statistics


def where(engine: str) -> str:
    """Where runs on an engine are made, in a line."""
    here = machine()
    device = f"{here['device']}, " if engine in ("batched", "fused") and here["device"] != "cpu" else ""
    versions = ", ".join(f"{name} {here[name]}" for name in ("ellipslice", "jax", "numpy", "python"))
    return f"{device}{here['processor']}, {here['cores']} cores; {versions}"


def seed_of(protocol: Protocol, cell: Cell, *run: int) -> int:
    """A seed for each cell, so that no two share their noise, or for a run of one."""
    path = [PROBLEMS.index(cell.problem), (*METHODS, *BEYOND).index(cell.method), *run]
    return int(np.random.SeedSequence(protocol.seed, spawn_key=path).generate_state(1)[0])
