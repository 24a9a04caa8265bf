"""The protocol of the paper (Section 4): one run of a method on a problem, and the numbers that are recorded.

As in the authors' scripts, 10^4 warm-up iterations are discarded and 10^5 are kept. The trace is the log-likelihood
after every iteration. Its effective sample size is computed as in the R package coda. Evaluations and time include the
warm-up.
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
from ellipslice.apps.paper.methods import EXTRA_METHODS, METHODS, MethodSetup, set_up
from ellipslice.apps.paper.problems import PROBLEMS, problem
from ellipslice.diagnostics import effective_sample_size
from ellipslice.machine import machine

NO_RESULT = ("USPS", "control")
"""Omitted problem and method. In the paper, it "ran exceedingly slowly" without "any meaningful results"."""

TRACE_ITERATIONS = 10_000
"""Number of iterations whose log-likelihoods are stored, for the first run of a cell: those that Figure 5 shows."""

MIN_ITERATIONS = 1_000
"""Smallest number of iterations. With fewer, the trace of control variables is too short."""


class Cell(NamedTuple):
    """A problem and a method."""

    problem: str
    method: str

    def __str__(self) -> str:
        return f"{self.problem} {self.method}"


@dataclass(frozen=True)
class Protocol:
    """Settings that all runs of an experiment share: iterations kept (a tenth as many warm-up), seed, precision."""

    iterations: int = 100_000
    seed: int = 2010
    precision: str = "double"

    def __post_init__(self) -> None:
        if self.iterations < MIN_ITERATIONS:
            raise ValueError(f"iterations must be at least {MIN_ITERATIONS}, but it is {self.iterations}.")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, but it is {self.seed}.")
        if self.precision not in ("single", "double"):
            raise ValueError(f'precision must be "single" or "double", but it is {self.precision!r}.')

    @property
    def burn_in(self) -> int:
        """Number of warm-up iterations, which are discarded."""
        return self.iterations // 10


@dataclass(frozen=True)
class RunOutcome:
    """Recorded numbers of one run."""

    problem: str
    method: str
    run: int
    effective: float
    """Effective sample size of the kept iterations."""
    evaluations: int
    """Evaluations as the paper counts them: every proposal and the first state, warm-up included."""
    computed: int
    """Evaluations that were computed. Tangent planes reject the other proposals (see `log_concave` of `sample`)."""
    seconds: float
    """Processor time of all threads, divided equally among the runs of one call. Seconds."""
    elapsed: float
    """Wall-clock time, divided equally among the runs of one call. Seconds."""
    mean_log_likelihood: float
    controls: int | None
    """Number of control variables; None for other methods."""
    machine: str
    """Device, processor and versions of packages."""
    trace: tuple[float, ...]
    """Log-likelihoods of the first iterations kept, for run 0 only; one per sweep for control variables."""


def cells(problems: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    """Return the cells of an experiment: every problem with every method, except `NO_RESULT`."""
    check_names("problem", problems, PROBLEMS)
    check_names("method", methods, (*METHODS, *EXTRA_METHODS))
    found = [Cell(name, method) for name in problems for method in methods if (name, method) != NO_RESULT]
    if not found:
        raise ValueError(
            "USPS with control variables is omitted, as in the paper, so there is nothing to run. Add a problem or "
            "method."
        )
    return found


def check_names(kind: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise if a name is unknown or given twice."""
    given = list(given)
    for name in given:
        if name not in known:
            raise ValueError(f"there is no {kind} {name!r}. Choose from {', '.join(known)}.")
    if len(set(given)) < len(given):
        raise ValueError(f"--{kind}s names one of them twice: {', '.join(given)}. Name each once.")


def quick_cells() -> list[Cell]:
    """Return the cells of `--quick`: five problems, with control variables only where there are few of them."""
    some = cells(("R01", "R05", "R10", "USPS", "Mine"), ("elliptical", "line", "neal"))
    return [*some, Cell("R01", "control"), Cell("Mine", "control")]


def run_cell(cell: Cell, runs: Sequence[int], protocol: Protocol) -> list[RunOutcome]:
    """Run some runs of a cell in parallel and return their outcomes.

    The outcome of a run does not depend on the other runs of the call, except its share of the time.

    Parameters
    ----------
    runs : sequence of int
        Indices of the runs.
    """
    began = time.process_time(), time.perf_counter()
    setup = set_up(*cell, start=protocol.seed, seed=cell_seed(protocol, cell, *runs))
    burn_in, kept = (math.ceil(count / setup.sweep) for count in (protocol.burn_in, protocol.iterations))
    engine, statistics = run_chains(cell, setup, runs, burn_in + kept, cell_seed(protocol, cell), protocol.precision)
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
            machine=describe_machine(engine),
            trace=tuple(trace[: math.ceil(TRACE_ITERATIONS / setup.sweep)].round(4).tolist()) if run == 0 else (),
        )
        for row, (run, trace) in enumerate(zip(runs, traces, strict=True))
    ]


def run_chains(
    cell: Cell, setup: MethodSetup, runs: Sequence[int], updates: int, seed: int, precision: str
) -> tuple[str, dict[str, np.ndarray]]:
    """Return the name of the engine and the statistics of every update, warm-up included, shape (runs, updates)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "stopped by Ctrl-C")  # KeyboardInterrupt is raised below
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


def describe_machine(engine: str) -> str:
    """Return device, processor and versions of packages in one line."""
    here = machine()
    device = f"{here['device']}, " if engine in ("batched", "fused") and here["device"] != "cpu" else ""
    versions = ", ".join(f"{name} {here[name]}" for name in ("ellipslice", "jax", "numpy", "python"))
    return f"{device}{here['processor']}, {here['cores']} cores; {versions}"


def cell_seed(protocol: Protocol, cell: Cell, *run: int) -> int:
    """Return the seed of a cell, or of one of its runs, so that no two share their random numbers."""
    path = [PROBLEMS.index(cell.problem), (*METHODS, *EXTRA_METHODS).index(cell.method), *run]
    return int(np.random.SeedSequence(protocol.seed, spawn_key=path).generate_state(1)[0])
