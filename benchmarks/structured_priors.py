"""Measure the cost of a draw and of an update against N, for every prior with structure, compared with Dense.

    python benchmarks/structured_priors.py            # ten minutes
    python benchmarks/structured_priors.py --quick    # two minutes, smaller N
    python benchmarks/structured_priors.py --against-dense   # only the comparison with Dense

In each round every prior is timed once at every size. The time is the processor time of all threads, and the best of
the rounds is shown, because other work on the machine can only increase it. (The wall-clock time can double from one
run to the next.) An update is `EllipticalSlice` with a Poisson likelihood on the compiled engine, one chain, including
the draw of nu. The kernels are rough (exponential), so that Dense has full rank. Smooth kernels are cheaper for Dense.

Set OPENBLAS_NUM_THREADS=1. On cores that are shared with other work, the threads of OpenBLAS wait for each other, and
Dense appears thirty times slower.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from tinygp.kernels import quasisep

import ellipslice as es
from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.jax_settings import jax_settings
from ellipslice.likelihoods import Poisson
from ellipslice.moves import EllipticalSlice, State
from ellipslice.noise import block_length
from ellipslice.posterior import Posterior

ROUNDS = 5

MIN_VALUES = 2**21
"""Smallest number of values drawn in a round, so that clock resolution and the start of a run are negligible."""


def exponential(lag: np.ndarray) -> np.ndarray:
    """Return a rough stationary kernel, whose covariance has full rank."""
    return np.exp(-np.sqrt((lag**2).sum(-1)) / 10)


def dense(size: int) -> es.Prior:
    """Return a dense prior with the exponential kernel."""
    x = np.arange(size, dtype=float)
    return es.Dense(np.exp(-np.abs(x[:, None] - x) / 10))


def lattice(size: int) -> es.Prior:
    """Return a Matérn field on a square lattice."""
    return es.SparsePrecision.matern((math.isqrt(size), math.isqrt(size)), 1.0, 10.0, smoothness=1)


def product(*lengths: int) -> es.Prior:
    """Return a prior on a product grid."""
    return es.Kronecker(*(np.exp(-np.abs(np.subtract.outer(x, x)) / 10) for x in map(np.arange, lengths)))


STRUCTURES: dict[str, Callable[[int], es.Prior]] = {
    "Dense": dense,
    "Stationary": lambda size: es.Stationary(exponential, size, 1.0),
    "Stationary, 2-D": lambda size: es.Stationary(exponential, (math.isqrt(size), math.isqrt(size)), 1.0),
    "Markov": lambda size: es.Markov(quasisep.Exp(scale=10.0), np.arange(size, dtype=float)),
    "SparsePrecision": lattice,
    "Kronecker, 2-D": lambda size: product(math.isqrt(size), math.isqrt(size)),
    "Kronecker, 3-D": lambda size: product(10, math.isqrt(size // 10), math.isqrt(size // 10)),
}


class TimedPrior:
    """A prior of some size, with the times of set-up, draw and update."""

    def __init__(self, make: Callable[[int], es.Prior], size: int):
        began = time.process_time()
        self.prior = make(size)
        self.set_up = time.process_time() - began
        self.size = self.prior.size
        counts = np.random.default_rng(0).poisson(1.0, self.prior.shape)
        self.posterior = Posterior(self.prior, Poisson(counts))
        block = block_length(self.size)
        self.blocks = max(2, MIN_VALUES // (block * self.size))
        self.updates = self.blocks * block
        self.draw = self.update = math.inf
        self.evaluations = 0.0
        self.once()  # compiles
        self.draw = self.update = math.inf

    def once(self) -> None:
        """Time one round: some blocks of draws and the same number of blocks of updates."""
        self.draw = min(self.draw, self._time_draws() / self.updates)
        with jax_settings():
            self.update = min(self.update, self._time_updates() / self.updates)

    def _time_draws(self) -> float:
        rng = np.random.default_rng(1)
        began = time.process_time()
        for _ in range(self.blocks):
            np.asarray(self.prior.draw_zero_mean(rng, self.updates // self.blocks))
        return time.process_time() - began

    def _time_updates(self) -> float:
        start = np.zeros(self.size)
        state = State(start, float(self.posterior.log_likelihood(start)))
        spec = RunSpec(EllipticalSlice(), 1, (0,))
        run = CompiledEngine(self.posterior).run(spec, [Checkpoint(0, state)], self.updates)
        evaluations = 0
        began = time.process_time()
        while not run.finished:
            run.advance()
            evaluations += sum(int(rows.statistics["evaluations"].sum()) for rows in run.take())
        seconds = time.process_time() - began
        run.close()
        self.evaluations = evaluations / self.updates
        return seconds


def measure(names: list[str], sizes: list[int]) -> dict[str, list[TimedPrior]]:
    """Time every prior at every size, with interleaved rounds."""
    rows = {name: [TimedPrior(STRUCTURES[name], size) for size in sizes] for name in names}
    for _ in range(ROUNDS):
        for row in rows.values():
            for item in row:
                item.once()
    return rows


def show_growth(rows: dict[str, list[TimedPrior]]) -> None:
    """Print times, and their growth relative to N log N and the smallest size."""
    for name, row in rows.items():
        first = row[0]
        for item in row:
            share = item.size * math.log(item.size) / (first.size * math.log(first.size))
            print(
                f"{name:16} N = {item.size:>9,}  set-up {item.set_up:8.3f} s  draw {1e6 * item.draw:>11,.0f} µs  "
                f"update {1e6 * item.update:>11,.0f} µs with {item.evaluations:.1f} evaluations  relative to N log N: "
                f"draw {item.draw / first.draw / share:5.2f}, update {item.update / first.update / share:5.2f}"
            )


def show_against_dense(rows: dict[str, list[TimedPrior]]) -> None:
    """Print ratios to Dense at the same N, and the smallest N from which a structure is faster."""
    reference = rows["Dense"]
    for item in reference:
        times = f"draw {1e6 * item.draw:>9,.0f} µs  update {1e6 * item.update:>9,.0f} µs"
        print(f"{'Dense':16} N = {item.size:>9,}  {times}")
    for name, row in rows.items():
        if name == "Dense":
            continue
        ratios = [(theirs.update / own.update, own.size) for own, theirs in zip(row, reference, strict=True)]
        draws = [(theirs.draw / own.draw, own.size) for own, theirs in zip(row, reference, strict=True)]
        print(
            f"{name:16} an update is faster than that of Dense {crossing(ratios)}, a draw {crossing(draws)}; at "
            f"N = {row[-1].size:,}: {ratios[-1][0]:.1f} times for an update, {draws[-1][0]:.1f} for a draw, "
            f"{reference[-1].set_up / max(row[-1].set_up, 1e-9):.0f} for the set-up"
        )


def crossing(ratios: list[tuple[float, int]]) -> str:
    """Return, as text, the size from which all ratios are above 1."""
    below = [i for i, (ratio, _) in enumerate(ratios) if ratio < 1]
    if not below:
        return f"from N = {ratios[0][1]:,} or less on"
    return "only beyond the largest N" if below[-1] + 1 == len(ratios) else f"from N = {ratios[below[-1] + 1][1]:,} on"


def main() -> None:
    """Print the growth with N, then the comparison with Dense."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--against-dense", action="store_true")
    options = parser.parse_args()
    if not options.against_dense:
        growth(options.quick)
    few = [100, 400, 1600] if options.quick else [100, 225, 400, 900, 1600, 2500, 3600]
    show_against_dense(measure(["Dense", "Stationary", "Markov", "SparsePrecision", "Kronecker, 2-D"], few))


def growth(quick: bool) -> None:
    """Measure the growth from a thousand values to a million."""
    largest = 10**5 if quick else 10**6
    sizes = [10**k for k in range(3, 7) if 10**k <= largest]
    show_growth(measure(["Stationary", "Stationary, 2-D", "Markov"], sizes))
    lattices = [30**2, 100**2] if quick else [30**2, 100**2, 300**2]
    show_growth(measure(["SparsePrecision"], lattices))
    show_growth(measure(["Kronecker, 3-D"], [1_000, 10_000, 100_000]))


if __name__ == "__main__":
    main()
