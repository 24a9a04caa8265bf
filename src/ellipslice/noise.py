"""Random numbers of updates, as a pure function of (seed, chain, update).

The random numbers of an update are drawn before its first evaluation, in blocks of `block_length` updates:

- those of the move's `NoiseSpec`, by default a draw nu from the prior;
- an exponential per search, which sets the slice level;
- uniforms per search, any number of them.

Block b of chain c depends only on (seed, c, b). A chain is therefore bit-identical alone or among a thousand, with or
without interruptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np

from ellipslice.pytree import pytree, set_fields

DRAWN_UNIFORMS = 33
"""Uniforms drawn for each search. About one search in 100,000 needs more, which are computed from a key."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


class Noise(NamedTuple):
    """The random numbers of one slice search."""

    nu: Any
    """Draw from N(0, Sigma), a flat vector: step 1 of Figure 2."""
    level: Any
    """Standard exponential; the slice level is log y = log L(f) - level, step 2."""
    uniforms: Any
    """Function whose value `uniforms(k)` is the k-th uniform of this search."""


class UpdateNoise(NamedTuple):
    """The random numbers of one update of a move, or of a block of updates along one more leading axis."""

    drawn: Any
    """Result of the move's `NoiseSpec.draw`: an array, or the move's own named tuple."""
    level: Any
    """Standard exponentials, shape (searches,)."""
    uniforms: Any
    """`Uniforms` of each search, shape (searches,)."""

    @property
    def nu(self) -> Any:
        """Draws from N(0, Sigma), shape (searches, size), of a move that draws nothing else."""
        return self.drawn

    def search(self, nu: Any, number: int = 0) -> Noise:
        """Return the random numbers of search `number`, along the curve that `nu` determines. Default: search 0."""
        return Noise(nu, self.level[number], self.uniforms[number])

    def share(self, drawn: Any, searches: Any) -> UpdateNoise:
        """Return the random numbers of an inner move, which makes the searches in the slice `searches`."""
        return UpdateNoise(drawn, self.level[searches], self.uniforms[searches])

    def at(self, update: Any) -> UpdateNoise:
        """Return the random numbers of one update of a block."""
        return UpdateNoise(take(self.drawn, update), self.level[update], self.uniforms[update])


class NoiseSpec(NamedTuple):
    """Specification of the random numbers of an update."""

    draw: Callable[[np.random.Generator, int], Any]
    """Function (rng, updates) -> an array or a named tuple of arrays with a leading axis of updates, or None."""
    searches: int = 1
    """Number of slice searches or other uses of a slice level. Each has its own level and uniforms. Default: 1."""
    numbers: int = 0
    """Approximate number of random numbers per update. `block_length` depends on it, so a move must never change it."""
    of_prior: bool = False
    """True if `draw` returns only draws from the prior, shape (updates, searches, size). Default: False."""
    shared: tuple[str, ...] = ()
    """Names of fields of the drawn tuple that depend only on the number of the update in its block, and are therefore
    equal for all chains. Default: none."""

    @classmethod
    def from_prior(cls, prior: ZeroMeanDraws, size: int, searches: int = 1, *, of_prior: bool = True) -> NoiseSpec:
        """Return the specification of a move that uses one draw from the prior per search."""

        def draw(rng: np.random.Generator, updates: int) -> np.ndarray:
            return np.asarray(prior.draw_zero_mean(rng, updates * searches)).reshape(updates, searches, -1)

        return cls(draw, searches, searches * size, of_prior)


def take(drawn: Any, index: Any) -> Any:
    """Return one entry along the leading axis of every array in nested tuples. None stays None."""
    if drawn is None:
        return None
    if not isinstance(drawn, tuple):
        return drawn[index]
    entries = [take(part, index) for part in drawn]
    return type(drawn)(*entries) if hasattr(drawn, "_fields") else tuple(entries)


@pytree
class Uniforms:
    """An unlimited sequence of uniforms on [0, 1): the first are stored, the others are computed from a key.

    The sequences of many searches have leading axes, and are indexed like an array.
    """

    first: Any
    """Stored uniforms, shape (..., DRAWN_UNIFORMS)."""
    key: Any
    """Threefry key: two unsigned 32-bit words, shape (..., 2)."""

    def __init__(self, first: Any, key: Any):
        set_fields(self, first=first, key=key)

    def __getitem__(self, index: Any) -> Uniforms:
        return Uniforms(self.first[index], self.key[index])

    def __call__(self, number: Any) -> Any:
        """Return uniform `number` of one search, counted from 0."""
        if isinstance(number, int):
            if number < DRAWN_UNIFORMS:
                return float(self.first[number]) if isinstance(self.first, np.ndarray) else self.first[number]
            return float(self.beyond(np.array([number]))[0])
        drawn = self.first[jnp.minimum(number, DRAWN_UNIFORMS - 1)]
        return jnp.where(number < DRAWN_UNIFORMS, drawn, uniform(self.key, number.astype(np.uint32)))

    def beyond(self, numbers: np.ndarray) -> np.ndarray:
        """Return uniforms of one search that are not stored, by their numbers."""
        return uniform(self.key[None], numbers.astype(np.uint32))


class ZeroMeanDraws(Protocol):
    """The method of a prior that this module uses."""

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> Any: ...


def generator(seed: int, *path: int) -> np.random.Generator:
    """Return the generator for a seed and a path of integers. Different paths give independent generators."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=path)))


def block_length(size: int) -> int:
    """Return the number of updates in a block, for `size` random numbers per update.

    It must depend only on `size`, because the rounding of matrix products depends on the block length. A block has
    about 4 x 10^5 numbers: enough for an efficient matrix product and a small overhead per call, and few enough for a
    core's cache.
    """
    length = 8
    while length < 2048 and 2 * length * size <= 2**19:
        length *= 2
    return length


def draw_block(spec: NoiseSpec, seed: int, chain: int, block: int, length: int) -> UpdateNoise:
    """Return the random numbers of `length` updates of one chain.

    The order of the four draws must not change, because the draws of a seed depend on it.
    """
    rng = generator(seed, chain, 1 + block)
    drawn = spec.draw(rng, length)
    level = rng.standard_exponential(out=aligned_empty((length, spec.searches)))
    first = rng.random(out=aligned_empty((length, spec.searches, DRAWN_UNIFORMS)))
    key = rng.integers(0, 2**32, (length, spec.searches, 2), dtype=np.uint32)
    return UpdateNoise(drawn, level, Uniforms(first, key))


def aligned_empty(shape: tuple[int, ...]) -> np.ndarray:
    """Return an uninitialised float64 array at a multiple of 64 bytes. JAX copies arrays at other addresses."""
    count = math.prod(shape)
    buffer = np.empty(count + 8)
    first = -buffer.ctypes.data % 64 // 8
    return buffer[first : first + count].reshape(shape)


def start_generator(seed: int, chain: int) -> np.random.Generator:
    """Return the generator of a chain's initial state."""
    return generator(seed, chain, 0)


def uniform(key: Any, index: Any, dtype: Any = np.float64) -> Any:
    """Return uniform number `index` on [0, 1) of a key.

    The generator is Threefry-2x32 with 20 rounds (Salmon et al. 2011), as in `jax.random`. It is implemented here so
    that NumPy, JAX and a GPU kernel give bit-identical numbers for any configuration of JAX.

    Parameters
    ----------
    key : uint32 array, shape (..., 2)
    index : uint32 array
        Broadcasts with the leading axes of `key`.
    dtype : dtype
        float64 or float32. Default: float64. A float32 has the first 24 bits of the float64.

    Examples
    --------
    >>> float(uniform(np.array([[1, 2]], np.uint32), np.array([0], np.uint32))[0])
    0.1464671...
    """
    return as_uniform(*threefry(key[..., 0], key[..., 1], index, index ^ index), dtype)


def as_uniform(high: Any, low: Any, dtype: Any) -> Any:
    """Return a uniform on [0, 1) from two random 32-bit words."""
    if dtype == np.float32:
        return (high >> np.uint32(8)).astype(dtype) * np.float32(2.0**-24)
    return ((high >> np.uint32(5)).astype(dtype) * 2.0**26 + (low >> np.uint32(6)).astype(dtype)) * 2.0**-53


def threefry(key_0: Any, key_1: Any, x_0: Any, x_1: Any) -> tuple[Any, Any]:
    """Return two random 32-bit words from a key and a counter of two words each."""
    keys = (key_0, key_1, key_0 ^ key_1 ^ np.uint32(_PARITY))
    x_0, x_1 = x_0 + keys[0], x_1 + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x_0 = x_0 + x_1
            x_1 = ((x_1 << np.uint32(rotation)) | (x_1 >> np.uint32(32 - rotation))) ^ x_0
        x_0 = x_0 + keys[(group + 1) % 3]
        x_1 = x_1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x_0, x_1
