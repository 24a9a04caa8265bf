"""Stationary kernels on regular grids, by circulant embedding and the fast Fourier transform."""

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
    """A Gaussian prior with a stationary kernel on a regular grid: covariances depend only on the lag.

    Use it for time series at regular times, images and volumes, up to millions of elements. For inputs that are not a
    regular grid use `Markov`, `SparsePrecision`, `LowRank` or `Dense`.

    The grid is embedded in a larger periodic grid, whose covariance is diagonal in the Fourier basis (Dietrich &
    Newsam 1997). Some eigenvalues of the embedding may be negative. They are set to 0, and the embedding is enlarged
    until the error is at most `tolerance`.

    Parameters
    ----------
    kernel : callable, tinygp kernel or scikit-learn kernel
        A callable maps lag vectors (..., axes), in the unit of `spacing`, to covariances (...).
    shape : int or tuple of int
        Shape of the grid. 1, 2 or 3 axes.
    spacing : float or sequence of float
        Distance between neighbours: one number, or one per axis. Positive.
    mean : float or array
        Prior mean, a number or an array of shape `shape`. Default: 0.
    tolerance : float
        Largest error of a covariance that is accepted, as a fraction of the variance. At least 2.2e-16. Default: 1e-12.
    limit : int, optional
        Largest number of points of the embedding, which determines the memory of a draw. Default: four times the
        smallest possible number, and at least 2^20.

    Attributes
    ----------
    embedding_error : float
        Upper bound of the error of every covariance, as a fraction of the variance. At about 1e-16 the prior is exact
        up to rounding error.
    embedding : tuple of int
        Shape of the periodic grid.

    Raises
    ------
    ValueError
        If no embedding of at most `limit` points has an error of at most `tolerance`, or if the kernel is not even,
        not stationary or not finite.

    Notes
    -----
    Set-up costs one transform of each embedding that is tried. A draw costs O(N log N), for one real transform of the
    embedding, which has about 2^axes N points. Memory is O(2^axes N). There is no `whiten`, `log_density` or
    `condition`, because the inverse of the covariance does not have this structure.

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
    """Square roots of the eigenvalues of the embedding divided by its number of points, by wave number."""
    excess: Any
    """The error bound `embedding_error`, an array of shape ()."""
    mean: Any
    shape: tuple[int, ...] = static()
    embedding: tuple[int, ...] = static()

    instead = (
        "its embedding has more standard normals than the grid has elements. Use EllipticalSlice, which needs only "
        "draws, Markov for time series, SparsePrecision.matern for grids, or Dense below 5,000 elements."
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
        """Upper bound of the error of every covariance, as a fraction of the variance."""
        return float(self.excess)

    @property
    def rank(self) -> int:
        raise self._missing_capability("rank")

    def unwhiten(self, z: Any) -> Any:
        # The Hartley transform, Re - Im, is real, symmetric and orthogonal, and diagonalises the same matrices as the
        # Fourier transform. So one real transform of real noise makes a draw, and the grid lies in its half spectrum.
        axes = tuple(range(-len(self.shape), 0))
        waves = jnp.fft.rfftn(z.reshape(*z.shape[:-1], *self.embedding) * self.root, axes=axes)
        waves = waves[(..., *(slice(n) for n in self.shape))]
        return (waves.real - waves.imag).reshape(*z.shape[:-1], self.size)

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw from N(0, Sigma), without the mean. Return an array of shape (count, size).

        This is `unwhiten`, in place, on the host. For a million elements it takes half the time of the compiled
        function, which spends most of its time on new memory.
        """
        draws = np.empty((count, *self.shape))
        noise = np.empty((min(count, max(1, _CHUNK_NORMALS // self.noise_size)), *self.embedding))
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


_CHUNK_NORMALS = 2**16
"""Largest number of standard normals that are transformed in one call, if a draw does not need more.

They should fit into the cache of a core."""

ROUNDING = float(np.finfo(float).eps)
"""Smallest error that is reported: a transform is not more accurate."""


def _embed(
    covariance: Callable[[np.ndarray], np.ndarray],
    shape: tuple[int, ...],
    steps: np.ndarray,
    tolerance: float,
    limit: int | None,
) -> tuple[np.ndarray, float]:
    """Return the field `root` of the smallest embedding whose error is at most `tolerance`, and that error."""
    least = tuple(_fast_length(2 * n - 1) for n in shape)
    limit = max(4 * math.prod(least), 2**20) if limit is None else limit
    if limit < math.prod(least):
        raise ValueError(
            f"limit is {limit}, but the smallest embedding of the grid {shape} has {math.prod(least)} points. Expected "
            "at least that number."
        )
    embedding, best = least, math.inf
    while math.prod(embedding) <= limit:
        values = _eigenvalues(covariance, embedding, steps)
        variance = values.mean()
        if variance <= 0:
            raise ValueError(f"kernel is {variance:.6g} at lag 0, but the variance must be positive. Check the kernel.")
        negative = float(-values[values < 0].sum() / values.size / variance)
        error = max(negative, ROUNDING)
        if error <= tolerance:
            return np.sqrt(np.maximum(values, 0.0) / values.size), error
        best = min(best, error)
        larger = tuple(n if n == 1 else _fast_length(int(1.4 * n) + 1) for n in embedding)
        if larger == embedding:
            break
        embedding = larger
    accept = f"Accept that error with tolerance={2 * best:.1g}, allow" if best < 0.01 else "Allow"
    raise ValueError(
        f"no embedding of the grid {shape} of up to {limit} points is accurate enough: the smallest error is "
        f"{best:.2g} of the variance, and tolerance is {tolerance:.2g}. Either the kernel is not positive definite, or "
        f"it has not decayed across the grid. {accept} more memory with limit=..., or use Kronecker if the kernel is a "
        "product over axes, SparsePrecision.matern for a Matérn field, or Dense below 5,000 elements."
    )


def _eigenvalues(
    covariance: Callable[[np.ndarray], np.ndarray], embedding: tuple[int, ...], steps: np.ndarray
) -> np.ndarray:
    """Return the eigenvalues of the covariance on the periodic grid, by wave number."""
    signed = [(np.arange(n) + n // 2) % n - n // 2 for n in embedding]
    signed = [np.where(lag < 0, lag, np.arange(n)) for lag, n in zip(signed, embedding, strict=True)]
    lags = np.stack(np.meshgrid(*(lag * step for lag, step in zip(signed, steps, strict=True)), indexing="ij"), axis=-1)
    # The real part: the lag of half the period has both signs, and an even covariance is the average of the two.
    return np.fft.fftn(covariance(lags)).real


def _fast_length(least: int) -> int:
    """Return the smallest length, at least `least`, whose transform is fast."""
    return next_fast_len(least, real=True) or least


def _as_spacing(spacing: Any, axes: int) -> np.ndarray:
    """Return the spacing of each axis, shape (axes,). Raise ValueError if it is not positive."""
    steps = as_numbers(spacing, "spacing")
    if steps.shape not in ((), (axes,)) or not (steps > 0).all():
        raise ValueError(f"spacing must be positive, one number or one for each of {axes} axes, but it is {spacing!r}.")
    return np.broadcast_to(steps, (axes,))


def _as_tolerance(tolerance: Any) -> float:
    """Return the tolerance as a float. Raise ValueError if it is below rounding error."""
    value = as_numbers(tolerance, "tolerance")
    if value.shape != () or value < ROUNDING:
        raise ValueError(f"tolerance must be a number, at least {ROUNDING:.2g} (rounding), but it is {tolerance!r}.")
    return float(value)


def _check_even(covariance: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], steps: np.ndarray) -> None:
    """Raise ValueError if the covariance differs between a lag and the opposite lag, at 50 random lags."""
    rng = np.random.default_rng(0)
    lags = rng.integers(-np.array(shape) + 1, np.array(shape), (50, len(shape))) * steps
    values, opposite = covariance(lags), covariance(-lags)
    if not np.allclose(values, opposite, rtol=1e-9, atol=1e-12 * np.abs(values).max()):
        worst = int(np.argmax(np.abs(values - opposite)))
        raise ValueError(
            f"kernel is not a covariance: it is {values[worst]:.6g} at lag {lags[worst]} and {opposite[worst]:.6g} at "
            "the opposite lag. Expected an even function of the lag. Check the kernel."
        )
