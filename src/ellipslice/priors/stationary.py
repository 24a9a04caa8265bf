"""Stationary covariances on regular grids, by circulant embedding and the fast Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.fft import next_fast_len, rfftn

from ellipslice.checks import as_grid, as_mean, as_numbers
from ellipslice.priors.base import Prior
from ellipslice.priors.parts.kernels import lag_function
from ellipslice.pytree import pytree, set_fields, static


@pytree
class Stationary(Prior):
    """A Gaussian on a regular grid, in which covariances depend on the lag alone.

    Use it for time series at regular times, images and volumes, up to millions of values. Values that are not on a grid
    need `Markov`, `SparsePrecision`, `LowRank` or `Dense`.

    The grid is embedded in a larger one that wraps around, whose covariance the Fourier transform makes diagonal
    (Dietrich & Newsam 1997). Some of the larger one's eigenvalues may be negative, though, and then it has no Gaussian.
    It grows until what they amount to is at most `tolerance`, and if it may not grow any more, that is an error.

    Parameters
    ----------
    kernel : callable, tinygp kernel or scikit-learn kernel
        A callable maps lag vectors (..., axes) to covariances (...), in units of `spacing`.
    shape : int or tuple of int
        Of the grid; 1, 2 or 3 axes.
    spacing : float or sequence of float
        Distance of neighbours, along each axis.
    mean : float or array of that shape
    tolerance : float
        Largest error of a covariance, as a share of the variance, that is accepted.
    limit : int, optional
        Most points of the embedding: the memory of a draw. By default four times the least number, and at least 2^20.

    Attributes
    ----------
    error : float
        No covariance is off by more than this share of the variance. Around 1e-16 the prior is exact to rounding.
    embedding : tuple of int
        Shape of the grid that wraps around.

    Notes
    -----
    A draw costs O(N log N): one real transform of the embedding, of about 2^axes N points. It has no `whiten`,
    `log_density` or `condition`, because the inverse of the covariance has no such structure.

    Examples
    --------
    >>> import numpy as np
    >>> kernel = lambda lag: np.exp(-np.linalg.norm(lag, axis=-1) / 10)
    >>> prior = Stationary(kernel, shape=(100, 200), spacing=1.0)
    >>> prior.size, prior.embedding_error < 1e-12
    (20000, True)
    """

    stored_as = "Stationary"

    root: Any
    """Square roots of the embedding's eigenvalues, by wave number, less the transform's own factor."""
    excess: Any
    mean: Any
    shape: tuple[int, ...] = static()
    embedding: tuple[int, ...] = static()

    instead = (
        "its embedding has more noise than values. Use EllipticalSlice, which needs only draws; Markov for time "
        "series; SparsePrecision.matern for grids; or Dense below 5,000 values."
    )

    def __init__(
        self,
        kernel: Any,
        shape: int | tuple[int, ...],
        spacing: Any,
        mean: Any = 0.0,
        *,
        tolerance: float = 1e-12,
        limit: int | None = None,
    ):
        shape = as_grid(shape)
        steps = _as_spacing(spacing, len(shape))
        covariance = lag_function(kernel, len(shape))
        _check_even(covariance, shape, steps)
        root, error = _embed(covariance, shape, steps, _as_tolerance(tolerance), limit)
        set_fields(self, root=root, excess=np.asarray(error), mean=as_mean(mean, shape), shape=shape)
        set_fields(self, embedding=root.shape)

    @property
    def noise_size(self) -> int:
        return math.prod(self.embedding)

    @property
    def embedding_error(self) -> float:
        """The largest error that a covariance can have, as a share of the variance."""
        return float(self.excess)

    @property
    def rank(self) -> int:
        raise self._missing_capability("rank")

    def unwhiten(self, z: Any) -> Any:
        # The Hartley transform, Re - Im, is real, symmetric and orthogonal, and diagonalises what the Fourier transform
        # does: one real transform from real noise to a draw. The grid lies in the half that a real transform gives.
        axes = tuple(range(-len(self.shape), 0))
        waves = jnp.fft.rfftn(z.reshape(*z.shape[:-1], *self.embedding) * self.root, axes=axes)
        waves = waves[(..., *(slice(n) for n in self.shape))]
        return (waves.real - waves.imag).reshape(*z.shape[:-1], self.size)

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from N(0, Sigma), the mean left out, shape (count, size): `unwhiten` in place, on the host.

        For a million values that takes half the time of the compiled one, most of which goes into new memory.
        """
        draws = np.empty((count, *self.shape))
        noise = np.empty((min(count, max(1, _PIECE // self.noise_size)), *self.embedding))
        axes = tuple(range(-len(self.shape), 0))
        for start in range(0, count, max(1, len(noise))):
            z = noise[: count - start]
            rng.standard_normal(out=z)
            z *= self.root
            waves: Any = rfftn(z, axes=axes)
            waves = waves[(..., *(slice(n) for n in self.shape))]
            np.subtract(waves.real, waves.imag, out=draws[start : start + len(z)])
        return draws.reshape(count, self.size)

    def __repr__(self) -> str:
        exact = f"exact to {self.embedding_error:.1g}" if isinstance(self.excess, np.ndarray) else "traced"
        return f"Stationary(shape {self.shape}, embedded in {self.embedding}, {exact})"


_PIECE = 2**16
"""Noise transformed at a time, if a draw does not take more: it should stay in a core's cache."""

ROUNDING = float(np.finfo(float).eps)
"""No transform is more exact."""


def _embed(
    covariance: Callable[[np.ndarray], np.ndarray],
    shape: tuple[int, ...],
    steps: np.ndarray,
    tolerance: float,
    limit: int | None,
) -> tuple[np.ndarray, float]:
    """The roots of the eigenvalues of the smallest embedding that is good enough, and its error."""
    least = tuple(_fast(2 * n - 1) for n in shape)
    limit = max(4 * math.prod(least), 2**20) if limit is None else limit
    if limit < math.prod(least):
        raise ValueError(
            f"limit is {limit}, but the smallest embedding of the grid {shape} has {math.prod(least)} points."
        )
    embedding, best = least, math.inf
    while math.prod(embedding) <= limit:
        values = _eigenvalues(covariance, embedding, steps)
        variance = values.mean()
        if variance <= 0:
            raise ValueError(f"kernel is {variance:.6g} at lag 0: a variance must be positive.")
        negative = float(-values[values < 0].sum() / values.size / variance)
        error = max(negative, ROUNDING)
        if error <= tolerance:
            return np.sqrt(np.maximum(values, 0.0) / values.size), error
        best = min(best, error)
        growing = tuple(n if n == 1 else _fast(int(1.4 * n) + 1) for n in embedding)
        if growing == embedding:
            break
        embedding = growing
    accept = f"Accept that error with tolerance={2 * best:.1g}, allow" if best < 0.01 else "Allow"
    raise ValueError(
        f"no embedding of the grid {shape} of up to {limit} points is positive: the best is off by {best:.2g} of the "
        f"variance, and tolerance is {tolerance:.2g}. Either the kernel is not positive definite, or it has not "
        f"decayed across the grid. {accept} more memory with limit=..., or use Kronecker if the kernel is a product "
        "over axes, SparsePrecision.matern for a Matérn field, or Dense below 5,000 values."
    )


def _eigenvalues(
    covariance: Callable[[np.ndarray], np.ndarray], embedding: tuple[int, ...], steps: np.ndarray
) -> np.ndarray:
    around = [(np.arange(n) + n // 2) % n - n // 2 for n in embedding]
    around = [np.where(lag < 0, lag, np.arange(n)) for lag, n in zip(around, embedding, strict=True)]
    lags = np.stack(np.meshgrid(*(lag * step for lag, step in zip(around, steps, strict=True)), indexing="ij"), axis=-1)
    # The real part: lags half way around have two signs, of which an even covariance is the average.
    return np.fft.fftn(covariance(lags)).real


def _fast(least: int) -> int:
    """The next length whose transform is fast."""
    return next_fast_len(least, real=True) or least


def _as_spacing(spacing: Any, axes: int) -> np.ndarray:
    steps = as_numbers(spacing, "spacing")
    if steps.shape not in ((), (axes,)) or not (steps > 0).all():
        raise ValueError(f"spacing must be positive, one number or one for each of {axes} axes, but it is {spacing!r}.")
    return np.broadcast_to(steps, (axes,))


def _as_tolerance(tolerance: Any) -> float:
    value = as_numbers(tolerance, "tolerance")
    if value.shape != () or value < ROUNDING:
        raise ValueError(f"tolerance must be a number, at least {ROUNDING:.2g} (rounding), but it is {tolerance!r}.")
    return float(value)


def _check_even(covariance: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], steps: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    lags = rng.integers(-np.array(shape) + 1, np.array(shape), (50, len(shape))) * steps
    there, back = covariance(lags), covariance(-lags)
    if not np.allclose(there, back, rtol=1e-9, atol=1e-12 * np.abs(there).max()):
        worst = int(np.argmax(np.abs(there - back)))
        raise ValueError(
            f"kernel is not a covariance: it is {there[worst]:.6g} at lag {lags[worst]} and {back[worst]:.6g} at the "
            "opposite lag. It must be even."
        )
