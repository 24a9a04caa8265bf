"""Any Gaussian as a reference, for likelihoods of which nothing is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ellipslice.approximations.sites import as_rows, check_size, triangular
from ellipslice.moves.reference_slice import LogRatio
from ellipslice.priors import Dense, Prior
from ellipslice.priors.dense import draw_by_rows
from ellipslice.pytree import HostOnly, pytree, set_fields


@dataclass(frozen=True, eq=False)
class WhiteGaussian:
    """A Gaussian known in the coordinates z where the prior is white.

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
        """The reference for this prior, whose factor becomes a dense matrix."""
        white = Dense(factor=as_rows(prior).T)
        check_size(len(self.mean), white.noise_size, "standard normals", prior)
        return RelativeGaussian(white, self)


@pytree
class RelativeGaussian:
    """`WhiteGaussian` relative to a prior; an update costs O(rank^2) more."""

    centre: Any
    pivots: Any
    """The values of f that determine z, which is linear in them."""
    to_z: Any
    mean: Any
    whiten: Any
    """(z - mean) times this is white under Q."""

    host: HostOnly

    def __init__(self, prior: Dense, gaussian: WhiteGaussian):
        root = cholesky(gaussian.covariance, lower=True)
        set_fields(
            self,
            centre=gaussian.mean @ prior.rows,
            pivots=np.asarray(prior.pivots),
            to_z=np.linalg.inv(prior.rows[:, prior.pivots]),
            mean=gaussian.mean,
            whiten=solve_triangular(root, np.eye(len(root)), lower=True).T,
            host=HostOnly(triangular(root.T @ prior.rows)),
        )

    @property
    def rows(self) -> np.ndarray:
        """The covariance of Q is rows.T @ rows. Square ones are triangular. On the host only, where draws are made."""
        return self.host.value

    def log_ratio_on_ellipse(self, x: Any, nu: Any) -> LogRatio:
        """The ratio of Q and P on an ellipse."""
        x, nu = x[self.pivots] @ self.to_z, nu[self.pivots] @ self.to_z
        white_x, white_nu = x @ self.whiten, nu @ self.whiten
        return LogRatio(
            self.mean @ x,
            self.mean @ nu,
            white_x @ white_x - x @ x,
            white_nu @ white_x - nu @ x,
            white_nu @ white_nu - nu @ nu,
        )

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from Q with its mean taken away, shape (count, size)."""
        return draw_by_rows(self.rows, len(self.rows) == self.rows.shape[1], rng, count)
