"""Compare updates per second of our kernel and of BlackJAX's, both in a loop written for BlackJAX.

    OMP_NUM_THREADS=1 JAX_PLATFORMS=cpu python benchmarks/blackjax_step.py

The model is a Gaussian process at 20, 200 and 1,000 points with Poisson counts. Its kernel is squared exponential plus
0.001 on the diagonal, so that BlackJAX can factorise it in single precision, JAX's default. One chain runs with
`jax.lax.scan`, 100 chains with `jax.vmap`. The two kernels take turns in one process. Each row has the median over
rounds, and the mean log-likelihood of all draws, which must agree.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.interop.blackjax import elliptical_slice


def runs(size: int, chains: int, updates: int) -> dict[str, Any]:
    """Return the compiled runs, by name: functions from a key to the log-likelihoods of the draws."""
    x = np.linspace(0, 10, size)
    covariance = jnp.asarray(np.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-3 * np.eye(size))
    counts = jnp.asarray(np.random.default_rng(1).poisson(np.exp(np.sin(x))), covariance.dtype)

    def log_likelihood(f: Any) -> Any:
        return jnp.sum(counts * f - jnp.exp(f))

    def compiled_run(algorithm: Any) -> Any:
        def chain(key: Any) -> Any:
            def one(state: Any, key: Any) -> Any:
                state, _ = algorithm.step(key, state)
                return state, state.logdensity

            start = algorithm.init(jnp.asarray(np.sin(x), covariance.dtype))
            return jax.lax.scan(one, start, jax.random.split(key, updates))[1]

        return jax.jit(chain if chains == 1 else lambda key: jax.vmap(chain)(jax.random.split(key, chains)))

    options = {"mean": jnp.zeros(size), "cov": covariance}
    return {
        "ours": compiled_run(elliptical_slice(log_likelihood, **options)),
        "BlackJAX": compiled_run(blackjax.elliptical_slice(log_likelihood, **options)),
    }


def main(rounds: int) -> None:
    """Print a row per size and number of chains."""
    print(f"blackjax {blackjax.__version__}, jax {jax.__version__}, {rounds} rounds")
    print(f"{'points':>7} {'chains':>7} {'ours, /s':>10} {'BlackJAX, /s':>13} {'ratio':>6}   mean log-likelihoods")
    for size, chains, updates in ((20, 1, 20000), (200, 1, 5000), (1000, 1, 2000), (20, 100, 500), (200, 100, 100)):
        both = runs(size, chains, updates)
        speed, values = {name: [] for name in both}, {name: [] for name in both}
        for run in both.values():
            run(jax.random.key(0)).block_until_ready()  # compiles
        for number in range(rounds):
            for name, run in both.items():
                start = time.perf_counter()
                value = run(jax.random.key(number)).block_until_ready()
                speed[name].append(chains * updates / (time.perf_counter() - start))
                values[name].append(float(value.mean()))
        ours, theirs = (float(np.median(speed[name])) for name in both)
        means = ", ".join(f"{np.mean(part):.2f}" for part in values.values())
        print(f"{size:>7,} {chains:>7} {ours:>10,.0f} {theirs:>13,.0f} {ours / theirs:>6.1f}   {means}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    main(**vars(parser.parse_args()))
