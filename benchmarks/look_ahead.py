"""Time one chain with slow evaluations against the number of workers that evaluate its next proposals in parallel.

    python benchmarks/look_ahead.py --out benchmarks/results/look_ahead.json

An evaluation sleeps for 50 ms, so that the workers can be threads and need no cores. The draws are the same in all
runs. Times are wall-clock seconds of `sample`, including its evaluations before the first update.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import ellipslice as es
from ellipslice.machine import commit, machine

EVALUATION_SECONDS = 0.05
WORKERS = (0, 2, 4, 8, 16)
DRAWS = 60


def main() -> None:
    """Print a row for each number of workers, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = [timed(workers) for workers in WORKERS]
    for row in rows:
        print(f"{row['workers']:2} workers: {row['seconds']:5.1f} s, {rows[0]['seconds'] / row['seconds']:.1f} x")
    print(f"{rows[0]['evaluations_per_update']:.1f} evaluations per update without workers")
    if given.out:
        record: dict[str, Any] = {
            "command": " ".join(["python", *sys.argv]), "commit": commit(), "machine": machine(), "rows": rows
        }  # fmt: skip
        given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf8")


def timed(workers: int) -> dict[str, float]:
    """Return the seconds of a run with some number of workers, or without (0)."""
    x = np.linspace(0, 1, 30)
    prior = es.Dense(np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.2**2))
    y = np.sin(6 * x)

    def log_likelihood(f: Any) -> float:
        time.sleep(EVALUATION_SECONDS)
        return -8 * float(np.square(np.asarray(f) - y).sum())

    pool = ThreadPoolExecutor(workers) if workers else None
    began = time.perf_counter()
    tree = es.sample(
        log_likelihood, prior, draws=DRAWS, warmup=5, chains=1, seed=1, executor=pool, engine="host", progress=False
    )
    seconds = time.perf_counter() - began
    if pool is not None:
        pool.shutdown()
    per_update = tree.attrs["evaluations"] / tree.attrs["updates"]
    return {"workers": workers, "seconds": seconds, "evaluations_per_update": per_update}


if __name__ == "__main__":
    main()
