"""Measure effective samples per second of many chains on a GPU, around a reference Gaussian.

    python benchmarks/device_effective.py --chains 1024 --out benchmarks/results/device_effective.json

The problem is a log-Gaussian Cox process for the Finnish pines: 30 x 30 cells, an exponential covariance with a length
scale of 30/33 cells and a variance of 1.91 (Møller, Syversveen & Waagepetersen 1998). All chains run by `es.sample`,
which stores 20 elements of f after every update. The first run compiles, and is not timed. Each round then times a
short and a long run with the same seed. The rate is the difference of their updates divided by the difference of their
times, so the fit of the reference, the warm-up and compilation are not included. (With `reference="auto"` the fit takes
some seconds in each run, so the long run must be longer. With `--kicks` there is one fit, before all runs.) The
effective sample size is ArviZ's bulk estimate for the worst of the 20 elements, from the first draws of the long run,
computed by this library, because ArviZ would take longer than the runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import ellipslice as es
from ellipslice.approximations import fit_reference
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.jax_settings import jax_settings
from ellipslice.machine import commit, machine
from ellipslice.posterior import Posterior
from ellipslice.sampling.initial_states import prior_starts
from ellipslice.sampling.measures import TAILS
from ellipslice.sampling.rank_diagnostics import rank_diagnostics

KEPT = slice(0, None, 45)
"""The elements of f that are stored: 20 of 900."""

SHORT = 10
"""The short run has one tenth of the draws of the long one."""


def main() -> None:
    """Print and store the measurement."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--chains", type=int, default=1024)
    options.add_argument("--draws", type=int, default=20_000, help="Draws of each chain in the long run.")
    options.add_argument("--ess-draws", type=int, default=1000, help="Draws of each chain for effective sample sizes.")
    options.add_argument("--precision", choices=["double", "single"], default="double")
    options.add_argument("--reference", default="auto", help='"auto", "laplace", "ep", "pilot", or "prior".')
    options.add_argument("--kicks", type=int, help="Use trajectories with this number of kicks. Default: chosen.")
    options.add_argument("--engine", default="batched")
    options.add_argument("--warmup", type=int, default=200)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    found = measure(given)
    for name, value in found.items():
        print(f"{name}: {value:,.4g}" if isinstance(value, float) else f"{name}: {value}", flush=True)
    if given.out:
        arguments = " ".join(argument for argument in sys.argv[1:] if argument not in ("--out", str(given.out)))
        about = {"machine": machine("jaxlib"), "commit": commit(), "arguments": [arguments]}
        given.out.write_text(json.dumps(about | {"device_effective": found}, indent=1), encoding="utf8")


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Return rates, effective sample sizes and acceptance rates of a run."""
    few = max(1, given.draws // SHORT)
    around = move_or_reference(given.reference, given.kicks)
    _, first = run(given, around, few)
    rates = []
    for _ in range(given.rounds):
        _, short = run(given, around, few)
        tree, long = run(given, around, given.draws)
        rates.append(given.chains * (given.draws - few) / (long - short))
    values = tree.posterior["kept"].to_numpy()[:, : given.ess_draws].astype(np.float64)
    diagnostics = rank_diagnostics(values, TAILS)
    sizes = diagnostics.bulk
    rate, updates = statistics.median(rates), values[..., 0].size
    attributes = ("engine", "reference", "reference_move", "first_proposal_acceptance_rate", "move")
    statistic = tree.sample_stats
    acceptance = {"acceptance": float(statistic["acceptance"].mean())} if "acceptance" in statistic else {}
    return {
        "updates_per_second": rate,
        "effective_samples_per_second": rate * float(sizes.min()) / updates,
        "effective_samples_per_update": float(sizes.min()) / updates,
        "median_effective_samples_per_update": float(np.median(sizes)) / updates,
        **acceptance,
        "rhat": float(diagnostics.rhat.max()),
        "proposals_per_update": float(statistic["proposals"].mean()),
        "updates_per_second_of_each_round": rates,
        "first_run_seconds": first,
        "short_run_seconds": short,
        "long_run_seconds": long,
        "mean_of_first_element": float(values[..., 0].mean()),
        "sd_of_first_element": float(values[..., 0].std()),
        **{name: str(tree.attrs[name])[:200] for name in attributes if name in tree.attrs},
    }


def move_or_reference(reference: str, kicks: int | None) -> dict[str, Any]:
    """Return the argument `reference` or `move` of `sample`. With `kicks` the reference is fitted here."""
    if reference == "prior":
        return {"move": es.moves.SplitHamiltonian(None, kicks or 6)}
    if kicks is None:
        return {"reference": reference}
    likelihood, prior = pines()
    with jax_settings():
        engine = CompiledEngine(Posterior(prior, likelihood))
        fitted = fit_reference(reference, engine, lambda count: prior_starts(engine, 0, range(count)), 0)
    return {"move": es.moves.SplitHamiltonian(fitted.reference, kicks)}


def run(given: argparse.Namespace, around: dict[str, Any], draws: int) -> tuple[Any, float]:
    """Return the result of a run and its seconds."""
    likelihood, prior = pines()
    began = time.perf_counter()
    tree = es.sample(
        likelihood,
        prior,
        **around,
        engine=given.engine,
        precision=given.precision,
        chains=given.chains,
        draws=draws,
        warmup=given.warmup,
        keep=lambda f: {"kept": f[KEPT]},
        seed=given.seed,
        progress=False,
    )
    return tree, time.perf_counter() - began


def pines() -> tuple[Any, Any]:
    """Return the likelihood and the prior of the Cox process."""
    counts = es.data.finnish_pines()
    places = np.stack([part.ravel() for part in np.indices(counts.shape)], axis=-1)
    distance = np.sqrt(((places[:, None] - places) ** 2).sum(-1))
    variance = 1.91
    offset = np.log(counts.sum() / counts.size) - variance / 2
    return es.likelihoods.Poisson(counts.ravel(), offset=offset), es.Dense(variance * np.exp(-distance / (30 / 33)))


if __name__ == "__main__":
    main()
