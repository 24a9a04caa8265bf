"""A prior that is defined by the user's sampler, as in the paper: "a routine that samples from N(0, Sigma)"."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ellipslice.checks import as_mean, is_whole
from ellipslice.priors.parts.only_draws import OnlyDraws
from ellipslice.pytree import pytree, set_fields, static

_SAMPLER_LOCK = threading.Lock()
"""Held while the user's sampler runs: chains run in threads, and the sampler need not be thread-safe."""


@pytree
class FromDraws(OnlyDraws):
    """A Gaussian prior that is defined by a function that draws from it.

    Use it when you already have a sampler for your prior, such as a stochastic PDE solver, a sparse factor, or another
    library.

    Parameters
    ----------
    sampler : callable
        `sampler(rng)` returns one zero-mean draw, an array of shape `size`. All its randomness must come from `rng`, a
        `numpy.random.Generator`; otherwise a run is not reproducible. It is called on the host, so it may be any Python
        function. It is called by one thread at a time.
    size : int or tuple of int
        Shape of a draw.
    mean : float or array
        Prior mean, a number or an array of shape `size`. Default: 0.
    batched : bool
        True if `sampler(rng, count)` returns `count` draws, stacked along the first axis. Default: False.

    Raises
    ------
    TypeError
        If `sampler` is not callable, or `size` is not a whole number or a tuple of whole numbers.
    ValueError
        If a draw has another shape or is not finite, or if two draws in a row are equal.

    Warns
    -----
    UserWarning
        If equal generators give different draws, so that runs are not reproducible.

    Notes
    -----
    Set-up makes four draws, to check the sampler. A draw costs one call of `sampler`; with `batched`, one call makes a
    block of draws. Memory is that of the draws. There is no `unwhiten`, `whiten`, `log_density` or `condition`,
    because the covariance is not known.

    Examples
    --------
    >>> FromDraws(lambda rng: rng.standard_normal(100).cumsum(), 100)
    FromDraws(shape (100,))
    """

    stored_as = "FromDraws"

    mean: Any
    sampler: Callable[..., Any] = static()
    shape: tuple[int, ...] = static()
    batched: bool = static()

    instead = "only its draws are known. Use EllipticalSlice, which needs only draws, or a prior that provides it."

    def __init__(
        self, sampler: Callable[..., Any], size: int | tuple[int, ...], mean: Any = 0.0, *, batched: bool = False
    ):
        if not callable(sampler):
            raise TypeError(f"sampler must be callable, but it is a {type(sampler).__name__}. For a matrix use Dense.")
        shape = _as_shape(size)
        set_fields(self, sampler=sampler, shape=shape, mean=as_mean(mean, shape), batched=bool(batched))
        first, again = (self.draw_zero_mean(np.random.default_rng(0), 2) for _ in range(2))
        if not np.array_equal(first, again):
            warnings.warn(
                "sampler returned different draws from equal generators, so runs will not be reproducible. Take all "
                "random numbers from the rng that sampler is called with.",
                stacklevel=2,
            )
        if np.array_equal(first[0], first[1]):
            raise ValueError(
                "sampler returned the same draw twice in a row. Each call must return a new draw, made from the rng "
                "that sampler is called with."
            )

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw from N(0, Sigma), without the mean. Return an array of shape (count, size)."""
        with _SAMPLER_LOCK:
            # Copies, because the sampler may return the same array again with other values.
            draws = self.sampler(rng, count) if self.batched else [np.array(self.sampler(rng)) for _ in range(count)]
        array = _as_draws(draws)
        if array.shape != (count, *self.shape):
            call, returned = ("sampler(rng, count)", array.shape) if self.batched else ("sampler(rng)", array.shape[1:])
            expected = (count, *self.shape) if self.batched else self.shape
            raise ValueError(f"{call} returned shape {returned}; expected {expected}.")
        if not np.isfinite(array).all():
            raise ValueError(
                "sampler returned a draw that is not finite. Every draw must be finite; check the sampler."
            )
        return array.reshape(count, self.size)

    def __repr__(self) -> str:
        return f"FromDraws(shape {self.shape})"


def _as_shape(size: Any) -> tuple[int, ...]:
    """Return `size` as a tuple of positive ints. Raise if it is not a whole number or a tuple of whole numbers."""
    shape: tuple[Any, ...] = tuple(size) if isinstance(size, Sequence | np.ndarray) and np.ndim(size) else (size,)
    if not all(is_whole(n) for n in shape):
        raise TypeError(f"size must be a whole number or a tuple of them, but it is {size!r}.")
    if min(shape, default=0) < 1:
        raise ValueError(f"size must be positive, but it is {size}.")
    return tuple(int(n) for n in shape)


def _as_draws(draws: Any) -> np.ndarray:
    """Return draws as a float64 array. Raise if they have different shapes, or are not real numbers."""
    try:
        array = np.asarray(draws)
    except ValueError:
        raise ValueError("sampler returned draws of different shapes. Every draw must have the shape `size`.") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"sampler must return real numbers, but it returned {array.dtype}.")
    return array.astype(np.float64, copy=False)
