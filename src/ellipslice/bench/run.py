"""Timing contestants in turn, so that a machine's moods touch all of them alike."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

from ellipslice.bench.contestants import Contestant, Outcome, contestants
from ellipslice.bench.device import device_contestants
from ellipslice.diagnostics import effective_size
from ellipslice.machine import machine
from ellipslice.paper import PROBLEMS, Problem, problem
from ellipslice.priors import Dense
from ellipslice.sampling import sample


def run(
    problems: Sequence[str],
    chains: Sequence[int],
    *,
    seconds: float = 1.0,
    rounds: int = 5,
    precision: str = "double",
    nuts: bool = False,
    against: Path | None = None,
    out: Path | None = None,
) -> list[dict[str, Any]]:
    """Time every contestant on every problem; print a table for each, and write them all to `out`.

    Parameters
    ----------
    problems : names from the paper's Figure 6
    chains : numbers of chains
    seconds : float
        About how long each timing lasts.
    rounds : int
        How often each is timed; medians are shown, with the range of the ratios.
    precision : {"double", "single"}
        Single is for GPUs.
    nuts : bool
        Whether NumPyro's NUTS is a contestant too, on CPUs. It takes a while.
    against : Path, optional
        Earlier results, beside whose ratios these must hold.
    out : Path, optional
        A JSON file.
    """
    for name in problems:
        if name not in PROBLEMS:
            raise ValueError(f"there is no problem {name!r}; the paper has {', '.join(PROBLEMS)}.")
    if min(chains, default=0) < 1 or rounds < 1:
        raise ValueError(f"chains and rounds must be at least 1, but they are {list(chains)} and {rounds}.")
    gpu = jax.default_backend() == "gpu"
    if precision not in ("double", "single") or (precision == "single" and not gpu):
        raise ValueError(f'precision must be "double", or "single" on a GPU, but it is {precision!r}.')
    console, results = Console(width=110), []
    for name in problems:
        start = _burned_in(problem(name))
        for count in chains:
            if gpu:
                made = device_contestants(problem(name), start, count, precision == "double")
            else:
                made = contestants(problem(name), start, count, nuts)
            rows = _time(made, count, seconds, rounds)
            results += [{"problem": name, "chains": count, "precision": precision, **row} for row in rows]
            console.print(_table(f"{name}, {count} {'chain' if count == 1 else 'chains'}, {precision}", rows))
            if out is not None:  # after each: a long run may be cut short
                out.write_text(json.dumps({"machine": _machine(), "results": results}, indent=1), encoding="utf8")
    if out is not None:
        console.print(f"written to {out}")
    if against is not None:
        hold_against(results, json.loads(against.read_text(encoding="utf8"))["results"])
        console.print(f"no ratio is below {SLOWER:g} times that in {against}")
    return results


SLOWER = 0.6
"""How far a ratio may fall below an earlier one before that counts as slower. Machines are noisy."""


def hold_against(results: list[dict[str, Any]], before: list[dict[str, Any]]) -> None:
    """Refuse results of ours whose ratio to the rival has fallen."""
    earlier = {_key(row): row["ratio"] for row in before if row["contestant"].startswith("ours")}
    compared = [row for row in results if _key(row) in earlier]
    if not compared:
        raise ValueError("the earlier results are of other problems, chains or contestants: nothing to compare.")
    slower = [
        f"{row['contestant']} on {row['problem']} ({row['chains']}): {row['ratio']:.2f}, once {earlier[_key(row)]:.2f}"
        for row in compared
        if row["ratio"] < SLOWER * earlier[_key(row)]
    ]
    if slower:
        raise ValueError("slower than before, as a ratio to the rival: " + "; ".join(slower) + ".")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["problem"], row["chains"], row.get("precision", "double"), row["contestant"]


def _burned_in(one: Problem) -> Any:
    """Where all contestants start: after 2000 updates from a prior draw."""
    options: dict[str, Any] = {"draws": 1, "warmup": 2000, "chains": 1, "seed": 3, "progress": False}
    return sample(one.likelihood, Dense(one.covariance), **options)["posterior"]["f"].to_numpy()[0, -1]


def _time(made: dict[str, Contestant], chains: int, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Updates a second of each, all chains together; compile time is that of the first call beyond a second one."""
    updates, compiling = {}, {}
    for name, advance in made.items():
        first, again = _seconds(advance, 256), _seconds(advance, 256)
        compiling[name] = max(0.0, first - again)
        pace = 256 / max(again, 1e-4)
        updates[name] = max(256, int(pace * min(seconds, 0.2)))
        again = _seconds(advance, updates[name])  # another number of updates may be compiled again: not counted
        updates[name] = max(256, int(updates[name] * seconds / max(_seconds(advance, updates[name]), 1e-4)))
        _seconds(advance, updates[name])
    rates: dict[str, list[float]] = {name: [] for name in made}
    outcomes: dict[str, Outcome] = {}
    for _ in range(rounds):
        for name, advance in made.items():
            began = time.perf_counter()
            outcomes[name] = advance(updates[name])
            rates[name].append(chains * updates[name] / (time.perf_counter() - began))
    baseline = rates[next(iter(made))]
    rows = []
    for name, mine in rates.items():
        ratios = [own / other for own, other in zip(mine, baseline, strict=True)]
        rows.append(
            {
                "contestant": name,
                "updates_per_second": statistics.median(mine),
                "ratio": statistics.median(ratios),
                "ratio_range": [min(ratios), max(ratios)],
                "compile_seconds": compiling[name],
                **_beyond_speed(outcomes[name], chains * updates[name], statistics.median(mine)),
            }
        )
    return rows


def _beyond_speed(outcome: Outcome, updates: int, rate: float) -> dict[str, float]:
    """Evaluations and effective draws, for each update and each second."""
    told: dict[str, float] = {}
    if outcome.evaluations is not None:
        told["evaluations_per_update"] = outcome.evaluations / updates
        told["evaluations_per_second"] = rate * outcome.evaluations / updates
    if outcome.trace is not None:
        told["effective_per_update"] = sum(effective_size(trace) for trace in outcome.trace) / outcome.trace.size
        told["effective_per_second"] = rate * told["effective_per_update"]
    return told


def _seconds(advance: Contestant, updates: int) -> float:
    began = time.perf_counter()
    advance(updates)
    return time.perf_counter() - began


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    columns = ("updates/s", f"times {rows[0]['contestant']}", "range", "evaluations", "effective/s", "to compile")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        low, high = row["ratio_range"]
        table.add_row(
            row["contestant"],
            f"{row['updates_per_second']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{low:.2f} to {high:.2f}",
            f"{row['evaluations_per_update']:.2f}" if "evaluations_per_update" in row else "",
            f"{row['effective_per_second']:,.0f}" if "effective_per_second" in row else "",
            f"{row['compile_seconds']:.1f} s",
        )
    return table


def _machine() -> dict[str, Any]:
    return {**machine("blackjax"), "load": os.getloadavg(), "xla_flags": os.environ.get("XLA_FLAGS", "")}
