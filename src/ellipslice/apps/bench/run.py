"""Time samplers in turn, so that changes of the machine's load affect all of them equally."""

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
from ellipslice.apps.bench.device import device_samplers
from ellipslice.apps.bench.plots import draw
from ellipslice.apps.bench.process import MIN_UPDATES_FOR_ESS, LocalSampler, TimedSampler, workers
from ellipslice.apps.bench.samplers import names
from ellipslice.apps.paper import PROBLEMS, Problem, problem
from ellipslice.apps.paper.figures import can_draw
from ellipslice.machine import commit, machine
from ellipslice.moves import EllipticalSlice
from ellipslice.undocumented import ITEMS, degraded

TABLE_WIDTH = 132
"""Width of a printed table, in characters."""

MAX_STORED_VALUES = 2**26
"""Largest number of values in the states of one timing: half a gigabyte. Some samplers briefly hold them twice."""


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
    """Time every sampler on every problem. Print a table for each, and write all results to `out`.

    On a CPU each sampler has its own process, and they take turns. On a GPU all samplers are in this process, because
    several processes would compete for its memory.

    Parameters
    ----------
    problems : sequence of str
        Names from the paper's Figure 6.
    chains : sequence of int
        Numbers of chains.
    seconds : float
        Approximate duration of one timing. Seconds. Default: 1.
    rounds : int
        Number of timings of each sampler. The results are medians, with the range of the ratios. Default: 5.
    precision : {"double", "single"}
        Single precision requires a GPU. Default: "double".
    nuts : bool
        Time NumPyro's NUTS as well, on a CPU. Default: False.
    against : Path, optional
        Earlier results. Raise if a ratio has fallen far below the earlier one.
    out : Path, optional
        JSON file to write. A plot is written next to it if matplotlib is installed.

    Returns
    -------
    list of dict
        One row per problem, number of chains and sampler.
    """
    for name in problems:
        if name not in PROBLEMS:
            raise ValueError(f"there is no problem {name!r}. Choose from {', '.join(PROBLEMS)}.")
    if min(chains, default=0) < 1 or rounds < 1:
        raise ValueError(f"chains and rounds must be at least 1, but they are {list(chains)} and {rounds}.")
    gpu = jax.default_backend() == "gpu"
    if precision not in ("double", "single") or (precision == "single" and not gpu):
        raise ValueError(f'precision must be "double", or "single" on a GPU, but it is {precision!r}.')
    arguments = {"problems": list(problems), "chains": list(chains), "seconds": seconds, "rounds": rounds}
    origin = {"commit": commit(), "arguments": arguments | {"precision": precision, "nuts": nuts}}
    console, results, load = Console(width=TABLE_WIDTH), [], os.getloadavg()
    for name in problems:
        start = _common_start(problem(name))
        for count in chains:
            with _samplers(name, start, count, precision, nuts) as samplers:
                most = (
                    sys.maxsize if gpu else max(1, MAX_STORED_VALUES // (count * len(start)))
                )  # nothing is stored on a GPU
                rows = _time(samplers, count, most, seconds, rounds)
            if not results:  # only after the first timing, so that an error is printed alone
                console.print(_internals())
            results += [{"problem": name, "chains": count, "precision": precision, **row} for row in rows]
            console.print(_table(f"{name}, {count} {'chain' if count == 1 else 'chains'}, {precision}", rows))
            if out is not None:  # after each table, because a long run may be interrupted
                record = {**origin, "machine": _machine(load), "results": results}
                out.write_text(json.dumps(record, indent=1), encoding="utf8")
                if can_draw():
                    draw(results, record["machine"], out.with_suffix(".png"))
    if out is not None:
        console.print(f"wrote {out}")
    if against is not None:
        compare_with_earlier(results, json.loads(against.read_text(encoding="utf8"))["results"])
        console.print(f"No ratio is below {SLOWDOWN_RATIO:g} times the ratio in {against}.")
    return results


SLOWDOWN_RATIO = 0.6
"""A ratio below this fraction of the earlier one counts as slower. It is far from 1 because timings are noisy."""


def compare_with_earlier(results: list[dict[str, Any]], before: list[dict[str, Any]]) -> None:
    """Raise if the speed ratio of one of our samplers to the baseline has fallen below that of earlier results."""
    earlier = {_key(row): row["ratio"] for row in before if row["contestant"].startswith("ours")}
    compared = [row for row in results if _key(row) in earlier]
    if not compared:
        raise ValueError("the earlier results have other problems, chains or samplers, so there is nothing to compare.")
    slower = [
        f"{row['contestant']} on {row['problem']} ({row['chains']}): {row['ratio']:.2f}, "
        f"earlier {earlier[_key(row)]:.2f}"
        for row in compared
        if row["ratio"] < SLOWDOWN_RATIO * earlier[_key(row)]
    ]
    if slower:
        raise ValueError("slower than in the earlier results, as a ratio to the baseline: " + "; ".join(slower) + ".")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["problem"], row["chains"], row.get("precision", "double"), row["contestant"]


def _common_start(one: Problem) -> Any:
    """Return the initial state of all samplers: 2,000 updates after a prior draw."""
    options: dict[str, Any] = {"draws": 1, "warmup": 2000, "chains": 1, "seed": 3, "progress": False}
    return sample(one.likelihood, Dense(one.covariance), move=EllipticalSlice(), **options)["posterior"][
        "f"
    ].to_numpy()[0, -1]


@contextmanager
def _samplers(
    name: str, start: np.ndarray, chains: int, precision: str, nuts: bool
) -> Iterator[Mapping[str, TimedSampler]]:
    """Build all samplers, ready to be timed."""
    if jax.default_backend() == "gpu":
        made = device_samplers(problem(name), start, chains, precision == "double")
        yield {sampler: LocalSampler(advance, chains) for sampler, advance in made.items()}
    else:
        with workers(names(chains, nuts), name, start, chains) as made:
            yield made


def _time(
    samplers: Mapping[str, TimedSampler], chains: int, most: int, seconds: float, rounds: int
) -> list[dict[str, Any]]:
    """Return one row of results per sampler. Rates count the updates of all chains.

    The compile time is the time of the first call minus that of a second call of the same length.
    """
    planned = {name: _plan(sampler, most, seconds) for name, sampler in samplers.items()}
    rates: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(rounds):
        for name, sampler in samplers.items():
            updates, _ = planned[name]
            rates[name].append(chains * updates / sampler.time(updates))
    baseline = rates[next(iter(samplers))]
    rows = []
    for name, own_rates in rates.items():
        ratios = [own / other for own, other in zip(own_rates, baseline, strict=True)]
        updates, compiling = planned[name]
        row = {
            "contestant": name,
            "updates_per_second": statistics.median(own_rates),
            "ratio": statistics.median(ratios),
            "ratio_range": [min(ratios), max(ratios)],
            "compile_seconds": compiling,
            "updates": updates,
            **samplers[name].measures(),
        }
        for what in ("evaluations", "effective"):
            if f"{what}_per_update" in row:
                row[f"{what}_per_second"] = row["updates_per_second"] * row[f"{what}_per_update"]
        rows.append(row)
    return rows


def _plan(sampler: TimedSampler, most: int, seconds: float) -> tuple[int, float]:
    """Return the number of updates per chain that take about `seconds`, at most `most`, and the compile time."""
    updates = least = min(MIN_UPDATES_FOR_ESS, most)
    first, again = sampler.time(updates), sampler.time(updates)
    compiling = max(0.0, first - again)
    for _ in range(3):  # short calls are dominated by their overhead, so estimate again with longer ones
        wanted = min(most, max(least, int(updates * seconds / max(again, 1e-4))))
        if again > 0.7 * seconds or wanted == updates:
            break
        updates = wanted
        sampler.time(updates)  # not counted: another number of updates may be compiled again
        again = sampler.time(updates)
    return updates, compiling


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", caption=_caption(rows), caption_justify="left")
    table.add_column("")
    columns = ["updates/s", f"ratio to {rows[0]['contestant']}", "range", "evaluations/update", "ESS/s", "compile time"]
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
    """Return the caption of a table: notes on few updates and on memory; None if there are none."""
    sentences = []
    if (fewest := min(row["updates"] for row in rows)) < MIN_UPDATES_FOR_ESS:
        sentences.append(f"Timed over as few as {fewest} updates per chain, to limit the memory of the stored states.")
    if "peak_memory" in rows[0]:
        sentences.append("Memory: peak of the sampler's process, including stored states, minus its memory before.")
    return "\n".join(sentences) or None


def _internals() -> str:
    """Return a note on internals of other libraries that are unavailable here, without which ellipslice is slower."""
    missing = degraded()
    if not missing:
        return f"All {len(ITEMS)} undocumented internals that affect the speed are available."
    return "\n".join(
        ["Slower than possible, because internals are unavailable (see python -m ellipslice.undocumented):", *missing]
    )


def _machine(load: tuple[float, ...]) -> dict[str, Any]:
    flags = os.environ.get("XLA_FLAGS", "")
    conditions = {"load": load, "load_after": os.getloadavg(), "xla_flags": flags, "degraded": degraded()}
    return {**machine("blackjax"), **conditions}
