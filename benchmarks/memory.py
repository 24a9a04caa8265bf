"""Measure the gain of each part of `ellipslice.undocumented.memory`: the time without it, divided by that with all.

    python benchmarks/memory.py --out memory.json

Each variant runs in its own process, because kept memory would be reused by the next one. Rounds are interleaved. The
printed number is the median ratio of the wall-clock time per update, variant / all parts: above 1, the part is a gain.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import ellipslice as es
from ellipslice.machine import commit, machine
from ellipslice.sampling import sinks
from ellipslice.undocumented import memory

VARIANTS = ("all parts", "pages as NumPy asks for them", "nothing kept")
DRAWS, REPEATS = 40_000, 5


def regression() -> tuple[es.Dense, es.likelihoods.Gaussian]:
    """Return the paper's synthetic regression in one dimension: N = 200, noise variance 0.09."""
    rng = np.random.default_rng(0)
    x = rng.random(200)
    prior = es.Dense(np.exp(-0.5 * (x[:, None] - x) ** 2))
    return prior, es.likelihoods.Gaussian(
        np.asarray(prior.draw_zero_mean(rng, 1))[0] + 0.3 * rng.standard_normal(200), 0.3
    )


def leave_out(variant: str) -> None:
    """Switch one part off in this process."""
    es.fast_cpu()
    if variant == "pages as NumPy asks for them":
        sinks.lazy_empty = np.empty
    elif variant == "nothing kept":
        memory.kept_memory = lambda: 0


def measure(variant: str, chains: int) -> float:
    """Return the median seconds of an update, over all chains."""
    leave_out(variant)
    prior, likelihood = regression()
    times = []
    for _ in range(1 + REPEATS):  # the first compiles
        began = time.perf_counter()
        es.sample(
            likelihood,
            prior,
            move=es.moves.EllipticalSlice(),
            draws=DRAWS,
            warmup=0,
            chains=chains,
            seed=1,
            progress=False,
        )
        times.append((time.perf_counter() - began) / (DRAWS * chains))
    return statistics.median(times[1:])


def main() -> None:
    """Print a row per case and variant, and write all of them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(measure(options.child[0], int(options.child[1])))
        return
    rows = []
    for chains in options.chains:
        seconds: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        for _ in range(options.rounds):
            for variant in VARIANTS:
                command = [sys.executable, __file__, "--child", variant, str(chains)]
                seconds[variant].append(float(subprocess.run(command, check=True, capture_output=True).stdout))
        for variant in VARIANTS[1:]:
            ratios = [one / other for one, other in zip(seconds[variant], seconds["all parts"], strict=True)]
            row = {
                "problem": "R01",
                "chains": chains,
                "without": variant,
                "ratio": statistics.median(ratios),
                "ratios": ratios,
            }
            print(
                f"R01, {chains} chains  {variant:30} {row['ratio']:.3f}  ({min(ratios):.3f} to {max(ratios):.3f})",
                flush=True,
            )
            rows.append(row)
    if options.out:
        arguments = {"chains": options.chains, "rounds": options.rounds}
        found = {"machine": machine(), "commit": commit(), "arguments": arguments, "rows": rows}
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
