"""The priors and moves that the laws are checked on. A new class adds a constructor here.

`PRIORS[name]()` and `MOVES[name]()` make one; `COVARIANCES[name]` is the covariance it should have, where it can be
written down without the code under test.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from ellipslice.moves import AuxiliaryEllipse, Cycle, EllipticalSlice, Move
from ellipslice.priors import Dense, Diagonal, FromDraws, LowRank, Prior, Stack

# --- priors ---------------------------------------------------------------------------------------------------------

TIMES = np.linspace(0, 1, 12)
SMOOTH = np.exp(-0.5 * (TIMES[:, None] - TIMES) ** 2 / 0.3**2)  # numerically singular
ROUGH = np.exp(-np.abs(TIMES[:, None] - TIMES))
CORRELATED = np.array([[1.0, 0.6, -0.3], [0.6, 2.0, 0.5], [-0.3, 0.5, 0.7]])
SINGULAR = np.array([[2.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 5.0]])  # the first two values are the same
CONSTANT = np.array([[4.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 9.0]])  # the second value is 0
DEVIATIONS = np.array([1e-6, 1e6, 1.0])  # variances 1e-12, 1e12 and 1 on one diagonal
EXTREME = (0.5 + 0.5 * np.eye(3)) * DEVIATIONS[:, None] * DEVIATIONS
FACTOR = np.array([[1.0, 0.0], [2.0, -1.0], [0.5, 0.5], [0.0, 3.0]])
WIDE_FACTOR = np.array([[1.0, 2.0, 3.0, 0.5, -1.0], [0.0, 1.0, -1.0, 2.0, 0.3]])
VARIANCES_2D = np.array([[1.0, 4.0, 0.25], [9.0, 0.01, 2.0]])
SPREADS = np.array([3.0, 0.5, 1.0, 2.0])


def blocks(*covariances: Any) -> np.ndarray:
    """The covariance of independent latents, one after the other."""
    size = sum(len(c) for c in covariances)
    whole, start = np.zeros((size, size)), 0
    for c in covariances:
        whole[start : start + len(c), start : start + len(c)] = c
        start += len(c)
    return whole


def walk(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(5).cumsum()


def scaled(rng: np.random.Generator, count: int) -> np.ndarray:
    return SPREADS * rng.standard_normal((count, 4))


def image(rng: np.random.Generator) -> np.ndarray:
    return 2.0 * rng.standard_normal((2, 3))


def images(rng: np.random.Generator, count: int) -> np.ndarray:
    return 2.0 * rng.standard_normal((count, 2, 3))


# name -> (constructor from a mean, covariance or None if the prior cannot say it)
_PRIORS: dict[str, tuple[Callable[[Any], Prior], np.ndarray | None]] = {
    "Dense": (lambda mean: Dense(CORRELATED, mean), CORRELATED),
    "Dense, smooth": (lambda mean: Dense(SMOOTH, mean), SMOOTH),
    "Dense, rough": (lambda mean: Dense(ROUGH, mean), ROUGH),
    "Dense, singular": (lambda mean: Dense(SINGULAR, mean), SINGULAR),
    "Dense, a value without variance": (lambda mean: Dense(CONSTANT, mean), CONSTANT),
    "Dense, variances 1e-12 and 1e12": (lambda mean: Dense(EXTREME, mean), EXTREME),
    "Dense, 1 x 1": (lambda mean: Dense([[2.5]], mean), np.array([[2.5]])),
    "Dense, float32": (
        lambda mean: Dense(CORRELATED.astype(np.float32), mean),
        CORRELATED.astype(np.float32).astype(np.float64),
    ),
    "Dense, integers": (lambda mean: Dense([[2, 1], [1, 3]], mean), np.array([[2.0, 1.0], [1.0, 3.0]])),
    "Dense, factor": (lambda mean: Dense(factor=np.linalg.cholesky(CORRELATED), mean=mean), CORRELATED),
    "Dense, wide factor": (lambda mean: Dense(factor=WIDE_FACTOR, mean=mean), WIDE_FACTOR @ WIDE_FACTOR.T),
    "Diagonal": (lambda mean: Diagonal(SPREADS**2, mean), np.diag(SPREADS**2)),
    "Diagonal, one number": (lambda mean: Diagonal(4.0, mean), np.array([[4.0]])),
    "Diagonal, two axes": (lambda mean: Diagonal(VARIANCES_2D, mean), np.diag(VARIANCES_2D.ravel())),
    "Diagonal, a value without variance": (lambda mean: Diagonal([1.0, 0.0, 3.0], mean), np.diag([1.0, 0.0, 3.0])),
    "LowRank": (lambda mean: LowRank(FACTOR, mean), FACTOR @ FACTOR.T),
    "LowRank, one column": (lambda mean: LowRank(FACTOR[:, :1], mean), FACTOR[:, :1] @ FACTOR[:, :1].T),
    "FromDraws": (lambda mean: FromDraws(walk, 5, mean), None),
    "FromDraws, batched": (lambda mean: FromDraws(scaled, 4, mean, batched=True), None),
    "FromDraws, two axes": (lambda mean: FromDraws(image, (2, 3), mean), None),
    "FromDraws, batched, two axes": (lambda mean: FromDraws(images, (2, 3), mean, batched=True), None),
    "Stack": (
        lambda mean: Stack({"f": Dense(CORRELATED, mean), "b": Diagonal(4.0), "w": LowRank(FACTOR, -2 * mean)}),
        blocks(CORRELATED, [[4.0]], FACTOR @ FACTOR.T),
    ),
    "Stack of one": (lambda mean: Stack({"g": Diagonal(VARIANCES_2D, mean)}), np.diag(VARIANCES_2D.ravel())),
    "Stack with a routine": (lambda mean: Stack({"f": FromDraws(walk, 5), "b": Diagonal(4.0, mean)}), None),
}


def _with_and_without_mean() -> tuple[dict[str, Callable[[], Prior]], dict[str, np.ndarray]]:
    priors: dict[str, Callable[[], Prior]] = {}
    covariances: dict[str, np.ndarray] = {}
    for name, (make, covariance) in _PRIORS.items():
        for suffix, mean in (("", 0.0), (", mean 1.5", 1.5)):
            priors[name + suffix] = lambda make=make, mean=mean: make(mean)
            if covariance is not None:
                covariances[name + suffix] = covariance
    priors["Dense, a mean per value"] = lambda: Dense(CORRELATED, [1.0, -2.0, 0.0])
    covariances["Dense, a mean per value"] = CORRELATED
    priors["Diagonal, two axes, a mean per value"] = lambda: Diagonal(VARIANCES_2D, np.arange(6.0).reshape(2, 3))
    covariances["Diagonal, two axes, a mean per value"] = np.diag(VARIANCES_2D.ravel())
    return priors, covariances


PRIORS, COVARIANCES = _with_and_without_mean()

# --- moves ----------------------------------------------------------------------------------------------------------

MOVES: dict[str, Callable[[], Move]] = {
    "EllipticalSlice": EllipticalSlice,
    "EllipticalSlice, half a turn": lambda: EllipticalSlice(bracket_width=pi),
    "EllipticalSlice, narrow": lambda: EllipticalSlice(bracket_width=0.7),
    "EllipticalSlice, halve": lambda: EllipticalSlice(shrinking="halve"),
    "EllipticalSlice, narrow, halve": lambda: EllipticalSlice(bracket_width=0.7, shrinking="halve"),
    "AuxiliaryEllipse": AuxiliaryEllipse,
    "Cycle of two": lambda: Cycle(EllipticalSlice(), AuxiliaryEllipse()),
    "Cycle of three": lambda: Cycle(
        EllipticalSlice(bracket_width=0.7),
        EllipticalSlice(shrinking="halve"),
        Cycle(AuxiliaryEllipse(), EllipticalSlice()),
    ),
}

# --- seeds ----------------------------------------------------------------------------------------------------------

SEEDS = [int(os.environ.get("ELLIPSLICE_TEST_SEED", "0"))]
"""Of the statistical laws and of the planted bugs. ELLIPSLICE_TEST_SEED=17 runs them with other noise."""
