"""Everything random, as a pure function of (seed, chain, update).

The random numbers of an update are drawn before its first likelihood evaluation, in blocks of `block_length` updates:
what the move asks for (`NoiseSpec`, by default a draw nu from the prior), the exponential that sets the slice level,
and uniforms, any number of them. Block b of chain c depends on (seed, c, b) alone. A chain is therefore bit-identical
alone or among a thousand, run at once or with interruptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np

from ellipslice.pytree import pytree, set_fields

FIRST = 33
"""Uniforms drawn for each update. A search that wants more, one in 100,000 as a rule, makes them from a key."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


class Noise(NamedTuple):
    """The random numbers of one slice search."""

    nu: Any
    """A draw from N(0, Sigma), flat: step 1 of Figure 2."""
    level: Any
    """A standard exponential: log y = log L(f) - level, step 2."""
    uniforms: Any
    """`uniforms(k)` is the k-th uniform of this search."""


class UpdateNoise(NamedTuple):
    """The random numbers of one update of a move. For a block of updates every field has one more leading axis."""

    drawn: Any
    """What the move's `NoiseSpec.draw` returned: an array, or the move's own named tuple."""
    level: Any
    """Standard exponentials, one for each search: shape (searches,)."""
    uniforms: Any
    """`Uniforms`, one set for each search: shape (searches,)."""

    @property
    def nu(self) -> Any:
        """Draws from N(0, Sigma), shape (searches, size), for a move that draws nothing else."""
        return self.drawn

    def search(self, nu: Any, number: int = 0) -> Noise:
        """Return the random numbers of search number `number`, along the curve that `nu` chooses."""
        return Noise(nu, self.level[number], self.uniforms[number])

    def share(self, drawn: Any, searches: Any) -> UpdateNoise:
        """Return the random numbers of a move inside this one, which makes the searches of the slice `searches`."""
        return UpdateNoise(drawn, self.level[searches], self.uniforms[searches])

    def at(self, update: Any) -> UpdateNoise:
        """Return the random numbers of one update of a block."""
        return UpdateNoise(take(self.drawn, update), self.level[update], self.uniforms[update])


class NoiseSpec(NamedTuple):
    """What is drawn for each update of a move."""

    draw: Callable[[np.random.Generator, int], Any]
    """(rng, updates) -> arrays with a leading axis of updates: one, or a named tuple of several. None: nothing."""
    searches: int = 1
    """Number of slice searches, or of other decisions by a slice level: each has a level and uniforms of its own."""
    numbers: int = 0
    """Random numbers of an update, about: `block_length` follows from it, and so it must never change for a move."""
    of_prior: bool = False
    """Whether `draw` returns draws from the prior and nothing else, shape (updates, searches, size)."""

    @classmethod
    def from_prior(cls, prior: Draws, size: int, searches: int = 1, *, of_prior: bool = True) -> NoiseSpec:
        """Return the specification of a move that takes one draw from the prior for each search."""

        def draw(rng: np.random.Generator, updates: int) -> np.ndarray:
            return np.asarray(prior.draw_zero_mean(rng, updates * searches)).reshape(updates, searches, -1)

        return cls(draw, searches, searches * size, of_prior)


def take(drawn: Any, index: Any) -> Any:
    """Return one entry, along the leading axis, of every array in nested tuples. None stays None."""
    if drawn is None:
        return None
    if not isinstance(drawn, tuple):
        return drawn[index]
    entries = [take(part, index) for part in drawn]
    return type(drawn)(*entries) if hasattr(drawn, "_fields") else tuple(entries)


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

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> Any: ...


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


def draw_block(spec: NoiseSpec, seed: int, chain: int, block: int, length: int) -> UpdateNoise:
    """Return the random numbers of `length` updates of one chain.

    The order of the four draws is part of what a seed means: a change of it gives every user other draws.
    """
    rng = generator(seed, chain, 1 + block)
    drawn = spec.draw(rng, length)
    level = rng.standard_exponential(out=aligned_empty((length, spec.searches)))
    first = rng.random(out=aligned_empty((length, spec.searches, FIRST)))
    key = rng.integers(0, 2**32, (length, spec.searches, 2), dtype=np.uint32)
    return UpdateNoise(drawn, level, Uniforms(first, key))


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
