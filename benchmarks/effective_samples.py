"""Compare samplers by effective samples per CPU second, on one core.

    python benchmarks/effective_samples.py --seeds 3 --out benchmarks/results/effective_samples.json

Each method runs four chains in double precision. The effective sample size is ArviZ's bulk estimate for the worst
element of f. Times are CPU seconds of sampling: compilation is excluded, and preparation (fit of a reference, tuning,
warm-up) is reported separately. A method whose chains have not converged (R-hat of at least 1.05 or an effective sample
size below 100) has no rate. The methods are:

- plain: `es.sample(likelihood, prior)`, the algorithm of the paper.
- reference: `es.sample(likelihood, prior, reference="auto")`.
- NUTS: NumPyro's, on whitened coordinates f = L z, after 1,000 warm-up iterations.
- mgrad: BlackJAX's `mgrad_gaussian`, with its step size tuned to an acceptance rate near 0.55.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np

import ellipslice as es
from ellipslice.apps.paper import Problem, problem
from ellipslice.machine import commit, machine

CHAINS = 4
WARMUP = 1000
MAX_STORED = 5000
"""Largest number of stored draws per chain; longer runs are thinned."""

UPDATES = {
    "plain": {"R01": 200_000, "R10": 200_000, "Mine": 200_000, "USPS": 100_000},
    "reference": {"R01": 20_000, "R10": 10_000, "Mine": 10_000, "USPS": 50_000},
    "NUTS": {"R01": 1000, "R10": 1000, "Mine": 1000, "USPS": 500},
    "mgrad": {"R01": 50_000, "R10": 20_000, "Mine": 20_000, "USPS": 20_000},
}
"""Updates per chain. An update of NUTS is a draw, with many gradients."""


class Measured(NamedTuple):
    """Draws of f, shape (chains, draws, size), and the CPU seconds of preparation and of sampling them."""

    f: np.ndarray
    preparation: float
    sampling: float


def main() -> None:
    """Print a row for each problem and method, and write all measurements."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--problems", default="R01,R10,Mine,USPS")
    options.add_argument("--methods", default=",".join(METHODS))
    options.add_argument("--seeds", type=int, default=3, help="Number of seeds.")
    options.add_argument("--first-seed", type=int, default=1, help="Seeds are consecutive, for runs in parallel.")
    options.add_argument("--join", type=Path, nargs="*", default=[], help="Join results of parallel runs; run nothing.")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    if given.join:
        parts = [json.loads(path.read_text(encoding="utf8")) for path in given.join]
        arguments = [argument for part in parts for argument in part["arguments"]]
        about = {**parts[0], "commit": commit(), "arguments": arguments}  # joined in the checkout that was measured
        rows = [one for part in parts for one in part["effective_samples"]]
        given.out.write_text(json.dumps(about | {"effective_samples": rows}, indent=1), encoding="utf8")
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = []
    for name in given.problems.split(","):
        for method in given.methods.split(","):
            found = [row(name, method, given.first_seed + i) for i in range(given.seeds)]
            rows += found
            print(line(name, method, found), flush=True)
    if given.out:
        arguments = " ".join(argument for argument in sys.argv[1:] if argument not in ("--out", str(given.out)))
        about = {"machine": machine("blackjax", "numpyro"), "commit": commit(), "arguments": [arguments]}
        given.out.write_text(json.dumps(about | {"effective_samples": rows}, indent=1), encoding="utf8")


def row(name: str, method: str, seed: int) -> dict[str, Any]:
    """Measure one method on one problem with one seed."""
    updates = UPDATES[method][name]
    found = METHODS[method](problem(name), updates, seed)
    sizes = arviz_stats.ess(found.f, chain_axis=0, draw_axis=1)
    rhat = float(np.max(arviz_stats.rhat(found.f, chain_axis=0, draw_axis=1)))
    worst = float(np.min(sizes))
    return {
        "problem": name,
        "method": method,
        "seed": seed,
        "updates": CHAINS * updates,
        "effective_sample_size": worst,
        "rhat": rhat,
        "converged": worst >= 100 and rhat < 1.05,
        "preparation_seconds": found.preparation,
        "sampling_seconds": found.sampling,
    }


def line(name: str, method: str, rows: list[dict[str, Any]]) -> str:
    """Return a line of the printed table: medians over seeds."""

    def median(key: str) -> float:
        return statistics.median(row[key] for row in rows)

    rate = statistics.median(row["effective_sample_size"] / row["sampling_seconds"] for row in rows)
    shown = f"{rate:10,.1f} per s" if all(row["converged"] for row in rows) else "not converged".rjust(16)
    return (
        f"{name:5} {method:10} {shown}   ESS {median('effective_sample_size'):8,.0f}   R-hat {median('rhat'):.3f}   "
        f"preparation {median('preparation_seconds'):6.1f} s   sampling {median('sampling_seconds'):6.1f} s"
    )


def ours(reference: str | None) -> Callable[[Problem, int, int], Measured]:
    """Return the measurement of `es.sample`. Its sampling time is the difference of a long and a short run."""

    def measure(given: Problem, updates: int, seed: int) -> Measured:
        prior, thin = es.Dense(given.covariance), -(-updates // MAX_STORED)
        draws = updates // thin

        def run(draws: int) -> tuple[Any, float]:
            began = time.process_time()
            tree = es.sample(
                given.likelihood,
                prior,
                reference=reference,
                draws=draws,
                warmup=WARMUP,
                chains=CHAINS,
                thin=thin,
                seed=seed,
                progress=False,
            )
            return tree, time.process_time() - began

        run(10)  # compiles
        _, short = run(draws // 10)
        tree, long = run(draws)
        sampling = (long - short) / (1 - (draws // 10) / draws)
        return Measured(tree.posterior.f.values, long - sampling, sampling)

    return measure


def nuts(given: Problem, updates: int, seed: int) -> Measured:
    """Measure NumPyro's NUTS, the chains one after the other."""
    import numpyro
    from numpyro.distributions import Normal
    from numpyro.infer import NUTS

    with jax.enable_x64(True):
        rows = jnp.asarray(es.Dense(given.covariance).rows)

        def model() -> None:
            z = numpyro.sample("z", Normal(0.0, 1.0).expand([len(rows)]).to_event(1))
            numpyro.factor("likelihood", given.likelihood(z @ rows))

        kernel = NUTS(model)

        def one(state: Any, _: Any) -> tuple[Any, Any]:
            state = kernel.sample(state, (), {})
            return state, state.z["z"] @ rows

        several = jax.jit(lambda state: jax.lax.scan(one, state, length=100))

        def start(chain: int) -> Any:
            return kernel.init(jax.random.PRNGKey(100 * seed + chain), WARMUP, None, (), {})

        jax.block_until_ready(several(start(0)))  # compiles
        draws, preparation, sampling = [], 0.0, 0.0
        for chain in range(CHAINS):
            began = time.process_time()
            state = start(chain)
            for _ in range(WARMUP // 100):
                state, _ = jax.block_until_ready(several(state))
            warm, kept = time.process_time(), []
            for _ in range(updates // 100):
                state, f = jax.block_until_ready(several(state))
                kept.append(np.asarray(f))
            preparation, sampling = preparation + warm - began, sampling + time.process_time() - warm
            draws.append(np.concatenate(kept))
    return Measured(np.stack(draws), preparation, sampling)


def mgrad(given: Problem, updates: int, seed: int) -> Measured:
    """Measure BlackJAX's marginal auxiliary gradient sampler, all chains in one compiled loop."""
    import blackjax

    size = len(given.covariance)
    thin = -(-updates // MAX_STORED)
    with jax.enable_x64(True):
        covariance = jnp.asarray(given.covariance + 1e-9 * np.eye(size))
        svd = blackjax.mcmc.marginal_latent_gaussian.svd_from_covariance(covariance)

        def kernel(step_size: Any) -> Any:
            return blackjax.mgrad_gaussian(given.likelihood, cov_svd=svd, step_size=step_size)

        @jax.jit
        def advance(state: Any, keys: Any, step_size: Any) -> Any:
            """Advance all chains; keys have shape (draws, thin, chains)."""

            def update(state: Any, keys: Any) -> Any:
                state, info = jax.vmap(kernel(step_size).step)(keys, state)
                return state, info.acceptance_rate.mean()

            def draw(state: Any, keys: Any) -> Any:
                state, rates = jax.lax.scan(update, state, keys)
                return state, (state.position, rates.mean())

            return jax.lax.scan(draw, state, keys)

        def keys(number: int, draws: int) -> Any:
            return jax.random.split(jax.random.fold_in(jax.random.key(seed), number), (draws, thin, CHAINS))

        starts = es.Dense(given.covariance).draw_zero_mean(np.random.default_rng(seed), CHAINS)
        state, step_size = jax.vmap(kernel(1.0).init)(jnp.asarray(starts)), 1.0
        pilot = max(1, 200 // thin)
        for draws in (pilot, updates // thin):
            jax.block_until_ready(advance(state, keys(101, draws), step_size))  # compiles
        began = time.process_time()
        for number in range(12):  # one step of a stochastic approximation of the acceptance rate
            state, (_, rates) = jax.block_until_ready(advance(state, keys(number, pilot), step_size))
            step_size *= float(np.exp(4 * (float(rates.mean()) - 0.55) / (1 + number / 4)))
        state, _ = jax.block_until_ready(advance(state, keys(100, pilot), step_size))
        warm = time.process_time()
        state, (f, _) = jax.block_until_ready(advance(state, keys(102, updates // thin), step_size))
        done = time.process_time()
    return Measured(np.moveaxis(np.asarray(f), 0, 1), warm - began, done - warm)


METHODS: dict[str, Callable[[Problem, int, int], Measured]] = {
    "plain": ours(None),
    "reference": ours("auto"),
    "NUTS": nuts,
    "mgrad": mgrad,
}


if __name__ == "__main__":
    main()
