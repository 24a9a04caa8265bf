"""The sum of independent Gaussians."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.priors.base import Prior
from ellipslice.priors.stack import Stack
from ellipslice.pytree import pytree, set_fields


@pytree
class Sum(Prior):
    """The sum of independent latents of one shape: covariances and means add up.

    Use it for a trend plus a season, a smooth field plus a rough one, or structure plus independent noise. The
    likelihood receives the sum; to have the terms one by one, put them into a `Stack` and add them in the likelihood.

    Parameters
    ----------
    *priors : Prior
        All of one shape.

    Notes
    -----
    A draw costs a draw of each. It has no `whiten`, `log_density` or `condition`, because the inverse of a sum has not
    the terms' structure; that of a low rank plus a diagonal has, see `LowRank`.

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
        "the inverse of a sum has not its terms' structure. Use EllipticalSlice, which needs only draws; "
        "LowRank(factor, diagonal=...) for a low rank plus a diagonal; or a Stack of the terms, to be added in the "
        "likelihood."
    )

    def __init__(self, *priors: Prior):
        if not priors:
            raise TypeError("Sum needs at least one prior.")
        for number, prior in enumerate(priors):
            if not isinstance(prior, Prior):
                raise TypeError(
                    f"term {number} is a {type(prior).__name__}, not a prior. Wrap a covariance in Dense; several "
                    "terms go in one by one, Sum(*terms)."
                )
            if isinstance(prior, Stack):
                raise TypeError(
                    f"term {number} is a Stack, whose latents have names of their own. Add inside the Stack."
                )
            if prior.shape != priors[0].shape:
                raise ValueError(f"term {number} has shape {prior.shape}, but term 0 has {priors[0].shape}.")
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

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from N(0, Sigma), the mean left out, shape (count, size)."""
        total = np.zeros((count, self.size))
        for prior in self.priors:
            total += np.asarray(prior.draw_zero_mean(rng, count))
        return total

    def __repr__(self) -> str:
        return f"Sum({', '.join(map(repr, self.priors))})"
