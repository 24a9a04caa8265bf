"""Low-rank covariances, f = factor @ z, with or without independent noise."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.checks import as_mean, as_numbers
from ellipslice.priors.base import Prior, log_normal, on_span
from ellipslice.priors.dense import as_factor, condition_on_rest, skip_triangular_check
from ellipslice.priors.parts.conditional import BlockConditional, as_block
from ellipslice.priors.parts.features import fourier_factor, inducing_factor
from ellipslice.pytree import pytree, set_fields, static


@pytree
class LowRank(Prior):
    """A Gaussian prior with the low-rank covariance factor @ factor.T, and optionally a diagonal.

    Use it for features with independent standard normal weights (splines, Fourier features, inducing points, design
    matrices): M << N weights then determine the N elements. Without a diagonal, prior and posterior are restricted to
    the column space of the factor. `fourier_features` and `inducing_points` make factors that approximate a kernel.

    Parameters
    ----------
    factor : array, shape (N, M)
    mean : float or array, shape (N,)
        Prior mean. Default: 0.
    diagonal : float or array, shape (N,)
        Variances of independent noise that is added to each element. At least 0. Default: 0.

    Raises
    ------
    ValueError
        If an argument has another shape or is not finite, or if `diagonal` is negative.

    Notes
    -----
    Set-up costs O(N M^2). A draw, `whiten` and `log_density` cost O(N M), and `condition` O(N M^2) once. Memory is
    O(N M); no matrix of shape (N, N) is made. Without a diagonal, most blocks are determined by the rest. If `diagonal`
    is 0 for some elements and positive for others, there is no `whiten`, `log_density` or `condition`.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.linspace(0, 1, 200)
    >>> LowRank(np.column_stack([np.ones(200), t, t**2]))
    LowRank(200 values, rank 3)
    >>> LowRank(np.column_stack([np.ones(200), t, t**2]), diagonal=0.01)
    LowRank(200 values, rank 3 plus a diagonal)
    """

    stored_as = "LowRank"

    rows: Any
    deviation: Any
    """Standard deviation of the independent noise of each element; None if there is no diagonal."""
    root: Any
    """T with T @ T.T the covariance of z given f or, without a diagonal, the pseudo-inverse of rows @ rows.T."""
    log_determinant: Any
    mean: Any
    dimension: int = static()
    """Rank of the covariance: the dimension of the span of the draws."""
    shape: tuple[int, ...] = static()
    invertible: bool = static()

    by_numpy = True

    instead = "its diagonal is 0 for some elements only. Use a diagonal that is positive everywhere, or none."

    def __init__(self, factor: Any, mean: Any = 0.0, *, diagonal: Any = 0.0):
        rows = as_factor(factor)
        shape = (rows.shape[1],)
        variance = as_mean(_as_diagonal(diagonal), shape, "diagonal")  # None if it is 0 everywhere
        deviation = None if variance is None else np.sqrt(variance)
        invertible = deviation is None or bool(deviation.all())
        root, log_determinant, rank = _weight_posterior(rows, deviation) if invertible else (None, None, shape[0])
        set_fields(self, rows=rows, deviation=deviation, root=root, log_determinant=log_determinant, dimension=rank)
        set_fields(self, mean=as_mean(mean, shape), shape=shape, invertible=invertible)

    @classmethod
    def fourier_features(
        cls,
        x: Any,
        length_scale: Any,
        *,
        smoothness: float = np.inf,
        variance: float = 1.0,
        count: int = 100,
        seed: int = 0,
        mean: Any = 0.0,
    ) -> LowRank:
        """Approximate a squared-exponential or Matérn kernel by random Fourier features (Rahimi & Recht 2007).

        Variances are exact. A covariance is unbiased over seeds, with a standard deviation of at most
        variance / sqrt(2 count). A draw is a sum of `count` waves, which becomes visible far from the data.

        Parameters
        ----------
        x : array, shape (N,) or (N, D)
            Inputs.
        length_scale : float or array, shape (D,)
            Length scale of the kernel, in units of `x`: one number, or one per column of `x`. Positive.
        smoothness : float
            Parameter nu of the Matérn kernel. Any positive number; infinity gives the squared exponential kernel.
            Default: infinity.
        variance : float
            Prior variance of each element. Positive. Default: 1.
        count : int
            Number of random frequencies. The factor has two columns per frequency. Default: 100.
        seed : int
            Seed of the frequencies, which are drawn once. Default: 0.
        mean : float or array, shape (N,)
            Prior mean. Default: 0.

        Notes
        -----
        Set-up costs O(N count^2), a draw O(N count), and memory is O(N count).

        Examples
        --------
        >>> import numpy as np
        >>> LowRank.fourier_features(np.linspace(0, 1, 1000), 0.2, count=50)
        LowRank(1000 values, rank 100)
        """
        return cls(fourier_factor(x, length_scale, smoothness, variance, count, seed), mean)

    @classmethod
    def inducing_points(cls, kernel: Any, x: Any, points: Any, *, diagonal: bool = True, mean: Any = 0.0) -> LowRank:
        """Approximate any kernel by its values at M inducing points.

        With the kernel matrices K, the covariance is K_xu inv(K_uu) K_ux (Nyström, DTC, subset of regressors). It is
        exact at the inducing points and too small away from them. `diagonal` adds the missing variance as independent
        noise (FITC).

        Parameters
        ----------
        kernel : callable, tinygp kernel or scikit-learn kernel
            A callable takes inputs (N, D) and (M, D), or (N,) and (M,) if x has one axis, and returns (N, M).
        x : array, shape (N,) or (N, D)
            Inputs.
        points : array, shape (M,) or (M, D)
            Inducing points. They may repeat.
        diagonal : bool
            Whether to add the missing variances. Default: True.
        mean : float or array, shape (N,)
            Prior mean. Default: 0.

        Notes
        -----
        Set-up costs O(N M^2), a draw O(N M), and memory is O(N M).

        Examples
        --------
        >>> import numpy as np
        >>> kernel = lambda s, t: np.exp(-0.5 * (s[:, None] - t) ** 2)
        >>> LowRank.inducing_points(kernel, np.linspace(0, 9, 1000), np.linspace(0, 9, 20))
        LowRank(1000 values, rank 20 plus a diagonal)
        """
        factor, missing = inducing_factor(kernel, x, points)
        return cls(factor, mean, diagonal=missing if diagonal else 0.0)

    @property
    def noise_size(self) -> int:
        return self.rows.shape[0] + (0 if self.deviation is None else self.size)

    @property
    def rank(self) -> int:
        return self.dimension

    def device_factor(self) -> np.ndarray | None:
        return np.asarray(self.rows) if self.deviation is None else None

    def unwhiten(self, z: Any) -> Any:
        if self.deviation is None:
            return z @ self.rows
        weights = self.rows.shape[0]
        return z[..., :weights] @ self.rows + z[..., weights:] * self.deviation

    @property
    def capabilities(self) -> frozenset[str]:
        """All optional operations, or none if the diagonal is 0 for some elements only."""
        return super().capabilities if self.invertible else frozenset()

    def whiten(self, f: Any) -> Any:
        if not self.invertible:
            raise self._missing_capability("whiten")
        if self.deviation is None:
            z = self._weights(f, self.rows)
            # A second step on the residual, because the normal equations lose half the digits.
            return z + self._weights(f - z @ self.rows, self.rows)
        z = self._weights(f / self.deviation, self.rows / self.deviation)
        return jnp.concatenate([z, (f - z @ self.rows) / self.deviation], -1)

    def log_density(self, f: Any) -> Any:
        if not self.invertible:
            raise self._missing_capability("log_density")
        z = self.whiten(f)
        log_density = log_normal(z, self.log_determinant, self.rank)
        return log_density if self.rank == self.size else on_span(log_density, f, self.unwhiten(z))

    def condition(self, block: Any) -> BlockConditional:
        if not self.invertible:
            raise self._missing_capability("condition")
        block = as_block(block, self.size)
        if self.deviation is None:
            return condition_on_rest(self.rows, block, self.dimension)
        scale = 1 / self.deviation
        scale[block] = 0.0  # the elements of the block must not inform the weights
        root = _inverse_upper(self.rows * scale)[0]
        with skip_triangular_check():
            prior = LowRank(self.rows[:, block].T @ root, diagonal=self.deviation[block] ** 2)
        return _LowRankConditional(block, self.rows, scale, root, prior)

    def _weights(self, f: Any, rows: Any) -> Any:
        """Return the mean of the weights z given f, in units in which the noise has the variance 1."""
        return ((f @ rows.T) @ self.root) @ self.root.T

    def __repr__(self) -> str:
        plus = "" if self.deviation is None else " plus a diagonal"
        return f"LowRank({self.size} values, rank {self.rows.shape[0]}{plus})"


@pytree
class _LowRankConditional(BlockConditional):
    """The conditional of a block given the rest, by the posterior mean of the weights given the rest."""

    block: Any
    rows: Any
    scale: Any
    """1 / standard deviation of the independent noise; 0 in the block."""
    root: Any
    """T with T @ T.T the covariance of the weights given the rest."""
    prior: Prior

    by_numpy = True

    def __init__(self, block: np.ndarray, rows: np.ndarray, scale: np.ndarray, root: np.ndarray, prior: Prior):
        set_fields(self, block=block, rows=rows, scale=scale, root=root, prior=prior)

    def mean(self, f: Any) -> Any:
        weights = (((f * self.scale**2) @ self.rows.T) @ self.root) @ self.root.T
        return weights @ self.rows[:, self.block]


def _weight_posterior(rows: np.ndarray, deviation: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the field `root`, the log (pseudo-)determinant of the covariance, and its rank."""
    if deviation is not None:
        root, log_determinant = _inverse_upper(rows / deviation)
        return root, np.asarray(log_determinant + 2 * np.sum(np.log(deviation))), rows.shape[1]
    _, values, vectors = np.linalg.svd(np.linalg.qr(rows.T, mode="r"))
    kept = values > max(rows.shape) * np.finfo(float).eps * values[0] if values[0] > 0 else values > 0
    inverse = np.zeros(len(rows))
    inverse[: len(values)][kept] = 1 / values[kept]
    return vectors.T * inverse, np.asarray(2 * np.sum(np.log(values[kept]))), int(kept.sum())


def _inverse_upper(scaled: np.ndarray) -> tuple[np.ndarray, float]:
    """Return inv(R) and 2 log |R|, where R.T @ R = 1 + scaled @ scaled.T, without forming that product."""
    upper = np.asarray(np.linalg.qr(np.concatenate([scaled.T, np.eye(len(scaled))]), mode="r"))
    return np.linalg.solve(upper, np.eye(len(upper))), float(2 * np.sum(np.log(np.abs(upper.diagonal()))))


def _as_diagonal(diagonal: Any) -> np.ndarray:
    """Return the diagonal as an array. Raise ValueError if an element is negative."""
    values = as_numbers(diagonal, "diagonal")
    if (values < 0).any():
        raise ValueError(f"diagonal must not be negative, but its smallest value is {values.min():.6g}.")
    return values
