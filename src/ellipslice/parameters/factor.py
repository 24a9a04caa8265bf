"""Factors of covariance matrices and their inverses, by NumPy on the host and by JAX in compiled code.

All have a leading axis, for the latent functions of a model.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

ROUNDING = 100 * float(np.finfo(float).eps)
"""Added to a correlation matrix, times its size: what its own rounding may take away, and nothing one could see.

A covariance that is known is factorised with pivots and needs none of it (`priors.Dense`). Here there is a new one for
every proposal, in compiled code, and one that fails would be a region that chains never enter."""

NEGLIGIBLE = 1e-10
"""The part of a variance that a narrow factor may leave out."""


def factorise(covariance: Any) -> Any:
    """Lower triangular factors of covariances (latents, n, n), which may be singular to rounding."""
    xp = np if isinstance(covariance, np.ndarray) else jnp
    n = covariance.shape[-1]
    deviation = xp.sqrt(xp.diagonal(covariance, axis1=-2, axis2=-1))
    correlation = covariance / deviation[:, :, None] / deviation[:, None, :]
    matrix = correlation + n * ROUNDING * xp.eye(n)
    if xp is np:
        try:
            lower = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:  # a proposal that is not a covariance is never accepted
            return np.full_like(matrix, np.nan)
    else:
        lower = _cholesky(matrix)
    return lower * deviation[:, :, None]


def factorise_narrow(across: Any, variance: Any, pivots: Any) -> tuple[Any, Any]:
    """Factors (latents, n, r) of covariances that are of rank r to rounding, and whether all of them are.

    Parameters
    ----------
    across : array, shape (latents, n, r)
        The columns of the covariances that belong to the pivots.
    variance : array, shape (latents, n)
        Their diagonals.
    pivots : array of int, shape (latents, r)
    """
    xp = np if isinstance(across, np.ndarray) else jnp
    inner = factorise(xp.take_along_axis(across, pivots[:, :, None], axis=1))
    if xp is np:
        if not np.isfinite(inner).all():
            return np.full_like(across, np.nan), np.bool_(False)
        pairs = zip(inner, across, strict=True)
        lower = np.stack([solve_triangular(one, columns.T, lower=True).T for one, columns in pairs])
    else:
        lower = _solve(inner, across, left_side=False, transpose_a=True)
    left = variance - (lower * lower).sum(-1)
    return lower, (left <= NEGLIGIBLE * variance).all()


def multiply(lower: Any, z: Any) -> Any:
    """Factors (latents, n, r) times the first r of vectors (..., latents, n)."""
    xp = np if isinstance(lower, np.ndarray) else jnp
    return xp.einsum("lij,...lj->...li", lower, z[..., : lower.shape[-1]])


def solve(lower: Any, b: Any, *, transposed: bool = False) -> Any:
    """The inverse of each factor (latents, n, n), or of its transpose, times b (latents, n)."""
    if isinstance(lower, np.ndarray):
        if not np.isfinite(lower).all():
            return np.full_like(b, np.nan)
        parts = [
            solve_triangular(one, right, lower=True, trans=int(transposed)) for one, right in zip(lower, b, strict=True)
        ]
        return np.stack(parts)
    return _solve(lower, b[..., None], left_side=True, transpose_a=transposed)[..., 0]


def solve_many(lower: Any, b: Any) -> Any:
    """The inverse of each factor's transpose times many, b (count, latents, n)."""
    columns = b.swapaxes(0, 1).swapaxes(1, 2)  # (latents, n, count)
    if isinstance(lower, np.ndarray):
        found = np.stack([solve_triangular(one, c, lower=True, trans=1) for one, c in zip(lower, columns, strict=True)])
    else:
        found = _solve(lower, columns, left_side=True, transpose_a=True)
    return found.swapaxes(1, 2).swapaxes(0, 1)


def log_determinant(lower: Any) -> Any:
    """The logarithm of the determinant of all factors together."""
    xp = np if isinstance(lower, np.ndarray) else jnp
    return xp.log(xp.diagonal(lower, axis1=-2, axis2=-1)).sum()


def inner_root(lower: Any, precision: Any) -> Any:
    """The lower factor of I + L' diag(precision) L, for L (latents, n, r) and precisions (latents, n)."""
    xp = np if isinstance(lower, np.ndarray) else jnp
    inner = xp.einsum("lki,lk,lkj->lij", lower, precision, lower) + xp.eye(lower.shape[-1])
    if xp is np:
        return np.linalg.cholesky(inner) if np.isfinite(inner).all() else np.full_like(inner, np.nan)
    return _cholesky(inner)


# One matrix at a time: for several at once JAX waits, in threads of XLA's, for threads of XLA's, and chains that run
# beside each other wait for ever.


def _cholesky(matrices: Any) -> Any:
    return jnp.stack([jax.lax.linalg.cholesky(one, symmetrize_input=False) for one in matrices])


def _solve(lower: Any, b: Any, *, left_side: bool, transpose_a: bool) -> Any:
    solve_one = partial(jax.lax.linalg.triangular_solve, left_side=left_side, lower=True, transpose_a=transpose_a)
    return jnp.stack([solve_one(*pair) for pair in zip(lower, b, strict=True)])
