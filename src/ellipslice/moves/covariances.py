"""Products with the covariance of a reference Gaussian or of the prior, for the kicks of `SplitHamiltonian`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.priors import Prior
from ellipslice.pytree import pytree, set_fields


@pytree
class DenseCovariance:
    """The covariance of a reference Gaussian, shape (size, size), or a factor of it, shape (rank, size)."""

    matrix: Any

    def __init__(self, rows: np.ndarray):
        rank, size = rows.shape
        set_fields(self, matrix=rows.T @ rows if 2 * rank > size else rows)

    def product(self, g: Any) -> Any:
        """Return the product of the covariance and a vector.

        It has full precision: the acceptance ratio is correct for exact products only, and TF32, which is the default
        of some GPUs, would bias the draws.
        """
        if self.matrix.shape[0] == self.matrix.shape[1]:
            return jnp.matmul(g, self.matrix, precision=lax.Precision.HIGHEST)
        inner = jnp.matmul(g, self.matrix.T, precision=lax.Precision.HIGHEST)
        return jnp.matmul(inner, self.matrix, precision=lax.Precision.HIGHEST)


@pytree
class PriorCovariance:
    """The covariance of a prior."""

    prior: Prior

    def __init__(self, prior: Prior):
        set_fields(self, prior=prior)
        try:
            if not prior.linear:
                raise prior._missing_capability("unwhiten")
            if jax.tree_util.all_leaves([prior]):
                raise prior._missing_capability("covariance_product")
            jax.eval_shape(lambda prior, g: prior.covariance_product(g), prior, np.zeros(prior.size))
        except TypeError as error:
            raise TypeError(
                f"SplitHamiltonian(None) needs products with the covariance of the prior in compiled code. {error} Use "
                "EllipticalSlice, or another prior."
            ) from None

    def product(self, g: Any) -> Any:
        """Return the product of the covariance and a vector, in full precision as `DenseCovariance.product`."""
        return self.prior.covariance_product(g)


@pytree
class PriorAsReference:
    """The prior itself as the reference, relative to which log(Q / prior) is zero."""

    centre: Any
    prior: Prior

    def __init__(self, prior: Prior):
        set_fields(self, centre=np.zeros(prior.size), prior=prior)

    def log_ratio(self, x: Any) -> Any:
        """Return 0, the log ratio of the prior and itself."""
        return jnp.zeros((), x.dtype)

    def draw(self, rng: np.random.Generator, count: int) -> Any:
        """Draw from the prior, without its mean. Return an array of shape (count, size)."""
        return self.prior.draw_zero_mean(rng, count)
