"""Measure the cost of an update against the number of elements of f and of chains, compared with BlackJAX.

    python benchmarks/scaling.py            # some minutes; writes results/scaling.json and docs/images/scaling.png
    python benchmarks/scaling.py --quick    # small sizes and few chains; writes nothing

Against N: counts with a rough (exponential) kernel, one chain. BlackJAX supports only a dense covariance. Against the
number of chains: the paper's R10, N = 200, with the same plain function for both. Our chains run whole blocks of
updates (2,048 on R10), because they draw the random numbers of a block in advance. Shorter runs of many chains cost
more per update. States are kept until the end of a timing, or of a group of chains. Times are wall-clock times, medians
of three rounds in turn. If the first timing takes ten seconds or more, it is the only one. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from structured_priors import STRUCTURES, dense

from ellipslice.apps.bench.process import LocalSampler
from ellipslice.apps.bench.samplers import Sampler, Timing, blackjax, ours, own_function
from ellipslice.apps.paper import Problem, problem
from ellipslice.apps.paper.figures.style import COLOURS, FAINT, GREY, INK, styled
from ellipslice.likelihoods import Poisson
from ellipslice.machine import commit, machine
from ellipslice.noise import block_length
from ellipslice.priors import Dense, Prior

HERE = Path(__file__).parent
RESULTS, PLOT = HERE / "results" / "scaling.json", HERE.parent / "docs" / "images" / "scaling.png"

DENSE_SIZES = (50, 100, 200, 500, 1_000, 2_000)
SIZES = (100, 1_000, 10_000, 100_000)
CHAINS = (1, 4, 16, 64, 256, 1_024, 8_192)

SECONDS, ROUNDS, LONG_SECONDS = 0.3, 3, 10.0
"""Approximate duration of a timing, number of timings, and duration from which one timing is enough."""

MAX_STORED_VALUES = 2**25
"""Largest number of values in the states of one timing."""

CHAINS_PER_GROUP = 128
"""Largest number of our chains in one call. Groups run one after the other, and states are freed after each."""

LOOK = {
    "BlackJAX": (GREY, "s"),
    "BlackJAX, dense": (GREY, "s"),
    "ours": (COLOURS["elliptical"], "o"),
    "ours, Dense": (COLOURS["elliptical"], "o"),
    "ours, Stationary": (COLOURS["neal"], "^"),
    "ours, Markov": (COLOURS["line"], "D"),
}
"""Colour and marker of a line."""


class Case:
    """One point of one line of the plot: a sampler and the times of its updates."""

    def __init__(self, line: str, size: int, chains: int, advance: Sampler, unit: int = 1):
        self.line, self.size, self.chains = line, size, chains
        self._sampler, self._seconds = LocalSampler(advance, chains), []
        self._updates = self._choose_updates(unit)

    def _choose_updates(self, unit: int) -> int:
        """Return the number of updates per chain, a multiple of `unit`, that take about `SECONDS` and can be stored."""
        most = max(unit, MAX_STORED_VALUES // (self.size * self.chains))
        few = max(unit, min(most, 64))
        first = self._sampler.time(few)  # compiles
        if first > LONG_SECONDS:
            self._seconds.append(first)
            return few
        updates = min(most, max(few, int(few * SECONDS / max(self._sampler.time(few), 1e-4)))) // unit * unit
        if updates > few:
            self._sampler.time(updates)  # some samplers compile again
        return updates

    def once(self) -> None:
        """Time the case, unless one timing was long enough."""
        if not self._seconds or self._seconds[0] < LONG_SECONDS:
            self._seconds.append(self._sampler.time(self._updates))

    def row(self) -> dict[str, Any]:
        """Return the row of the results."""
        each = [1e6 * seconds / (self.chains * self._updates) for seconds in self._seconds]
        return {
            "line": self.line,
            "size": self.size,
            "chains": self.chains,
            "updates": self._updates,
            "microseconds": statistics.median(each),
            "range": [min(each), max(each)],
        }


def counts(size: int) -> Problem:
    """Return a problem with counts and a dense covariance."""
    inputs = np.arange(size, dtype=float)[:, None]
    observed = Poisson(np.random.default_rng(0).poisson(1.0, size))
    return Problem(f"{size} counts", inputs, np.exp(-np.abs(inputs - inputs.T) / 10), observed, 10.0, 1.0)


def against_size(sizes: Iterable[int], dense_sizes: Iterable[int]) -> list[Case]:
    """Return the cases with one chain, for every prior and for BlackJAX."""
    cases = []
    for size in dense_sizes:
        one, start = counts(size), np.zeros(size)
        own = own_function(one)(jnp)
        cases.append(Case("BlackJAX, dense", size, 1, blackjax(one, own, start, 1)))
        cases.append(Case("ours, Dense", size, 1, in_groups(own, dense(size), 1), block_length(size)))
    for name in ("Stationary", "Markov"):
        for size in sizes:
            observed = np.random.default_rng(0).poisson(1.0, size)
            one = in_groups(Poisson(observed), STRUCTURES[name](size), 1)
            cases.append(Case(f"ours, {name}", size, 1, one, block_length(size)))
    return cases


def against_chains(chains: Iterable[int]) -> list[Case]:
    """Return the cases on R10 with several numbers of chains."""
    one = problem("R10")
    own, size = own_function(one)(jnp), len(one.inputs)
    prior, block = Dense(one.covariance), block_length(size)
    in_groups(own, prior, 1)(block)  # compiles for any number of chains
    cases = []
    for count in chains:
        cases.append(Case("BlackJAX", size, count, blackjax(one, own, np.zeros(size), count)))
        cases.append(Case("ours", size, count, in_groups(own, prior, count), block))
    return cases


def in_groups(log_likelihood: Any, prior: Prior, chains: int) -> Sampler:
    """Return `sample` as a sampler that runs groups of chains one after the other."""
    groups = [ours(log_likelihood, prior, np.zeros(prior.size), min(chains, CHAINS_PER_GROUP))]
    groups *= -(-chains // CHAINS_PER_GROUP)

    def advance(updates: int) -> Timing:
        for group in groups:
            group(updates)
        return Timing()

    return advance


def measure(make: Callable[[], list[Case]]) -> list[dict[str, Any]]:
    """Time cases in turn, print the results and return them."""
    cases = make()
    for _ in range(ROUNDS):
        for case in cases:
            case.once()
    rows = [case.row() for case in cases]
    for row in sorted(rows, key=lambda row: row["line"]):
        low, high = row["range"]
        print(
            f"{row['line']:17} N = {row['size']:>7,}  chains {row['chains']:>5,}  {row['microseconds']:>10,.1f} µs "
            f"({low:,.1f} to {high:,.1f}) per update, over {row['updates']:,} updates per chain"
        )
    return rows


def draw(result: dict[str, Any], path: Path) -> None:
    """Plot both results and write them to a file."""
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=(10.2, 4.6))
        left, right = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.075, right=0.97, top=0.8, bottom=0.13, wspace=0.2)
        draw_lines(left, result["sizes"], "size", "elements of f, one chain")
        left.set_yscale("log")
        draw_lines(right, result["chains"], "chains", "chains, R10, 200 elements of f")
        right.set_ylim(bottom=0)
        for axes in (left, right):
            bare(axes)
        figure.text(0.02, 0.93, "Wall-clock time per update, in microseconds", fontsize=13, fontweight="bold")
        about = result["machine"]
        text = f"{about['cores']} cores, {about['processor']}; JAX {about['jax']}, BlackJAX {about['blackjax']}"
        figure.text(0.02, 0.875, text, fontsize=9, color=GREY)
        figure.savefig(path)


def draw_lines(axes: Any, rows: list[dict[str, Any]], against: str, label: str) -> None:
    """Draw a line per sampler, with the range of its timings."""
    for line in dict.fromkeys(row["line"] for row in rows):
        mine = [row for row in rows if row["line"] == line]
        colour, marker = LOOK[line]
        x, y = [row[against] for row in mine], [row["microseconds"] for row in mine]
        lows, highs = zip(*(row["range"] for row in mine), strict=True)
        axes.vlines(x, lows, highs, color=colour, alpha=0.45, linewidth=2.2)
        axes.plot(x, y, color=colour, marker=marker, markersize=5, linewidth=1.4, label=line)
    axes.set(xscale="log", xlabel=label)
    axes.legend(loc="best", fontsize=9)


def bare(axes: Any) -> None:
    """Remove spines and ticks, and add a faint grid."""
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.minorticks_off()
    axes.tick_params(length=0, labelcolor=INK)
    axes.grid(color=FAINT, linewidth=0.5, alpha=0.7)
    axes.spines[:].set_visible(False)


def main() -> None:
    """Measure, and write the results and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes and few chains; write nothing")
    quick, load = parser.parse_args().quick, os.getloadavg()
    sizes = measure(lambda: against_size(SIZES[:2], DENSE_SIZES[:3]) if quick else against_size(SIZES, DENSE_SIZES))
    chains = measure(lambda: against_chains(CHAINS[:3] if quick else CHAINS))
    if quick:
        return
    about = {**machine("blackjax"), "load": load, "load_after": os.getloadavg()}
    origin = {"commit": commit(), "arguments": sys.argv[1:]}
    result = {"machine": about, **origin, "sizes": sizes, "chains": chains}
    RESULTS.write_text(json.dumps(result, indent=1), encoding="utf8")
    draw(result, PLOT)
    print(f"wrote {RESULTS.name}, {PLOT.name}")


if __name__ == "__main__":
    main()
