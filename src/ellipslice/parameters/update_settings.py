"""Settings of the move of hyperparameters and latent functions. No choice of them changes what is sampled."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from ellipslice.parameters.pivots import Pivots
from ellipslice.parameters.sites import SiteInterpolator

GAUSSIANS: tuple[Literal["prior", "posterior"], ...] = ("prior", "posterior")
"""What the Gaussians of a `ParameterGaussian` approximate, in the order of its leading axis."""


class ParameterGaussian(NamedTuple):
    """A Gaussian to move some hyperparameters around, on its ellipses. Any is valid; a close one mixes better.

    With a leading axis there are several, in the order of `GAUSSIANS`.
    """

    centre: Any
    factor: Any
    """Lower triangular: the covariance is factor @ factor.T."""

    def log_density(self, away: Any) -> Any:
        """Return the log density at centre + away, up to a constant."""
        xp = np if isinstance(away, np.ndarray) else jnp
        white = xp.linalg.solve(self.factor, away)
        return -0.5 * white @ white

    def select(self, number: Any) -> ParameterGaussian:
        """Return one of several."""
        return ParameterGaussian(self.centre[number], self.factor[number])


class Step(NamedTuple):
    """How one update moves the hyperparameters."""

    parametrisation: str | None
    """A name of `PARAMETRISATIONS`; None if no hyperparameter enters a kernel or a mean."""
    around: Literal["prior", "posterior"] = "posterior"
    """The Gaussian whose ellipses are used."""
    alone: str | None = None
    """The element of u that moves while the others stay, as in `Parameters.elements`. Default: all move.

    Only around the Gaussian of the prior, because its factor is diagonal."""


class JointSettings(NamedTuple):
    """What is chosen before a run."""

    together: ParameterGaussian
    """For all hyperparameters: one for each of `GAUSSIANS`."""
    likelihood: ParameterGaussian
    """For hyperparameters that only the likelihood has: one for each of `GAUSSIANS`."""
    surrogate_variance: np.ndarray
    """Noise variances of the surrogate data, shape (latents, n)."""
    sites: SiteInterpolator | None
    mixture: tuple[Step, ...]
    """What successive updates do, in turn."""
    rates: tuple[float, ...] = ()
    """Of each parametrisation: effective samples for the same work in pilot runs, relative to the best one."""
    pivots: Pivots | None = None
    """For low-rank factors."""
