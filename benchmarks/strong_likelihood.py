"""Effective draws per second around a fitted Gaussian, beside BlackJAX's elliptical slice sampler.

    python benchmarks/strong_likelihood.py --out benchmarks/results/strong_likelihood.json

BlackJAX's rate is its updates per second, timed in turn with ours in one run, times the effective draws per update of
plain elliptical slice sampling. That is measured by long plain chains of ours: both draw the same chain in law, and
short runs of slow chains say little. BlackJAX runs in its default setting, and so do we, unless `--fast-cpu`. Ours is
one chain of `sample(..., reference="auto")`, fitting counted, compiling not. Effective sample sizes are R-CODA's, of
the log-likelihood and of the worst of some values of f.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import ellipslice as es
from ellipslice.apps.bench.samplers import blackjax, own_function
from ellipslice.apps.paper import problem
from ellipslice.diagnostics import effective_sample_size
from ellipslice.machine import machine

DRAWS = {"USPS": 100_000}
"""Of our chain, where it is not 200,000: some seconds, beside which the fit is short."""


def main() -> None:
    """Print a row for each problem."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--problems", default="R01,R10,Mine,USPS")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--plain", type=int, default=300_000, help="Updates of each of two plain chains.")
    options.add_argument("--out", type=Path)
    options.add_argument("--fast-cpu", action="store_true", help="Both after `es.fast_cpu()`, BlackJAX's loop too.")
    asked = options.parse_args()
    if asked.fast_cpu:
        es.fast_cpu()

    print("effective draws per second: log-likelihood / worst value of f")
    rows = []
    for name in asked.problems.split(","):
        rows.append(row := measured(name, asked.rounds, asked.plain))
        print(
            f"{name:5} BlackJAX {row['theirs'][0]:8.1f} / {row['theirs'][1]:8.1f}   ours {row['ours'][0]:9,.0f} / "
            f"{row['ours'][1]:9,.0f}   times {row['ratio'][0]:6.1f} / {row['ratio'][1]:6.1f}   "
            f"({row['reference']}, fitted in {row['fit_seconds']:.2f} s)",
            flush=True,
        )
    if asked.out:
        told = {"machine": machine("blackjax"), "fast_cpu": asked.fast_cpu, "strong": rows}
        asked.out.write_text(json.dumps(told, indent=1), encoding="utf8")


def measured(name: str, rounds: int, plain: int) -> dict[str, Any]:
    """What both make of a problem."""
    one, draws = problem(name), DRAWS.get(name, 200_000)
    prior = es.Dense(one.covariance)
    some = np.linspace(0, prior.size - 1, 30).astype(int)
    options: dict[str, Any] = {"keep": lambda f: f[some], "progress": False}
    long = es.sample(one.likelihood, prior, draws=plain, warmup=plain // 10, chains=2, seed=1, **options)
    per_update = efficiency(long)
    start = es.sample(one.likelihood, prior, draws=1, warmup=2000, chains=1, seed=3, progress=False).posterior.f[0, 0]
    rival, theirs, ours = blackjax(one, own_function(one)(jnp), np.asarray(start), 1), [], []
    around: dict[str, Any] = {"reference": "auto", "chains": 1, "warmup": 100, "seed": 2, **options}
    updates = 5_000
    rival(updates)
    es.sample(one.likelihood, prior, draws=100, **around)
    for _ in range(rounds):
        began = time.perf_counter()
        rival(updates)
        theirs.append(updates / (time.perf_counter() - began))
        began = time.perf_counter()
        tree = es.sample(one.likelihood, prior, draws=draws, **around)
        ours.append(draws / (time.perf_counter() - began))
    began = time.perf_counter()
    es.sample(one.likelihood, prior, draws=1, **around)
    fit_seconds = time.perf_counter() - began
    their_rate = [statistics.median(theirs) * each for each in per_update]
    our_rate = [statistics.median(ours) * each for each in efficiency(tree)]
    return {
        "problem": name,
        "theirs": their_rate,
        "ours": our_rate,
        "ratio": [one / two for one, two in zip(our_rate, their_rate, strict=True)],
        "updates_per_second": [statistics.median(theirs), statistics.median(ours)],
        "effective_per_update": [per_update, efficiency(tree)],
        "reference": tree.attrs["reference"],
        "first_proposal_acceptance_rate": tree.attrs["first_proposal_acceptance_rate"],
        "fit_seconds": fit_seconds,
    }


def efficiency(tree: Any) -> tuple[float, float]:
    """Effective draws per update, of the log-likelihood and of the worst value."""
    total, f = tree.sample_stats.total_log_likelihood.values, tree.posterior["f"].values
    worst = min(float(effective_sample_size(f[..., i])) for i in range(f.shape[-1]))
    return float(effective_sample_size(total)) / total.size, worst / total.size


if __name__ == "__main__":
    main()
