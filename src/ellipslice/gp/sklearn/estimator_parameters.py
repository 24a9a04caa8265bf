"""Hyperparameters of the estimators: our own, which are log-normal, and those of the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import norm

from ellipslice.parameters.parameters import Parameters


class LogNormals:
    """Positive parameters with independent log-normal priors.

    Parameters
    ----------
    priors : mapping of str to (float, float)
        The median of each, and the standard deviation of its logarithm.
    """

    def __init__(self, priors: Mapping[str, tuple[float, float]]):
        self.names, self.size = list(priors), len(priors)
        self._centre = np.log([median for median, _ in priors.values()])
        self._deviation = np.array([deviation for _, deviation in priors.values()])

    def gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviations of u, the logarithms."""
        return self._centre, self._deviation

    def constrained(self, u: np.ndarray) -> dict[str, float]:
        """The parameters of one u."""
        return dict(zip(self.names, np.exp(u).tolist(), strict=True))

    def log_density(self, u: np.ndarray) -> float:
        """Of one u."""
        return float(norm.logpdf(u, self._centre, self._deviation).sum())


class JoinedParameters:
    """Hyperparameters as one unconstrained vector u: `LogNormals`, and `Parameters` of the user."""

    def __init__(self, *parts: LogNormals | Parameters):
        self._parts = [part for part in parts if part.size]
        self._cuts = np.cumsum([part.size for part in self._parts])[:-1]
        self.size = sum(part.size for part in self._parts)

    def gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviations of a Gaussian near the prior of u."""
        pairs = [part.gaussian() for part in self._parts]
        return np.concatenate([centre for centre, _ in pairs]), np.concatenate([deviation for _, deviation in pairs])

    def constrained(self, u: np.ndarray) -> dict[str, Any]:
        """The parameters of one u."""
        values: dict[str, Any] = {}
        for part, own in zip(self._parts, np.split(u, self._cuts), strict=False):
            values |= part.constrained(own)
        return {name: float(value) if np.ndim(value) == 0 else value for name, value in values.items()}

    def log_density(self, u: np.ndarray) -> float:
        """Of one u."""
        pairs = zip(self._parts, np.split(u, self._cuts), strict=False)
        return float(sum(part.log_density(own) for part, own in pairs))
