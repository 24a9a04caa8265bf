"""The numbers of an experiment: runs put together by problem and method, beside the paper's."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ellipslice.apps.paper.methods import BEYOND, METHODS
from ellipslice.apps.paper.problems import PROBLEMS
from ellipslice.apps.paper.protocol import Cell, Protocol, RunOutcome
from ellipslice.data import published_figure6

FULL = 100_000
"""Iterations of a run in the paper. Runs of other lengths are scaled to it for comparison."""


@dataclass(frozen=True)
class Estimate:
    """A mean over runs."""

    mean: float
    deviation: float | None
    """The standard deviation over runs, which the paper draws as error bars; None if there was one run."""
    standard_error: float | None
    """Of the mean."""

    @classmethod
    def of(cls, values: Iterable[float]) -> Estimate:
        """From one value for each run."""
        values = list(values)
        if len(values) < 2:
            return cls(values[0], None, None)
        deviation = statistics.stdev(values)
        return cls(statistics.fmean(values), deviation, deviation / math.sqrt(len(values)))

    def text(self, digits: int) -> str:
        """For instance "1,598 ± 16", the standard error after the mean."""
        error = "" if self.standard_error is None else f" ± {self.standard_error:,.{digits}f}"
        return f"{self.mean:,.{digits}f}{error}"


@dataclass(frozen=True)
class Result:
    """A cell: a problem and a method, over its runs."""

    problem: str
    method: str
    runs: int
    effective: Estimate
    """Effective samples, for each 100,000 iterations kept."""
    evaluations: Estimate
    """Of the likelihood, as the paper counts them, for each iteration."""
    computed: Estimate
    """Those that were computed, for each iteration."""
    seconds: Estimate
    """Processor time, for each 110,000 iterations, burn-in and adaptation included."""
    elapsed: Estimate
    """The same by the clock, with runs side by side on all cores."""
    effective_per_second: Estimate
    """Effective samples for each second of processor time."""
    mean_log_likelihood: Estimate
    controls: Estimate | None
    """How many control variables."""


Results = Mapping[Cell, Result]


def summarise(outcomes: Sequence[RunOutcome], protocol: Protocol) -> dict[Cell, Result]:
    """Runs put together, in the order of the paper's Figure 6."""
    by_cell: defaultdict[Cell, list[RunOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_cell[Cell(outcome.problem, outcome.method)].append(outcome)
    order = [Cell(name, method) for name in PROBLEMS for method in (*METHODS, *BEYOND)]
    return {cell: together(cell, by_cell[cell], protocol) for cell in order if cell in by_cell}


def together(cell: Cell, outcomes: Sequence[RunOutcome], protocol: Protocol) -> Result:
    """The runs of one cell."""
    scale, iterations = FULL / protocol.iterations, protocol.iterations + protocol.burn_in
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
    """Everything, for other programs to read; the paper's numbers in the same units, where it has them."""
    published = published_figure6()
    rows = []
    for cell, result in results.items():
        theirs = published.get(cell)
        rows.append({**asdict(result), "paper": asdict(theirs) if theirs else None})
    settings = {**asdict(protocol), "burn_in": protocol.burn_in}
    return {"settings": settings, "machines": list(machines), "results": rows}
