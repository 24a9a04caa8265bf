"""Compare the host engine with a careful NumPy loop on the paper's regression problems.

    python benchmarks/host_engine.py

Both draw nu in blocks, by a matrix product with the rank-revealing factor, and cache the log-likelihood. Rounds are
interleaved. The output is the median ratio of the speeds, with its range.
"""

from __future__ import annotations

import statistics
import time

import jax
import numpy as np

import ellipslice as es
from ellipslice.apps.bench.samplers import numpy_loop
from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.host.engine import HostEngine
from ellipslice.moves import EllipticalSlice, State
from ellipslice.posterior import Posterior

UPDATES, ROUNDS = 4096, 9


def regression(dimensions: int) -> tuple[es.Dense, np.ndarray]:
    """Return the paper's synthetic regression: N = 200, noise variance 0.09."""
    rng = np.random.default_rng(0)
    x = rng.random((200, dimensions))
    prior = es.Dense(np.exp(-0.5 * ((x[:, None] - x) ** 2).sum(-1)))
    return prior, np.asarray(prior.draw_zero_mean(rng, 1))[0] + 0.3 * rng.standard_normal(200)


def engine(posterior: Posterior, log_l: float, updates: int, look_ahead: int) -> None:
    """Run updates on the host engine and record all draws."""
    size = posterior.prior.size
    with jax.enable_x64(True):
        spec = RunSpec(EllipticalSlice(), 1, (0,), look_ahead=look_ahead)
        run = HostEngine(posterior).run(spec, [Checkpoint(0, State(np.zeros(size), log_l))], updates)
        while not run.finished:
            run.advance()
            run.take()


def main() -> None:
    """Print a row per problem and setting of `vectorized` and `look_ahead`."""
    for dimensions in (1, 10):
        prior, y = regression(dimensions)

        def log_likelihood(f: np.ndarray, y: np.ndarray = y) -> float:
            return -0.5 / 0.09 * ((y - f) ** 2).sum(-1)

        careful_loop = numpy_loop(prior, log_likelihood, np.zeros(200))
        at_zero = float(log_likelihood(np.zeros(200)))
        for vectorized, look_ahead in ((False, 1), (True, 4), (True, 8), (True, 12), (True, 16)):
            posterior = Posterior(prior, log_likelihood, vectorized=vectorized)
            engine(posterior, at_zero, 600, look_ahead)
            ratios, rates = [], []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                careful_loop(UPDATES)
                middle = time.perf_counter()
                engine(posterior, at_zero, UPDATES, look_ahead)
                end = time.perf_counter()
                ratios.append((middle - began) / (end - middle))
                rates.append(UPDATES / (end - middle))
            print(
                f"R{dimensions:02d}  vectorized={vectorized!s:5}  look_ahead={look_ahead:2}  "
                f"{statistics.median(ratios):.2f} times the NumPy loop ({min(ratios):.2f} to {max(ratios):.2f}), "
                f"{statistics.median(rates):,.0f} updates/s"
            )


if __name__ == "__main__":
    main()
