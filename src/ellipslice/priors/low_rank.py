"""A Gaussian that lives in few dimensions: f = factor @ z."""

from __future__ import annotations

from typing import Any

from ellipslice.priors.base import Prior, as_mean
from ellipslice.priors.dense import as_factor
from ellipslice.pytree import pytree, set_fields, static


@pytree
class LowRank(Prior):
    """A Gaussian with covariance factor @ factor.T, for a tall thin factor.

    Use it for features with Gaussian weights (splines, Fourier features, inducing points, design matrices): N values
    that M << N numbers determine. The posterior lives in the factor's column space, as the prior does.

    Parameters
    ----------
    factor : array, shape (N, M)
    mean : float or array, shape (N,)

    Notes
    -----
    A draw costs O(N M); nothing of size N x N is formed.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.linspace(0, 1, 200)
    >>> LowRank(np.column_stack([np.ones(200), t, t**2]))
    LowRank(200 values, rank 3)
    """

    rows: Any
    mean: Any
    shape: tuple[int, ...] = static()

    def __init__(self, factor: Any, mean: Any = 0.0):
        rows = as_factor(factor)
        if len(rows) > rows.shape[1]:
            raise ValueError(
                f"factor has shape {rows.T.shape}, more columns than rows: its rank is not low. Did you mean factor.T? "
                "For any other factor use Dense(factor=...)."
            )
        shape = (rows.shape[1],)
        set_fields(self, rows=rows, mean=as_mean(mean, shape), shape=shape)

    @property
    def noise_size(self) -> int:
        return self.rows.shape[0]

    def color(self, z: Any) -> Any:
        return z @ self.rows

    def __repr__(self) -> str:
        return f"LowRank({self.size} values, rank {self.noise_size})"
