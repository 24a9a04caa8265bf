"""Timing contestants in turn, so that a machine's moods touch all of them alike."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from ellipslice import Dense, sample
from ellipslice.apps.bench.contestants import names
from ellipslice.apps.bench.device import device_contestants
from ellipslice.apps.bench.picture import draw
from ellipslice.apps.bench.process import SHORT, Here, Timed, workers
from ellipslice.apps.paper import PROBLEMS, Problem, problem
from ellipslice.apps.paper.figures import can_draw
from ellipslice.machine import commit, machine
from ellipslice.undocumented import ITEMS, degraded

WIDTH = 132
"""Characters of a table."""

STORED = 2**26
"""Values in the states of one timing, at most: half a gigabyte, for some contestants hold them twice for a moment."""


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

    On CPUs each contestant has a process of its own, and they take turns. On a GPU all are in this process, for several
    would fight for its memory.

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
        A JSON file. A picture is drawn beside it, if there is a matplotlib.
    """
    for name in problems:
        if name not in PROBLEMS:
            raise ValueError(f"there is no problem {name!r}; the paper has {', '.join(PROBLEMS)}.")
    if min(chains, default=0) < 1 or rounds < 1:
        raise ValueError(f"chains and rounds must be at least 1, but they are {list(chains)} and {rounds}.")
    gpu = jax.default_backend() == "gpu"
    if precision not in ("double", "single") or (precision == "single" and not gpu):
        raise ValueError(f'precision must be "double", or "single" on a GPU, but it is {precision!r}.')
    arguments = {"problems": list(problems), "chains": list(chains), "seconds": seconds, "rounds": rounds}
    origin = {"commit": commit(), "arguments": arguments | {"precision": precision, "nuts": nuts}}
    console, results, load = Console(width=WIDTH), [], os.getloadavg()
    for name in problems:
        start = _burned_in(problem(name))
        for count in chains:
            with _contestants(name, start, count, precision, nuts) as made:
                most = sys.maxsize if gpu else max(1, STORED // (count * len(start)))  # on a GPU nobody stores states
                rows = _time(made, count, most, seconds, rounds)
            if not results:  # after the first timing: a mistake is one line
                console.print(_internals())
            results += [{"problem": name, "chains": count, "precision": precision, **row} for row in rows]
            console.print(_table(f"{name}, {count} {'chain' if count == 1 else 'chains'}, {precision}", rows))
            if out is not None:  # after each: a long run may be cut short
                noted = {**origin, "machine": _machine(load), "results": results}
                out.write_text(json.dumps(noted, indent=1), encoding="utf8")
                if can_draw():
                    draw(results, noted["machine"], out.with_suffix(".png"))
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


@contextmanager
def _contestants(
    name: str, start: np.ndarray, chains: int, precision: str, nuts: bool
) -> Iterator[Mapping[str, Timed]]:
    """All of them, ready to be timed."""
    if jax.default_backend() == "gpu":
        made = device_contestants(problem(name), start, chains, precision == "double")
        yield {contestant: Here(advance, chains) for contestant, advance in made.items()}
    else:
        with workers(names(chains, nuts), name, start, chains) as made:
            yield made


def _time(made: Mapping[str, Timed], chains: int, most: int, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Updates a second of each, all chains together; compile time is that of the first call beyond a second one."""
    planned = {name: _plan(contestant, most, seconds) for name, contestant in made.items()}
    rates: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds):
        for name, contestant in made.items():
            updates, _ = planned[name]
            rates[name].append(chains * updates / contestant.time(updates))
    baseline = rates[next(iter(made))]
    rows = []
    for name, mine in rates.items():
        ratios = [own / other for own, other in zip(mine, baseline, strict=True)]
        updates, compiling = planned[name]
        row = {
            "contestant": name,
            "updates_per_second": statistics.median(mine),
            "ratio": statistics.median(ratios),
            "ratio_range": [min(ratios), max(ratios)],
            "compile_seconds": compiling,
            "updates": updates,
            **made[name].beyond_speed(),
        }
        for what in ("evaluations", "effective"):
            if f"{what}_per_update" in row:
                row[f"{what}_per_second"] = row["updates_per_second"] * row[f"{what}_per_update"]
        rows.append(row)
    return rows


def _plan(contestant: Timed, most: int, seconds: float) -> tuple[int, float]:
    """How many updates of a chain take about so long, within bounds; and how long compiling took."""
    updates = least = min(SHORT, most)
    first, again = contestant.time(updates), contestant.time(updates)
    compiling = max(0.0, first - again)
    for _ in range(3):  # for a call takes a while by itself, and short ones seem slow
        wanted = min(most, max(least, int(updates * seconds / max(again, 1e-4))))
        if again > 0.7 * seconds or wanted == updates:
            break
        updates = wanted
        contestant.time(updates)  # another number of updates may be compiled again: not counted
        again = contestant.time(updates)
    return updates, compiling


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", caption=_caption(rows), caption_justify="left")
    table.add_column("")
    columns = ["updates/s", f"times {rows[0]['contestant']}", "range", "evaluations", "effective/s", "to compile"]
    for column in [*columns, "memory"] if "peak_memory" in rows[0] else columns:
        table.add_column(column, justify="right")
    for row in rows:
        low, high = row["ratio_range"]
        cells = [
            row["contestant"],
            f"{row['updates_per_second']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{low:.2f} to {high:.2f}",
            f"{row['evaluations_per_update']:.2f}" if "evaluations_per_update" in row else "",
            f"{row['effective_per_second']:,.0f}" if "effective_per_second" in row else "",
            f"{row['compile_seconds']:.1f} s",
        ]
        table.add_row(*cells, *([f"{row['peak_memory'] / 1e6:,.0f} MB"] if "peak_memory" in row else []))
    return table


def _caption(rows: list[dict[str, Any]]) -> str | None:
    """What the numbers do not say themselves."""
    sentences = []
    if (fewest := min(row["updates"] for row in rows)) < SHORT:
        sentences.append(f"Timed over as few as {fewest} updates of each chain, to bound the memory of their states.")
    if "peak_memory" in rows[0]:
        sentences.append("Memory: the most a contestant's process used, states included, less what it had before.")
    return "\n".join(sentences) or None


def _internals() -> str:
    """Which internals of other libraries do not work here: what is timed is then slower than it could be."""
    missing = degraded()
    if not missing:
        return f"All {len(ITEMS)} undocumented internals that speed depends on work here."
    return "\n".join(["Slower than it could be (python -m ellipslice.undocumented says more):", *missing])


def _machine(load: tuple[float, ...]) -> dict[str, Any]:
    flags = os.environ.get("XLA_FLAGS", "")
    conditions = {"load": load, "load_after": os.getloadavg(), "xla_flags": flags, "degraded": degraded()}
    return {**machine("blackjax"), **conditions}
