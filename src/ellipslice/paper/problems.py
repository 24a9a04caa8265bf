"""The twelve problems of the paper's Figure 6: R01 to R10, USPS and Mine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from ellipslice.data import coal_mining, usps_3v5
from ellipslice.likelihoods import Gaussian, Likelihood, Logistic, Poisson

PROBLEMS = (*(f"R{dimensions:02d}" for dimensions in range(1, 11)), "USPS", "Mine")

NOISE = 0.3
"""Standard deviation of the observations in R01 to R10."""


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
    """

    name: str
    inputs: np.ndarray
    covariance: np.ndarray
    likelihood: Likelihood


@cache
def problem(name: str) -> Problem:
    """A problem by its name in Figure 6.

    R01 to R10 are synthetic regression in 1 to 10 dimensions, 200 points each, made here from a fixed seed (the paper's
    own cannot be made again: they came from generators of old MATLAB versions). USPS is the digits 3 and 5, Mine the
    coal-mining explosions in 811 bins.

    Examples
    --------
    >>> problem("Mine").likelihood
    Poisson(811 observations, offset=-1.446)
    """
    if name == "Mine":
        coal = coal_mining()
        inputs = coal.centres[:, None]
        return Problem(name, inputs, squared_exponential(inputs, 13516.0), Poisson(coal.counts, math.log(191 / 811)))
    if name == "USPS":
        usps = usps_3v5()
        covariance = squared_exponential(usps.x_train, math.exp(2.5), math.exp(3.5))
        return Problem(name, usps.x_train, covariance, Logistic(usps.y_train))
    if name not in PROBLEMS:
        raise ValueError(f"there is no problem {name!r}; the paper has {', '.join(PROBLEMS)}.")
    rng = np.random.default_rng([2010, int(name[1:])])
    inputs = rng.random((200, int(name[1:])))
    covariance = squared_exponential(inputs, 1.0)
    values, vectors = np.linalg.eigh(covariance)
    truth = vectors @ (np.sqrt(np.maximum(values, 0)) * rng.standard_normal(200))
    return Problem(name, inputs, covariance, Gaussian(truth + NOISE * rng.standard_normal(200), NOISE))


def squared_exponential(inputs: np.ndarray, length_scale: float, deviation: float = 1.0) -> np.ndarray:
    """The paper's covariance: deviation^2 exp(-|x - x'|^2 / (2 length_scale^2))."""
    squares = (inputs**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * inputs @ inputs.T, 0.0)
    np.fill_diagonal(distances, 0.0)
    covariance = deviation**2 * np.exp(-0.5 * distances / length_scale**2)
    return (covariance + covariance.T) / 2
