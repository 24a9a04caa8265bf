"""The numbers of an experiment: means over the runs of each cell, and the numbers of the paper."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ellipslice.apps.paper.methods import EXTRA_METHODS, METHODS
from ellipslice.apps.paper.problems import PROBLEMS
from ellipslice.apps.paper.protocol import Cell, Protocol, RunOutcome
from ellipslice.data import published_figure6

PAPER_ITERATIONS = 100_000
"""Iterations per run in the paper. Results of runs of another length are scaled to it."""


@dataclass(frozen=True)
class Estimate:
    """A mean over runs, with its standard error."""

    mean: float
    deviation: float | None
    """Standard deviation over runs, as in the error bars of the paper; None for one run."""
    standard_error: float | None
    """Standard error of the mean; None for one run."""

    @classmethod
    def of(cls, values: Iterable[float]) -> Estimate:
        """Return the estimate from one value per run."""
        values = list(values)
        if len(values) < 2:
            return cls(values[0], None, None)
        deviation = statistics.stdev(values)
        return cls(statistics.fmean(values), deviation, deviation / math.sqrt(len(values)))

    def text(self, digits: int) -> str:
        """Return mean and standard error as text, for example "1,598 ± 16"."""
        error = "" if self.standard_error is None else f" ± {self.standard_error:,.{digits}f}"
        return f"{self.mean:,.{digits}f}{error}"


@dataclass(frozen=True)
class Result:
    """Means over the runs of one cell (a problem and a method)."""

    problem: str
    method: str
    runs: int
    effective: Estimate
    """Effective sample size per 100,000 kept iterations."""
    evaluations: Estimate
    """Evaluations per iteration, as the paper counts them."""
    computed: Estimate
    """Evaluations per iteration that were computed."""
    seconds: Estimate
    """Processor time per 110,000 iterations, with warm-up and adaptation. Seconds."""
    elapsed: Estimate
    """Wall-clock time per 110,000 iterations, with runs in parallel on all cores. Seconds."""
    effective_per_second: Estimate
    """Effective samples per second of processor time."""
    mean_log_likelihood: Estimate
    controls: Estimate | None
    """Number of control variables; None for other methods."""


Results = Mapping[Cell, Result]


def summarise(outcomes: Sequence[RunOutcome], protocol: Protocol) -> dict[Cell, Result]:
    """Return the results of all cells, in the order of the paper's Figure 6."""
    by_cell: defaultdict[Cell, list[RunOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_cell[Cell(outcome.problem, outcome.method)].append(outcome)
    order = [Cell(name, method) for name in PROBLEMS for method in (*METHODS, *EXTRA_METHODS)]
    return {cell: summarise_cell(cell, by_cell[cell], protocol) for cell in order if cell in by_cell}


def summarise_cell(cell: Cell, outcomes: Sequence[RunOutcome], protocol: Protocol) -> Result:
    """Return the result of one cell: means over its runs."""
    scale, iterations = PAPER_ITERATIONS / protocol.iterations, protocol.iterations + protocol.burn_in
    counts = [outcome.controls for outcome in outcomes if outcome.controls is not None]
    return Result(
        *cell,
        runs=len(outcomes),
        effective=Estimate.of(outcome.effective * scale for outcome in outcomes),
        evaluations=Estimate.of(outcome.evaluations / iterations for outcome in outcomes),
        computed=Estimate.of(outcome.computed / iterations for outcome in outcomes),
        seconds=Estimate.of(outcome.seconds * scale for outcome in outcomes),
        elapsed=Estimate.of(outcome.elapsed * scale for outcome in outcomes),
        effective_per_second=Estimate.of(outcome.effective / outcome.seconds for outcome in outcomes),
        mean_log_likelihood=Estimate.of(outcome.mean_log_likelihood for outcome in outcomes),
        controls=Estimate.of(counts) if counts else None,
    )


def as_json(results: Results, protocol: Protocol, machines: Sequence[str]) -> dict[str, Any]:
    """Return the content of results.json: settings, machines, and results with the numbers of the paper."""
    published = published_figure6()
    rows = []
    for cell, result in results.items():
        theirs = published.get(cell)
        rows.append({**asdict(result), "paper": asdict(theirs) if theirs else None})
    settings = {**asdict(protocol), "burn_in": protocol.burn_in}
    return {"settings": settings, "machines": list(machines), "results": rows}
