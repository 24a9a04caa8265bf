"""Factors L of covariance matrices Sigma = L L', by NumPy on the host and by JAX in compiled code.

The joint prior and its moves use a covariance only through the interface `Factor`. `DenseFactor` and `LowRankFactor`
implement it with matrices. Arrays have a leading axis for the latent functions of a model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

ROUNDING = 100 * float(np.finfo(float).eps)
"""Bound of the rounding error of a correlation matrix, per row. It is added to the diagonal, times the number of rows.

`priors.Dense` factorises with pivots and needs no such term. Here every proposal has a new covariance, in compiled code
without pivots. If its factorisation failed, chains could never enter that region of the hyperparameters."""

NEGLIGIBLE_FRACTION = 1e-10
"""Largest fraction of a variance that a low-rank factor may omit."""


class Factor(Protocol):
    """A factor L of the covariance Sigma(u) = L L', for one value u of the hyperparameters; a pytree.

    If z is white noise, f = m + L z has the prior distribution. Vectors z and f have shape (latents, n).
    """

    def unwhiten(self, z: Any) -> Any:
        """Return L z, shape (..., latents, n). z may have leading axes."""
        ...

    def whiten(self, f: Any) -> Any:
        """Return inv(L) f, shape (latents, n)."""
        ...

    @property
    def log_determinant(self) -> Any:
        """Logarithm of the determinant of L."""
        ...

    def noise_precision(self, precision: Any) -> NoisePrecision:
        """Return the precision of z given sites of f with these precisions, shape (latents, n)."""
        ...

    @property
    def rows(self) -> Any:
        """Transpose of L as a dense array, shape (latents, r, n). Used to fit sites."""
        ...


class DenseFactor(NamedTuple):
    """A full factor L, lower triangular."""

    lower: Any
    """L, shape (latents, n, n)."""

    def unwhiten(self, z: Any) -> Any:
        """Return L z, shape (..., latents, n). z may have leading axes."""
        return multiply(self.lower, z)

    def whiten(self, f: Any) -> Any:
        """Return inv(L) f, shape (latents, n)."""
        return solve(self.lower, f)

    @property
    def log_determinant(self) -> Any:
        """Logarithm of the determinant of L."""
        return log_determinant(self.lower)

    def noise_precision(self, precision: Any) -> NoisePrecision:
        """Return the precision of z given sites of f with these precisions, shape (latents, n)."""
        return NoisePrecision(self.lower, inner_root(self.lower, precision))

    @property
    def rows(self) -> Any:
        """Transpose of L, shape (latents, n, n)."""
        return self.lower.swapaxes(-1, -2)


class LowRankFactor(NamedTuple):
    """The first r columns of a pivoted factor, if the others are negligible. It has no inverse.

    Only the first r elements of z enter f. With r = n it is a full factor, with rows in the order of the inputs.
    """

    columns: Any
    """L, shape (latents, n, r)."""

    def unwhiten(self, z: Any) -> Any:
        """Return L z, shape (..., latents, n). z may have leading axes."""
        return multiply(self.columns, z)

    def whiten(self, f: Any) -> Any:
        """Raise: L has no inverse."""
        raise TypeError("a low-rank factor has no inverse. Factorise without pivots to whiten f.")

    @property
    def log_determinant(self) -> Any:
        """Raise: L is not square."""
        raise TypeError("a low-rank factor has no determinant. Factorise without pivots to compute a density.")

    def noise_precision(self, precision: Any) -> NoisePrecision:
        """Return the precision of z given sites of f with these precisions, shape (latents, n)."""
        return NoisePrecision(self.columns, inner_root(self.columns, precision))

    @property
    def rows(self) -> Any:
        """Transpose of L, shape (latents, r, n)."""
        return self.columns.swapaxes(-1, -2)


class NoisePrecision(NamedTuple):
    """The precision P = I + L' diag(precision) L = R R' of the white noise z, given sites of f = m + L z.

    L has r columns. Elements of z after the first r do not enter f, so their precision is 1.
    """

    lower: Any
    """L, shape (latents, n, r)."""
    root: Any
    """R, lower triangular, shape (latents, r, r)."""

    @property
    def log_determinant(self) -> Any:
        """Logarithm of the determinant of R."""
        return log_determinant(self.root)

    def mean(self, slope: Any) -> tuple[Any, Any]:
        """Return the mean inv(P) L' slope of z, and its squared norm under P.

        slope is the gradient of the log sites with respect to f at z = 0, shape (latents, n).
        """
        xp = _module(slope)
        whitened = solve(self.root, multiply(self.lower.swapaxes(-1, -2), slope))
        mean = self._on_first(lambda zeros: zeros + solve(self.root, whitened, transposed=True), xp.zeros_like(slope))
        return mean, (whitened * whitened).sum()

    def whiten(self, z: Any) -> Any:
        """Return R' z, shape (latents, n)."""
        return self._on_first(lambda z: multiply(self.root.swapaxes(-1, -2), z), z)

    def unwhiten(self, eta: Any) -> Any:
        """Return inv(R') eta, shape (latents, n)."""
        return self._on_first(lambda eta: solve(self.root, eta, transposed=True), eta)

    def draw(self, normals: Any) -> Any:
        """Return draws from N(0, inv(P)), made from standard normals of the same shape, (count, latents, n)."""
        return self._on_first(lambda normals: solve_many(self.root, normals), normals)

    def _on_first(self, change: Callable[[Any], Any], z: Any) -> Any:
        """Return z with its first r elements changed, which are those that enter f."""
        width = self.lower.shape[-1]
        changed = change(z[..., :width])
        return changed if width == z.shape[-1] else _module(z).concatenate([changed, z[..., width:]], axis=-1)


def factorise(covariance: Any) -> Any:
    """Return lower triangular factors of covariances, shape (latents, n, n), which may be singular.

    If a matrix is not positive semi-definite, the factor is NaN, so that the proposal is never accepted.
    """
    xp, n = _module(covariance), covariance.shape[-1]
    std = xp.sqrt(xp.diagonal(covariance, axis1=-2, axis2=-1))
    correlation = covariance / std[:, :, None] / std[:, None, :]
    matrix = correlation + n * ROUNDING * xp.eye(n)
    if xp is np:
        try:
            lower = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return np.full_like(matrix, np.nan)
    else:
        lower = _cholesky(matrix)
    return lower * std[:, :, None]


def factorise_low_rank(across: Any, variance: Any, pivots: Any) -> tuple[LowRankFactor, Any]:
    """Return the factors of covariances with numerical rank r, and whether all of them have at most this rank.

    Parameters
    ----------
    across : array, shape (latents, n, r)
        The columns of the covariances at the pivots.
    variance : array, shape (latents, n)
        The diagonals of the covariances.
    pivots : array of int, shape (latents, r)
        Indices of the inputs that are pivots.
    """
    xp = _module(across)
    inner = factorise(xp.take_along_axis(across, pivots[:, :, None], axis=1))
    if xp is np:
        if not np.isfinite(inner).all():
            return LowRankFactor(np.full_like(across, np.nan)), np.bool_(False)
        pairs = zip(inner, across, strict=True)
        lower = np.stack([solve_triangular(one, columns.T, lower=True).T for one, columns in pairs])
    else:
        lower = _solve(inner, across, left_side=False, transpose_a=True)
    omitted = variance - (lower * lower).sum(-1)
    return LowRankFactor(lower), (omitted <= NEGLIGIBLE_FRACTION * variance).all()


def multiply(lower: Any, z: Any) -> Any:
    """Return matrices, shape (latents, n, r), times the first r elements of vectors, shape (..., latents, n)."""
    return _module(lower).einsum("lij,...lj->...li", lower, z[..., : lower.shape[-1]])


def solve(lower: Any, b: Any, *, transposed: bool = False) -> Any:
    """Solve with lower triangular matrices, shape (latents, n, n), or their transposes, for b of shape (latents, n)."""
    if isinstance(lower, np.ndarray):
        if not np.isfinite(lower).all():
            return np.full_like(b, np.nan)
        pairs = zip(lower, b, strict=True)
        return np.stack([solve_triangular(one, right, lower=True, trans=int(transposed)) for one, right in pairs])
    return _solve(lower, b[..., None], left_side=True, transpose_a=transposed)[..., 0]


def solve_many(lower: Any, b: Any) -> Any:
    """Solve with the transposes of lower triangular matrices for many vectors, b of shape (count, latents, n)."""
    columns = b.swapaxes(0, 1).swapaxes(1, 2)  # (latents, n, count)
    if isinstance(lower, np.ndarray):
        found = np.stack([solve_triangular(one, c, lower=True, trans=1) for one, c in zip(lower, columns, strict=True)])
    else:
        found = _solve(lower, columns, left_side=True, transpose_a=True)
    return found.swapaxes(1, 2).swapaxes(0, 1)


def log_determinant(lower: Any) -> Any:
    """Return the sum of the log determinants of triangular matrices, shape (latents, n, n)."""
    xp = _module(lower)
    return xp.log(xp.diagonal(lower, axis1=-2, axis2=-1)).sum()


def inner_root(lower: Any, precision: Any) -> Any:
    """Return the lower triangular factor of I + L' diag(precision) L, shape (latents, r, r).

    L has shape (latents, n, r), precision (latents, n).
    """
    xp = _module(lower)
    inner = xp.einsum("lki,lk,lkj->lij", lower, precision, lower) + xp.eye(lower.shape[-1])
    if xp is np:
        return np.linalg.cholesky(inner) if np.isfinite(inner).all() else np.full_like(inner, np.nan)
    return _cholesky(inner)


def _module(array: Any) -> Any:
    return np if isinstance(array, np.ndarray) else jnp


# One matrix at a time. For a batch of matrices, JAX code in threads of XLA waits for other threads of XLA, so chains
# that run in parallel could wait forever.


def _cholesky(matrices: Any) -> Any:
    return jnp.stack([jax.lax.linalg.cholesky(one, symmetrize_input=False) for one in matrices])


def _solve(lower: Any, b: Any, *, left_side: bool, transpose_a: bool) -> Any:
    solve_one = partial(jax.lax.linalg.triangular_solve, left_side=left_side, lower=True, transpose_a=transpose_a)
    return jnp.stack([solve_one(*pair) for pair in zip(lower, b, strict=True)])
