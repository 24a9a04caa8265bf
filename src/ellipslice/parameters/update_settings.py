"""Settings of the move of hyperparameters and latent functions. The posterior is sampled exactly with any settings."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from ellipslice.parameters.pivots import Pivots
from ellipslice.parameters.sites import SiteInterpolator

GAUSSIANS: tuple[Literal["prior", "posterior"], ...] = ("prior", "posterior")
"""Distributions that a `ParameterGaussian` approximates, in the order of its leading axis."""


class ParameterGaussian(NamedTuple):
    """A Gaussian on whose ellipses hyperparameters move. Any is valid; one close to the posterior mixes better.

    With a leading axis there are several, in the order of `GAUSSIANS`.
    """

    centre: Any
    """Mean, shape (size,)."""
    factor: Any
    """Lower triangular factor of the covariance, factor @ factor.T, shape (size, size)."""

    def log_density(self, away: Any) -> Any:
        """Return the log density at centre + away, up to a constant."""
        xp = np if isinstance(away, np.ndarray) else jnp
        white = xp.linalg.solve(self.factor, away)
        return -0.5 * white @ white

    def select(self, number: Any) -> ParameterGaussian:
        """Return the Gaussian with this index on the leading axis."""
        return ParameterGaussian(self.centre[number], self.factor[number])


class Step(NamedTuple):
    """Kind of one update of the hyperparameters."""

    parametrisation: str | None
    """A name of `PARAMETRISATIONS`; None if no hyperparameter enters a kernel or a mean."""
    around: Literal["prior", "posterior"] = "posterior"
    """The Gaussian whose ellipses are used."""
    alone: str | None = None
    """Name of the only element of u that moves, as in `Parameters.elements`. Default: all move.

    This requires the Gaussian of the prior, because its factor is diagonal."""


class JointSettings(NamedTuple):
    """The settings of a move, which pilot runs choose before a run."""

    together: ParameterGaussian
    """Gaussians of all hyperparameters, one for each of `GAUSSIANS`."""
    likelihood: ParameterGaussian
    """Gaussians of the hyperparameters that enter only the likelihood, one for each of `GAUSSIANS`."""
    surrogate_variance: np.ndarray
    """Noise variances of the surrogate data, shape (latents, n)."""
    sites: SiteInterpolator | None
    """Site approximations of the likelihood, if there are any."""
    mixture: tuple[Step, ...]
    """Steps of successive updates, repeated in this order."""
    rates: tuple[float, ...] = ()
    """Effective samples per cost of each parametrisation in pilot runs, relative to the best one."""
    pivots: Pivots | None = None
    """Pivots of low-rank factors. None: factors are full."""
