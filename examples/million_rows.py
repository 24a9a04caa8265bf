"""
Logistic regression with a million rows
=======================================

Bayesian logistic regression with very many rows. `LinearPredictor` keeps the linear predictor A f of the state and of
nu, so that a proposal needs no product with the design matrix A. The output compares the time of an evaluation with and
without it.

::

    python examples/million_rows.py [rows [columns]]        # writes million_rows.png

Times are the best of three runs in turn, on the same data. With few columns,
a compiled function spends most of its time on a million logarithms; with a hundred columns, on the product. With
`LinearPredictor` the time does
not depend on the number of columns. The chains start at the true coefficients and are too short to converge: this
example measures time only. It names the move, because pilot runs to choose one would take longer than the run.
"""

from __future__ import annotations

import resource
import sys
import time

import jax.numpy as jnp
import numpy as np

import ellipslice as es


def main(rows: int = 100_000, columns: int = 10, draws: int = 36, picture: str | None = None) -> None:
    """Sample the same posterior with both log-likelihoods, print times and write the plot."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((rows, columns))
    truth = rng.standard_normal(columns)
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-A @ truth)), 1.0, -1.0)
    likelihood, prior = es.likelihoods.Logistic(y), es.Diagonal(np.full(columns, 4.0))
    start = truth + 3 / np.sqrt(rows) * rng.standard_normal(columns)
    matrix = jnp.asarray(A)
    log_likelihoods = {
        "LinearPredictor": es.likelihoods.LinearPredictor(A, likelihood),
        "product for each proposal": lambda f: likelihood(matrix.astype(f.dtype) @ f),
    }
    best: dict[tuple[str, int], float] = {}
    evaluations, off, f, each = {}, {}, None, {}
    lengths = (4, 4 + draws)  # the difference of two lengths excludes compilation and checks
    for _ in range(3):
        for name, log_likelihood in log_likelihoods.items():
            for count in lengths:
                began = time.perf_counter()
                tree = es.sample(
                    log_likelihood, prior, move=es.moves.EllipticalSlice(), draws=count, warmup=0, chains=1, seed=1,
                    initial=start, progress=False,
                )  # fmt: skip
                seconds = time.perf_counter() - began
                best[name, count] = min(seconds, best.get((name, count), np.inf))
                evaluations[name, count] = tree.attrs["evaluations"]
            f = tree.posterior.f.values.reshape(-1, columns)
            off[name] = np.abs(f.mean(axis=0) - truth).max()
    print(f"{rows} rows, {columns} columns")
    for name in log_likelihoods:
        seconds, more = (values[name, lengths[1]] - values[name, lengths[0]] for values in (best, evaluations))
        each[name] = seconds = seconds / more
        print(f"{name}: {1000 * seconds:.2f} ms per evaluation; means differ by at most {off[name]:.4f} from the truth")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    if picture:
        draw(f, truth, each, picture)


def draw(f: np.ndarray, truth: np.ndarray, each: dict[str, float], path: str) -> None:
    """Plot the errors of the coefficients in the last run, and the times per evaluation."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    index = np.arange(len(truth))
    left.errorbar(
        index,
        f.mean(axis=0) - truth,
        2 * f.std(axis=0),
        fmt="o",
        capsize=3,
        label="posterior mean ± 2 standard deviations",
    )
    left.axhline(0, color="black", linestyle="--")
    left.set(xlabel="coefficient", ylabel="posterior minus truth")
    left.legend(frameon=False)
    right.barh(list(each), [1000 * seconds for seconds in each.values()], color=["#0072B2", "#D55E00"])
    right.set(xlabel="milliseconds per evaluation")
    right.set_yticks(range(len(each)), ["LinearPredictor", "product for\neach proposal"])
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]), picture="million_rows.png")
