"""Sums of independent Gaussians."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.priors.base import Prior
from ellipslice.priors.stack import Stack
from ellipslice.pytree import pytree, set_fields


@pytree
class Sum(Prior):
    """A prior for the sum of independent latents of one shape: covariances and means add up.

    Use it for a trend plus a seasonal term, a smooth field plus a rough one, or structure plus independent noise. The
    likelihood receives the sum. To obtain the terms separately, put them into a `Stack` and add them in the likelihood.

    Parameters
    ----------
    *priors : Prior
        Priors of the terms, at least one, all of the same shape.

    Raises
    ------
    TypeError
        If there are no terms, or if one is not a prior or is a `Stack`.
    ValueError
        If the shapes differ.

    Notes
    -----
    There is no set-up beyond that of the terms. A draw costs one draw of each term, and memory is that of the terms.
    There is no `whiten`, `log_density` or `condition`, because the inverse of a sum does not have the structure of the
    terms. For a low rank plus a diagonal see `LowRank`, which has them.

    Examples
    --------
    >>> import numpy as np
    >>> from ellipslice import Diagonal, Stationary
    >>> smooth = Stationary(lambda lag: np.exp(-0.5 * lag[..., 0] ** 2 / 25), 100, 1.0)
    >>> Sum(smooth, Diagonal(np.full(100, 0.1))).size
    100
    """

    stored_as = "Sum"

    priors: tuple[Prior, ...]
    mean: Any

    instead = (
        "the inverse of a sum does not have the structure of its terms. Use EllipticalSlice, which needs only draws, "
        "LowRank(factor, diagonal=...) for a low rank plus a diagonal, or a Stack of the terms, added in the "
        "likelihood."
    )

    def __init__(self, *priors: Prior):
        if not priors:
            raise TypeError("Sum got no priors; expected at least one.")
        for number, prior in enumerate(priors):
            if not isinstance(prior, Prior):
                raise TypeError(
                    f"term {number} is a {type(prior).__name__}; expected a prior. For a covariance matrix use Dense. "
                    "Pass a list of terms as Sum(*terms)."
                )
            if isinstance(prior, Stack):
                raise TypeError(
                    f"term {number} is a Stack, which has several named latents; expected a prior of one latent. Put "
                    "the Sum inside the Stack."
                )
            if prior.shape != priors[0].shape:
                raise ValueError(
                    f"term {number} has shape {prior.shape}, but term 0 has shape {priors[0].shape}. Expected terms of "
                    "the same shape."
                )
        means = [prior.mean for prior in priors if prior.mean is not None]
        set_fields(self, priors=tuple(priors), mean=sum(means[1:], means[0]) if means else None)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.priors[0].shape

    @property
    def noise_size(self) -> int:
        return sum(prior.noise_size for prior in self.priors)

    @property
    def rank(self) -> int:
        raise self._missing_capability("rank")

    @property
    def linear(self) -> bool:
        return all(prior.linear for prior in self.priors)

    @property
    def traceable(self) -> bool:
        return all(prior.traceable for prior in self.priors)

    def unwhiten(self, z: Any) -> Any:
        ends = np.cumsum([prior.noise_size for prior in self.priors])[:-1]
        parts = jnp.split(z, ends, -1)
        return sum(prior.unwhiten(part) for prior, part in zip(self.priors, parts, strict=True))

    def covariance_product(self, g: Any) -> Any:
        """Return Sigma @ g for one flat vector g: the sum of the products of the terms."""
        return sum(prior.covariance_product(g) for prior in self.priors)

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw from N(0, Sigma), without the mean. Return an array of shape (count, size)."""
        total = np.zeros((count, self.size))
        for prior in self.priors:
            total += np.asarray(prior.draw_zero_mean(rng, count))
        return total

    def __repr__(self) -> str:
        return f"Sum({', '.join(map(repr, self.priors))})"
