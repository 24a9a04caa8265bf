"""A full covariance matrix, by a pivoted Cholesky factorisation that needs no jitter."""

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
    """A Gaussian prior with a full covariance matrix.

    Use it for up to a few thousand elements. Above that, a prior with structure is cheaper by orders of magnitude. The
    covariance is factorised once, by Cholesky factorisation with pivoting, which stops at the numerical rank. Singular
    covariances therefore need no jitter, and smooth kernels draw faster because their numerical rank is low.

    Parameters
    ----------
    covariance : array, shape (N, N)
        Symmetric and positive semi-definite, up to rounding error.
    mean : float or array, shape (N,)
        Prior mean. Default: 0.
    factor : array, shape (N, M), optional
        Any matrix with covariance = factor @ factor.T, such as the Cholesky factor. Give it instead of `covariance`.

    Raises
    ------
    TypeError
        If neither or both of `covariance` and `factor` are given.
    ValueError
        If the covariance is not square, not symmetric, not positive semi-definite or not finite.

    Notes
    -----
    With the numerical rank r, set-up costs O(N^2 r), a draw O(N r), and memory is O(N r) after O(N^2) in the set-up.
    The mining covariance of the paper has N = 811 and r = 14. `whiten` costs O(r^2), `log_density` O(N r), and
    `condition` O(N r^2) once. If r < N, most blocks are determined by the rest, and their conditional variance is 0.

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
    """Indices of the elements that determine all others, one per row: rows[:, pivots] is upper triangular."""
    log_determinant: Any
    mean: Any
    shape: tuple[int, ...] = static()

    by_numpy = True

    def __init__(self, covariance: Any = None, mean: Any = 0.0, *, factor: Any = None):
        if (covariance is None) == (factor is None):
            raise TypeError("Dense needs either a covariance or a factor. Give one of them, not both.")
        rows, pivots = pivoted_cholesky(covariance) if factor is None else _triangular_rows(as_factor(factor))
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
        """Draw from N(0, Sigma), without the mean. Return an array of shape (count, size)."""
        return draw_by_rows(self.rows, self._is_triangular, rng, count)

    @cached_property
    def _is_triangular(self) -> bool:
        return np.array_equal(self.pivots, np.arange(self.size))

    @property
    def rank(self) -> int:
        return self.noise_size if np.any(self.rows) else 0

    def whiten(self, f: Any) -> Any:
        known = f[..., self.pivots].reshape(-1, len(self.pivots))
        triangle = self.rows[:, self.pivots]
        triangle = triangle + (triangle[0, 0] == 0)  # if the covariance is 0, this makes z = 0 instead of 0 / 0
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
            remaining = self.rows[np.arange(self.size), self.pivots] ** 2  # variance of each element given earlier ones
            # A cheap sufficient test: if no element is determined by earlier ones, the covariance is not singular.
            if (remaining > 10 * tolerance * variance[self.pivots]).all():
                return np.zeros((0, self.size))
        return null_space_of_factor(self.rows, tolerance)

    def __repr__(self) -> str:
        return f"Dense({self.size} values, rank {self.noise_size})"


def draw_by_rows(rows: np.ndarray, triangular: bool, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return draws from N(0, rows.T @ rows), shape (count, size).

    If `triangular` is True, `rows` must be square and upper triangular. The product then takes half the time.
    """
    z = rng.standard_normal(out=aligned_empty((count, len(rows))))
    if not triangular:
        return np.matmul(z, rows, out=aligned_empty((count, rows.shape[1])))
    times_triangular(z, np.ascontiguousarray(rows))
    return z


def condition_on_rest(rows: np.ndarray, block: np.ndarray, whole_rank: int) -> Regression:
    """Return the conditional of a block given the rest, under the covariance rows.T @ rows.

    The other elements determine the component of z in the span of their columns, and leave the orthogonal component
    random. Working with the factor instead of the covariance keeps twice the digits, and requires no inverse.
    `whole_rank` is the rank of the full covariance. The conditional has the rank `whole_rank` less that of the others.
    """
    others = complement(block, rows.shape[1])
    mine, theirs = rows[:, block], rows[:, others]
    if not len(others):
        with skip_triangular_check():
            return Regression(block, others, np.zeros((0, len(block))), Dense(factor=mine.T))
    # In units of each element's standard deviation. Otherwise elements of small variance would be taken for rounding.
    scale = np.linalg.norm(theirs, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    basis, upper, order = _pivoted_qr(theirs / scale)
    diagonal = np.abs(upper.diagonal())
    rank = int(np.sum(diagonal > max(rows.shape) * np.finfo(float).eps * diagonal[0]))
    basis, order = basis[:, :rank], order[:rank]
    shared = basis.T @ mine
    weights = np.linalg.solve(upper[:rank, :rank], shared) / scale[order, None] if rank else np.zeros((0, len(block)))
    remaining = mine - basis @ shared
    # The residual of an element that the others determine is rounding error.
    determined = np.linalg.norm(remaining, axis=0) <= _DETERMINED_TOLERANCE * np.linalg.norm(mine, axis=0)
    remaining = np.where(determined, 0.0, remaining)
    with skip_triangular_check():
        prior = Dense(factor=remaining.T)
        if prior.rank > whole_rank - rank:  # elements of the block determine each other, up to rounding error
            prior = Dense(factor=_nearest_of_rank(remaining, whole_rank - rank).T)
        return Regression(block, others[order], weights, prior)


def _nearest_of_rank(rows: np.ndarray, rank: int) -> np.ndarray:
    """Return rows (rank, N) of the nearest covariance of that rank, in units of each element's standard deviation."""
    scale = np.linalg.norm(rows, axis=0)
    _, values, vectors = np.linalg.svd(rows / np.where(scale > 0, scale, 1.0), full_matrices=False)
    return values[:rank, None] * vectors[:rank] * scale if rank else np.zeros((1, rows.shape[1]))


_DETERMINED_TOLERANCE = 1e-13
"""Largest conditional standard deviation, as a fraction of the marginal one, of an element that others determine."""


def _triangular_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (rank, N) of the same covariance that are triangular in the order of the pivots; and the pivots."""
    height, width = rows.shape
    if height == width and rows.diagonal().all() and not np.tril(rows, -1).any():
        return rows, np.arange(width)  # a Cholesky factor, the usual case, is used unchanged
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
    """Return the log determinant of the covariance, or the log pseudo-determinant if it is singular."""
    if not rows.any():
        return np.asarray(-np.log(2 * np.pi))  # a point mass of density 1: cancels the constant of its one row
    triangular = rows[:, pivots] if len(pivots) == rows.shape[1] else np.asarray(np.linalg.qr(rows.T, mode="r"))
    with np.errstate(divide="ignore"):  # scales 1e300 apart underflow to 0, which gives minus infinity
        return np.asarray(2 * np.sum(np.log(np.abs(triangular.diagonal()))))


def as_factor(factor: Any) -> np.ndarray:
    """Validate a factor (N, M) and return its transpose, the map from M normals to N elements."""
    matrix = as_numbers(factor, "factor")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"factor has shape {matrix.shape}; expected (N, M), with covariance = factor @ factor.T.")
    if len(matrix) == matrix.shape[1] > 1 and not np.tril(matrix, -1).any() and np.triu(matrix, 1).any():
        warnings.warn(
            "factor is upper triangular. The covariance is factor @ factor.T, but SciPy's cholesky returns the "
            "transpose of such a factor. Pass factor.T, or call cholesky with lower=True.",
            stacklevel=3,
        )
    return np.ascontiguousarray(matrix.T)


@contextlib.contextmanager
def skip_triangular_check() -> Iterator[None]:
    """Suppress the warning about upper triangular factors: those that the library computes are meant as they are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="factor is upper triangular")
        yield


@np.errstate(under="ignore")  # products of very small covariances underflow to 0, which is accurate enough
def pivoted_cholesky(covariance: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return rows A (r, N) with A.T @ A = covariance up to rounding error, and the r pivots; r is the numerical rank.

    The matrix is scaled to unit diagonal first, so that elements of small variance are not taken for rounding error.
    """
    given = getattr(covariance, "dtype", np.dtype(float))
    rounding = float(np.finfo(np.float32 if given == np.float32 else np.float16 if given == np.float16 else float).eps)
    matrix = as_numbers(covariance, "covariance")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(
            f"covariance has shape {matrix.shape}; expected a square matrix, (N, N). For independent "
            "elements with given variances use Diagonal."
        )
    variance = matrix.diagonal()
    if (variance < 0).any():
        i = int(np.argmin(variance))
        raise ValueError(f"covariance[{i}, {i}] is {variance[i]:.6g}, but a variance must not be negative.")
    scale = np.sqrt(variance)
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    correlation = matrix * inverse[:, None] * inverse
    tolerance = 100 * len(matrix) * rounding
    _check_symmetric(matrix, correlation, scale, tolerance)

    packed, pivots, rank, _ = lapack.dpstrf(  # pyright: ignore[reportAttributeAccessIssue]
        correlation, lower=0, tol=len(matrix) * rounding
    )
    rank = int(rank) if scale.any() else 0
    if rank == len(matrix):
        upper, failed = lapack.dpotrf(correlation, clean=1)  # pyright: ignore[reportAttributeAccessIssue]
        if not failed:  # full rank needs no pivoting, and draws are faster with a triangular factor
            packed, pivots = upper, np.arange(1, rank + 1)
    rows = np.zeros((max(rank, 1), len(matrix)))
    rows[:rank, pivots - 1] = np.triu(packed)[:rank]
    if np.abs(rows.T @ rows - correlation * (scale > 0)).max() > tolerance:
        raise ValueError(_not_semidefinite(matrix))
    return np.ascontiguousarray(rows * scale), (pivots[: max(rank, 1)] - 1).astype(np.int64)


def _not_semidefinite(matrix: np.ndarray) -> str:
    message = "covariance is not positive semi-definite"
    if len(matrix) > 1000:  # computing the eigenvalues of a large matrix would delay the message too much
        return f"{message}. Check the kernel and its inputs. Not every function of distances is a covariance."
    smallest, largest = float(np.linalg.eigvalsh(matrix)[0]), float(matrix.diagonal().max())
    message += f": its smallest eigenvalue is {smallest:.6g}, its largest variance {largest:.6g}. Check the kernel"
    if abs(smallest) < 1e-5 * largest:
        message += f". If the matrix was computed with rounding errors, add {2 * abs(smallest):.1g} to its diagonal"
    return message + "."


def _check_symmetric(matrix: np.ndarray, correlation: np.ndarray, scale: np.ndarray, tolerance: float) -> None:
    """Raise ValueError if the covariance is not symmetric, or has a non-zero row with a variance of 0."""
    zero = scale == 0
    if zero.any() and matrix[zero].any():
        i = int(np.flatnonzero(zero)[np.flatnonzero(matrix[zero].any(axis=1))[0]])
        raise ValueError(f"covariance[{i}, {i}] is 0, but row {i} is not. Expected a row of zeros. Check the kernel.")
    gap = np.abs(correlation - correlation.T)
    if gap.max() > tolerance:
        i, j = (int(k) for k in np.unravel_index(np.argmax(gap), gap.shape))
        raise ValueError(
            f"covariance is not symmetric: [{i}, {j}] is {matrix[i, j]:.6g} and [{j}, {i}] is "
            f"{matrix[j, i]:.6g}. If the matrix is a factor, pass it as Dense(factor=...)."
        )
