"""
Logistic regression with very many rows
=======================================

A logistic regression with a hundred thousand rows, or a million: `LinearPredictor` carries A f, so that proposals cost
no product with A.

::

    python examples/million_rows.py [rows [weights]]        # writes million_rows.png

Prints the time of an evaluation with the product carried and with the product made for every proposal, the best of
three runs taken in turn on the same data, and how far the means are from the weights that made the data.

With few columns compiled code makes the product almost for nothing, beside a million logarithms; with a hundred it does
not. Carried, the time does not depend on the number of columns.
"""

from __future__ import annotations

import resource
import sys
import time

import jax.numpy as jnp
import numpy as np

import ellipslice as es


def main(rows: int = 100_000, weights: int = 10, draws: int = 36, picture: str | None = None) -> None:
    """Sample the same posterior twice."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((rows, weights))
    truth = rng.standard_normal(weights)
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-A @ truth)), 1.0, -1.0)
    likelihood, prior = es.likelihoods.Logistic(y), es.Diagonal(np.full(weights, 4.0))
    start = truth + 3 / np.sqrt(rows) * rng.standard_normal(weights)
    matrix = jnp.asarray(A)
    ways = {
        "carried": es.likelihoods.LinearPredictor(A, likelihood),
        "a product for each proposal": lambda f: likelihood(matrix.astype(f.dtype) @ f),
    }
    best: dict[tuple[str, int], float] = {}
    evaluations, off, f, each = {}, {}, None, {}
    lengths = (4, 4 + draws)  # the difference leaves out the first look and compilation
    for _ in range(3):
        for name, log_likelihood in ways.items():
            for count in lengths:
                began = time.perf_counter()
                tree = es.sample(
                    log_likelihood, prior, draws=count, warmup=0, chains=1, seed=1, initial=start, progress=False
                )
                took = time.perf_counter() - began
                best[name, count] = min(took, best.get((name, count), np.inf))
                evaluations[name, count] = tree.attrs["evaluations"]
            f = tree.posterior.f.values.reshape(-1, weights)
            off[name] = np.abs(f.mean(axis=0) - truth).max()
    print(f"{rows} rows, {weights} weights")
    for name in ways:
        seconds, more = (values[name, lengths[1]] - values[name, lengths[0]] for values in (best, evaluations))
        each[name] = seconds = seconds / more
        print(f"{name}: {1000 * seconds:.2f} ms for an evaluation; means at most {off[name]:.4f} from the truth")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    if picture:
        draw(f, truth, each, picture)


def draw(f: np.ndarray, truth: np.ndarray, each: dict[str, float], path: str) -> None:
    """The last run's weights beside those that made the data, and what an evaluation took."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    places = np.arange(len(truth))
    left.errorbar(places, f.mean(axis=0) - truth, 2 * f.std(axis=0), fmt="o", capsize=3, label="mean ± 2 deviations")
    left.axhline(0, color="black", linestyle="--")
    left.set(xlabel="weight", ylabel="less the one that made the data")
    left.legend(frameon=False)
    right.barh(list(each), [1000 * seconds for seconds in each.values()], color=["#0072B2", "#D55E00"])
    right.set(xlabel="milliseconds for an evaluation")
    right.set_yticks(range(len(each)), ["A f carried", "a product for\neach proposal"])
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]), picture="million_rows.png")
