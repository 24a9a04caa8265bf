"""A multivariate Student t distribution, on whose ellipses hyperparameters move."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

DEGREES_OF_FREEDOM = 5.0
"""Default degrees of freedom: tails heavy enough for posteriors of standard deviations."""


@dataclass(frozen=True, eq=False)
class StudentT:
    """Student t distribution with a centre and the lower triangular factor of its scale matrix.

    It is a mixture of Gaussians N(centre, s factor factor') over a random scale s. Given s, an ellipse of that Gaussian
    leaves it invariant, and s given a point is inverse gamma distributed.
    """

    centre: np.ndarray
    factor: np.ndarray
    degrees_of_freedom: float = DEGREES_OF_FREEDOM

    @cached_property
    def whitening(self) -> np.ndarray:
        """Inverse of the factor."""
        return np.linalg.inv(self.factor)

    @property
    def size(self) -> int:
        """Dimension."""
        return len(self.centre)

    def square(self, away: np.ndarray) -> float:
        """Return the squared Mahalanobis distance of centre + away."""
        white = self.whitening @ away
        return float(white @ white)

    def log_density(self, away: np.ndarray) -> float:
        """Return the log density at centre + away, up to a constant."""
        return -0.5 * (self.degrees_of_freedom + self.size) * math.log1p(self.square(away) / self.degrees_of_freedom)

    def conditional_std(self, away: np.ndarray, chi_square: float) -> float:
        """Return the square root of a scale s drawn given centre + away.

        `chi_square` is a draw with `degrees_of_freedom` + `size` degrees of freedom.
        """
        return math.sqrt((self.degrees_of_freedom + self.square(away)) / chi_square)
