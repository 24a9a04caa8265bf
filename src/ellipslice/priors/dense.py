"""Any covariance matrix, through a factorisation that needs no jitter."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.linalg import lapack

from ellipslice.priors.base import Prior, as_mean, as_numbers
from ellipslice.pytree import pytree, set_fields, static


@pytree
class Dense(Prior):
    """A Gaussian with a full covariance matrix.

    Use it for up to a few thousand values; above that, a prior with structure is cheaper by orders of magnitude.
    The covariance is factorised once, by Cholesky with pivoting, cut at rounding error: singular covariances just work,
    there is no jitter to choose, and smooth kernels draw faster, because their numerical rank is low.

    Parameters
    ----------
    covariance : array, shape (N, N)
        Symmetric and positive semi-definite, to rounding.
    mean : float or array, shape (N,)
    factor : array, shape (N, M), optional
        Instead of the covariance: any matrix with covariance = factor @ factor.T, such as its Cholesky factor.

    Notes
    -----
    Set-up costs O(N^2 r) and a draw O(N r), r being the numerical rank. The paper's mining covariance has N = 811 and
    r = 13.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)
    >>> prior = Dense(np.exp(-0.5 * (x[:, None] - x) ** 2))
    >>> prior.size, prior.noise_size < 15
    (50, True)
    """

    rows: Any
    mean: Any
    shape: tuple[int, ...] = static()

    def __init__(self, covariance: Any = None, mean: Any = 0.0, *, factor: Any = None):
        if (covariance is None) == (factor is None):
            raise TypeError("Dense needs a covariance or a factor, and not both.")
        rows = pivoted_cholesky(covariance) if factor is None else as_factor(factor)
        shape = (rows.shape[1],)
        set_fields(self, rows=rows, mean=as_mean(mean, shape), shape=shape)

    @property
    def noise_size(self) -> int:
        return self.rows.shape[0]

    def color(self, z: Any) -> Any:
        return z @ self.rows

    def __repr__(self) -> str:
        return f"Dense({self.size} values, rank {self.noise_size})"


def as_factor(factor: Any) -> np.ndarray:
    """Validate a factor (N, M) and return its transpose, the map from M normals to N values."""
    matrix = as_numbers(factor, "factor")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"factor has shape {matrix.shape}; expected (N, M), with covariance = factor @ factor.T.")
    if len(matrix) == matrix.shape[1] > 1 and not np.tril(matrix, -1).any() and np.triu(matrix, 1).any():
        warnings.warn(
            "factor is upper triangular, and covariance = factor @ factor.T is taken from it. SciPy's cholesky gives "
            "the transpose of that factor: pass factor.T, or lower=True to cholesky.",
            stacklevel=3,
        )
    return np.ascontiguousarray(matrix.T)


def pivoted_cholesky(covariance: Any) -> np.ndarray:
    """Rows A (r, N) with A.T @ A = covariance to rounding, r its numerical rank.

    The matrix is scaled to unit diagonal first, so that a value of small variance is not lost beside a large one.
    """
    given = getattr(covariance, "dtype", np.dtype(float))
    rounding = float(np.finfo(np.float32 if given == np.float32 else np.float16 if given == np.float16 else float).eps)
    matrix = as_numbers(covariance, "covariance")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(
            f"covariance has shape {matrix.shape}; expected a square matrix, (N, N). For independent "
            "values with given variances use Diagonal."
        )
    variance = matrix.diagonal()
    if (variance < 0).any():
        i = int(np.argmin(variance))
        raise ValueError(f"covariance[{i}, {i}] is {variance[i]:.6g}: a variance cannot be negative.")
    deviation = np.sqrt(variance)
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    correlation = matrix * inverse[:, None] * inverse
    tolerance = 100 * len(matrix) * rounding
    _check_symmetric(matrix, correlation, deviation, tolerance)

    packed, pivots, rank, _ = lapack.dpstrf(  # pyright: ignore[reportAttributeAccessIssue]
        correlation, lower=0, tol=len(matrix) * rounding
    )
    rank = int(rank) if deviation.any() else 0
    rows = np.zeros((max(rank, 1), len(matrix)))
    rows[:rank, pivots - 1] = np.triu(packed)[:rank]
    if np.abs(rows.T @ rows - correlation * (deviation > 0)).max() > tolerance:
        raise ValueError(_not_semidefinite(matrix))
    return np.ascontiguousarray(rows * deviation)


def _not_semidefinite(matrix: np.ndarray) -> str:
    message = "covariance is not positive semi-definite"
    if len(matrix) > 1000:  # an eigenvalue would take longer than the sampling
        return f"{message}. Check the kernel and its inputs; a kernel of distances is not always one."
    smallest, largest = float(np.linalg.eigvalsh(matrix)[0]), float(matrix.diagonal().max())
    message += f": its smallest eigenvalue is {smallest:.6g}, beside variances up to {largest:.6g}. Check the kernel"
    if abs(smallest) < 1e-5 * largest:
        message += f"; if this is rounding in how it was computed, add {2 * abs(smallest):.1g} to the diagonal"
    return message + "."


def _check_symmetric(matrix: np.ndarray, correlation: np.ndarray, deviation: np.ndarray, tolerance: float) -> None:
    zero = deviation == 0
    if zero.any() and matrix[zero].any():
        i = int(np.flatnonzero(zero)[np.flatnonzero(matrix[zero].any(axis=1))[0]])
        raise ValueError(f"covariance[{i}, {i}] is 0, so row {i} must be 0 too, but it is not.")
    gap = np.abs(correlation - correlation.T)
    if gap.max() > tolerance:
        i, j = (int(k) for k in np.unravel_index(np.argmax(gap), gap.shape))
        raise ValueError(
            f"covariance is not symmetric: [{i}, {j}] is {matrix[i, j]:.6g} and [{j}, {i}] is "
            f"{matrix[j, i]:.6g}. A factor goes in as Dense(factor=...)."
        )
