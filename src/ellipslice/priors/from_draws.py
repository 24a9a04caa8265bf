"""The paper's own interface: "a routine that samples from N(0, Sigma)"."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ellipslice.checks import as_mean, is_whole
from ellipslice.priors.base import Prior
from ellipslice.pytree import pytree, set_fields, static

_ONE_AT_A_TIME = threading.Lock()
"""Chains run in threads, and a user's routine need not be made for that."""


@pytree
class FromDraws(Prior):
    """A Gaussian known only through a routine that samples from it.

    Use it when you already have a sampler for your prior: a stochastic PDE solver, a sparse factor, another library.

    Parameters
    ----------
    sampler : callable
        `sampler(rng)` returns one zero-mean draw, an array of shape `size`. All its randomness must come from `rng`, a
        `numpy.random.Generator`; that is what makes a run repeatable. Runs on the host, so any Python will do.
    size : int or tuple of int
        Shape of a draw.
    mean : float or array of shape `size`
    batched : bool
        True if `sampler(rng, count)` returns `count` draws at once, stacked along the first axis.

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

    instead = (
        "it is known only through its routine. Use EllipticalSlice, which needs only draws, or a prior that has it."
    )

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
                "sampler gave different draws from the same generator, so runs will not be repeatable. Take all "
                "randomness from the rng it is given.",
                stacklevel=2,
            )
        if np.array_equal(first[0], first[1]):
            raise ValueError(
                "sampler returned the same draw twice in a row. Each call must return a new draw, from the rng it is "
                "given."
            )

    @property
    def noise_size(self) -> int:
        raise TypeError(
            "FromDraws draws by itself: it has no map from standard normals. Use a prior that has `unwhiten`."
        )

    @property
    def linear(self) -> bool:
        return False

    @property
    def traceable(self) -> bool:
        return False

    def unwhiten(self, z: Any) -> Any:
        raise TypeError(
            "FromDraws draws by itself: it has no map from standard normals. Use a prior that has `unwhiten`."
        )

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from N(0, Sigma), the mean left out, shape (count, size)."""
        with _ONE_AT_A_TIME:
            # Copies, for a routine may use its memory again.
            draws = self.sampler(rng, count) if self.batched else [np.array(self.sampler(rng)) for _ in range(count)]
        array = _as_draws(draws)
        if array.shape != (count, *self.shape):
            what, got = ("sampler(rng, count)", array.shape) if self.batched else ("sampler(rng)", array.shape[1:])
            expected = (count, *self.shape) if self.batched else self.shape
            raise ValueError(f"{what} returned shape {got}; expected {expected}.")
        if not np.isfinite(array).all():
            raise ValueError("sampler returned a draw that is not finite; a Gaussian prior has none.")
        return array.reshape(count, self.size)

    def __repr__(self) -> str:
        return f"FromDraws(shape {self.shape})"


def _as_shape(size: Any) -> tuple[int, ...]:
    shape: tuple[Any, ...] = tuple(size) if isinstance(size, Sequence | np.ndarray) and np.ndim(size) else (size,)
    if not all(is_whole(n) for n in shape):
        raise TypeError(f"size must be a whole number or a tuple of them, but it is {size!r}.")
    if min(shape, default=0) < 1:
        raise ValueError(f"size must be positive, but it is {size}.")
    return tuple(int(n) for n in shape)


def _as_draws(draws: Any) -> np.ndarray:
    try:
        array = np.asarray(draws)
    except ValueError:
        raise ValueError("sampler returned draws of different shapes.") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"sampler must return real numbers, but it returned {array.dtype}.")
    return array.astype(np.float64, copy=False)
