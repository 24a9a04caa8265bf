"""The runs whose unfinished stores are kept: how each one starts, and how it is resumed."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import ellipslice as es
from golden.runs import GP, GP_X, GP_Y

TARGET = np.array([1.0, -0.5, 0.3, 0.0, 0.8])
GAPS = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
DENSE = es.Dense(np.exp(-GAPS / 2), mean=0.1)
DIAGONAL = es.Diagonal(np.array([1.0, 2.0, 0.5, 1.0, 4.0]), mean=0.1)


def traced(f):
    return -2 * jnp.sum((f - TARGET) ** 2)


def on_the_host(f):
    return float(-2 * np.square(np.asarray(f) - TARGET).sum())


OPTIONS = {"draws": 20, "warmup": 5, "chains": 2, "seed": 5, "progress": False}

RUNS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "plain": (traced, DIAGONAL, {}),
    "thinned": (on_the_host, DENSE, {"thin": 3, "chains": [4, 1]}),
    "local_random": (on_the_host, DENSE, {"move": es.moves.Local.random(2, partitions=3)}),
    "control_variables": (on_the_host, DENSE, {"move": es.moves.ControlVariables.at_values([1, 3])}),
    "reference_slice": (traced, DENSE, {"reference": "laplace"}),
    "unknown_hyperparameters": (None, None, {}),
}


def begin(name: str, **options: Any) -> Any:
    """Run it from the start, and return the tree."""
    log_likelihood, prior, own = RUNS[name]
    if prior is None:
        return GP.fit(GP_X, GP_Y, **OPTIONS, **options).tree
    return es.sample(log_likelihood, prior, **OPTIONS | own, **options)


def resume(name: str, path: Any) -> Any:
    """Resume it from its store, and return the tree."""
    log_likelihood, prior, _ = RUNS[name]
    if prior is None:
        return GP.resume(path, GP_X, GP_Y, progress=False).tree
    return es.resume(path, log_likelihood, progress=False)
