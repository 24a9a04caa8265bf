"""Medians over seeds, ratios between methods, and the printed tables."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.table import Table

Rows = Sequence[dict[str, Any]]

OURS = "auto"
"""Method whose rate is divided by those of the others."""

ALONE = ("only-independent", "only-ellipses", "only-kicks")
"""Methods that use one of the moves among which `OURS` chooses."""

GOALS = {
    "pines": {"ellipses": 2.5, "NUTS": 4.0, "mgrad": 8.0},
    "USPS": {"ellipses": 15.0, "NUTS": 8.0},
    "Mine": {"ellipses": 0.8, "NUTS": 40.0, "mgrad": 30.0},
    "R10": {"ellipses": 0.8, "NUTS": 40.0, "mgrad": 10.0},
}
"""Goals of the project: ratios of the rate of `OURS` to those of other methods, on one core."""

MAX_LOSS = 2.0
"""Goal of the project: the largest ratio of the best of the moves to the chosen one."""


class Summary(NamedTuple):
    """Medians over the seeds of a method on a problem."""

    problem: str
    method: str
    rate: float
    """Effective samples per CPU second of sampling, of the worst element of f."""
    low: float
    """Smallest rate of a seed."""
    high: float
    """Largest rate of a seed."""
    ess: float
    rhat: float
    preparation: float | None
    """CPU seconds of fit, tuning and warm-up. None if they were not measured."""
    sampling: float
    """CPU seconds."""
    converged: bool
    """True if the runs of all seeds have converged."""


class Choice(NamedTuple):
    """The move that `OURS` chose with a seed, compared with the best of the moves."""

    problem: str
    seed: int
    chosen: str
    """Kind of the chosen move."""
    best: str | None
    """Kind of the move with the largest rate. None if no run has converged."""
    loss: float | None
    """Rate of the best move divided by that of `OURS`. None if no run has converged."""


def rate(row: dict[str, Any]) -> float:
    """Return the effective samples per CPU second of a run."""
    return row["effective_sample_size"] / row["sampling_seconds"]


def summaries(rows: Rows) -> list[Summary]:
    """Return a summary for each problem and method, in the order of the rows."""
    found = []
    for problem, method in dict.fromkeys((row["problem"], row["method"]) for row in rows):
        own = [row for row in rows if (row["problem"], row["method"]) == (problem, method)]
        rates = [rate(row) for row in own]
        prepared = [row["preparation_seconds"] for row in own if row["preparation_seconds"] is not None]
        found.append(
            Summary(
                problem,
                method,
                rate=statistics.median(rates),
                low=min(rates),
                high=max(rates),
                ess=statistics.median(row["effective_sample_size"] for row in own),
                rhat=statistics.median(row["rhat"] for row in own),
                preparation=statistics.median(prepared) if prepared else None,
                sampling=statistics.median(row["sampling_seconds"] for row in own),
                converged=all(row["converged"] for row in own),
            )
        )
    return found


def ratio(found: Sequence[Summary], problem: str, method: str, ours: str = OURS) -> float | None:
    """Return the median rate of `ours` divided by that of a method. None if one has not converged on the problem."""
    by_method = {one.method: one for one in found if one.problem == problem}
    pair = by_method.get(ours), by_method.get(method)
    if any(one is None or not one.converged for one in pair):
        return None
    return by_method[ours].rate / by_method[method].rate


def goal(problem: str, method: str) -> float | None:
    """Return the goal for the ratio to a method on a problem. Variants of NUTS have the same. None: there is none."""
    return GOALS.get(problem, {}).get(method.partition("-")[0])


def choices(rows: Rows) -> list[Choice]:
    """Return, for each problem and seed, the chosen move and the ratio of the best of the moves to it."""
    by_key = {(row["problem"], row["seed"], row["method"]): row for row in rows}
    found = []
    for (problem, seed, method), row in by_key.items():
        alone = {name: by_key.get((problem, seed, name)) for name in ALONE}
        rates = {name: rate(one) for name, one in alone.items() if one is not None and one["converged"]}
        if method != OURS or not any(alone.values()):
            continue
        best, loss = max(rates, key=lambda name: rates[name]) if rates else None, None
        if row["converged"]:
            loss = rates[best] / rate(row) if best else None
        elif best:
            loss = math.inf
        found.append(Choice(problem, seed, row["chosen"], best and best.removeprefix("only-"), loss))
    return found


def describe(row: dict[str, Any]) -> str:
    """Return one line on a measurement that has just finished."""
    shown = f"{rate(row):,.4g} effective samples per s" if row["converged"] else "not converged"
    return (
        f"{row['problem']}, {row['method']}, seed {row['seed']}: {shown} (ESS {row['effective_sample_size']:,.0f}, "
        f"R-hat {row['rhat']:.3f}, {row['sampling_seconds']:.1f} s{_chosen(row)})"
    )


def _chosen(row: dict[str, Any]) -> str:
    return f"; chosen: {row['chosen']}" if "chosen" in row else ""


def tables(rows: Rows) -> Iterator[Table | str]:
    """Yield the tables for which there are results: of the methods, and of the choice."""
    compared = [row for row in rows if row["method"] not in ALONE]
    if {row["method"] for row in compared} - {OURS}:
        yield method_table(compared)
    found = choices(rows)
    if found:
        yield choice_table(rows, found)
        yield worst_choice(found)


def method_table(rows: Rows) -> Table:
    """Return the table of all methods on all problems."""
    title = "Effective samples per CPU second, worst element of f, medians over seeds"
    table = Table(title=title, title_justify="left")
    for column in ("problem", "method"):
        table.add_column(column)
    for column in ("per second", "range", "ESS", "R-hat", "preparation", "sampling", f"{OURS} / method", "goal"):
        table.add_column(column, justify="right")
    found = summaries(rows)
    for one in found:
        factor, wanted = ratio(found, one.problem, one.method), goal(one.problem, one.method)
        reached = "" if factor is None or wanted is None else ", reached" if factor >= wanted else ", not reached"
        table.add_row(
            one.problem,
            one.method,
            f"{one.rate:,.0f}" if one.converged else "not converged",
            f"{one.low:,.0f} to {one.high:,.0f}" if one.converged else "",
            f"{one.ess:,.0f}",
            f"{one.rhat:.3f}",
            "" if one.preparation is None else f"{one.preparation:.1f} s",
            f"{one.sampling:.1f} s",
            "" if factor is None or one.method == OURS else f"{factor:.3g}",
            "" if wanted is None else f"{wanted:g}{reached}",
        )
    return table


def choice_table(rows: Rows, found: Sequence[Choice]) -> Table:
    """Return the table of the choice: the rate of each move, what was chosen, and the loss."""
    title = f'Choice of reference="{OURS}": effective samples per CPU second of each move, medians over seeds'
    table = Table(title=title, title_justify="left")
    table.add_column("problem")
    for column in (*(name.removeprefix("only-") for name in ALONE), OURS):
        table.add_column(column, justify="right")
    table.add_column("chosen")
    for column in ("best / chosen, median", "largest"):
        table.add_column(column, justify="right")
    by_key = {(one.problem, one.method): one for one in summaries(rows)}
    for problem in dict.fromkeys(one.problem for one in found):
        own = [one for one in found if one.problem == problem]
        losses = [one.loss for one in own if one.loss is not None]
        cells = [_cell(by_key.get((problem, method))) for method in (*ALONE, OURS)]
        counts = Counter(one.chosen for one in own).most_common()
        chosen = ", ".join(f"{kind} ({count})" for kind, count in counts)
        ends = [statistics.median(losses), max(losses)] if losses else []
        ends = [f"{end:.2f}" if end < math.inf else "not converged" for end in ends] or ["not converged", ""]
        table.add_row(problem, *cells, chosen, *ends)
    return table


def _cell(one: Summary | None) -> str:
    if one is None:
        return ""
    return f"{one.rate:,.0f}" if one.converged else "not converged"


def worst_choice(found: Sequence[Choice]) -> str:
    """Return a sentence on the largest ratio of the best move to the chosen one."""
    losses = [one for one in found if one.loss is not None]
    if not losses:
        return "No problem has runs that converged."
    worst = max(losses, key=lambda one: one.loss or 0.0)
    within = sum(1 for one in losses if one.loss is not None and one.loss <= MAX_LOSS)
    where = f"{worst.problem}, seed {worst.seed}: {worst.chosen} was chosen, and {worst.best} is the best"
    return (
        "The largest ratio of the best move to the chosen one is "
        + (f"{worst.loss:.2f} ({where})" if worst.loss != math.inf else f"unknown ({where}; it has not converged)")
        + f". In {within} of {len(losses)} choices it is at most {MAX_LOSS:g}."
    )
