"""The scale on which each hyperparameter moves: its own, such as a standard deviation, or the unconstrained one.

If 0 fits the responses, the logarithm of a standard deviation has a long tail, but the standard deviation itself has
none. If the responses determine it well, the logarithm is more symmetric. Pilot runs choose between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, log_expit


@dataclass(frozen=True, eq=False)
class Scales:
    """Map from unconstrained hyperparameters u to the coordinates in which they move.

    Attributes
    ----------
    own : array of bool, shape (size,)
        True for a hyperparameter that moves on its own scale. The others move on the unconstrained scale.
    lower, upper : arrays, shape (size,)
        Bounds of the hyperparameters. Without a lower bound the two scales are the same.
    """

    own: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def unconstrained_of(cls, priors: Iterable[Any]) -> Scales:
        """Return the scales of hyperparameters with these priors, distributions of NumPyro; all are unconstrained."""
        bounds = np.array([_bounds(prior.support) for prior in priors]).reshape(-1, 2)
        return cls(np.zeros(len(bounds), bool), bounds[:, 0], bounds[:, 1])

    def using(self, own: np.ndarray) -> Scales:
        """Return the scales with another choice. Hyperparameters without bounds stay as they are."""
        return replace(self, own=own & np.isfinite(self.lower))

    def coordinates(self, u: np.ndarray) -> np.ndarray:
        """Return the coordinates of unconstrained hyperparameters, shape (..., size)."""
        with np.errstate(over="ignore", invalid="ignore"):
            half_line = self.lower + np.exp(u)
            interval = self.lower + (self.upper - self.lower) * expit(u)
            value = np.where(np.isfinite(self.upper), interval, half_line)
        return np.where(self.own, value, u)

    def unconstrained(self, coordinates: np.ndarray) -> np.ndarray | None:
        """Return unconstrained hyperparameters, shape (size,); None if one is outside its bounds."""
        outside = (coordinates <= self.lower) | (coordinates >= self.upper)
        if (outside & self.own).any():
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            u = np.log(coordinates - self.lower)
            u = np.where(np.isfinite(self.upper), u - np.log(self.upper - coordinates), u)
        return np.where(self.own, u, coordinates)

    def log_slope(self, u: np.ndarray) -> np.ndarray:
        """Return the log derivative of each coordinate with respect to u, shape (..., size)."""
        with np.errstate(invalid="ignore", over="ignore"):
            interval = np.log(self.upper - self.lower) + log_expit(u) + log_expit(-u)
        return np.where(self.own, np.where(np.isfinite(self.upper), interval, u), 0.0)


def _bounds(support: Any) -> tuple[float, float]:
    """Return the bounds of a support; infinite if they are not numbers, or if there is only an upper one."""
    lower, upper = getattr(support, "lower_bound", -np.inf), getattr(support, "upper_bound", np.inf)
    if np.ndim(lower) or np.ndim(upper) or not np.isfinite(lower):
        return -np.inf, np.inf
    return float(lower), float(upper)
