"""Any covariance matrix, through a factorisation that needs no jitter."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from jax.scipy.linalg import solve_triangular
from scipy.linalg import lapack, qr

from ellipslice.checks import as_mean, as_numbers
from ellipslice.noise import aligned_empty
from ellipslice.priors.base import Prior, log_normal, on_span
from ellipslice.priors.parts.conditional import BlockConditional, Regression, as_block, complement
from ellipslice.priors.parts.null_space import null_space_of_factor, rounding
from ellipslice.pytree import pytree, set_fields, static
from ellipslice.undocumented.blas import times_triangular


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
    r = 13. `whiten` and `log_density` cost O(r^2) and O(N r), and `condition` O(N r^2) once; where r < N, most blocks
    are determined by the rest, and their conditional has no variance.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)
    >>> prior = Dense(np.exp(-0.5 * (x[:, None] - x) ** 2))
    >>> prior.size, prior.noise_size < 15
    (50, True)
    """

    stored_as = "Dense"

    rows: Any
    pivots: Any
    """The values that determine all others, as many as `rows`, in whose order these are upper triangular."""
    log_determinant: Any
    mean: Any
    shape: tuple[int, ...] = static()

    by_numpy = True

    def __init__(self, covariance: Any = None, mean: Any = 0.0, *, factor: Any = None):
        if (covariance is None) == (factor is None):
            raise TypeError("Dense needs a covariance or a factor, and not both.")
        rows, pivots = pivoted_cholesky(covariance) if factor is None else _triangular(as_factor(factor))
        set_fields(self, rows=rows, pivots=pivots, log_determinant=_log_determinant(rows, pivots))
        shape = (rows.shape[1],)
        set_fields(self, mean=as_mean(mean, shape), shape=shape)

    @property
    def noise_size(self) -> int:
        return self.rows.shape[0]

    def device_factor(self) -> np.ndarray:
        return np.asarray(self.rows)

    def unwhiten(self, z: Any) -> Any:
        return z @ self.rows

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from N(0, Sigma), the mean left out, shape (count, size)."""
        return draw_by_rows(self.rows, self._triangular, rng, count)

    @cached_property
    def _triangular(self) -> bool:
        return np.array_equal(self.pivots, np.arange(self.size))

    @property
    def rank(self) -> int:
        return self.noise_size if np.any(self.rows) else 0

    def whiten(self, f: Any) -> Any:
        known = f[..., self.pivots].reshape(-1, len(self.pivots))
        triangle = self.rows[:, self.pivots]
        triangle = triangle + (triangle[0, 0] == 0)  # only if there is no variance at all: then z = 0, not 0 / 0
        z = solve_triangular(triangle, known.T, trans="T").T
        return z.reshape(*f.shape[:-1], len(self.pivots))

    def log_density(self, f: Any) -> Any:
        z = self.whiten(f)
        log_density = log_normal(z, self.log_determinant, self.noise_size)
        return log_density if self.noise_size == self.size else on_span(log_density, f, self.unwhiten(z))

    def condition(self, block: Any) -> BlockConditional:
        return condition_on_rest(self.rows, as_block(block, self.size), self.rank)

    def null_space(self) -> np.ndarray | None:
        tolerance = rounding(self.size)
        if self.noise_size == self.size:
            variance = np.sum(self.rows**2, axis=0)
            remaining = self.rows[np.arange(self.size), self.pivots] ** 2  # of each value given those before it
            # Cheap, and enough: where no value follows from those before it, the covariance is not singular.
            if (remaining > 10 * tolerance * variance[self.pivots]).all():
                return np.zeros((0, self.size))
        return null_space_of_factor(self.rows, tolerance)

    def __repr__(self) -> str:
        return f"Dense({self.size} values, rank {self.noise_size})"


def draw_by_rows(rows: np.ndarray, triangular: bool, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return draws from N(0, rows.T @ rows), shape (count, size).

    A triangular product takes half the time. Triangular rows are square, with zeros below the diagonal.
    """
    z = rng.standard_normal(out=aligned_empty((count, len(rows))))
    if not triangular:
        return np.matmul(z, rows, out=aligned_empty((count, rows.shape[1])))
    times_triangular(z, np.ascontiguousarray(rows))
    return z


def condition_on_rest(rows: np.ndarray, block: np.ndarray, whole_rank: int) -> Regression:
    """The conditional of a block under covariance rows.T @ rows.

    What the others say of z is its part in the span of their columns; the rest of z remains random. Working with the
    factor rather than the covariance keeps twice the digits, and needs no inverse to exist. `whole_rank` is that of all
    values: what the others leave of it is the rank of the conditional.
    """
    others = complement(block, rows.shape[1])
    mine, theirs = rows[:, block], rows[:, others]
    if not len(others):
        with skip_triangular_check():
            return Regression(block, others, np.zeros((0, len(block))), Dense(factor=mine.T))
    # In units of each value's own deviation, or a value of small variance would count for nothing.
    scale = np.linalg.norm(theirs, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    basis, upper, order = _pivoted_qr(theirs / scale)
    diagonal = np.abs(upper.diagonal())
    rank = int(np.sum(diagonal > max(rows.shape) * np.finfo(float).eps * diagonal[0]))
    basis, order = basis[:, :rank], order[:rank]
    shared = basis.T @ mine
    weights = np.linalg.solve(upper[:rank, :rank], shared) / scale[order, None] if rank else np.zeros((0, len(block)))
    remaining = mine - basis @ shared
    # What is left of a value that the others determine is rounding error.
    determined = np.linalg.norm(remaining, axis=0) <= _CUT * np.linalg.norm(mine, axis=0)
    remaining = np.where(determined, 0.0, remaining)
    with skip_triangular_check():
        prior = Dense(factor=remaining.T)
        if prior.rank > whole_rank - rank:  # the values left vary, but one follows from the others up to rounding
            prior = Dense(factor=_largest(remaining, whole_rank - rank).T)
        return Regression(block, others[order], weights, prior)


def _largest(rows: np.ndarray, rank: int) -> np.ndarray:
    """The rows (rank, N) of a covariance that is nearest to that of `rows` (in units of each value's own deviation)."""
    scale = np.linalg.norm(rows, axis=0)
    _, values, vectors = np.linalg.svd(rows / np.where(scale > 0, scale, 1.0), full_matrices=False)
    return values[:rank, None] * vectors[:rank] * scale if rank else np.zeros((1, rows.shape[1]))


_CUT = 1e-13


def _triangular(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the same covariance that are triangular in the order of the pivots, as many as the rank."""
    height, width = rows.shape
    if height == width and rows.diagonal().all() and not np.tril(rows, -1).any():
        return rows, np.arange(width)  # a Cholesky factor, the usual case
    scale = np.linalg.norm(rows, axis=0)
    _, upper, order = _pivoted_qr(rows / np.where(scale > 0, scale, 1.0))
    diagonal = np.abs(upper.diagonal())
    rank = max(1, int(np.sum(diagonal > max(rows.shape) * np.finfo(float).eps * diagonal[0])))
    triangular = np.empty((rank, width))
    triangular[:, order] = upper[:rank]
    return triangular * scale, order[:rank].astype(np.int64)


def _pivoted_qr(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return qr(matrix, mode="economic", pivoting=True)  # pyright: ignore[reportReturnType]


def _log_determinant(rows: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """Of the covariance; if it is singular, of what is not (the pseudo-determinant)."""
    if not rows.any():
        return np.asarray(-np.log(2 * np.pi))  # a point mass: the one row counts for nothing
    triangular = rows[:, pivots] if len(pivots) == rows.shape[1] else np.asarray(np.linalg.qr(rows.T, mode="r"))
    with np.errstate(divide="ignore"):  # scales 1e300 apart underflow in a factor's product: minus infinity
        return np.asarray(2 * np.sum(np.log(np.abs(triangular.diagonal()))))


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


@contextlib.contextmanager
def skip_triangular_check() -> Iterator[None]:
    """Factors of our own making may be upper triangular by chance, which is no mistake."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="factor is upper triangular")
        yield


@np.errstate(under="ignore")  # products of far covariances are 0
def pivoted_cholesky(covariance: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows A (r, N) with A.T @ A = covariance to rounding, r its numerical rank; and the r pivots.

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
    if rank == len(matrix):
        upper, failed = lapack.dpotrf(correlation, clean=1)  # pyright: ignore[reportAttributeAccessIssue]
        if not failed:  # of full rank: no need for another order, and draws are quicker without
            packed, pivots = upper, np.arange(1, rank + 1)
    rows = np.zeros((max(rank, 1), len(matrix)))
    rows[:rank, pivots - 1] = np.triu(packed)[:rank]
    if np.abs(rows.T @ rows - correlation * (deviation > 0)).max() > tolerance:
        raise ValueError(_not_semidefinite(matrix))
    return np.ascontiguousarray(rows * deviation), (pivots[: max(rank, 1)] - 1).astype(np.int64)


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
