"""The mode of the hyperparameters' Laplace marginal posterior, and its curvature: the start of a fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ellipslice.latent.newton import Mode, find_mode, first_predictor
from ellipslice.latent.posterior import LatentPosterior

GRADIENT_STEP = 1e-3
"""Step of central differences for the gradient."""

CURVATURE_STEP = 0.05
"""Step of central differences for the curvature: larger, because Newton's method has a tolerance."""

LARGEST_VARIANCE = 9.0
"""Largest variance of a direction of u in the Gaussian at the mode, which may be flat there."""

LARGEST_CURVATURE = 1e6
"""Largest curvature that is used at the start of the search. Larger ones are due to points without a mode."""

IMPOSSIBLE = 1e10
"""Negative log density where there is no mode of the latents."""


class MarginalMode(NamedTuple):
    """The mode of the hyperparameters in the Laplace approximation."""

    u: np.ndarray
    covariance: np.ndarray
    """Inverse of the curvature."""
    latents: Mode
    """The mode of the latents there."""


class LaplaceMarginal:
    """Laplace approximation of -log p(u | y), a function for optimisers.

    Each call starts from the mode of the latents at the best u so far. The mode at the last u may be far from all
    others, because optimisers try values of u that are too large.
    """

    def __init__(self, posterior: LatentPosterior, eta: np.ndarray):
        self._posterior, self._eta, self._best = posterior, eta, -np.inf
        self.latest: Mode | None = None

    def __call__(self, u: np.ndarray) -> float:
        at = self._posterior.at(np.asarray(u, dtype=np.float64))
        with np.errstate(all="ignore"):
            found = None if at is None else find_mode(self._posterior, at, self._eta)
        if found is None or not np.isfinite(found.log_density):
            return IMPOSSIBLE
        self.latest = found
        if found.log_density >= self._best:
            self._eta, self._best = found.eta, found.log_density
        return -found.log_density

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Return the gradient by central differences."""
        steps = GRADIENT_STEP * np.eye(len(u))
        return np.array([(self(u + step) - self(u - step)) / (2 * GRADIENT_STEP) for step in steps])

    def second_derivatives(self, u: np.ndarray) -> np.ndarray:
        """Return the second derivative with respect to each hyperparameter by central differences."""
        middle, steps = self(u), CURVATURE_STEP * np.eye(len(u))
        return np.array([self(u + step) + self(u - step) - 2 * middle for step in steps]) / CURVATURE_STEP**2

    def curvature(self, u: np.ndarray) -> np.ndarray:
        """Return the matrix of second derivatives by central differences."""
        steps, found = CURVATURE_STEP * np.eye(len(u)), np.diag(self.second_derivatives(u))
        for i in range(len(u)):
            for j in range(i):
                corners = [self(u + a * steps[i] + b * steps[j]) for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
                value = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * CURVATURE_STEP**2)
                found[i, j] = found[j, i] = value
        return found


def find_marginal_mode(posterior: LatentPosterior) -> MarginalMode:
    """Return the mode of the hyperparameters. Raise if no starting point has a finite density."""
    start = posterior.hyperparameters.start()
    at = posterior.at(start)
    offset = posterior.assembly.offset
    marginal = LaplaceMarginal(posterior, offset if at is None else first_predictor(at.likelihood, offset))
    if marginal(start) == IMPOSSIBLE:
        raise ValueError(
            "the latents have no mode at the medians of the priors of the hyperparameters. The posterior may be "
            "improper: use proper priors for fixed effects, and check the responses."
        )
    if not len(start):
        marginal(start)
        return MarginalMode(start, np.zeros((0, 0)), _latest(marginal))
    # Curvatures may differ by orders of magnitude. Without them, the search can go to a standard deviation of nearly 0,
    # where the density is almost flat, and end there.
    curvatures = np.clip(np.abs(marginal.second_derivatives(start)), 1 / LARGEST_VARIANCE, LARGEST_CURVATURE)
    options = {"gtol": 1e-2, "maxiter": 60, "hess_inv0": np.diag(1 / curvatures)}
    found = minimize(marginal, start, jac=marginal.gradient, method="BFGS", options=options)
    if not np.isfinite(found.fun) or found.fun >= IMPOSSIBLE:
        found = minimize(marginal, start, method="Nelder-Mead", options={"xatol": 1e-2, "fatol": 1e-2})
    u = np.asarray(found.x)
    variances, axes = np.linalg.eigh(_finite(marginal.curvature(u)))
    variances = 1 / np.maximum(variances, 1 / LARGEST_VARIANCE)
    marginal(u)
    return MarginalMode(u, (axes * variances) @ axes.T, _latest(marginal))


def _finite(matrix: np.ndarray) -> np.ndarray:
    return matrix if np.isfinite(matrix).all() else np.eye(len(matrix))


def _latest(marginal: LaplaceMarginal) -> Mode:
    if marginal.latest is None:
        raise ValueError("the latents have no mode at the mode of the hyperparameters.")
    return marginal.latest
