"""The scales on which hyperparameters move: their own, such as standard deviations, and the unconstrained one.

If 0 fits the responses, the logarithm of a standard deviation has a long tail, but the standard deviation itself has
none. Far from 0, the logarithm is more symmetric. Updates therefore use the two scales in turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit


@dataclass(frozen=True, eq=False)
class Scales:
    """Map from unconstrained hyperparameters u to the coordinates in which they move.

    Attributes
    ----------
    own : bool
        Whether hyperparameters with a lower bound move on their own scale. The others are unconstrained.
    lower, upper : arrays, shape (size,)
        Bounds of the hyperparameters.
    """

    own: bool
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, priors: Iterable[Any], own: bool) -> Scales:
        """Return the scales of hyperparameters with these priors, distributions of NumPyro."""
        bounds = np.array([_bounds(prior.support) for prior in priors]).reshape(-1, 2)
        return cls(own, bounds[:, 0], bounds[:, 1])

    @property
    def moved(self) -> np.ndarray:
        """Mask of the hyperparameters that move on their own scale."""
        return self.own & np.isfinite(self.lower)

    def coordinates(self, u: np.ndarray) -> np.ndarray:
        """Return the coordinates of unconstrained hyperparameters, shape (..., size)."""
        with np.errstate(over="ignore", invalid="ignore"):
            half_line = self.lower + np.exp(u)
            interval = self.lower + (self.upper - self.lower) * expit(u)
            value = np.where(np.isfinite(self.upper), interval, half_line)
        return np.where(self.moved, value, u)

    def unconstrained(self, coordinates: np.ndarray) -> np.ndarray | None:
        """Return unconstrained hyperparameters, shape (size,); None if one is outside its bounds."""
        outside = (coordinates <= self.lower) | (coordinates >= self.upper)
        if (outside & self.moved).any():
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            u = np.log(coordinates - self.lower)
            u = np.where(np.isfinite(self.upper), u - np.log(self.upper - coordinates), u)
        return np.where(self.moved, u, coordinates)

    def log_slope(self, u: np.ndarray) -> np.ndarray:
        """Return the log derivative of each coordinate with respect to u, shape (..., size)."""
        with np.errstate(invalid="ignore", over="ignore"):
            interval = np.log(self.upper - self.lower) + log_expit(u) + log_expit(-u)
        return np.where(self.moved, np.where(np.isfinite(self.upper), interval, u), 0.0)


def _bounds(support: Any) -> tuple[float, float]:
    """Return the bounds of a support; infinite if they are not numbers, or if there is only an upper one."""
    lower, upper = getattr(support, "lower_bound", -np.inf), getattr(support, "upper_bound", np.inf)
    if np.ndim(lower) or np.ndim(upper) or not np.isfinite(lower):
        return -np.inf, np.inf
    return float(lower), float(upper)
