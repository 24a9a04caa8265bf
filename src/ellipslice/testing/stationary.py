"""A posterior with known distribution, which updates of a move must leave invariant."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ellipslice.priors import Dense
from ellipslice.testing.assertions import require_p_value

NOISES = (math.inf, 1.0, 0.05)
"""Noise variances of the observations: no data, weakly informative data, and strongly informative data."""


def gaussian(f: Any, data: Any, precision: Any) -> Any:
    """Return the log-likelihood of data with Gaussian noise, up to a constant."""
    return -0.5 * ((f - data) ** 2).sum() * precision


class KnownPosterior:
    """Posterior of two correlated elements, which are observed with noise variance `noise`. Infinity means no data."""

    def __init__(self, noise: float):
        covariance, data = np.array([[1.0, 0.8], [0.8, 1.5]]), np.array([1.0, -0.5])
        self.prior, self.observed = Dense(covariance), (data, 1 / noise)
        gain = np.zeros((2, 2)) if math.isinf(noise) else covariance @ np.linalg.inv(covariance + noise * np.eye(2))
        self._mean, self._spread = gain @ data, np.linalg.cholesky(covariance - gain @ covariance)

    def log_likelihood(self, f: Any) -> Any:
        """Return the log-likelihood up to a constant."""
        return gaussian(f, *self.observed)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return independent draws from the posterior, shape (count, 2)."""
        return self._mean + rng.standard_normal((count, 2)) @ self._spread.T

    def check(self, move: Any, draws: np.ndarray) -> None:
        """Raise if independent draws, shape (count, 2), do not have the distribution of the posterior."""
        from scipy import stats  # slow to import, and needed only here

        count = len(draws)
        end = np.linalg.solve(self._spread, (draws - self._mean).T).T
        for direction in np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, -0.6]]):
            values = end @ direction
            invariant = float(stats.kstest(values, "norm").pvalue)
            require_p_value(invariant, f"{move!r} does not leave the posterior invariant")
            mean = 2 * float(stats.norm.sf(abs(values.mean()) * math.sqrt(count)))
            require_p_value(mean, f"{move!r} shifts the mean of the posterior")
            tail = stats.chi2(count).cdf(float(values @ values))
            require_p_value(2 * min(tail, 1 - tail), f"{move!r} changes the variance of the posterior")
        radius = np.sum(end**2, axis=1)
        invariant = float(stats.kstest(radius, stats.chi2(2).cdf).pvalue)
        require_p_value(invariant, f"{move!r} does not leave the posterior invariant")
