"""Gaussian posteriors, whose means, variances, covariances and marginals are known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ellipslice as es
from ellipslice.likelihoods import Gaussian
from ellipslice.moves import (
    AuxiliaryEllipse,
    ControlVariables,
    CoordinateGibbs,
    CoordinateSlice,
    Cycle,
    EllipticalSlice,
    LineSlice,
    NealMetropolis,
    RandomWalk,
)
from statistical.monte_carlo import SEED, compare, compare_distribution, compare_gaussian

pytestmark = pytest.mark.statistical


class Problem(NamedTuple):
    """A prior, a likelihood, and their Gaussian posterior."""

    prior: es.Prior
    log_likelihood: Callable[..., Any]
    mean: np.ndarray
    covariance: np.ndarray


def posterior(covariance, y, sigma, mean: Any = 0.0, rows: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and covariance of f given y = rows @ f + noise, also for singular priors."""
    covariance = np.asarray(covariance, dtype=float)
    rows = np.eye(len(covariance)) if rows is None else np.asarray(rows, dtype=float)
    mean = np.broadcast_to(np.asarray(mean, dtype=float), len(covariance))
    noise = np.diag(np.broadcast_to(np.asarray(sigma, dtype=float) ** 2, len(rows)))
    gain = np.linalg.solve(rows @ covariance @ rows.T + noise, rows @ covariance).T
    return mean + gain @ (np.asarray(y) - rows @ mean), covariance - gain @ rows @ covariance


def regression(points: int, dimensions: int, sigma: float, *, mean: Any = 0.0) -> Problem:
    """Gaussian process regression as in Section 4.1: uniform inputs, length scale 1 and variance 1."""
    rng = np.random.default_rng(points)
    x = rng.random((points, dimensions))
    covariance = np.exp(-0.5 * ((x[:, None] - x) ** 2).sum(-1))
    y = rng.normal(0, np.sqrt(1 + sigma**2), points)
    return Problem(es.Dense(covariance, mean), Gaussian(y, sigma), *posterior(covariance, y, sigma, mean))


def singular() -> Problem:
    """Two elements that are repeated, a linear combination of them, and an element that never varies: rank 2 of 6."""
    base = np.array([[1.0, 0.6], [0.6, 2.0]])
    rows = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, -1], [0, 0]])
    covariance, y, sigma = rows @ base @ rows.T, np.array([1.0, -0.5, 0.3, 0.2, 1.1, 0.4]), 0.7
    mean = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 3.0])
    return Problem(es.Dense(covariance, mean), Gaussian(y, sigma), *posterior(covariance, y, sigma, mean))


def smooth() -> Problem:
    """A covariance whose numerical rank is far below its size, so that Cholesky without pivoting fails."""
    x = np.linspace(0, 1, 40)
    covariance = np.exp(-0.5 * (x[:, None] - x) ** 2)
    y = np.sin(5 * x)
    return Problem(es.Dense(covariance), Gaussian(y, 0.5), *posterior(covariance, y, 0.5))


def low_rank() -> Problem:
    t = np.linspace(-1, 1, 12)
    factor = np.column_stack([np.ones(12), 1.5 * t, t**2])
    y, mean = 1 + t, np.linspace(-2, 2, 12)
    return Problem(es.LowRank(factor, mean), Gaussian(y, 0.8), *posterior(factor @ factor.T, y, 0.8, mean))


def given_factor() -> Problem:
    factor = np.array([[1.0, 0.0], [0.8, 0.6], [-0.5, 1.2]])
    y, sigma = np.array([0.5, 1.5, -1.0]), np.array([0.4, 2.0, 0.9])
    return Problem(es.Dense(factor=factor), Gaussian(y, sigma), *posterior(factor @ factor.T, y, sigma))


def unequal_scales() -> Problem:
    """Correlated elements with standard deviations of 0.001 and 1000, and a large mean."""
    scale = np.array([1e-3, 1.0, 1e3])
    covariance = np.outer(scale, scale) * (0.5 + 0.5 * np.eye(3))
    mean, y, sigma = np.array([5.0, -20.0, 1e4]), np.array([5.001, -21.0, 1.05e4]), 0.7 * scale
    return Problem(es.Dense(covariance, mean), Gaussian(y, sigma), *posterior(covariance, y, sigma, mean))


def matrix_latent() -> Problem:
    """A latent with two axes."""
    rng = np.random.default_rng(3)
    variance, mean, y = rng.uniform(0.5, 2, (2, 3)), rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    answer = posterior(np.diag(variance.ravel()), y.ravel(), 0.6, mean.ravel())
    return Problem(es.Diagonal(variance, mean), Gaussian(y, 0.6), *answer)


def random_walk() -> Problem:
    """The paper's "routine that samples from N(0, Sigma)"."""
    covariance = 0.3 * np.minimum(np.arange(1, 9)[:, None], np.arange(1, 9))
    y, mean = np.sin(np.arange(8)), np.linspace(0, 1, 8)

    def routine(rng: np.random.Generator) -> np.ndarray:
        return np.sqrt(0.3) * rng.standard_normal(8).cumsum()

    return Problem(es.FromDraws(routine, 8, mean), Gaussian(y, 0.6), *posterior(covariance, y, 0.6, mean))


def mixed_signs() -> Problem:
    """Observations of sums and differences, by a function that works with NumPy and with JAX."""
    rows = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 1.0, 1.0], [2.0, 0.0, 0.0]])
    covariance = np.array([[1.0, 0.7, -0.2], [0.7, 1.5, 0.1], [-0.2, 0.1, 0.8]])
    y, sigma, mean = np.array([1.0, -2.0, 0.5, 3.0]), 0.8, np.array([1.0, -1.0, 0.5])

    def log_likelihood(f: Any) -> Any:
        return -0.5 * ((y - rows @ f) ** 2).sum() / sigma**2

    return Problem(es.Dense(covariance, mean), log_likelihood, *posterior(covariance, y, sigma, mean, rows))


PROBLEMS = {
    "one point": lambda: regression(1, 1, 0.3),
    "two points": lambda: regression(2, 1, 0.3),
    "30 points, 1 input": lambda: regression(30, 1, 0.3),
    "30 points, 10 inputs": lambda: regression(30, 10, 0.6, mean=1.5),
    "singular": singular,
    "smooth": smooth,
    "low rank": low_rank,
    "factor": given_factor,
    "unequal scales": unequal_scales,
    "two axes": matrix_latent,
    "own routine": random_walk,
    "own likelihood": mixed_signs,
}

MOVES = {
    "Figure 2": EllipticalSlice(),
    "narrow": EllipticalSlice(bracket_width=1.0),
    "halve": EllipticalSlice(shrinking="halve"),
    "other half": EllipticalSlice(shrinking="other_half"),
    "narrow, other half": EllipticalSlice(bracket_width=2.5, shrinking="other_half"),
    "narrow, halve": EllipticalSlice(bracket_width=2.5, shrinking="halve"),
    "Figure 1": AuxiliaryEllipse(),
    "Figure 1, concentrated": AuxiliaryEllipse(concentration=0.7),
    "cycle": Cycle(EllipticalSlice(bracket_width=0.8), AuxiliaryEllipse(), EllipticalSlice(shrinking="halve")),
    "Neal": NealMetropolis(0.5),
    "walk": RandomWalk(0.4),
    "line": LineSlice(),
    "coordinates": CoordinateSlice(),
    "CoordinateGibbs": CoordinateGibbs(),
    "control": ControlVariables.at_values([0, 1]),
}


def drawn(problem: Problem, **options: Any) -> np.ndarray:
    given = {"move": es.moves.EllipticalSlice(), "progress": False, **options}
    tree = es.sample(problem.log_likelihood, problem.prior, **given)
    assert tree.attrs["engine"] == options["engine"]
    assert tree.attrs["nan_evaluations"] == tree.attrs["failed_searches"] == 0
    f = tree.posterior["f"].to_numpy()
    return f.reshape(*f.shape[:2], -1)


@pytest.mark.short_cases("two points")
@pytest.mark.parametrize("name", PROBLEMS)
def test_compiled(name):
    problem = PROBLEMS[name]()
    draws = drawn(problem, engine="compiled", draws=8000, warmup=300, chains=4, thin=2, seed=SEED + 1)
    compare_gaussian(draws, problem.mean, problem.covariance, name)


@pytest.mark.short_cases("one point")
@pytest.mark.parametrize("name", ["one point", "30 points, 1 input", "singular", "own routine", "own likelihood"])
def test_host(name):
    problem = PROBLEMS[name]()
    draws = drawn(problem, engine="host", draws=4000, warmup=200, chains=4, seed=SEED + 2)
    compare_gaussian(draws, problem.mean, problem.covariance, name)


@pytest.mark.short_cases(
    "narrow-host",
    "Neal-compiled",
    "Figure 1-compiled",
    "Figure 1, concentrated-host",
    "other half-compiled",
    "line-compiled",
)
@pytest.mark.parametrize("engine", ["compiled", "host"])
@pytest.mark.parametrize("name", list(MOVES)[1:])
def test_moves(name, engine):
    """A posterior that is much narrower than the prior and off centre: brackets shrink on both sides."""
    covariance, y, sigma = np.array([[1.0, 0.9], [0.9, 2.0]]), np.array([1.5, -0.5]), np.array([0.3, 0.4])
    problem = Problem(es.Dense(covariance, 0.5), Gaussian(y, sigma), *posterior(covariance, y, sigma, 0.5))
    draws = {"compiled": 16000, "host": 4000}[engine]
    f = drawn(problem, engine=engine, draws=draws, warmup=100, chains=4, move=MOVES[name], seed=SEED + 3)
    compare_gaussian(f, problem.mean, problem.covariance, f"{name}, {engine}")


@pytest.mark.long
@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_stack_with_an_offset(engine):
    """y = f + b: a process and a constant, drawn jointly and passed by name."""
    t = np.arange(6)
    process, offset_variance = 0.8 * np.exp(-0.5 * (t[:, None] - t) ** 2 / 4), 9.0
    y, sigma = np.array([4.0, 5.0, 4.5, 5.5, 3.5, 4.0]), 0.7
    joint = np.zeros((7, 7))
    joint[:6, :6], joint[6, 6] = process, offset_variance
    rows = np.hstack([np.eye(6), np.ones((6, 1))])
    mean, covariance = posterior(joint, y, sigma, [0.0] * 6 + [1.0], rows)
    numpy_or_jax = jnp if engine == "compiled" else np

    def log_likelihood(f: Any, b: Any) -> Any:
        return -0.5 * numpy_or_jax.sum((y - f - b) ** 2) / sigma**2

    prior = es.Stack({"f": es.Dense(process), "b": es.Diagonal(offset_variance, mean=1.0)})
    tree = es.sample(
        log_likelihood,
        prior,
        move=es.moves.EllipticalSlice(),
        engine=engine,
        draws={"compiled": 20000, "host": 5000}[engine],
        thin={"compiled": 3, "host": 1}[engine],
        warmup=500,
        chains=4,
        seed=SEED + 4,
        progress=False,
    )
    draws = np.concatenate([tree.posterior["f"].to_numpy(), tree.posterior["b"].to_numpy()[..., None]], axis=-1)
    compare_gaussian(draws, mean, covariance, f"stack, {engine}")
    compare(draws[..., 0] + draws[..., 6], mean[0] + mean[6], "process + offset")


# --- the prior counted twice: prior N(0, 1), one observation 1.0 with standard deviation 0.5 ------------------------

RIGHT = stats.norm(0.8, math.sqrt(0.2))
TWICE = stats.norm(2 / 3, math.sqrt(1 / 6))


def compare_with_oracle(draws: np.ndarray, what: str) -> None:
    compare(draws, RIGHT.mean(), f"{what}, mean")
    compare((draws - RIGHT.mean()) ** 2, RIGHT.var(), f"{what}, variance")
    compare_distribution(draws, RIGHT.cdf, what)
    with pytest.raises(AssertionError, match="mean"):
        compare(draws, TWICE.mean(), "mean")
    with pytest.raises(AssertionError, match="variance"):
        compare((draws - TWICE.mean()) ** 2, TWICE.var(), "variance")
    with pytest.raises(AssertionError, match="distribution"):
        compare_distribution(draws, TWICE.cdf, what)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_double_prior_oracle(engine):
    tree = es.sample(
        Gaussian([1.0], 0.5),
        es.Diagonal([1.0]),
        move=es.moves.EllipticalSlice(),
        engine=engine,
        draws=12000,
        chains=4,
        seed=SEED + 5,
        progress=False,
    )
    compare_with_oracle(tree.posterior["f"].to_numpy()[..., 0], engine)


@pytest.mark.long
@pytest.mark.parametrize("width", [2 * math.pi, 1.5])
def test_double_prior_oracle_by_single_steps(width):
    """`es.step` in a loop of the user, several chains, on a latent of shape ()."""
    rng = np.random.default_rng(SEED + 6)
    draws = np.empty((4, 8000))
    for chain in draws:
        f, log_l = rng.standard_normal(), None
        for i in range(-50, chain.size):
            f, log_l, _ = es.step(
                f,
                rng.standard_normal(),
                lambda f: -2.0 * float(f - 1.0) ** 2,
                rng=rng,
                log_likelihood_f=log_l,
                bracket_width=width,
            )
            chain[max(i, 0)] = f
    compare_with_oracle(draws, f"step, width {width:.2f}")
