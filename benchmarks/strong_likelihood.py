"""Compare effective samples per second around a reference Gaussian with BlackJAX's elliptical slice sampler.

    python benchmarks/strong_likelihood.py --out benchmarks/results/strong_likelihood.json

Our sampler is one chain of `sample(..., reference="auto")`. Its time includes the fit of the reference, but not the
compilation. The rate of BlackJAX is its updates per second, timed in turn with ours, times the effective samples per
update of plain elliptical slice sampling. The latter come from long plain chains of ours, because both samplers have
the same distribution of chains, and short runs of slowly mixing chains are imprecise. Both run with default settings,
or after `es.fast_cpu()` with `--fast-cpu`. Effective sample sizes use the estimator of R's coda, for the log-likelihood
and for the worst of 30 elements of f.
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
"""Draws of our chain, if not 200,000. A run takes some seconds, so that the time of the fit is small."""


def main() -> None:
    """Print a row per problem."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--problems", default="R01,R10,Mine,USPS")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument(
        "--plain", type=int, default=300_000, help="updates of each of two plain chains (default: 300000)"
    )
    options.add_argument("--out", type=Path)
    options.add_argument("--fast-cpu", action="store_true", help="call es.fast_cpu() first, for both samplers")
    given = options.parse_args()
    if given.fast_cpu:
        es.fast_cpu()

    print("effective samples per second: log-likelihood / worst element of f")
    rows = []
    for name in given.problems.split(","):
        rows.append(row := measure(name, given.rounds, given.plain))
        print(
            f"{name:5} BlackJAX {row['theirs'][0]:8.1f} / {row['theirs'][1]:8.1f}   ours {row['ours'][0]:9,.0f} / "
            f"{row['ours'][1]:9,.0f}   ratio {row['ratio'][0]:6.1f} / {row['ratio'][1]:6.1f}   "
            f"({row['reference']}, fitted in {row['fit_seconds']:.2f} s)",
            flush=True,
        )
    if given.out:
        record = {"machine": machine("blackjax"), "fast_cpu": given.fast_cpu, "strong": rows}
        given.out.write_text(json.dumps(record, indent=1), encoding="utf8")


def measure(name: str, rounds: int, plain: int) -> dict[str, Any]:
    """Return the effective samples per second of both samplers on a problem, as a row of the results."""
    one, draws = problem(name), DRAWS.get(name, 200_000)
    prior = es.Dense(one.covariance)
    some = np.linspace(0, prior.size - 1, 30).astype(int)
    options: dict[str, Any] = {"keep": lambda f: f[some], "progress": False}
    move = es.moves.EllipticalSlice()
    long = es.sample(one.likelihood, prior, move=move, draws=plain, warmup=plain // 10, chains=2, seed=1, **options)
    per_update = efficiency(long)
    first = {"draws": 1, "warmup": 2000, "chains": 1, "seed": 3, "progress": False}
    start = es.sample(one.likelihood, prior, move=move, **first).posterior.f[0, 0]
    their_sampler, theirs, ours = blackjax(one, own_function(one)(jnp), np.asarray(start), 1), [], []
    around: dict[str, Any] = {"reference": "auto", "chains": 1, "warmup": 100, "seed": 2, **options}
    updates = 5_000
    their_sampler(updates)
    es.sample(one.likelihood, prior, draws=100, **around)
    for _ in range(rounds):
        began = time.perf_counter()
        their_sampler(updates)
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
    """Return effective samples per update, of the log-likelihood and of the worst element."""
    total, f = tree.sample_stats.total_log_likelihood.values, tree.posterior["f"].values
    worst = min(float(effective_sample_size(f[..., i])) for i in range(f.shape[-1]))
    return float(effective_sample_size(total)) / total.size, worst / total.size


if __name__ == "__main__":
    main()
