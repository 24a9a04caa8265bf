"""The problems on which effective samples per second are measured.

Five of them have references of very different quality. The others were made for the test of `reference="auto"`. They
differ in their likelihood, in their size, and in how well a Gaussian approximates the posterior: an ellipse of the
reference accepts its first proposal with probabilities from nearly 0 (T400) to 0.9 (counts). All data are fixed, so
seeds only change the random numbers of the samplers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ellipslice.apps.paper import PROBLEMS, problem
from ellipslice.data import finnish_pines
from ellipslice.likelihoods import Binomial, NegativeBinomial, Poisson, Probit, StudentT


class LatentProblem(NamedTuple):
    """A Gaussian prior with mean zero, and a log-likelihood that JAX can trace."""

    log_likelihood: Callable[[Any], Any]
    covariance: np.ndarray
    """Prior covariance, shape (N, N)."""


def pines() -> LatentProblem:
    """Return the log-Gaussian Cox process of Møller, Syversveen & Waagepetersen (1998): 126 pines on 30 x 30 cells."""
    counts = finnish_pines().ravel()
    variance = 1.91
    offset = math.log(counts.sum() / counts.size) - variance / 2
    return LatentProblem(Poisson(counts, offset=offset), exponential(field(30), variance, 30 / 33))


def outliers() -> LatentProblem:
    """Return a 20 x 20 field with Student-t noise, whose posterior has several modes."""
    covariance = exponential(field(20), 4.0, 5.0)
    f, rng = truth(covariance, 400)
    return LatentProblem(StudentT(f + 0.2 * rng.standard_t(2.0, 400), 0.2, 2.0), covariance)


def overdispersed() -> LatentProblem:
    """Return negative binomial counts on a 40 x 40 field."""
    covariance = exponential(field(40), 1.0, 8.0)
    f, rng = truth(covariance, 1600)
    rate = np.exp(f + 1.0)
    return LatentProblem(NegativeBinomial(rng.negative_binomial(2.0, 2.0 / (2.0 + rate)), 2.0, 1.0), covariance)


def volatility() -> LatentProblem:
    """Return a time series of 800 returns whose log variance is an Ornstein-Uhlenbeck process."""
    covariance = exponential(np.arange(800.0)[:, None], 2.0, 10.0)
    f, rng = truth(covariance, 800)
    squares = (np.exp(f / 2) * rng.standard_normal(800)) ** 2
    return LatentProblem(lambda f: -0.5 * (f + squares * jnp.exp(-f)).sum(), covariance)


def heteroscedastic() -> LatentProblem:
    """Return regression with two latent functions at 150 inputs: the mean, and the logarithm of the noise scale.

    The likelihood does not factorise over the elements of f, so the reference comes from a pilot run.
    """
    x = np.sort(np.random.default_rng(150).random(150))[:, None]
    smooth = np.exp(-0.5 * ((x - x.T) / 0.15) ** 2)
    covariance = np.zeros((300, 300))
    covariance[:150, :150], covariance[150:, 150:] = 4.0 * smooth, smooth
    f, rng = truth(covariance + 1e-9 * np.eye(300), 300)
    y = f[:150] + np.exp(f[150:] - 1.0) * rng.standard_normal(150)

    def log_likelihood(f: Any) -> Any:
        return -(f[150:] + 0.5 * (y - f[:150]) ** 2 * jnp.exp(2.0 - 2.0 * f[150:])).sum()

    return LatentProblem(log_likelihood, covariance)


def proportions() -> LatentProblem:
    """Return a 25 x 25 field with 20 binomial trials in each cell."""
    covariance = matern(field(25), 1.0, 4.0)
    f, rng = truth(covariance, 625)
    return LatentProblem(Binomial(rng.binomial(20, 1 / (1 + np.exp(-f))), np.full(625, 20)), covariance)


def labels() -> LatentProblem:
    """Return binary labels with a probit link at 400 points of the plane, and a large amplitude."""
    points = np.random.default_rng(401).random((400, 2))
    covariance = matern(points, 100.0, 0.3)
    f, rng = truth(covariance, 400)
    return LatentProblem(Probit(np.where(f + rng.standard_normal(400) > 0, 1, -1)), covariance)


def arrivals() -> LatentProblem:
    """Return a time series of 500 large counts, which are informative data."""
    covariance = matern(np.arange(500.0)[:, None], 1.0, 20.0)
    f, rng = truth(covariance, 500)
    return LatentProblem(Poisson(rng.poisson(np.exp(f + 4.0)), offset=4.0), covariance)


def sparse_counts() -> LatentProblem:
    """Return Poisson counts on a 25 x 25 field, most of which are zero."""
    covariance = exponential(field(25), 2.0, 3.0)
    f, rng = truth(covariance, 625)
    return LatentProblem(Poisson(rng.poisson(np.exp(f - 1.0)), offset=-1.0), covariance)


def heavy_tails() -> LatentProblem:
    """Return a 20 x 20 field with Student-t noise that is as large as half the amplitude, so outliers are rarer."""
    covariance = exponential(field(20), 1.0, 5.0)
    f, rng = truth(covariance, 401)
    return LatentProblem(StudentT(f + 0.5 * rng.standard_t(4.0, 400), 0.5, 4.0), covariance)


SYNTHETIC: dict[str, Callable[[], LatentProblem]] = {
    "pines": pines,
    "T400": outliers,
    "NB1600": overdispersed,
    "volatility": volatility,
    "heteroscedastic": heteroscedastic,
    "binomial": proportions,
    "probit": labels,
    "counts": arrivals,
    "sparse": sparse_counts,
    "tails": heavy_tails,
}
"""Problems that are not in the paper."""

EFFECTIVE_PROBLEMS = ("pines", "USPS", "Mine", "R10", "R01")
"""Problems on which this library is compared with gradient methods."""

CHOICE_PROBLEMS = (*EFFECTIVE_PROBLEMS, *(name for name in SYNTHETIC if name != "pines"))
"""Problems on which the choice of `reference="auto"` is compared with each of its moves."""

NAMES = (*CHOICE_PROBLEMS, *(name for name in PROBLEMS if name not in CHOICE_PROBLEMS))
"""Names of all problems, in the order of tables and plots."""


@cache
def latent_problem(name: str) -> LatentProblem:
    """Return a problem by its name, one of `NAMES`."""
    if name in SYNTHETIC:
        return SYNTHETIC[name]()
    if name not in PROBLEMS:
        raise ValueError(f"there is no problem {name!r}. Choose from {', '.join(NAMES)}.")
    given = problem(name)
    return LatentProblem(given.likelihood, given.covariance)


def field(side: int) -> np.ndarray:
    """Return the coordinates of the cells of a square grid, shape (side * side, 2)."""
    rows, columns = np.indices((side, side))
    return np.stack([rows.ravel(), columns.ravel()], axis=-1).astype(float)


def exponential(points: np.ndarray, variance: float, length_scale: float) -> np.ndarray:
    """Return an exponential covariance matrix at some points, shape (N, N)."""
    return variance * np.exp(-distances(points) / length_scale)


def matern(points: np.ndarray, variance: float, length_scale: float) -> np.ndarray:
    """Return a Matérn 3/2 covariance matrix at some points, shape (N, N)."""
    scaled = math.sqrt(3.0) * distances(points) / length_scale
    return variance * (1 + scaled) * np.exp(-scaled)


def distances(points: np.ndarray) -> np.ndarray:
    """Return the distances of all pairs of points, shape (N, N)."""
    return np.sqrt(((points[:, None] - points) ** 2).sum(-1))


def truth(covariance: np.ndarray, seed: int) -> tuple[np.ndarray, np.random.Generator]:
    """Return a draw from the prior, and the generator that made it, for the noise."""
    rng = np.random.default_rng(seed)
    return np.linalg.cholesky(covariance) @ rng.standard_normal(len(covariance)), rng
