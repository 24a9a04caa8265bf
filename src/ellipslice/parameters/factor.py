"""Factors L of covariance matrices Sigma = L L', by NumPy on the host and by JAX in compiled code.

`Factor` is the interface by which the joint prior and its moves know a covariance. `DenseFactor` and `LowRankFactor`
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
"""Added to the diagonal of a correlation matrix, times its size: as much as rounding may have taken away.

A covariance that is known is factorised with pivots and needs none of it (`priors.Dense`). Here there is a new one for
every proposal, in compiled code, and one that fails would be a region that chains never enter."""

NEGLIGIBLE_FRACTION = 1e-10
"""Largest fraction of a variance that a low-rank factor may leave out."""


class Factor(Protocol):
    """A factor L of the covariance Sigma(u) = L L', for one value u of the hyperparameters; a pytree.

    f = m + L z has the prior's distribution if z is white noise. Vectors z and f have shape (latents, n).
    """

    def unwhiten(self, z: Any) -> Any:
        """Return L z, shape (..., latents, n); z may have leading axes."""
        ...

    def whiten(self, f: Any) -> Any:
        """Return inv(L) f, shape (latents, n)."""
        ...

    @property
    def log_determinant(self) -> Any:
        """Logarithm of the determinant of L."""
        ...

    def noise_precision(self, precision: Any) -> NoisePrecision:
        """Condition on Gaussian sites: return the precision of z, given sites of f with these precisions."""
        ...

    @property
    def rows(self) -> Any:
        """The transpose of L as a dense array, shape (latents, r, n), to fit sites with."""
        ...


class DenseFactor(NamedTuple):
    """A lower triangular factor."""

    lower: Any
    """Shape (latents, n, n)."""

    def unwhiten(self, z: Any) -> Any:
        """Return L z, shape (..., latents, n); z may have leading axes."""
        return multiply(self.lower, z)

    def whiten(self, f: Any) -> Any:
        """Return inv(L) f, shape (latents, n)."""
        return solve(self.lower, f)

    @property
    def log_determinant(self) -> Any:
        """Logarithm of the determinant of L."""
        return log_determinant(self.lower)

    def noise_precision(self, precision: Any) -> NoisePrecision:
        """Condition on Gaussian sites: return the precision of z, given sites of f with these precisions."""
        return NoisePrecision(self.lower, inner_root(self.lower, precision))

    @property
    def rows(self) -> Any:
        """The transpose of L, shape (latents, n, n)."""
        return self.lower.swapaxes(-1, -2)


class LowRankFactor(NamedTuple):
    """The first r columns of a factor with pivots, where the others are negligible. It has no inverse.

    Only the first r elements of z enter f. With r = n it is a whole factor, whose rows are in the order of the inputs.
    """

    columns: Any
    """Shape (latents, n, r)."""

    def unwhiten(self, z: Any) -> Any:
        """Return L z, shape (..., latents, n); z may have leading axes."""
        return multiply(self.columns, z)

    def whiten(self, f: Any) -> Any:
        """Raise: L has no inverse."""
        raise TypeError("a low-rank factor has no inverse. Factorise without pivots where f must be whitened.")

    @property
    def log_determinant(self) -> Any:
        """Raise: L is not square."""
        raise TypeError("a low-rank factor has no determinant. Factorise without pivots where a density is needed.")

    def noise_precision(self, precision: Any) -> NoisePrecision:
        """Condition on Gaussian sites: return the precision of z, given sites of f with these precisions."""
        return NoisePrecision(self.columns, inner_root(self.columns, precision))

    @property
    def rows(self) -> Any:
        """The transpose of L, shape (latents, r, n)."""
        return self.columns.swapaxes(-1, -2)


class NoisePrecision(NamedTuple):
    """The precision P = I + L' diag(precision) L of white noise z given Gaussian sites of f = m + L z; P = R R'.

    L has r columns. Elements of z beyond the first r do not enter f, so their precision stays 1.
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
        """Return the mean inv(P) L' slope of z and its square norm under P, for sites with this slope at z = 0."""
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
        """Return draws from N(0, inv(P)) from standard normals, both of shape (count, latents, n)."""
        return self._on_first(lambda normals: solve_many(self.root, normals), normals)

    def _on_first(self, change: Callable[[Any], Any], z: Any) -> Any:
        """Change the elements of z that enter f, and leave the others."""
        width = self.lower.shape[-1]
        changed = change(z[..., :width])
        return changed if width == z.shape[-1] else _module(z).concatenate([changed, z[..., width:]], axis=-1)


def factorise(covariance: Any) -> Any:
    """Return lower triangular factors of covariances (latents, n, n), which may be singular up to rounding error.

    On the host they are NaN where a matrix is not a covariance: such a proposal is never accepted.
    """
    xp, n = _module(covariance), covariance.shape[-1]
    deviation = xp.sqrt(xp.diagonal(covariance, axis1=-2, axis2=-1))
    correlation = covariance / deviation[:, :, None] / deviation[:, None, :]
    matrix = correlation + n * ROUNDING * xp.eye(n)
    if xp is np:
        try:
            lower = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return np.full_like(matrix, np.nan)
    else:
        lower = _cholesky(matrix)
    return lower * deviation[:, :, None]


def factorise_low_rank(across: Any, variance: Any, pivots: Any) -> tuple[LowRankFactor, Any]:
    """Return the factor of covariances whose rank is r up to rounding error, and whether all of them are such.

    Parameters
    ----------
    across : array, shape (latents, n, r)
        The columns of the covariances that belong to the pivots.
    variance : array, shape (latents, n)
        Their diagonals.
    pivots : array of int, shape (latents, r)
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
    left = variance - (lower * lower).sum(-1)
    return LowRankFactor(lower), (left <= NEGLIGIBLE_FRACTION * variance).all()


def multiply(lower: Any, z: Any) -> Any:
    """Return matrices (latents, n, r) times the first r elements of vectors (..., latents, n)."""
    return _module(lower).einsum("lij,...lj->...li", lower, z[..., : lower.shape[-1]])


def solve(lower: Any, b: Any, *, transposed: bool = False) -> Any:
    """Return the inverse of each triangular matrix (latents, n, n), or of its transpose, times b (latents, n)."""
    if isinstance(lower, np.ndarray):
        if not np.isfinite(lower).all():
            return np.full_like(b, np.nan)
        pairs = zip(lower, b, strict=True)
        return np.stack([solve_triangular(one, right, lower=True, trans=int(transposed)) for one, right in pairs])
    return _solve(lower, b[..., None], left_side=True, transpose_a=transposed)[..., 0]


def solve_many(lower: Any, b: Any) -> Any:
    """Return the inverse of the transpose of each triangular matrix times many vectors, b (count, latents, n)."""
    columns = b.swapaxes(0, 1).swapaxes(1, 2)  # (latents, n, count)
    if isinstance(lower, np.ndarray):
        found = np.stack([solve_triangular(one, c, lower=True, trans=1) for one, c in zip(lower, columns, strict=True)])
    else:
        found = _solve(lower, columns, left_side=True, transpose_a=True)
    return found.swapaxes(1, 2).swapaxes(0, 1)


def log_determinant(lower: Any) -> Any:
    """Return the logarithm of the product of the determinants of triangular matrices (latents, n, n)."""
    xp = _module(lower)
    return xp.log(xp.diagonal(lower, axis1=-2, axis2=-1)).sum()


def inner_root(lower: Any, precision: Any) -> Any:
    """Return the lower triangular factor of I + L' diag(precision) L, for L (latents, n, r), precision (latents, n)."""
    xp = _module(lower)
    inner = xp.einsum("lki,lk,lkj->lij", lower, precision, lower) + xp.eye(lower.shape[-1])
    if xp is np:
        return np.linalg.cholesky(inner) if np.isfinite(inner).all() else np.full_like(inner, np.nan)
    return _cholesky(inner)


def _module(array: Any) -> Any:
    return np if isinstance(array, np.ndarray) else jnp


# One matrix at a time: for several at once JAX waits, in threads of XLA, for threads of XLA, and chains that run in
# parallel would wait forever.


def _cholesky(matrices: Any) -> Any:
    return jnp.stack([jax.lax.linalg.cholesky(one, symmetrize_input=False) for one in matrices])


def _solve(lower: Any, b: Any, *, left_side: bool, transpose_a: bool) -> Any:
    solve_one = partial(jax.lax.linalg.triangular_solve, left_side=left_side, lower=True, transpose_a=transpose_a)
    return jnp.stack([solve_one(*pair) for pair in zip(lower, b, strict=True)])
