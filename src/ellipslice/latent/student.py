"""Independent Student t distributions along some axes, on whose ellipses hyperparameters move."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ellipslice.latent.scales import Scales


@dataclass(frozen=True, eq=False)
class StudentT:
    """Distribution of hyperparameters: their coordinates are centre + factor @ t with independent t variables.

    They are independent, because the tails of a multivariate t distribution in one direction become lighter with each
    dimension. It is a mixture of Gaussians N(centre, factor diag(s) factor') over random scales s. Given s, an ellipse
    of that Gaussian leaves it invariant, and given a point each scale is inverse gamma distributed.

    Attributes
    ----------
    scales : Scales
        The coordinates of the hyperparameters.
    centre : array, shape (size,)
    factor : array, shape (size, size)
    """

    degrees_of_freedom: ClassVar[float] = 4.0
    """Degrees of freedom of each t distribution."""

    scales: Scales
    centre: np.ndarray
    factor: np.ndarray

    @classmethod
    def with_covariance(cls, scales: Scales, centre: np.ndarray, covariance: np.ndarray) -> StudentT:
        """Return the distribution whose factor is the symmetric root of a matrix, so that axes are near those of u."""
        variances, axes = np.linalg.eigh(covariance)
        return cls(scales, centre, (axes * np.sqrt(variances)) @ axes.T)

    @classmethod
    def fitted(cls, scales: Scales, draws: np.ndarray) -> StudentT:
        """Return the distribution for draws of u, shape (draws, size)."""
        coordinates = scales.coordinates(draws)
        covariance = np.atleast_2d(np.cov(coordinates.T))
        ridge = np.diag(1e-4 * coordinates.var(axis=0) + 1e-12)
        return cls.with_covariance(scales, np.median(coordinates, axis=0), covariance + ridge)

    @cached_property
    def whitening(self) -> np.ndarray:
        """Inverse of the factor."""
        return np.linalg.inv(self.factor)

    @property
    def size(self) -> int:
        """Number of hyperparameters."""
        return len(self.centre)

    def white(self, u: np.ndarray) -> np.ndarray:
        """Return unconstrained hyperparameters in the coordinates of standard t variables, shape (..., size)."""
        return (self.scales.coordinates(u) - self.centre) @ self.whitening.T

    def log_density(self, away: np.ndarray) -> float:
        """Return the log density of the coordinates centre + away, up to a constant."""
        squares = (self.whitening @ away) ** 2
        return -0.5 * (self.degrees_of_freedom + 1) * float(np.log1p(squares / self.degrees_of_freedom).sum())

    def direction(self, away: np.ndarray, normals: np.ndarray, chi_square: np.ndarray) -> np.ndarray:
        """Return a draw from N(0, factor diag(s) factor'), with scales s drawn given the coordinates centre + away.

        Parameters
        ----------
        away : array, shape (size,)
        normals : array, shape (size,)
            Standard normals.
        chi_square : array, shape (size,)
            Draws with `degrees_of_freedom` + 1 degrees of freedom.
        """
        scales = (self.degrees_of_freedom + (self.whitening @ away) ** 2) / chi_square
        return self.factor @ (np.sqrt(scales) * normals)

    def draw(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a draw of unconstrained hyperparameters; None if it is outside the bounds."""
        return self.scales.unconstrained(self.centre + self.factor @ rng.standard_t(self.degrees_of_freedom, self.size))
