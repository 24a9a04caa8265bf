"""Everything random, as a pure function of (seed, chain, update).

The noise of an update is drawn before its first likelihood evaluation, in blocks of `block_length` updates: the draw nu
from the prior, the exponential that sets the level, and uniforms, any number of them. Block b of chain c depends on
(seed, c, b) alone, so a chain has the same bits alone or among a thousand, run in one piece or in many.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np

from ellipslice.pytree import pytree, set_fields

FIRST = 33
"""Uniforms drawn for each update. A search that wants more, one in 100,000 as a rule, makes them from a key."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


class Noise(NamedTuple):
    """What one update consumes. A block of updates has the same fields with more leading axes.

    A move that needs several independent lots (`Cycle`) asks for several `parts`: one more leading axis.
    """

    nu: Any
    """A draw from N(0, Sigma), flat: step 1 of Figure 2."""
    level: Any
    """A standard exponential: log y = log L(f) - level, step 2."""
    uniforms: Any
    """`uniforms(k)` is the k-th uniform of this update."""

    def at(self, index: Any) -> Noise:
        """That of one update of a block, or of one part of an update."""
        return Noise(*(field[index] for field in self))


@pytree
class Uniforms:
    """The uniforms on [0, 1) of an update, without end: the first few as drawn, the others from a key.

    Those of many updates have leading axes, and are indexed as an array is.
    """

    first: Any
    """Shape (..., FIRST)."""
    key: Any
    """Two unsigned 32-bit words, shape (..., 2)."""

    def __init__(self, first: Any, key: Any):
        set_fields(self, first=first, key=key)

    def __getitem__(self, index: Any) -> Uniforms:
        return Uniforms(self.first[index], self.key[index])

    def __call__(self, number: Any) -> Any:
        """Uniform number `number`, counted from 0, of one update."""
        if isinstance(number, int):
            if number < FIRST:
                return float(self.first[number]) if isinstance(self.first, np.ndarray) else self.first[number]
            return float(self.beyond(np.array([number]))[0])
        drawn = self.first[jnp.minimum(number, FIRST - 1)]
        return jnp.where(number < FIRST, drawn, uniform(self.key, number.astype(np.uint32)))

    def beyond(self, numbers: np.ndarray) -> np.ndarray:
        """Some that are not among the first, of one update."""
        return uniform(self.key[None], numbers.astype(np.uint32))


class Draws(Protocol):
    """What this module needs of a prior."""

    def draw(self, rng: np.random.Generator, count: int) -> Any: ...


def generator(seed: int, *path: int) -> np.random.Generator:
    """The generator at `path` below `seed`: independent for every path, and cheap to make."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=path)))


def block_length(size: int) -> int:
    """Updates in a block whose draws have this many numbers each.

    A function of that alone, for the rounding of a matrix product depends on it.

    About 4 x 10^5 numbers: enough to turn matrix-vector products into a matrix product and to make a call worth its
    while, small enough for a core's cache.
    """
    length = 8
    while length < 2048 and 2 * length * size <= 2**19:
        length *= 2
    return length


def draw_block(
    prior: Draws, seed: int, chain: int, block: int, length: int, parts: int = 1, draws: int | None = None
) -> Noise:
    """The noise of `length` updates of one chain, fields shaped (length, parts, ...).

    nu is shaped (length, draws, ...), if a move says that it needs more or fewer of these than levels and uniforms.
    """
    rng = generator(seed, chain, 1 + block)
    draws = parts if draws is None else draws
    nu = np.asarray(prior.draw(rng, length * draws))
    level = rng.standard_exponential(out=aligned_empty((length, parts)))
    first = rng.random(out=aligned_empty((length, parts, FIRST)))
    key = rng.integers(0, 2**32, (length, parts, 2), dtype=np.uint32)
    return Noise(nu.reshape(length, draws, -1), level, Uniforms(first, key))


def aligned_empty(shape: tuple[int, ...]) -> np.ndarray:
    """Room for doubles, at an address that JAX takes as it is: it copies what does not begin at a multiple of 64."""
    count = math.prod(shape)
    room = np.empty(count + 8)
    first = -room.ctypes.data % 64 // 8
    return room[first : first + count].reshape(shape)


def start_generator(seed: int, chain: int) -> np.random.Generator:
    """The generator of a chain's starting point."""
    return generator(seed, chain, 0)


def uniform(key: Any, index: Any, dtype: Any = np.float64) -> Any:
    """Uniform number `index` on [0, 1) that follows from `key`.

    Threefry-2x32 with 20 rounds (Salmon et al. 2011), the generator behind `jax.random`, written out so that NumPy, JAX
    and a GPU kernel give the same bits whatever the JAX configuration says.

    Parameters
    ----------
    key : uint32 array, shape (..., 2)
    index : uint32 array, broadcast against `key`'s leading axes
    dtype : dtype
        Single precision has the first 24 bits of what double precision has.

    Examples
    --------
    >>> float(uniform(np.array([[1, 2]], np.uint32), np.array([0], np.uint32))[0])
    0.1464671...
    """
    return as_uniform(*threefry(key[..., 0], key[..., 1], index, index ^ index), dtype)


def as_uniform(high: Any, low: Any, dtype: Any) -> Any:
    """A uniform on [0, 1) from 64 random bits."""
    if dtype == np.float32:
        return (high >> np.uint32(8)).astype(dtype) * np.float32(2.0**-24)
    return ((high >> np.uint32(5)).astype(dtype) * 2.0**26 + (low >> np.uint32(6)).astype(dtype)) * 2.0**-53


def threefry(key_0: Any, key_1: Any, x_0: Any, x_1: Any) -> tuple[Any, Any]:
    """Two random words from a key and a counter of two words each."""
    keys = (key_0, key_1, key_0 ^ key_1 ^ np.uint32(_PARITY))
    x_0, x_1 = x_0 + keys[0], x_1 + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x_0 = x_0 + x_1
            x_1 = ((x_1 << np.uint32(rotation)) | (x_1 >> np.uint32(32 - rotation))) ^ x_0
        x_0 = x_0 + keys[(group + 1) % 3]
        x_1 = x_1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x_0, x_1
