"""The joint prior of f and a linear map of it, [f, A f], for `likelihoods.LinearPredictor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.priors.base import Layout, Prior


class PredictorPrior(Prior):
    """The prior of x = [f, A f], whose draws are [nu, A nu]. Users see only f.

    Parameters
    ----------
    base : Prior
        Prior of f.
    times : callable
        Maps flat vectors f (..., base.size) to A f, shape (..., rows).
    rows : int
        Number of rows of A.
    traceable : bool
        Whether JAX can trace `times`.
    """

    user_class = "likelihoods.LinearPredictor"
    """Name of the class that the user gave, for error messages."""

    instead = (
        "it updates A f for all elements of f jointly. Use EllipticalSlice, or compute the product in the "
        "log-likelihood: lambda f: g(A @ f)."
    )

    def __init__(self, base: Prior, times: Callable[[Any], Any], rows: int, traceable: bool):
        self.base, self._times, self._traceable = base, times, traceable
        self.mean, self.shape = None, (base.size + rows,)

    @property
    def layout(self) -> Layout:
        return self.base.layout

    @property
    def noise_size(self) -> int:
        return self.base.noise_size

    @property
    def rank(self) -> int:
        return self.base.rank

    @property
    def linear(self) -> bool:
        return self.base.linear

    def device_factor(self) -> np.ndarray:
        return np.asarray(self.unwhiten(np.eye(self.noise_size)))

    @property
    def traceable(self) -> bool:
        return self._traceable and self.base.traceable

    def unwhiten(self, z: Any) -> Any:
        return self.augment(self.base.unwhiten(z))

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw [nu, A nu] with nu from N(0, Sigma). Return an array of shape (count, size)."""
        return self.augment(np.asarray(self.base.draw_zero_mean(rng, count)))

    def augment(self, f: Any) -> Any:
        """Return [f, A f] for each f of a batch (..., base.size)."""
        return (np if isinstance(f, np.ndarray) else jnp).concatenate([f, self._times(f)], -1)

    @property
    def capabilities(self) -> frozenset[str]:
        """Only `whiten`, if the base prior has it. It serves to find whether a point can be drawn."""
        return self.base.capabilities & {"whiten"}

    def _missing_capability(self, capability: str) -> TypeError:
        """Return the error for a missing capability, with the name of the user's class."""
        return TypeError(f"{self.user_class} has no `{capability}`: {self.instead}")

    def whiten(self, f: Any) -> Any:
        return self.base.whiten(f[..., : self.base.size])

    def __repr__(self) -> str:
        return repr(self.base)
