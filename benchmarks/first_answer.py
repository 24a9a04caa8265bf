"""Measure the time to the first answer: new processes from the import to the result, with an empty and a warm cache.

    python benchmarks/first_answer.py --out first_answer.json

Each case is a default call in a new process. The first process of a case has an empty folder for compiled code, the
others load what it stored. The wall-clock time is split with the events of `jax.monitoring`: import, tracing (with
lowering), compiling (with loading from the folder), and the rest. The table has the median over the repeats. A process
includes the start and the end of Python. The file contains the load average before and after: if other programs use all
cores, the processor time is the better measure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BEGAN = time.perf_counter()
PARTS = ("import", "tracing", "compiling", "rest")
TRACING = ("/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration")
COMPILING = "/jax/core/compile/backend_compile_duration"
LOADED = "/jax/compilation_cache/cache_hits"
LEFT_OUT = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE", "PYTHONDONTWRITEBYTECODE")
"""Variables that would replace the folder of the measurement, or make Python compile its modules in each process."""


def paper(name: str) -> Callable[[Any], Any]:
    """Return a function that samples a problem of the paper."""

    def run(es: Any) -> Any:
        from ellipslice.apps.paper import problem

        given = problem(name)
        return es.sample(given.likelihood, es.Dense(given.covariance), seed=1, progress=False)

    return run


def pines(es: Any) -> Any:
    """Sample the log intensity of the Finnish pines with the prior of `examples/pines.py`."""
    import numpy as np

    counts = es.data.finnish_pines()
    places = np.stack([axis.ravel() for axis in np.indices(counts.shape)], axis=-1)
    scaled = np.sqrt(3) * np.sqrt(((places[:, None] - places) ** 2).sum(-1)) / 5.0
    offset = np.log(counts.sum() / counts.size) - 0.5
    likelihood = es.likelihoods.Poisson(counts.ravel(), offset=offset)
    return es.sample(likelihood, es.Dense((1 + scaled) * np.exp(-scaled)), seed=1, progress=False)


def latent_gp(es: Any) -> Any:
    """Fit 50 counts with unknown amplitude and length scale."""
    import numpy as np
    import numpyro.distributions as dist
    from tinygp import kernels

    x = np.linspace(0.0, 10.0, 50)
    y = np.random.default_rng(0).poisson(np.exp(1.0 + np.sin(x)))
    model = es.gp.LatentGP(
        lambda amplitude, length_scale: amplitude**2 * kernels.Matern52(length_scale),
        es.likelihoods.Poisson,
        parameters={"amplitude": dist.LogNormal(0.0, 0.5), "length_scale": dist.LogNormal(0.0, 0.5)},
        mean=1.0,
    )
    return model.fit(x, y, seed=1, progress=False)


CASES = {name: paper(name) for name in ("R01", "R10", "Mine", "USPS")} | {"pines": pines, "LatentGP": latent_gp}


def covered(spans: list[tuple[float, float]]) -> float:
    """Return the seconds that at least one span covers."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def child(name: str) -> None:
    """Run a case in this process and print its times as JSON."""
    import jax.monitoring

    import ellipslice as es

    imported = time.perf_counter() - BEGAN
    spans: dict[str, list[tuple[float, float]]] = {"tracing": [], "compiling": []}
    loaded = []

    def record(event: str, seconds: float, **_: Any) -> None:
        part = "tracing" if event in TRACING else "compiling" if event == COMPILING else None
        if part:
            spans[part].append((time.perf_counter() - seconds, time.perf_counter()))

    jax.monitoring.register_event_duration_secs_listener(record)
    jax.monitoring.register_event_listener(lambda event, **_: loaded.append(event) if event == LOADED else None)
    CASES[name](es)
    total = time.perf_counter() - BEGAN
    compiling, both = covered(spans["compiling"]), covered(spans["compiling"] + spans["tracing"])
    parts = (imported, both - compiling, compiling, total - imported - both)
    found = dict(zip(PARTS, parts, strict=True)) | {"programs": len(spans["compiling"]), "loaded": len(loaded)}
    print(json.dumps(found))


def measure(name: str, folder: str) -> dict[str, float]:
    """Return the times of a case in a new process whose cache is in `folder`."""
    environment = {key: value for key, value in os.environ.items() if key not in LEFT_OUT}
    environment["XDG_CACHE_HOME"] = folder
    began, before = time.perf_counter(), os.times()
    done = subprocess.run(
        [sys.executable, __file__, "--child", name], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall": time.perf_counter() - began, "cpu": cpu} | json.loads(done.stdout.splitlines()[-1])


def measure_case(name: str, repeats: int) -> list[dict[str, Any]]:
    """Return a row for the empty cache and one for the warm cache."""
    found: dict[str, list[dict[str, float]]] = {"empty": [], "warm": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for cache in found:
                found[cache].append(measure(name, folder))
            size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    rows = []
    for cache, measured in found.items():
        medians = {key: round(statistics.median(one[key] for one in measured), 3) for key in measured[0]}
        rows.append({"case": name, "cache": cache, **medians, "megabytes": round(size / 1e6, 2), "processes": measured})
    return rows


def main() -> None:
    """Print a row per case and cache, and write all of them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    columns = ("wall", "cpu", *PARTS)
    print(f"{'case':9} {'cache':6}" + "".join(f"{name:>10}" for name in columns) + "  programs  loaded  megabytes")
    rows, before = [], os.getloadavg()
    for name in options.cases:
        for row in measure_case(name, options.repeats):
            seconds = "".join(f"{row[column]:10.2f}" for column in columns)
            counts = f"{row['programs']:10.0f}{row['loaded']:8.0f}{row['megabytes']:11.2f}"
            print(f"{name:9} {row['cache']:6}{seconds}{counts}", flush=True)
            rows.append(row)
    if options.out:
        from ellipslice.machine import commit, machine

        arguments = {"cases": options.cases, "repeats": options.repeats}
        load = [before[0], os.getloadavg()[0]]
        found = {"machine": machine(), "commit": commit(), "arguments": arguments, "load_average": load, "rows": rows}
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
