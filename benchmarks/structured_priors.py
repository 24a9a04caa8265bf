"""What an update and a draw cost against N, for every prior with structure, beside Dense at the largest N it can do.

    python benchmarks/structured_priors.py            # two minutes
    python benchmarks/structured_priors.py --quick    # under a minute, smaller N
    python benchmarks/structured_priors.py --against-dense   # the comparison with Dense alone
    python benchmarks/structured_priors.py --cox      # a Cox process on a 1000 x 1000 grid: time and peak memory

All on one machine in one run, in rounds: every prior of a size is timed in turn, and the median of the rounds is shown.
An update is `EllipticalSlice` with a Poisson likelihood on the compiled engine, one chain; its nu is drawn in it. The
kernels are rough (exponential), so that Dense has full rank: smooth ones are cheaper for Dense.

Set OPENBLAS_NUM_THREADS=1. On cores shared with others, OpenBLAS's threads wait for each other, and Dense looks thirty
times slower than it is.
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
from tinygp.kernels import quasisep

import ellipslice as es
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.likelihoods import Poisson
from ellipslice.moves import EllipticalSlice, State
from ellipslice.noise import block_length
from ellipslice.posterior import Posterior
from ellipslice.settings import jax_settings

ROUNDS = 3


def exponential(lag: np.ndarray) -> np.ndarray:
    """A rough stationary kernel, whose covariance has full rank."""
    return np.exp(-np.sqrt((lag**2).sum(-1)) / 10)


def dense(size: int) -> es.Prior:
    """The same kernel with no structure."""
    x = np.arange(size, dtype=float)
    return es.Dense(np.exp(-np.abs(x[:, None] - x) / 10))


def lattice(size: int) -> es.Prior:
    """A Matérn field on a square lattice."""
    return es.SparsePrecision.matern((math.isqrt(size), math.isqrt(size)), 1.0, 10.0, smoothness=1)


def product(*lengths: int) -> es.Prior:
    """A product grid."""
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


class Timed:
    """A prior of some size, and what it takes."""

    def __init__(self, make: Callable[[int], es.Prior], size: int):
        began = time.perf_counter()
        self.prior = make(size)
        self.set_up = time.perf_counter() - began
        self.size = self.prior.size
        counts = np.random.default_rng(0).poisson(1.0, self.prior.shape)
        self.posterior = Posterior(self.prior, Poisson(counts))
        self.count = 4 * block_length(self.size)
        self.draws: list[float] = []
        self.updates: list[float] = []
        self.once()  # compiles
        self.draws, self.updates = [], []

    def once(self) -> None:
        """One round: as many draws as a block has, and four blocks of updates, fewer if they are long."""
        rng, block = np.random.default_rng(1), block_length(self.size)
        began = time.perf_counter()
        np.asarray(self.prior.draw(rng, block))
        self.draws.append((time.perf_counter() - began) / block)
        updates = self.count if self.size < 100_000 else 2 * block
        with jax_settings():
            start = np.zeros(self.size)
            state = State(start, float(self.posterior.log_likelihood(start)))
            run = CompiledEngine(self.posterior).run(EllipticalSlice(), 1, [0], [state], updates)
            began = time.perf_counter()
            while not run.finished:
                run.advance()
                run.take()
            self.updates.append((time.perf_counter() - began) / updates)
            run.close()

    @property
    def draw(self) -> float:
        """Seconds for a draw."""
        return statistics.median(self.draws)

    @property
    def update(self) -> float:
        """Seconds for an update."""
        return statistics.median(self.updates)


def measure(names: list[str], sizes: list[int]) -> dict[str, list[Timed]]:
    """Every prior at every size, the rounds interleaved."""
    result: dict[str, list[Timed]] = {name: [] for name in names}
    for size in sizes:
        timed = {name: Timed(STRUCTURES[name], size) for name in names}
        for _ in range(ROUNDS):
            for item in timed.values():
                item.once()
        for name, item in timed.items():
            result[name].append(item)
            item.posterior = None  # type: ignore[assignment]  large, and done with
    return result


def show_growth(rows: dict[str, list[Timed]]) -> None:
    """Against N log N, as ratios to the size at which the fixed costs have become small."""
    for name, row in rows.items():
        base = next((item for item in row if item.size >= 10_000), row[-1])
        unit = base.size * math.log(base.size)
        for item in row:
            share = item.size * math.log(item.size) / unit
            print(
                f"{name:16} N = {item.size:>9,}  set-up {item.set_up:8.3f} s  draw {1e6 * item.draw:>11,.0f} µs  "
                f"update {1e6 * item.update:>11,.0f} µs  beside N log N: draw {item.draw / base.draw / share:5.2f}, "
                f"update {item.update / base.update / share:5.2f}"
            )


def show_against_dense(rows: dict[str, list[Timed]]) -> None:
    """Ratios to Dense at the same N, and the N from which on a structure is faster."""
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
            f"{name:16} an update is faster than Dense's {crossing(ratios)}, a draw {crossing(draws)}; at "
            f"N = {row[-1].size:,}: {ratios[-1][0]:.1f} times for an update, {draws[-1][0]:.1f} for a draw, "
            f"{reference[-1].set_up / max(row[-1].set_up, 1e-9):.0f} for the set-up"
        )


def crossing(ratios: list[tuple[float, int]]) -> str:
    """From which size on all ratios are above 1."""
    below = [i for i, (ratio, _) in enumerate(ratios) if ratio < 1]
    if not below:
        return f"from N = {ratios[0][1]:,} or less on"
    return "from beyond the last N on" if below[-1] + 1 == len(ratios) else f"from N = {ratios[below[-1] + 1][1]:,} on"


def cox(side: int = 1000, draws: int = 20) -> None:
    """A Cox process on a grid: counts with a Gaussian log-intensity."""
    began = time.perf_counter()
    prior = es.Stationary(exponential, (side, side), 1.0, mean=-1.0)
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(prior.simulate(rng)))
    made = time.perf_counter()
    tree = es.sample(
        Poisson(counts),
        prior,
        draws=draws,
        warmup=0,
        chains=2,
        seed=1,
        keep=lambda f: {"mean": f.mean(), "corner": f[0, 0]},
        progress=False,
    )
    end = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"Cox process, {side} x {side}: set-up {made - began:.1f} s, {2 * draws} updates with "
        f"{tree.attrs['evaluations']} evaluations in {end - made:.1f} s, peak memory {peak:.2f} GiB"
    )


def main() -> None:
    """Growth, then the comparison with Dense."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cox", action="store_true")
    parser.add_argument("--against-dense", action="store_true")
    options = parser.parse_args()
    if options.cox:
        cox()
        return
    if not options.against_dense:
        growth(options.quick)
    few = [100, 400, 1600] if options.quick else [100, 225, 400, 900, 1600, 2500, 3600]
    show_against_dense(measure(["Dense", "Stationary", "Markov", "SparsePrecision", "Kronecker, 2-D"], few))


def growth(quick: bool) -> None:
    """From a thousand values to a million."""
    largest = 10**5 if quick else 10**6
    sizes = [10**k for k in range(3, 7) if 10**k <= largest]
    show_growth(measure(["Stationary", "Stationary, 2-D", "Markov"], sizes))
    lattices = [30**2, 100**2] if quick else [30**2, 100**2, 300**2]
    show_growth(measure(["SparsePrecision"], lattices))
    show_growth(measure(["Kronecker, 3-D"], [1_000, 10_000, 100_000]))


if __name__ == "__main__":
    main()
