"""Compare the default move with plain ellipses on a Cox process with 10,000 cells, where no reference can be fitted.

    python benchmarks/large_latents.py --seeds 2 --out benchmarks/results/large_latents.json

The prior is a product of exponential kernels on a 100 x 100 grid (`Kronecker`). Both methods start from the states that
the pilot run of the default move has reached. The rates are effective samples of the worst of every seventh element of
f, by ArviZ's bulk estimate, per CPU second of sampling: the difference of a long and a short run with the same seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import arviz_stats
import numpy as np

import ellipslice as es
from ellipslice.machine import commit, machine

SIDE, RANGE, INTERCEPT = 100, 10.0, 0.5
DRAWS = {"default": 300, "plain": 20_000}
"""Draws of each of four chains in the long run. The short run has a tenth."""


def main() -> None:
    """Print and store a row for each seed and method."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    rows = [row for seed in range(1, given.seeds + 1) for row in compare(seed)]
    if given.out:
        arguments = " ".join(argument for argument in sys.argv[1:] if argument not in ("--out", str(given.out)))
        about = {"machine": machine(), "commit": commit(), "arguments": [arguments]}
        given.out.write_text(json.dumps(about | {"large_latents": rows}, indent=1), encoding="utf8")


def compare(seed: int) -> list[dict[str, Any]]:
    """Measure both methods with one seed, which is that of the data, too."""
    likelihood, prior = cox_process(seed)
    first = es.sample(likelihood, prior, draws=1, warmup=200, seed=seed, progress=False)
    start = first.posterior.f.to_numpy()[:, 0]
    chosen = es.moves.SplitHamiltonian(None, kicks=int(first.attrs["move"].split("kicks=")[1].split(",")[0]))
    moves = {"default": chosen, "plain": es.moves.EllipticalSlice()}
    rows = [measure(name, move, likelihood, prior, start, seed) for name, move in moves.items()]
    for row in rows:
        print(row | {"chosen": first.attrs["move_reason"]}, flush=True)
    return rows


def cox_process(seed: int) -> tuple[es.likelihoods.Poisson, es.Kronecker]:
    """Return simulated counts and the prior."""
    places = np.arange(SIDE)
    kernel = np.exp(-np.abs(np.subtract.outer(places, places)) / RANGE)
    root = np.linalg.cholesky(kernel)
    rng = np.random.default_rng(seed)
    f = root @ rng.standard_normal((SIDE, SIDE)) @ root.T
    return es.likelihoods.Poisson(rng.poisson(np.exp(f + INTERCEPT)), offset=INTERCEPT), es.Kronecker(kernel, kernel)


def measure(name: str, move: Any, likelihood: Any, prior: Any, start: np.ndarray, seed: int) -> dict[str, Any]:
    """Return the rate of effective samples of one move."""

    def run(draws: int) -> tuple[Any, float]:
        began = time.process_time()
        options = {"draws": draws, "warmup": 0, "initial": start, "seed": seed, "progress": False}
        tree = es.sample(likelihood, prior, move=move, keep=lambda f: f.ravel()[::7], **options)
        return tree, time.process_time() - began

    draws = DRAWS[name]
    run(2)  # compiles
    _, short = run(draws // 10)
    tree, long = run(draws)
    seconds = (long - short) / 0.9
    f = tree.posterior.f.to_numpy()
    size = float(np.min(arviz_stats.ess(f, chain_axis=0, draw_axis=1)))
    rhat = float(np.max(arviz_stats.rhat(f, chain_axis=0, draw_axis=1)))
    return {
        "method": name,
        "seed": seed,
        "move": repr(move),
        "draws": draws,
        "effective_sample_size": size,
        "rhat": rhat,
        "sampling_seconds": seconds,
        "effective_samples_per_second": size / seconds,
    }


if __name__ == "__main__":
    main()
