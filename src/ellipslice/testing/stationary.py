"""A posterior that is known, to see whether draws from it are still such after an update."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ellipslice.priors import Dense
from ellipslice.testing.assertions import require_p_value

NOISES = (math.inf, 1.0, 0.05)
"""Variances of the observations: the data say nothing, little or much."""


def gaussian(f: Any, data: Any, precision: Any) -> Any:
    """The log-likelihood of data with Gaussian noise, up to a constant."""
    return -0.5 * ((f - data) ** 2).sum() * precision


class KnownPosterior:
    """Two correlated values observed with this noise variance; an infinite one means no data."""

    def __init__(self, noise: float):
        covariance, data = np.array([[1.0, 0.8], [0.8, 1.5]]), np.array([1.0, -0.5])
        self.prior, self.observed = Dense(covariance), (data, 1 / noise)
        gain = np.zeros((2, 2)) if math.isinf(noise) else covariance @ np.linalg.inv(covariance + noise * np.eye(2))
        self._mean, self._spread = gain @ data, np.linalg.cholesky(covariance - gain @ covariance)

    def log_likelihood(self, f: Any) -> Any:
        """Up to a constant."""
        return gaussian(f, *self.observed)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Exact draws, shape (count, 2)."""
        return self._mean + rng.standard_normal((count, 2)) @ self._spread.T

    def check(self, move: Any, draws: np.ndarray) -> None:
        """Refuse independent draws that are not of this posterior."""
        from scipy import stats  # slow to import, and needed only here

        count = len(draws)
        end = np.linalg.solve(self._spread, (draws - self._mean).T).T
        for direction in np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, -0.6]]):
            values = end @ direction
            require_p_value(float(stats.kstest(values, "norm").pvalue), f"{move!r} does not keep the posterior")
            mean = 2 * float(stats.norm.sf(abs(values.mean()) * math.sqrt(count)))
            require_p_value(mean, f"{move!r} shifts the posterior's mean")
            tail = stats.chi2(count).cdf(float(values @ values))
            require_p_value(2 * min(tail, 1 - tail), f"{move!r} changes the posterior's variance")
        radius = np.sum(end**2, axis=1)
        require_p_value(float(stats.kstest(radius, stats.chi2(2).cdf).pvalue), f"{move!r} does not keep the posterior")
