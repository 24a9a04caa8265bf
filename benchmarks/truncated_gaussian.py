"""Compare the cost of a draw from a truncated Gaussian with BoTorch's LinearEllipticalSliceSampler.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/truncated_gaussian.py [size] [constraints]

Every sampler runs one chain of the same method: elliptical slice sampling on the exact arcs of linear constraints,
without a likelihood, so that a draw takes one proposal. The samplers are our two engines, the algorithm of Wu & Gardner
(2024) as a careful NumPy loop (which updates A f but computes A nu for each draw), and BoTorch's class, if it is
installed: pip install botorch. The samplers take turns in one process. Times are processor times of all threads, which
other work on the machine affects less. The mean square of the draws is printed, too, to check that all samplers target
the same distribution.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ellipslice as es
from ellipslice.machine import machine
from ellipslice.noise import generator

ROUNDS = 5
DRAWS = 4000
"""Draws of each sampler in a round."""


def problem(size: int, constraints: int) -> tuple[np.ndarray, np.ndarray]:
    """Return A and b of random half-spaces. The mean is at least two standard deviations inside each."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((constraints, size)) / math.sqrt(size)
    return A, 2 + np.abs(rng.standard_normal(constraints))


def ours(A: np.ndarray, b: np.ndarray, engine: str) -> Callable[[int], np.ndarray]:
    """Return a sampler that calls `sample`. The time includes its work before and after the chain."""
    prior = es.TruncatedGaussian(es.Diagonal(np.ones(A.shape[1])), A, b)
    seeds = iter(range(1000))

    def draw(count: int) -> np.ndarray:
        options: dict[str, Any] = {"chains": 1, "warmup": 0, "progress": False, "engine": engine}
        return es.sample(None, prior, draws=count, seed=next(seeds), **options).posterior.f.values[0]

    return draw


class NumpyLoop:
    """The algorithm of Wu & Gardner in NumPy, written by hand for standard normals."""

    def __init__(self, A: np.ndarray, b: np.ndarray):
        self._A, self._b, self._rng = A, b, generator(0, 0)
        self._x = np.zeros(A.shape[1])
        self._product = np.zeros(len(b))

    def __call__(self, count: int) -> np.ndarray:
        draws = np.empty((count, len(self._x)))
        for i in range(count):
            draws[i] = self._step()
        return draws

    def _step(self) -> np.ndarray:
        nu = self._rng.standard_normal(len(self._x))
        p, q = self._product, self._A @ nu
        ratio = self._b / np.hypot(p, q)
        met = ratio < 1
        middle, half = np.arctan2(q[met], p[met]), np.arccos(ratio[met])
        ends = np.stack([middle - half, middle + half])
        ends[ends < 0] += 2 * math.pi
        ends.sort(axis=0)
        low, high = ends[:, np.argsort(ends[0])]
        starts = np.append(0.0, np.maximum.accumulate(high))
        lengths = np.maximum(np.append(low, 2 * math.pi) - starts, 0).cumsum()
        u = lengths[-1] * self._rng.random()
        i = int(np.searchsorted(lengths, u))
        theta = starts[i] + u - (lengths[i - 1] if i else 0.0)
        self._x = math.cos(theta) * self._x + math.sin(theta) * nu
        self._product = math.cos(theta) * p + math.sin(theta) * q
        return self._x


def botorch(A: np.ndarray, b: np.ndarray) -> Callable[[int], np.ndarray] | None:
    """Return BoTorch's sampler; None if it is not installed."""
    try:
        import torch
        from botorch.utils.probability.lin_ess import LinearEllipticalSliceSampler
    except ImportError:
        return None
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sampler = LinearEllipticalSliceSampler(
        inequality_constraints=(torch.from_numpy(A), torch.from_numpy(b)[:, None]),
        interior_point=torch.zeros(A.shape[1], 1, dtype=torch.float64),
    )
    return lambda count: sampler.draw(count).numpy()


def main(size: int = 1000, constraints: int = 1000) -> None:
    """Time the samplers in turn and print the processor time per draw, in microseconds."""
    A, b = problem(size, constraints)
    samplers: dict[str, Any] = {
        "ours, compiled": ours(A, b, "compiled"),
        "ours, host": ours(A, b, "host"),
        "NumPy loop": NumpyLoop(A, b),
        "BoTorch": botorch(A, b),
    }
    if samplers["BoTorch"] is None:
        print("BoTorch is not installed, so it is omitted. To include it: pip install botorch")
        del samplers["BoTorch"]
    for draw in samplers.values():
        draw(200)  # compiles
    seconds: dict[str, list[float]] = {name: [] for name in samplers}
    radii: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(ROUNDS):
        for name, draw in samplers.items():
            began = time.process_time()
            x = draw(DRAWS)
            seconds[name].append((time.process_time() - began) / DRAWS)
            radii[name].append(float((x[DRAWS // 4 :] ** 2).mean()))
            assert (x @ A.T <= b + 1e-9).all()  # noqa: S101
    print(f"{size} values, {constraints} constraints, {ROUNDS} rounds of {DRAWS} draws:")
    results = {}
    for name in samplers:
        best, middle = min(seconds[name]), statistics.median(seconds[name])
        results[name] = {"best_us": 1e6 * best, "median_us": 1e6 * middle, "mean_square": float(np.mean(radii[name]))}
        print(
            f"  {name:16s} {1e6 * middle:8.0f} us per draw (best {1e6 * best:.0f}); mean f^2 {np.mean(radii[name]):.3f}"
        )
    print(json.dumps({"machine": machine("torch", "botorch"), "results": results}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
