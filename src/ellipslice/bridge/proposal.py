"""The proposal distribution of unconstrained hyperparameters: t distributions fitted to draws, and the prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from ellipslice.parameters.parameters import Parameters

DEGREES = 4.0
"""Degrees of freedom: tails that are heavier than those of posteriors of logarithms and logits."""

PRIOR_SHARE = 0.1
"""Share of draws of the prior. They can find a mode that the fitted distribution does not reach."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """Mixture of the prior of u, and of u = centre + factor @ t with independent t variables.

    Attributes
    ----------
    parameters : Parameters
        The hyperparameters with their priors.
    centre : array, shape (size,)
    factor : array, shape (size, size)
    """

    parameters: Parameters
    centre: np.ndarray
    factor: np.ndarray

    @classmethod
    def fitted(cls, parameters: Parameters, draws: np.ndarray) -> Proposal:
        """Return the distribution for draws of the posterior of u, shape (count, size). Infinite ones are left out."""
        draws = draws[np.isfinite(draws).all(axis=1)]
        centred = draws - draws.mean(axis=0)
        covariance = centred.T @ centred / len(draws) + np.diag(1e-4 * draws.var(axis=0) + 1e-12)
        variances, axes = np.linalg.eigh(covariance)
        return cls(parameters, np.median(draws, axis=0), (axes * np.sqrt(variances)) @ axes.T)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return independent draws, shape (count, size)."""
        u = self.centre + rng.standard_t(DEGREES, (count, len(self.centre))) @ self.factor.T
        of_prior = rng.random(count) < PRIOR_SHARE
        if len(self.centre):
            with np.errstate(all="ignore"):
                u[of_prior] = self.parameters.draw(rng, count)[of_prior]
        return u

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Return the log density at several u, shape (count, size), with all constants."""
        size = len(self.centre)
        if not size:
            return np.zeros(len(u))
        white = (u - self.centre) @ np.linalg.inv(self.factor).T
        constant = gammaln((DEGREES + 1) / 2) - gammaln(DEGREES / 2) - 0.5 * np.log(DEGREES * np.pi)
        logs = -0.5 * (DEGREES + 1) * np.log1p(white**2 / DEGREES)
        fitted = logs.sum(-1) + size * constant - np.linalg.slogdet(self.factor)[1]
        prior = np.array([self.parameters.log_density(one) for one in u])
        with np.errstate(invalid="ignore"):  # the prior may be NaN where u is infinite
            return np.logaddexp(np.log(1 - PRIOR_SHARE) + fitted, np.log(PRIOR_SHARE) + prior)
