"""Independent elements."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.checks import as_mean, as_numbers
from ellipslice.priors.base import Prior, log_normal, on_span
from ellipslice.priors.parts.conditional import BlockConditional, Regression, as_block
from ellipslice.pytree import pytree, set_fields, static


@pytree
class Diagonal(Prior):
    """A Gaussian prior with independent elements.

    Use it for regression coefficients, intercepts and whitened latents. A single number gives a scalar latent, of
    shape ().

    Parameters
    ----------
    variance : float or array
        Variances, not standard deviations. At least 0. The shape of the array is the shape of the latent.
    mean : float or array
        Prior mean, a number or an array of the same shape as `variance`. Default: 0.

    Raises
    ------
    ValueError
        If a variance is negative or not finite, if the array is empty, or if it is a diagonal matrix (a covariance).

    Notes
    -----
    With N elements, set-up, a draw, `whiten`, `log_density` and `condition` all cost O(N), in time and memory.

    Examples
    --------
    >>> import numpy as np
    >>> Diagonal(np.full((3, 4), 2.0))
    Diagonal(shape (3, 4))
    """

    stored_as = "Diagonal"

    deviation: Any
    mean: Any
    shape: tuple[int, ...] = static()

    by_numpy = True

    def __init__(self, variance: Any, mean: Any = 0.0):
        values = as_numbers(variance, "variance")
        if values.size == 0:
            raise ValueError("variance is empty. Expected at least one value.")
        if (values < 0).any():
            raise ValueError(f"variance must not be negative, but its smallest value is {values.min():.6g}.")
        if (
            values.ndim == 2
            and len(set(values.shape)) == 1 < len(values)
            and not (values - np.diag(values.diagonal())).any()
        ):
            raise ValueError(
                f"variance is a matrix of shape {values.shape} with zeros off its diagonal, so it seems to be a "
                "covariance. Pass its diagonal, Diagonal(numpy.diag(covariance)), or pass the matrix to Dense."
            )
        mean = as_mean(mean, values.shape)
        set_fields(self, deviation=np.sqrt(values).ravel(), mean=mean, shape=values.shape)

    @property
    def noise_size(self) -> int:
        return self.size

    def unwhiten(self, z: Any) -> Any:
        return z * self.deviation

    @property
    def rank(self) -> int:
        return int(np.count_nonzero(self.deviation))

    def whiten(self, f: Any) -> Any:
        return jnp.where(self.deviation > 0, f / jnp.where(self.deviation > 0, self.deviation, 1.0), 0.0)

    def log_density(self, f: Any) -> Any:
        z, varies = self.whiten(f), self.deviation > 0
        log_determinant = 2 * jnp.sum(jnp.log(jnp.where(varies, self.deviation, 1.0)))
        return on_span(log_normal(z, log_determinant, varies.sum()), f, self.unwhiten(z))

    def condition(self, block: Any) -> BlockConditional:
        block = as_block(block, self.size)
        no_weights = np.zeros((0, len(block)))
        return Regression(block, np.zeros(0, dtype=np.int64), no_weights, Diagonal(self.deviation[block] ** 2))

    def __repr__(self) -> str:
        return f"Diagonal(shape {self.shape})"
