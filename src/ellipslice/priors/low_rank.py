"""A Gaussian that lives in few dimensions, f = factor @ z, or in few and a little noise beside."""

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
    """A Gaussian with covariance factor @ factor.T, for a tall thin factor; plus a diagonal, if given.

    Use it for features with Gaussian weights (splines, Fourier features, inducing points, design matrices): N values
    that M << N numbers determine. Without a diagonal the posterior lives in the factor's column space, as the prior
    does. `fourier_features` and `inducing_points` make factors that approximate a kernel.

    Parameters
    ----------
    factor : array, shape (N, M)
    mean : float or array, shape (N,)
    diagonal : float or array, shape (N,)
        Variances of independent noise added to each value.

    Notes
    -----
    Set-up costs O(N M^2); a draw, `whiten` and `log_density` O(N M); nothing of size N x N is formed. Without a
    diagonal, `condition` finds most blocks determined by the rest.

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
    """Of the diagonal; or None."""
    root: Any
    """T with T @ T.T the inverse of the precision of z given f (the pseudo-inverse, if there is no diagonal)."""
    log_determinant: Any
    mean: Any
    dimension: int = static()
    """Of the span of its draws."""
    shape: tuple[int, ...] = static()
    invertible: bool = static()

    by_numpy = True

    instead = "some of its diagonal is 0 and some is not. Use a diagonal that is positive everywhere, or none."

    def __init__(self, factor: Any, mean: Any = 0.0, *, diagonal: Any = 0.0):
        rows = as_factor(factor)
        shape = (rows.shape[1],)
        variance = as_mean(_as_diagonal(diagonal), shape, "diagonal")  # None if it is 0 everywhere
        deviation = None if variance is None else np.sqrt(variance)
        invertible = deviation is None or bool(deviation.all())
        root, log_determinant, rank = _solver(rows, deviation) if invertible else (None, None, shape[0])
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
        """Approximate a squared-exponential or Matérn kernel by waves of random frequencies (Rahimi & Recht 2007).

        Variances are exact. A covariance is right on average over seeds, with a standard deviation of at most
        variance / sqrt(2 count); a draw is a sum of `count` waves, and looks like one far from the data.

        Parameters
        ----------
        x : array, shape (N,) or (N, D)
            Inputs.
        length_scale : float or array, shape (D,)
        smoothness : float
            The Matérn kernel's nu: 0.5, 1.5, 2.5, or any other; infinity is the squared exponential.
        variance : float
        count : int
            Number of frequencies; the factor has twice as many columns.
        seed : int
            Of the frequencies, which are drawn once.
        mean : float or array, shape (N,)

        Examples
        --------
        >>> import numpy as np
        >>> LowRank.fourier_features(np.linspace(0, 1, 1000), 0.2, count=50)
        LowRank(1000 values, rank 100)
        """
        return cls(fourier_factor(x, length_scale, smoothness, variance, count, seed), mean)

    @classmethod
    def inducing_points(cls, kernel: Any, x: Any, points: Any, *, diagonal: bool = True, mean: Any = 0.0) -> LowRank:
        """Approximate any kernel by what M inducing points say about the inputs.

        With K the kernel's matrices, the covariance is K_xu inv(K_uu) K_ux (Nyström, DTC, subset of regressors): exact
        at the inducing points, too small away from them. `diagonal` restores every variance (FITC): what is missing
        becomes independent noise.

        Parameters
        ----------
        kernel : callable, tinygp kernel or scikit-learn kernel
            A callable takes inputs (N, D) and (M, D), or (N,) and (M,) if x has one axis, and returns (N, M).
        x : array, shape (N,) or (N, D)
        points : array, shape (M,) or (M, D)
            Inducing points. Repeated ones do no harm.
        diagonal : bool
        mean : float or array, shape (N,)

        Notes
        -----
        Set-up costs O(N M^2).

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
        """Everything, unless some of the diagonal is 0 and some is not."""
        return super().capabilities if self.invertible else frozenset()

    def whiten(self, f: Any) -> Any:
        if not self.invertible:
            raise self._missing_capability("whiten")
        if self.deviation is None:
            z = self._weights(f, self.rows)
            return z + self._weights(f - z @ self.rows, self.rows)  # once more: normal equations lose half the digits
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
        rest = 1 / self.deviation
        rest[block] = 0.0  # the block's own values do not matter
        root = _root(self.rows * rest)[0]
        with skip_triangular_check():
            prior = LowRank(self.rows[:, block].T @ root, diagonal=self.deviation[block] ** 2)
        return _ThroughWeights(block, self.rows, rest, root, prior)

    def _weights(self, f: Any, rows: Any) -> Any:
        return ((f @ rows.T) @ self.root) @ self.root.T

    def __repr__(self) -> str:
        plus = "" if self.deviation is None else " plus a diagonal"
        return f"LowRank({self.size} values, rank {self.rows.shape[0]}{plus})"


@pytree
class _ThroughWeights(BlockConditional):
    """The others say what the weights are, and the weights what to expect of the block."""

    block: Any
    rows: Any
    rest: Any
    root: Any
    prior: Prior

    by_numpy = True

    def __init__(self, block: np.ndarray, rows: np.ndarray, rest: np.ndarray, root: np.ndarray, prior: Prior):
        set_fields(self, block=block, rows=rows, rest=rest, root=root, prior=prior)

    def mean(self, f: Any) -> Any:
        weights = (((f * self.rest**2) @ self.rows.T) @ self.root) @ self.root.T
        return weights @ self.rows[:, self.block]


def _solver(rows: np.ndarray, deviation: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, int]:
    """`root`, the covariance's log (pseudo-)determinant, and its rank."""
    if deviation is not None:
        root, log_determinant = _root(rows / deviation)
        return root, np.asarray(log_determinant + 2 * np.sum(np.log(deviation))), rows.shape[1]
    _, values, vectors = np.linalg.svd(np.linalg.qr(rows.T, mode="r"))
    kept = values > max(rows.shape) * np.finfo(float).eps * values[0] if values[0] > 0 else values > 0
    inverse = np.zeros(len(rows))
    inverse[: len(values)][kept] = 1 / values[kept]
    return vectors.T * inverse, np.asarray(2 * np.sum(np.log(values[kept]))), int(kept.sum())


def _root(scaled: np.ndarray) -> tuple[np.ndarray, float]:
    """The inverse of R, and 2 log |R|, where R.T @ R = 1 + scaled @ scaled.T; without forming that product."""
    upper = np.asarray(np.linalg.qr(np.concatenate([scaled.T, np.eye(len(scaled))]), mode="r"))
    return np.linalg.solve(upper, np.eye(len(upper))), float(2 * np.sum(np.log(np.abs(upper.diagonal()))))


def _as_diagonal(diagonal: Any) -> np.ndarray:
    values = as_numbers(diagonal, "diagonal")
    if (values < 0).any():
        raise ValueError(f"diagonal must not be negative, but its smallest value is {values.min():.6g}.")
    return values
