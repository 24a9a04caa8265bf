"""Any Gaussian as a reference: from a pilot run, or given by the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.linalg import cholesky, solve_triangular

from ellipslice.approximations.sites import check_size, covariance_factor, triangular
from ellipslice.moves.reference_slice import LogRatio
from ellipslice.priors import Dense, Prior
from ellipslice.priors.dense import draw_by_rows
from ellipslice.pytree import HostOnly, pytree, set_fields


@dataclass(frozen=True, eq=False)
class WhiteGaussian:
    """A reference Gaussian in whitened coordinates z, in which the prior is N(0, I).

    Parameters
    ----------
    mean : array, shape (rank,)
    covariance : array, shape (rank, rank)
        Positive definite.
    """

    stored_as = "WhiteGaussian"

    mean: np.ndarray
    covariance: np.ndarray

    elementwise: ClassVar[bool] = False

    def relative_to(self, prior: Prior) -> RelativeGaussian:
        """Return the reference relative to a prior, whose covariance factor becomes a dense matrix."""
        white = Dense(factor=covariance_factor(prior).T)
        check_size(len(self.mean), white.noise_size, "standard normals", prior)
        return RelativeGaussian(white, self)


@pytree
class RelativeGaussian:
    """A `WhiteGaussian` relative to a prior. It adds O(rank^2) to the cost of an update."""

    centre: Any
    """Mean of Q as a centred flat vector, shape (size,)."""
    pivots: Any
    """Indices of the elements of f that determine z, shape (rank,)."""
    to_z: Any
    """z is f[pivots] times this matrix."""
    mean: Any
    """Mean of z under Q."""
    whiten: Any
    """(z - mean) times this matrix is N(0, I) under Q."""

    host: HostOnly

    def __init__(self, prior: Dense, gaussian: WhiteGaussian):
        lower = cholesky(gaussian.covariance, lower=True)
        set_fields(
            self,
            centre=gaussian.mean @ prior.rows,
            pivots=np.asarray(prior.pivots),
            to_z=np.linalg.inv(prior.rows[:, prior.pivots]),
            mean=gaussian.mean,
            whiten=solve_triangular(lower, np.eye(len(lower)), lower=True).T,
            host=HostOnly(triangular(lower.T @ prior.rows)),
        )

    @property
    def rows(self) -> np.ndarray:
        """Factor of the covariance of Q, rows.T @ rows; upper triangular if square. Available only on the host."""
        return self.host.value

    def log_ratio_on_ellipse(self, x: Any, nu: Any) -> LogRatio:
        """Return log(Q / prior) on the ellipse through x and nu."""
        x, nu = x[self.pivots] @ self.to_z, nu[self.pivots] @ self.to_z
        white_x, white_nu = x @ self.whiten, nu @ self.whiten
        return LogRatio(
            self.mean @ x,
            self.mean @ nu,
            white_x @ white_x - x @ x,
            white_nu @ white_x - nu @ x,
            white_nu @ white_nu - nu @ nu,
        )

    def log_ratio(self, x: Any) -> Any:
        """Return log(Q / prior) at centre + x, up to a constant."""
        z = jnp.matmul(x[self.pivots], self.to_z, precision=lax.Precision.HIGHEST)
        white = jnp.matmul(z, self.whiten, precision=lax.Precision.HIGHEST)
        return (self.mean * z).sum() - 0.5 * ((white * white).sum() - (z * z).sum())

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw from Q, without its mean. Return an array of shape (count, size)."""
        return draw_by_rows(self.rows, len(self.rows) == self.rows.shape[1], rng, count)
