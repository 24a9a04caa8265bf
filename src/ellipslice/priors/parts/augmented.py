"""A prior with a linear map of its values beside them: [f, A f], for `likelihoods.LinearPredictor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.priors.base import Layout, Prior


class PredictorPrior(Prior):
    """The prior of x = [f, A f], whose draws are [nu, A nu]. The sampler's own; users see f alone.

    Parameters
    ----------
    base : Prior
    times : callable
        Batches of flat vectors (..., base.size) to A times each, (..., rows).
    rows : int
    traceable : bool
        Whether JAX can trace `times`.
    """

    asked_for = "likelihoods.LinearPredictor"
    """What the user gave, for which A f is carried along."""

    instead = (
        "it carries A f along for all values together. Use EllipticalSlice, or write the product into the "
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
        """Draws from N(0, Sigma) and their products, shape (count, size)."""
        return self.augment(np.asarray(self.base.draw_zero_mean(rng, count)))

    def augment(self, f: Any) -> Any:
        """[f, A f] for each f of a batch."""
        return (np if isinstance(f, np.ndarray) else jnp).concatenate([f, self._times(f)], -1)

    @property
    def capabilities(self) -> frozenset[str]:
        """That of finding whether a point can be drawn."""
        return self.base.capabilities & {"whiten"}

    def _missing_capability(self, capability: str) -> TypeError:
        """Return the error of a missing capability, in terms of what the user gave."""
        return TypeError(f"{self.asked_for} has no `{capability}`: {self.instead}")

    def whiten(self, f: Any) -> Any:
        return self.base.whiten(f[..., : self.base.size])

    def __repr__(self) -> str:
        return repr(self.base)
