"""
Events on a map
===============

A log-Gaussian Cox process on a grid, of a million cells if you like: events in the plane, whose intensity is an unknown
field.

::

    python examples/cox_process.py        # 48 x 48 cells; writes cox_process.png
    python examples/cox_process.py --size 1000 --warmup 500 --draws 150 --thin 10        # a million, in ten minutes

The log-intensity is Gaussian with an exponential kernel, drawn through the FFT (`Stationary`); the counts in the cells
are Poisson. What is kept of each draw is the log-intensity averaged over squares of cells, not all of it: `keep`.

An update costs a draw and a few evaluations, but the more the events say, the less it moves the field. The report at
the end says whether it was enough.
"""

from __future__ import annotations

import argparse
import resource
import time

import matplotlib.pyplot as plt
import numpy as np

import ellipslice as es

SHOWN = 50
"""Squares along each side of the picture, about."""


def averaged(field: np.ndarray) -> np.ndarray:
    """Means over squares of cells; a last incomplete row is left out."""
    step = max(1, len(field) // SHOWN)
    count = len(field) // step
    return field[: count * step, : count * step].reshape(count, step, count, step).mean(axis=(1, 3))


def picture(counts: np.ndarray, truth: np.ndarray, draws: np.ndarray, path: str) -> None:
    """Events, the field that made them, and what the posterior says of it: its mean and its deviation."""
    figure, (events, *fields) = plt.subplots(1, 4, figsize=(16, 4.2), layout="constrained")
    rows, columns = np.nonzero(counts)
    events.scatter(columns, rows, s=4, color="black")
    events.set(title="events", xlim=(0, len(counts)), ylim=(len(counts), 0), aspect="equal", xticks=[], yticks=[])
    squares = averaged(truth)
    low, high = squares.min(), squares.max()
    panels = (
        ("log-intensity that made them", squares, low, high),
        ("posterior mean", draws.mean(axis=0), low, high),
        ("posterior deviation", draws.std(axis=0), 0.0, None),
    )
    for axis, (title, values, least, most) in zip(fields, panels, strict=True):
        figure.colorbar(axis.imshow(values, vmin=least, vmax=most), ax=axis, shrink=0.8)
        axis.set(title=title, xticks=[], yticks=[])
    figure.savefig(path, dpi=110)


def main() -> None:
    """Simulate events, sample the field, draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=48, help="cells along each side")
    parser.add_argument("--draws", type=int, default=300, help="of each of two chains")
    parser.add_argument("--thin", type=int, default=50, help="updates for each draw")
    parser.add_argument("--warmup", type=int, default=2000, help="updates before them")
    parser.add_argument("--picture", default="cox_process.png")
    options = parser.parse_args()

    size, rng = options.size, np.random.default_rng(0)
    length = size / 8
    prior = es.Stationary(
        lambda lag: np.exp(-np.linalg.norm(lag, axis=-1) / length),
        (size, size),
        spacing=1.0,
        mean=np.log(2 / length**2) - 0.5,  # two events in a square of that length
    )
    truth = prior.simulate(rng)
    counts = rng.poisson(np.exp(truth))

    began = time.perf_counter()
    tree = es.sample(
        es.likelihoods.Poisson(counts),
        prior,
        draws=options.draws,
        warmup=options.warmup,
        thin=options.thin,
        chains=2,
        seed=1,
        keep=lambda f: {"log_intensity": averaged(f)},
    )
    took = time.perf_counter() - began
    draws = tree.posterior.log_intensity.values.reshape(-1, *averaged(truth).shape)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    inside = np.mean((low <= averaged(truth)) & (averaged(truth) <= high))
    print(f"{prior}, {counts.sum()} events")
    print(f"{tree.attrs['updates']} updates, {tree.attrs['evaluations']} evaluations, {took:.0f} s")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    print(f"the truth is inside the 90 % intervals for {inside:.0%} of the squares")
    print(es.diagnostics.check_convergence(tree))
    picture(counts, truth, draws, options.picture)
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
