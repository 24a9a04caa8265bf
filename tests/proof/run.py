"""Run the proofs: checks over many fits or many seeds, too long for a test suite. Results are stored with their origin.

    python tests/proof/run.py                          # every proof in full, as `make proof` does
    python tests/proof/run.py evidence_coverage        # one of them
    python tests/proof/run.py --short                  # the short forms that `make long` runs
    python tests/proof/run.py --processes 8            # the tasks of each proof in several processes

A proof is a module of this folder with

- `FULL` and `SHORT`: two sets of arguments of `tasks`,
- `tasks(**arguments)`: the parts of the computation, functions that return results by name, as JSON can hold them.
  Counts of the same name are added,
- `problems(results)`: a list of sentences about what is wrong, empty if the proof passes.

It is listed in `PROOFS` below. The result of a full run is committed in `results/`, with its commit, arguments and
versions.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from ellipslice.machine import commit, machine
from proof.task import Task, merge

PROOFS = (
    *("evidence_coverage", "latent_family_ranks", "latent_ranks", "latent_ranks_of_terms"),
    *("ranks", "ranks_with_hyperparameters"),
)
RESULTS = Path(__file__).parent / "results"


def prove(name: str, short: bool, processes: int = 1) -> dict[str, Any]:
    """Run one proof and return its results, problems and origin."""
    module = importlib.import_module(f"proof.{name}")
    arguments = module.SHORT if short else module.FULL
    tasks = module.tasks(**arguments)
    if processes == 1:
        timed = [run_task(task) for task in tasks]
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            timed = list(pool.map(run_task, tasks))
    results = merge(found for found, _ in timed)
    return {
        "proof": name,
        "command": f"python tests/proof/run.py {name}" + " --short" * short,
        "commit": commit(),
        "arguments": arguments,
        "seed": os.environ.get("ELLIPSLICE_TEST_SEED", "0"),
        "cpu_seconds": round(sum(seconds for _, seconds in timed), 1),
        "machine": machine("scipy", "tinygp", "numpyro"),
        "problems": module.problems(results),
        "results": results,
    }


def run_task(task: Task) -> tuple[dict[str, Any], float]:
    """Return the results of a task and its CPU seconds."""
    began = time.process_time()
    return task(), time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROOFS)}. Default: all.")
    parser.add_argument("--short", action="store_true", help="the short form")
    parser.add_argument("--processes", type=int, default=1, help="number of processes. Default: 1.")
    parser.add_argument("--out", type=Path, help="folder of the results. Default: tests/proof/results; none if short.")
    options = parser.parse_args()
    if unknown := set(options.names) - set(PROOFS):
        parser.error(f"{', '.join(sorted(unknown))}: no such proof. There are {', '.join(PROOFS)}.")
    out = options.out or (None if options.short else RESULTS)
    failed = False
    for name in options.names or PROOFS:
        found = prove(name, options.short, options.processes)
        failed |= bool(found["problems"])
        print(f"{name}: {'; '.join(found['problems']) or 'passed'} ({found['cpu_seconds']} CPU seconds)", flush=True)  # noqa: T201
        if out:
            out.mkdir(parents=True, exist_ok=True)
            (out / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf8")
    sys.exit(failed)


if __name__ == "__main__":
    main()
