"""The proposal distribution of unconstrained hyperparameters: independent Student t distributions along some axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

DEGREES = 4.0
"""Degrees of freedom: tails that are heavier than those of posteriors of logarithms and logits."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """Distribution of u = centre + factor @ t with independent t variables, and its density with all constants.

    Attributes
    ----------
    centre : array, shape (size,)
    factor : array, shape (size, size)
    """

    centre: np.ndarray
    factor: np.ndarray

    @classmethod
    def fitted(cls, draws: np.ndarray) -> Proposal:
        """Return the distribution for draws of the posterior, shape (count, size)."""
        centred = draws - draws.mean(axis=0)
        covariance = centred.T @ centred / len(draws) + np.diag(1e-4 * draws.var(axis=0) + 1e-12)
        variances, axes = np.linalg.eigh(covariance)
        return cls(np.median(draws, axis=0), (axes * np.sqrt(variances)) @ axes.T)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return independent draws, shape (count, size)."""
        return self.centre + rng.standard_t(DEGREES, (count, len(self.centre))) @ self.factor.T

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Return the log density at u, shape (..., size)."""
        size = len(self.centre)
        white = (u - self.centre) @ np.linalg.inv(self.factor).T
        constant = gammaln((DEGREES + 1) / 2) - gammaln(DEGREES / 2) - 0.5 * np.log(DEGREES * np.pi)
        logs = -0.5 * (DEGREES + 1) * np.log1p(white**2 / DEGREES)
        return logs.sum(-1) + size * constant - np.linalg.slogdet(self.factor)[1]
