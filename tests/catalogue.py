"""The priors and moves on which the property tests run. Add a constructor here for each new class.

`PRIORS[name]()` and `MOVES[name]()` make an instance. `COVARIANCES[name]` is the covariance of the prior, where it can
be computed without the code under test.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from math import pi
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from tinygp.kernels import quasisep

from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.approximations.sites import SitesReference as Sites
from ellipslice.moves import (
    AuxiliaryEllipse,
    ConstrainedSlice,
    ControlVariables,
    CoordinateGibbs,
    CoordinateSlice,
    Cycle,
    EllipticalSlice,
    Hamiltonian,
    LineSlice,
    Local,
    Move,
    NealMetropolis,
    RandomWalk,
    ReferenceSlice,
    SplitHamiltonian,
)
from ellipslice.priors import (
    Dense,
    Diagonal,
    FromDraws,
    Kronecker,
    LowRank,
    Markov,
    Prior,
    SparsePrecision,
    Stack,
    Stationary,
    Sum,
)

# --- priors ---------------------------------------------------------------------------------------------------------

TIMES = np.linspace(0, 1, 12)
SMOOTH = np.exp(-0.5 * (TIMES[:, None] - TIMES) ** 2 / 0.3**2)  # numerically singular
ROUGH = np.exp(-np.abs(TIMES[:, None] - TIMES))
CORRELATED = np.array([[1.0, 0.6, -0.3], [0.6, 2.0, 0.5], [-0.3, 0.5, 0.7]])
SINGULAR = np.array([[2.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 5.0]])  # the first two elements are equal
CONSTANT = np.array([[4.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 9.0]])  # the second element is 0
DEVIATIONS = np.array([1e-6, 1e6, 1.0])  # variances 1e-12, 1e12 and 1 on one diagonal
EXTREME = (0.5 + 0.5 * np.eye(3)) * DEVIATIONS[:, None] * DEVIATIONS
FACTOR = np.array([[1.0, 0.0], [2.0, -1.0], [0.5, 0.5], [0.0, 3.0]])
WIDE_FACTOR = np.array([[1.0, 2.0, 3.0, 0.5, -1.0], [0.0, 1.0, -1.0, 2.0, 0.3]])
VARIANCES_2D = np.array([[1.0, 4.0, 0.25], [9.0, 0.01, 2.0]])
SPREADS = np.array([3.0, 0.5, 1.0, 2.0])


def blocks(*covariances: Any) -> np.ndarray:
    """Return the covariance of independent latents, concatenated: a block-diagonal matrix."""
    size = sum(len(c) for c in covariances)
    whole, start = np.zeros((size, size)), 0
    for c in covariances:
        whole[start : start + len(c), start : start + len(c)] = c
        start += len(c)
    return whole


def grid_covariance(kernel: Callable[[Any], Any], shape: tuple[int, ...], spacing: Any) -> np.ndarray:
    """Return the covariance of a stationary kernel on a regular grid, computed pair by pair."""
    points = np.array(list(np.ndindex(shape))) * spacing
    return np.array([[float(kernel(a - b)) for b in points] for a in points])


def exponential(lag: Any) -> Any:
    return 2.0 * np.exp(-np.linalg.norm(lag, axis=-1) / 3)


def slanted(lag: Any) -> Any:
    """Return a kernel that is longer along one diagonal than along the other: even, but not in each axis."""
    return np.exp(-np.sqrt((lag[..., 0] - lag[..., 1]) ** 2 + 0.3 * (lag[..., 0] + lag[..., 1]) ** 2) / 2)


def smooth(lag: Any) -> Any:
    """Return a kernel that decays so slowly that the smallest embedding of 9 points is not positive."""
    return 0.5 * np.exp(-0.5 * np.sum(lag**2, axis=-1) / 6**2)


MOMENTS = np.array([0.0, 0.1, 0.5, 0.55, 1.7, 2.0, 4.5])  # irregular times
GAPS = np.abs(MOMENTS[:, None] - MOMENTS)
EARLIER = np.minimum(MOMENTS[:, None], MOMENTS)
CLOSE = np.array([0.0, 1e-9, 2e-9, 1e-3, 0.5, 0.5 + 1e-12, 2.0])  # to a smooth kernel some of these are equal
MATERN_32 = 2.25 * (1 + np.sqrt(3) * GAPS / 0.8) * np.exp(-np.sqrt(3) * GAPS / 0.8)


def matern_52(gaps: np.ndarray, scale: float) -> np.ndarray:
    x = np.sqrt(5) * gaps / scale
    return (1 + x + x**2 / 3) * np.exp(-x)


CHAIN = np.diag(np.full(6, 2.5)) - np.eye(6, k=1) - np.eye(6, k=-1)  # a precision matrix
GRAPH = np.array([[0, 1, 1, 0, 0], [1, 0, 2, 0, 0], [1, 2, 0, 1, 0], [0, 0, 1, 0, 1], [0, 0, 0, 1, 0]], dtype=float)
ISLANDS = np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3))  # two triangles
TWO_CONSTRAINTS = np.array([[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 0.0, -2.0, 0.0, 0.5, 0.0]])


def constrained(precision: np.ndarray, constraints: np.ndarray) -> np.ndarray:
    """Return the covariance of exp(-f'Qf / 2) on the subspace where constraints @ f = 0."""
    plane = np.linalg.svd(constraints)[2][np.linalg.matrix_rank(constraints) :].T
    return plane @ np.linalg.inv(plane.T @ precision @ plane) @ plane.T


def differences(size: int, order: int) -> np.ndarray:
    step = np.diff(np.eye(size), n=order, axis=0)
    return step.T @ step


def laplacian(graph: np.ndarray) -> np.ndarray:
    return np.diag(graph.sum(axis=0)) - graph


def matern_precision(shape: tuple[int, int], spacing: float, length_scale: float) -> np.ndarray:
    """Return the precision of a Matérn field on a grid, from the neighbours. Smoothness 1 and variance 1.7."""
    points = list(np.ndindex(shape))
    near = np.array([[abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1 for b in points] for a in points], dtype=float)
    kappa = np.sqrt(2) / length_scale
    operator = kappa**2 * np.eye(len(points)) + laplacian(near) / spacing**2
    return operator @ operator * spacing**2 / (4 * np.pi * kappa**2 * 1.7)


def walk(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(5).cumsum()


def scaled(rng: np.random.Generator, count: int) -> np.ndarray:
    return SPREADS * rng.standard_normal((count, 4))


def image(rng: np.random.Generator) -> np.ndarray:
    return 2.0 * rng.standard_normal((2, 3))


def images(rng: np.random.Generator, count: int) -> np.ndarray:
    return 2.0 * rng.standard_normal((count, 2, 3))


# Each name maps to a constructor with the mean as argument, and the covariance, or None if there is no formula for it.
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

# Priors with structure. Only the first of each class is tested with a mean, too, because more would only take longer.
_STRUCTURED: dict[str, tuple[Callable[[Any], Prior], np.ndarray | None]] = {
    "LowRank, more columns than values": (lambda mean: LowRank(WIDE_FACTOR, mean), WIDE_FACTOR @ WIDE_FACTOR.T),
    "LowRank, a column repeated": (
        lambda mean: LowRank(FACTOR[:, [0, 1, 0]], mean),
        FACTOR[:, [0, 1, 0]] @ FACTOR[:, [0, 1, 0]].T,
    ),
    "LowRank plus a diagonal": (
        lambda mean: LowRank(FACTOR, mean, diagonal=SPREADS),
        FACTOR @ FACTOR.T + np.diag(SPREADS),
    ),
    "LowRank plus a diagonal with a 0": (
        lambda mean: LowRank(FACTOR, mean, diagonal=[1.0, 0.0, 2.0, 1.0]),
        FACTOR @ FACTOR.T + np.diag([1.0, 0.0, 2.0, 1.0]),
    ),
    "Stationary": (lambda mean: Stationary(exponential, 8, 0.5, mean), grid_covariance(exponential, (8,), 0.5)),
    "Stationary, one value": (lambda mean: Stationary(exponential, 1, 0.5, mean), np.array([[2.0]])),
    "Stationary, an axis of one": (
        lambda mean: Stationary(exponential, (3, 1), 1.0, mean),
        grid_covariance(exponential, (3, 1), 1.0),
    ),
    "Stationary, grown": (lambda mean: Stationary(smooth, 9, 1.0, mean), grid_covariance(smooth, (9,), 1.0)),
    "Stationary, two axes": (
        lambda mean: Stationary(slanted, (4, 3), (1.0, 0.5), mean),
        grid_covariance(slanted, (4, 3), (1.0, 0.5)),
    ),
    "Stationary, three axes": (
        lambda mean: Stationary(exponential, (2, 3, 2), 0.7, mean),
        grid_covariance(exponential, (2, 3, 2), 0.7),
    ),
    "Kronecker": (lambda mean: Kronecker(CORRELATED, ROUGH[:4, :4], mean=mean), np.kron(CORRELATED, ROUGH[:4, :4])),
    "Kronecker, singular": (lambda mean: Kronecker(SINGULAR, CORRELATED, mean=mean), np.kron(SINGULAR, CORRELATED)),
    "Kronecker, structured": (
        lambda mean: Kronecker(Diagonal([1.0, 4.0]), LowRank(FACTOR, diagonal=SPREADS), mean=mean),
        np.kron(np.diag([1.0, 4.0]), FACTOR @ FACTOR.T + np.diag(SPREADS)),
    ),
    "Kronecker with a grid": (
        lambda mean: Kronecker(CORRELATED, Stationary(slanted, (2, 3), 1.0), mean=mean),
        np.kron(CORRELATED, grid_covariance(slanted, (2, 3), 1.0)),
    ),
    "Markov, Matérn-1/2": (
        lambda mean: Markov(quasisep.Exp(scale=0.7, sigma=2.0), MOMENTS, mean),
        4 * np.exp(-GAPS / 0.7),
    ),
    "Markov, Matérn-3/2": (lambda mean: Markov(quasisep.Matern32(scale=0.8, sigma=1.5), MOMENTS, mean), MATERN_32),
    "Markov, Matérn-5/2": (
        lambda mean: Markov(quasisep.Matern52(scale=1.3), MOMENTS, mean),
        matern_52(GAPS, 1.3),
    ),
    "Markov, one time": (lambda mean: Markov(quasisep.Matern52(scale=1.3), [3.0], mean), np.array([[1.0]])),
    "Markov, close times": (
        lambda mean: Markov(quasisep.Matern52(scale=1.3), CLOSE, mean),
        matern_52(np.abs(CLOSE[:, None] - CLOSE), 1.3),
    ),
    "Markov, walk": (
        lambda mean: Markov(Markov.random_walk(0.5, start=2.0, origin=-1.0), MOMENTS, mean),
        4.0 + 0.25 * (EARLIER + 1.0),
    ),
    "Markov, walk from 0": (lambda mean: Markov(Markov.random_walk(3.0), MOMENTS + 0.5, mean), 9.0 * (EARLIER + 0.5)),
    "Markov, sum": (
        lambda mean: Markov(quasisep.Matern32(scale=0.8, sigma=1.5) + 0.3 * Markov.random_walk(), MOMENTS, mean),
        MATERN_32 + 0.3 * EARLIER,
    ),
    "Markov, product": (
        lambda mean: Markov(quasisep.Matern32(scale=0.8, sigma=1.5) * quasisep.Exp(scale=2.0), MOMENTS, mean),
        MATERN_32 * np.exp(-GAPS / 2.0),
    ),
    "Kronecker of Markov": (
        lambda mean: Kronecker(Markov(quasisep.Exp(scale=0.7), MOMENTS[:3]), CORRELATED, mean=mean),
        np.kron(np.exp(-GAPS[:3, :3] / 0.7), CORRELATED),
    ),
    "SparsePrecision": (lambda mean: SparsePrecision(csr_array(CHAIN), mean), np.linalg.inv(CHAIN)),
    "SparsePrecision, one value": (lambda mean: SparsePrecision(csr_array([[4.0]]), mean), np.array([[0.25]])),
    "SparsePrecision, not sparse": (lambda mean: SparsePrecision(CHAIN, mean, shape=(2, 3)), np.linalg.inv(CHAIN)),
    "SparsePrecision, by CHOLMOD": (
        lambda mean: SparsePrecision(csr_array(CHAIN), mean, cholesky="cholmod"),
        np.linalg.inv(CHAIN),
    ),
    "SparsePrecision, constrained": (
        lambda mean: SparsePrecision(csr_array(CHAIN), mean, constraints=TWO_CONSTRAINTS),
        constrained(CHAIN, TWO_CONSTRAINTS),
    ),
    "SparsePrecision, random walk": (
        lambda mean: SparsePrecision.random_walk(7, precision=3.0, mean=mean),
        constrained(3.0 * differences(7, 1), np.ones((1, 7))),
    ),
    "SparsePrecision, smooth walk": (
        lambda mean: SparsePrecision.random_walk(6, order=2, precision=0.1, mean=mean),
        constrained(0.1 * differences(6, 2), np.stack([np.ones(6), np.arange(6.0)])),
    ),
    "SparsePrecision, another constraint": (
        lambda mean: SparsePrecision(differences(6, 1), mean, constraints=TWO_CONSTRAINTS[1:]),
        constrained(differences(6, 1), TWO_CONSTRAINTS[1:]),
    ),
    "SparsePrecision, one constraint more": (
        lambda mean: SparsePrecision(differences(6, 1), mean, constraints=TWO_CONSTRAINTS),
        constrained(differences(6, 1), TWO_CONSTRAINTS),
    ),
    "SparsePrecision, autoregression": (
        lambda mean: SparsePrecision.car(GRAPH, 0.9, precision=2.0, mean=mean),
        np.linalg.inv(2.0 * (np.diag(GRAPH.sum(axis=0)) - 0.9 * GRAPH)),
    ),
    "SparsePrecision, intrinsic": (
        lambda mean: SparsePrecision.car(csr_array(GRAPH), mean=mean),
        constrained(laplacian(GRAPH), np.ones((1, 5))),
    ),
    "SparsePrecision, islands": (
        lambda mean: SparsePrecision.car(ISLANDS, mean=mean),
        constrained(laplacian(ISLANDS), np.kron(np.eye(2), np.ones((1, 3)))),
    ),
    "SparsePrecision, Matérn": (
        lambda mean: SparsePrecision.matern((3, 4), 0.5, 1.2, smoothness=1, variance=1.7, mean=mean),
        np.linalg.inv(matern_precision((3, 4), 0.5, 1.2)),
    ),
    "Kronecker of sparse": (
        lambda mean: Kronecker(CORRELATED, SparsePrecision(CHAIN), mean=mean),
        np.kron(CORRELATED, np.linalg.inv(CHAIN)),
    ),
    "Sum": (
        lambda mean: Sum(Dense(CORRELATED, mean), Diagonal([1.0, 0.5, 2.0])),
        CORRELATED + np.diag([1.0, 0.5, 2.0]),
    ),
    "Sum of three": (
        lambda mean: Sum(
            Diagonal(SPREADS, 3.0 if mean else 0.0), LowRank(FACTOR, mean), Stationary(exponential, 4, 1.0)
        ),
        np.diag(SPREADS) + FACTOR @ FACTOR.T + grid_covariance(exponential, (4,), 1.0),
    ),
    "Sum with a routine": (lambda mean: Sum(FromDraws(walk, 5), Diagonal(np.ones(5), mean)), None),
    "Stack of structures": (
        lambda mean: Stack({"f": Stationary(exponential, 3, 1.0, mean), "g": Kronecker(CORRELATED, CORRELATED)}),
        blocks(grid_covariance(exponential, (3,), 1.0), np.kron(CORRELATED, CORRELATED)),
    ),
}


def _with_and_without_mean() -> tuple[dict[str, Callable[[], Prior]], dict[str, np.ndarray]]:
    priors: dict[str, Callable[[], Prior]] = {}
    covariances: dict[str, np.ndarray] = {}
    met: set[str] = set()
    for name, (make, covariance) in (_PRIORS | _STRUCTURED).items():
        word = name.split()[0].strip(",")
        means = {"": 0.0} if name in _STRUCTURED and word in met else {"": 0.0, ", mean 1.5": 1.5}
        met.add(word)
        for suffix, mean in means.items():
            # Priors are frozen, and some take a second to make, so they are made once.
            priors[name + suffix] = cache(partial(make, mean))
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
    "EllipticalSlice, other half": lambda: EllipticalSlice(shrinking="other_half"),
    "EllipticalSlice, narrow, other half": lambda: EllipticalSlice(bracket_width=0.7, shrinking="other_half"),
    "AuxiliaryEllipse": AuxiliaryEllipse,
    "AuxiliaryEllipse, concentrated": lambda: AuxiliaryEllipse(concentration=0.6),
    "Cycle of two": lambda: Cycle(EllipticalSlice(), AuxiliaryEllipse()),
    "Cycle of three": lambda: Cycle(
        EllipticalSlice(bracket_width=0.7),
        EllipticalSlice(shrinking="halve"),
        Cycle(AuxiliaryEllipse(), EllipticalSlice()),
    ),
    "ConstrainedSlice": ConstrainedSlice,  # without constraints
    "NealMetropolis": lambda: NealMetropolis(0.5),
    "NealMetropolis, prior draws": lambda: NealMetropolis(1),
    "RandomWalk": lambda: RandomWalk(0.5),
    "LineSlice": LineSlice,
    "LineSlice, wide": lambda: LineSlice(width=3.0),
    "CoordinateSlice": CoordinateSlice,
    "CoordinateSlice, narrow": lambda: CoordinateSlice(width=0.8),
    "CoordinateGibbs": CoordinateGibbs,
    "ControlVariables": lambda: ControlVariables.at_values([1]),
    "ControlVariables, two": lambda: ControlVariables.at_values([1, 0]),
    "Cycle with ControlVariables": lambda: Cycle(ControlVariables.at_values([0]), NealMetropolis(0.5)),
    "Hamiltonian": lambda: Hamiltonian(0.2, 6),
    "Hamiltonian, NUTS": lambda: Hamiltonian(0.2),
    "Hamiltonian, inverse masses": lambda: Hamiltonian(0.2, 6, inverse_mass_diagonal=[1.5, 0.7]),
    "Cycle with Hamiltonian": lambda: Cycle(Hamiltonian(0.2, 6), EllipticalSlice()),
    "Cycle of a walk and lines": lambda: Cycle(RandomWalk(1.2), LineSlice(), EllipticalSlice()),
    "ReferenceSlice": lambda: ReferenceSlice(Sites(np.array([3.0, 2.0]), np.array([4.0, 1.0])), plain_every=3),
    "ReferenceSlice, a Gaussian": lambda: ReferenceSlice(
        WhiteGaussian(np.array([0.4, 0.3]), np.array([[0.6, 0.2], [0.2, 0.5]])), plain_every=4
    ),
    "ReferenceSlice, independent": lambda: ReferenceSlice(
        Sites(np.array([3.0, 2.0]), np.array([4.0, 1.0])), plain_every=5, independence=True
    ),
    "ReferenceSlice, too narrow": lambda: ReferenceSlice(
        Sites(np.array([6.0, -1.0]), np.array([20.0, 9.0])), plain_every=2
    ),
    "Cycle with ReferenceSlice": lambda: Cycle(
        ReferenceSlice(Sites(np.array([3.0, 2.0]), np.array([4.0, 1.0])), plain_every=3), EllipticalSlice()
    ),
    "SplitHamiltonian": lambda: SplitHamiltonian(Sites(np.array([3.0, 2.0]), np.array([4.0, 1.0])), 2, plain_every=3),
    "SplitHamiltonian, a Gaussian": lambda: SplitHamiltonian(
        WhiteGaussian(np.array([0.4, 0.3]), np.array([[0.6, 0.2], [0.2, 0.5]])), 1, plain_every=4
    ),
    "SplitHamiltonian, too narrow": lambda: SplitHamiltonian(
        Sites(np.array([6.0, -1.0]), np.array([20.0, 9.0])), 3, plain_every=5
    ),
    "SplitHamiltonian, the prior": lambda: SplitHamiltonian(None, 5, plain_every=6),
    "Cycle with SplitHamiltonian": lambda: Cycle(SplitHamiltonian(None, 3, plain_every=7), EllipticalSlice()),
    "Local, SplitHamiltonian inside": lambda: Local([[0], [1]], SplitHamiltonian(None, 3, plain_every=8)),
    "Local": lambda: Local([[1], [0]]),
    "Local, ReferenceSlice inside": lambda: Local(
        [[0], [1]], ReferenceSlice(Sites(np.array([2.5]), np.array([3.0])), plain_every=3)
    ),
    "Local, along lines": lambda: Local([[0], [1]], LineSlice()),
    "Local, a Cycle inside": lambda: Local([[0], [1]], Cycle(EllipticalSlice(), AuxiliaryEllipse())),
    "Cycle with Local": lambda: Cycle(EllipticalSlice(), Local([[1]], partial=True), AuxiliaryEllipse()),
}

# --- seeds ----------------------------------------------------------------------------------------------------------

SEEDS = [int(os.environ.get("ELLIPSLICE_TEST_SEED", "0"))]
"""Seeds of the statistical property tests and of the injected bugs.

Set ELLIPSLICE_TEST_SEED to run with another seed.
"""
