"""Measure all methods on all problems, in this process or in several, each on its own core."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import jax
from rich.console import Console

from ellipslice.apps.bench.effective.measure import measure
from ellipslice.apps.bench.effective.methods import METHODS, check_methods, why_not
from ellipslice.apps.bench.effective.problems import NAMES, latent_problem
from ellipslice.apps.bench.effective.tables import describe, tables
from ellipslice.apps.bench.plots import draw_effective
from ellipslice.apps.paper.figures import can_draw
from ellipslice.engines.threads import limit_blas_threads
from ellipslice.machine import commit, machine

KEY = "effective_samples"
"""Key of the rows in a stored result."""

TABLE_WIDTH = 132
"""Width of a printed table, in characters."""

UNKNOWN_COMMIT = "not a git checkout"


class Job(NamedTuple):
    """One measurement."""

    problem: str
    method: str
    seed: int
    seconds: float


def run(
    problems: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    seconds: float,
    processes: int = 1,
    out: Path | None = None,
) -> list[dict[str, Any]]:
    """Measure effective samples per CPU second. Print the tables, and write all results to `out`.

    Parameters
    ----------
    problems, methods : sequence of str
        Names from `problems.NAMES` and `methods.METHODS`.
    seeds : sequence of int
        Seeds of the samplers. The tables show medians.
    seconds : float
        Approximate CPU time of sampling in one measurement. Seconds.
    processes : int
        Number of measurements that run in parallel, each in its own process and on its own core. Default: 1.
    out : Path, optional
        JSON file, written after each measurement. A plot is written next to it if matplotlib is installed.

    Returns
    -------
    list of dict
        One row per measurement.
    """
    jax.config.update("jax_platforms", "cpu")  # also on a machine with a GPU
    check_methods(methods)
    for name in problems:
        latent_problem(name)
    cores = available()
    if not 1 <= processes <= len(cores):
        raise ValueError(f"--processes must be between 1 and the number of cores, {len(cores)}, but it is {processes}.")
    if not seeds or seconds <= 0:
        raise ValueError(f"--seeds must be at least 1 and --seconds above 0, but they are {len(seeds)} and {seconds}.")
    with pinned(cores[-1]) if processes == 1 else nullcontext():
        return _run(problems, methods, seeds, seconds, cores[-processes:], out)


def _run(
    problems: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    seconds: float,
    cores: Sequence[int],
    out: Path | None,
) -> list[dict[str, Any]]:
    console, rows = Console(width=TABLE_WIDTH), []
    arguments = {"problems": list(problems), "methods": list(methods), "seeds": list(seeds), "seconds": seconds}
    about = {
        "machine": {**machine("blackjax", "numpyro"), "load": os.getloadavg()},
        "commit": commit(),
        "arguments": [arguments | {"processes": len(cores)}],
    }
    for row in _measured(jobs(problems, methods, seeds, seconds, console), cores):
        rows.append(row)
        console.print(describe(row), soft_wrap=True)
        if out is not None:  # after each row, because a long run may be interrupted
            out.write_text(json.dumps(about | {KEY: in_order(rows)}, indent=1), encoding="utf8")
    finish(about | {KEY: in_order(rows)}, out, console)
    return rows


def jobs(
    problems: Sequence[str], methods: Sequence[str], seeds: Sequence[int], seconds: float, console: Console
) -> list[Job]:
    """Return all measurements, the longest first. Print which are left out."""
    found = []
    for method in methods:
        for name in problems:
            reason = why_not(method, name)
            if reason is None:
                found += [Job(name, method, seed, seconds) for seed in seeds]
            else:
                console.print(f"{method} is left out on {name}: {reason}.", soft_wrap=True)
    return sorted(found, key=_longest_first)


def _longest_first(job: Job) -> tuple[bool, bool, int]:
    """Return the key by which jobs are sorted: NUTS has the longest warm-up, on USPS most of all."""
    return not job.method.startswith("NUTS"), job.problem != "USPS", -len(latent_problem(job.problem).covariance)


def _measured(every: Sequence[Job], cores: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield a row for each measurement, as soon as it is finished."""
    if len(cores) == 1:
        yield from map(measure_job, every)
        return
    context = multiprocessing.get_context("spawn")
    free: Any = context.Queue()
    for core in cores:
        free.put(core)
    with ProcessPoolExecutor(len(cores), context, _start_worker, (free,)) as pool:
        futures = [pool.submit(measure_job, job) for job in every]
        try:
            yield from (future.result() for future in as_completed(futures))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _start_worker(free: Any) -> None:
    """Pin a process to its own core, before JAX starts its threads."""
    core = free.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    jax.config.update("jax_platforms", "cpu")


def measure_job(job: Job) -> dict[str, Any]:
    """Return the row of a measurement."""
    with limit_blas_threads(1):
        sampler = METHODS[job.method](latent_problem(job.problem), job.seed)
        found = measure(sampler, job.seconds)
    jax.clear_caches()  # other problems need other programs
    return {"problem": job.problem, "method": job.method, "seed": job.seed, **found}


def available() -> list[int]:
    """Return the numbers of the cores of this process."""
    affinity = getattr(os, "sched_getaffinity", None)
    return sorted(affinity(0)) if affinity else list(range(os.cpu_count() or 1))


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Run on one core, where the system supports it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def join(paths: Sequence[Path], out: Path | None) -> list[dict[str, Any]]:
    """Join the results of several runs. Print the tables, and write all results to `out`.

    Results without a commit, from a machine without git, get the commit of this checkout.
    """
    parts = [json.loads(path.read_text(encoding="utf8")) for path in paths]
    for path, part in zip(paths, parts, strict=True):
        if KEY not in part:
            raise ValueError(f"{path} is not a result of `ellipslice bench --effective` or `--choice`.")
    commits = {part["commit"] for part in parts}
    if len(commits) > 1:
        raise ValueError(f"the results are from different commits, {', '.join(sorted(commits))}. Measure again.")
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for part in parts:
        for row in part[KEY]:
            key = row["problem"], row["method"], row["seed"]
            if key in rows:
                raise ValueError(f"{row['method']} on {row['problem']} with seed {row['seed']} is in several files.")
            rows[key] = row
    about = {
        "machine": parts[0]["machine"],
        "commit": commit() if commits == {UNKNOWN_COMMIT} else commits.pop(),
        "arguments": [argument for part in parts for argument in part["arguments"]],
    }
    joined = in_order(list(rows.values()))
    finish(about | {KEY: joined}, out, Console(width=TABLE_WIDTH))
    return joined


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows sorted by problem, method and seed. Jobs in parallel end in any order."""
    methods = list(METHODS)
    return sorted(rows, key=lambda row: (NAMES.index(row["problem"]), methods.index(row["method"]), row["seed"]))


def finish(result: dict[str, Any], out: Path | None, console: Console) -> None:
    """Print the tables of a result, and write it with its plot."""
    for table in tables(result[KEY]):
        console.print(table, soft_wrap=isinstance(table, str))
    if out is None:
        return
    out.write_text(json.dumps(result, indent=1), encoding="utf8")
    if can_draw():
        draw_effective(result[KEY], result["machine"], out.with_suffix(".png"))
    console.print(f"wrote {out}")
