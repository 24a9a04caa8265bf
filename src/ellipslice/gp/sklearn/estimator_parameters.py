"""Hyperparameters of the estimators: default ones, which are log-normal, and those of the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import norm

from ellipslice.parameters.parameters import Parameters


class LogNormals:
    """Positive hyperparameters with independent log-normal priors. u is the vector of their logarithms.

    Parameters
    ----------
    priors : mapping of str to (float, float)
        Median of each hyperparameter, and standard deviation of its logarithm.
    """

    def __init__(self, priors: Mapping[str, tuple[float, float]]):
        self.names, self.size = list(priors), len(priors)
        self._centre = np.log([median for median, _ in priors.values()])
        self._std = np.array([std for _, std in priors.values()])

    def gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and standard deviations of u, each of shape (size,)."""
        return self._centre, self._std

    def constrained(self, u: np.ndarray) -> dict[str, float]:
        """Return the hyperparameters, by name, for one vector u."""
        return dict(zip(self.names, np.exp(u).tolist(), strict=True))

    def log_density(self, u: np.ndarray) -> float:
        """Return the log prior density of one vector u."""
        return float(norm.logpdf(u, self._centre, self._std).sum())


class JoinedParameters:
    """Several groups of hyperparameters, concatenated to one unconstrained vector u."""

    def __init__(self, *parts: LogNormals | Parameters):
        self._parts = [part for part in parts if part.size]
        self._splits = np.cumsum([part.size for part in self._parts])[:-1]
        self.size = sum(part.size for part in self._parts)

    def gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of a Gaussian approximation of the prior of u, each of shape (size,)."""
        pairs = [part.gaussian() for part in self._parts]
        return np.concatenate([centre for centre, _ in pairs]), np.concatenate([std for _, std in pairs])

    def constrained(self, u: np.ndarray) -> dict[str, Any]:
        """Return the hyperparameters, by name, for one vector u."""
        values: dict[str, Any] = {}
        for part, own in zip(self._parts, np.split(u, self._splits), strict=False):
            values |= part.constrained(own)
        return {name: float(value) if np.ndim(value) == 0 else value for name, value in values.items()}

    def log_density(self, u: np.ndarray) -> float:
        """Return the log prior density of one vector u."""
        pairs = zip(self._parts, np.split(u, self._splits), strict=False)
        return float(sum(part.log_density(own) for part, own in pairs))
