"""
Log-Gaussian Cox process on a large grid
========================================

Events in the plane with an unknown intensity: the log intensity is a Gaussian process on a grid, and the counts in the
cells are Poisson. `Stationary` draws from the prior by the FFT, so the grid may have a million cells. The panels
compare the true field with the posterior mean and standard deviation.

::

    python examples/cox_process.py        # 48 x 48 cells; writes cox_process.png
    python examples/cox_process.py --size 1000 --warmup 500 --draws 150 --thin 10        # a million cells, ten minutes

The kernel is exponential. To save memory, `keep` stores only the average of the log intensity over squares of cells.
The move is plain elliptical slice sampling, so that a million cells are possible in ten minutes. An update costs one
prior draw and a few evaluations, but it changes all cells jointly, so the chains mix slowly if the events are
informative. With the default settings the run does not converge: the smallest effective sample size is about 20, and
the convergence report states it. The maps are then only approximate. Precise ones need about ten times as many updates,
or rotations with kicks by the gradient, `es.moves.SplitHamiltonian(None, kicks=16)`, which take longer per update.
"""

from __future__ import annotations

import argparse
import resource
import time

import matplotlib.pyplot as plt
import numpy as np

import ellipslice as es

SQUARES = 50
"""Approximate number of squares along each side of the plot."""


def averaged(field: np.ndarray) -> np.ndarray:
    """Return means over squares of cells. An incomplete last row or column is dropped."""
    step = max(1, len(field) // SQUARES)
    count = len(field) // step
    return field[: count * step, : count * step].reshape(count, step, count, step).mean(axis=(1, 3))


def draw(counts: np.ndarray, truth: np.ndarray, draws: np.ndarray, path: str) -> None:
    """Plot the events, the true field, and the posterior mean and standard deviation."""
    figure, (events, *fields) = plt.subplots(1, 4, figsize=(16, 4.2), layout="constrained")
    rows, columns = np.nonzero(counts)
    events.scatter(columns, rows, s=4, color="black")
    events.set(title="events", xlim=(0, len(counts)), ylim=(len(counts), 0), aspect="equal", xticks=[], yticks=[])
    squares = averaged(truth)
    low, high = squares.min(), squares.max()
    panels = (
        ("true log intensity", squares, low, high),
        ("posterior mean", draws.mean(axis=0), low, high),
        ("posterior standard deviation", draws.std(axis=0), 0.0, None),
    )
    for axis, (title, values, lowest, highest) in zip(fields, panels, strict=True):
        figure.colorbar(axis.imshow(values, vmin=lowest, vmax=highest), ax=axis, shrink=0.8)
        axis.set(title=title, xticks=[], yticks=[])
    figure.savefig(path, dpi=110)


def main() -> None:
    """Simulate events, sample the field, print the results and write the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=48, help="cells along each side (default: 48)")
    parser.add_argument("--draws", type=int, default=300, help="draws per chain, for two chains (default: 300)")
    parser.add_argument("--thin", type=int, default=50, help="updates per draw (default: 50)")
    parser.add_argument("--warmup", type=int, default=2000, help="warm-up updates per chain (default: 2000)")
    parser.add_argument("--picture", default="cox_process.png")
    options = parser.parse_args()

    size, rng = options.size, np.random.default_rng(0)
    length = size / 8
    prior = es.Stationary(
        lambda lag: np.exp(-np.linalg.norm(lag, axis=-1) / length),
        (size, size),
        spacing=1.0,
        mean=np.log(2 / length**2) - 0.5,  # on average two events in a square of side `length`
    )
    truth = prior.simulate(rng)
    counts = rng.poisson(np.exp(truth))

    began = time.perf_counter()
    tree = es.sample(
        es.likelihoods.Poisson(counts),
        prior,
        move=es.moves.EllipticalSlice(),
        draws=options.draws,
        warmup=options.warmup,
        thin=options.thin,
        chains=2,
        seed=1,
        keep=lambda f: {"log_intensity": averaged(f)},
    )
    seconds = time.perf_counter() - began
    draws = tree.posterior.log_intensity.values.reshape(-1, *averaged(truth).shape)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    inside = np.mean((low <= averaged(truth)) & (averaged(truth) <= high))
    print(f"{prior}, {counts.sum()} events")
    print(f"{tree.attrs['updates']} updates, {tree.attrs['evaluations']} evaluations, {seconds:.0f} s")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    print(f"the truth is inside the 90 % intervals for {inside:.0%} of the squares")
    print(es.diagnostics.check_convergence(tree))
    draw(counts, truth, draws, options.picture)
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
