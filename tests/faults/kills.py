"""Kill runs with a store by SIGKILL at random moments and resume them. The finished store equals that of one run.

    python tests/faults/kills.py --kills 100

Each run is a process that is forked from this one before JAX has started, so that mostly the run itself is killed. The
moments are random, from the start of a run to near its end. The rest of a run becomes shorter with each kill.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax.numpy as jnp
import numpy as np

import ellipslice as es
from ellipslice.engines.workers import engine as workers_engine
from ellipslice.store import store
from stores import assert_same_stores

TARGET = np.linspace(-1.0, 1.0, 40)
COUNTS = np.arange(40) % 4


def traced(f):
    return -jnp.sum((f - TARGET) ** 2)


def on_the_host(f):
    time.sleep(0.0002)
    return float(-np.square(f - TARGET).sum())


def threads():
    return ThreadPoolExecutor(2)


def part(f):
    return {"sum": f.sum(), "first": f[:3]}


def smooth():
    x = np.arange(40)
    return es.Dense(np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / 25), mean=0.2)


# Log-likelihood, options of `sample`, and arguments that `resume` requires again.
RUNS = {
    "compiled": (traced, {"draws": 60_000, "warmup": 20_000}, {}),
    "planes": (es.likelihoods.Poisson(COUNTS), {"draws": 40_000, "thin": 2}, {}),
    "host": (on_the_host, {"draws": 300, "warmup": 100, "engine": "host"}, {}),
    "a function": (
        on_the_host,
        {"draws": 100, "warmup": 40, "thin": 3, "keep": part, "engine": "host"},
        {"keep": part},
    ),
    "workers": (
        on_the_host,
        {"draws": 300, "warmup": 100, "engine": "host", "executor": threads},
        {"executor": threads},
    ),
    "goals": (traced, {"until": es.Until(effective_sample_size=1000, rhat=1.02), "warmup": 2000}, {}),
    "together": (traced, {"draws": 3000, "warmup": 1000, "engine": "batched", "chains": 16}, {}),
}


def run(name, path):
    """Start or resume the run, in a child process."""
    log_likelihood, options, again = RUNS[name]
    store.MIN_COMMIT_SECONDS, store.MAX_COMMIT_FRACTION = (
        0.02,
        0.5,
    )  # so that kills happen before, between and during commits
    workers_engine.TASK_SECONDS = 0.02
    if path.exists():
        es.resume(path, log_likelihood, progress=False, **again)
    else:
        es.sample(
            log_likelihood,
            smooth(),
            move=es.moves.EllipticalSlice(),
            seed=3,
            progress=False,
            store=path,
            **{"chains": 3, **options},
        )


def fork(name, path):
    child = os.fork()
    if child:
        return child
    try:
        run(name, path)
    except BaseException:  # noqa: BLE001  a forked process must not go on here
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def finish(child):
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("a run failed, and was not killed")


def kill_and_resume(name, folder, kills, generator, seconds):
    """Start and resume the run until it ends, killing it up to `kills` times. Return the number of kills."""
    path, made = folder / f"{name}.zarr", 0
    while True:
        child = fork(name, path)
        if made < kills:
            time.sleep(generator.uniform(0.0, 0.8 * seconds))
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                made += 1
                continue
            if status:
                raise SystemExit("a run failed, and was not killed")
        else:
            finish(child)
        return path, made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None, help="where stores are made; a temporary one unless given")
    parser.add_argument("--runs", nargs="*", choices=RUNS, default=list(RUNS))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp()) if options.folder is None else options.folder
    generator, kills, rounds, compared = random.Random(options.seed), 0, 0, 0
    peace: dict[str, float] = {}
    while kills < options.kills:
        name = options.runs[rounds % len(options.runs)]
        if name not in peace:
            began = time.perf_counter()
            finish(fork(name, folder / f"{name}, in peace.zarr"))
            peace[name] = time.perf_counter() - began
        path, made = kill_and_resume(name, folder, min(5, options.kills - kills), generator, peace[name])
        assert_same_stores(folder / f"{name}, in peace.zarr", path)
        shutil.rmtree(path)
        kills, rounds, compared = kills + made, rounds + 1, compared + 1
        print(f"{name}: killed {made} times, the same in the end ({kills} kills so far)", flush=True)  # noqa: T201
    print(f"{kills} kills, {compared} stores, every one the same as in peace")  # noqa: T201
    if options.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
