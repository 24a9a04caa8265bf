"""Random numbers of the updates, made on the device from counters (Threefry), and the angles that they determine.

The random numbers of an update are a pure function of (seed, chain, update), as in `ellipslice.noise`. They are not the
same numbers, because the generator of `ellipslice.noise` would be too slow for a device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.moves.search import WIDTH, Path, next_angle
from ellipslice.noise import threefry, uniform

if TYPE_CHECKING:
    from ellipslice.engines.device.prior_draws import Source

STEPS_PER_UNIT = 128
"""Number of steps per unit to which `rounded_normals` rounds: a normal is a whole number of steps."""

ROUNDED_SD = (STEPS_PER_UNIT**2 + 1 / 12) ** 0.5
"""Standard deviation of `rounded_normals`. Rounding adds the variance of a uniform number; the error is negligible."""


class DeviceNoise(NamedTuple):
    """The random numbers of a block of updates of all chains, and the angles that they determine."""

    nu: Any
    """Draws from the prior, shape (updates, chains, padded size), or two terms of them, concatenated at the end."""
    unit: Any
    """Factor of the sum of the two terms, shape (padded size,). None if `nu` is not in two terms."""
    level: Any
    """Standard exponentials, shape (updates, chains): log y = log L(f) - level."""
    here: Any
    """Positions of the current states on the curves, shape (updates, chains)."""
    theta: Any
    """The first angles, shape (WIDTH, updates, chains)."""
    brackets: Any
    """Bracket (theta_min, theta_max) from which the last of these angles was drawn, shape (2, updates, chains)."""
    keys: Any
    """Threefry keys for further angles, two words each, shape (2, updates, chains)."""
    floor: Any = None
    """Smallest value of log y of each chain, shape (chains,). None: no smallest value."""


def chain_keys(seed: int, chains: Sequence[int]) -> np.ndarray:
    """Return the Threefry key of each chain: two 32-bit words, shape (2, chains)."""
    key = np.random.SeedSequence(seed).generate_state(2, np.uint32)
    return np.stack(threefry(key[:1], key[1:], np.asarray(chains, np.uint32), np.zeros(1, np.uint32)))


def update_keys(keys: Any, first: Any, length: int) -> Any:
    """Return the Threefry keys of `length` updates of each chain, from number `first` on: shape (2, length, chains)."""
    return keys_of(keys, update_numbers(first, length))


def update_numbers(first: Any, length: int) -> Any:
    """Return the numbers of `length` updates from number `first` on, shape (length,)."""
    return first + jnp.arange(length, dtype=np.uint32)


def keys_of(keys: Any, numbers: Any) -> Any:
    """Return the Threefry keys of updates of each chain, by their numbers: shape (2, numbers, chains)."""
    made = jnp.stack(threefry(keys[0], keys[1], numbers[:, None], jnp.uint32(0)))
    # Without a barrier XLA fuses these rounds with those of the numbers made from the keys. For one chain on a CPU, JAX
    # 0.12 then repeats each round for each use of its result, and does not finish compiling.
    return jax.lax.optimization_barrier(made)


def draw_noise(
    path: Path,
    source: Source,
    keys: Any,
    first: Any,
    length: int,
    dtype: Any,
    angles: Callable[..., Any],
    in_terms: bool = False,
) -> DeviceNoise:
    """Return the random numbers of `length` updates from number `first` on.

    Parameters
    ----------
    path : Path
    source : Source
        Source of draws from the prior.
    keys : array, shape (2, chains)
        Threefry keys of the chains.
    first, length : int
        Number of the first update, and number of updates.
    dtype : dtype
    angles : callable
        Function that computes the angles: `first_angles` or `kernel_angles.fused_angles`.
    in_terms : bool
        If true, the caller adds the two terms of nu. (A separate operation for the sum would take a third of the time
        of computing them.) Default: False.
    """
    keys = update_keys(keys, first, length)
    flat = keys.reshape(2, -1)
    nu, unit = source.draw_terms(flat) if in_terms else (source.draw(flat), None)
    nu = nu.reshape(*keys.shape[1:], -1)
    here, theta, brackets = angles(path, keys, dtype)
    return DeviceNoise(nu, unit, levels(keys, dtype), here, theta, brackets, keys)


def levels(keys: Any, dtype: Any) -> Any:
    """Return a standard exponential for each key, for keys of shape (2, ...)."""
    return -jnp.log(positive(threefry(keys[0], keys[1], jnp.uint32(0), jnp.uint32(0))[0], dtype))


def place_uniform(keys: Any, dtype: Any) -> Any:
    """Return the uniform that places the bracket of a search, or chooses the angle of a trajectory, for each key."""
    return _uniform(keys, 1, dtype)


def _uniform(keys: Any, number: Any, dtype: Any) -> Any:
    """Return uniform `number` of each key, for keys of shape (2, ...)."""
    return uniform(jnp.moveaxis(keys, 0, -1), jnp.asarray(number, np.uint32), dtype)


def angle_uniform(keys: Any, number: Any, dtype: Any) -> Any:
    """Return the uniform of angle `number`, counted from 0. Those of the level and the bracket come before it."""
    return _uniform(keys, number + 2, dtype)


def first_angles(path: Path, keys: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Return the positions, the first angles and the last brackets of many updates, from their keys.

    The shapes are those of `DeviceNoise.here`, `.theta` and `.brackets`.
    """
    return traced_angles(path, place_uniform(keys, dtype), lambda number: angle_uniform(keys, number, dtype))


def traced_angles(path: Path, place: Any, uniform: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """Return the positions, the first WIDTH angles and the last brackets of many updates, by a scan.

    `place` are the uniforms that place the brackets. `uniform(k)` returns the uniforms of angle k. Angles are along the
    first axis.
    """

    def spread(value: Any) -> Any:
        return jnp.broadcast_to(jnp.asarray(value, place.dtype), place.shape)

    def following(last: tuple[Any, ...], number: Any) -> tuple[tuple[Any, ...], Any]:
        last = next_angle(path, here, last, uniform(number))
        return last, last[0]

    here = spread(path.here(place))
    first = tuple(spread(part) for part in path.begin(here, place, uniform(0)))
    (_, *brackets), others = jax.lax.scan(following, first, jnp.arange(1, WIDTH, dtype=np.uint32))
    return here, jnp.concatenate([first[0][None], others]), jnp.stack(brackets)


def normals(keys: Any, count: int, dtype: Any) -> Any:
    """Return standard normals, shape (updates, count), from keys of shape (2, updates), by the Box-Muller transform.

    `count` must be even, because two words make two normals.
    """
    high, low = _words(keys, count)
    radius, angle = _radius(high, dtype), low.astype(dtype) * (2 * np.pi * 2.0**-32)
    return jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=1)


def rounded_normals(keys: Any, count: int) -> Any:
    """Return standard normals times STEPS_PER_UNIT, rounded to whole numbers, in float16: shape (updates, count).

    Two of them are packed into a 32-bit word, so that XLA computes each pair only once.
    """
    high, low = _words(keys, count)
    first, second = rotate(STEPS_PER_UNIT * _radius(high, np.float32), low)
    words = _as_bits(first) | (_as_bits(second) << np.uint32(16))
    return jax.lax.bitcast_convert_type(words, np.float16).reshape(len(words), count)


def rotate(radius: Any, word: Any) -> tuple[Any, Any]:
    """Return the vector (radius, 0) rotated by a random angle, which is made from a random word.

    Thirty bits give an angle between -45 and 45 degrees, and two bits choose the quadrant. The series have an error
    below 4e-7 and are faster than sine and cosine of an arbitrary angle.
    """
    x = (word >> 2).astype(np.float32) * (np.pi / 2 * 2.0**-30) - np.pi / 4
    y = x * x
    cosine = 1 - y * (1 / 2) * (1 - y * (1 / 12) * (1 - y * (1 / 30) * (1 - y * (1 / 56))))
    sine = x * (1 - y * (1 / 6) * (1 - y * (1 / 20) * (1 - y * (1 / 42))))
    turned_back, mirrored = (word & 1) != 0, (word & 2) != 0
    radius = jnp.where(turned_back, -radius, radius)
    one, other = radius * cosine, radius * sine
    return jnp.where(mirrored, other, one), jnp.where(mirrored, one, other)


def positive(word: Any, dtype: Any) -> Any:
    """Return a uniform on (0, 1], made from a random word. Its logarithm is finite."""
    return (word.astype(dtype) + 0.5) * 2.0**-32


def _words(keys: Any, count: int) -> tuple[Any, Any]:
    """Return two arrays of random words for `count` normals, shape (updates, count // 2) each."""
    return threefry(keys[0][:, None], keys[1][:, None], jnp.arange(count // 2, dtype=np.uint32), jnp.uint32(1))


def _radius(word: Any, dtype: Any) -> Any:
    """Return the length of a vector of two standard normals, made from a random word."""
    return jnp.sqrt(-2 * jnp.log(positive(word, dtype)))


def _as_bits(x: Any) -> Any:
    """Return the bits of x, rounded to a whole number and converted to float16, in the lower half of a word."""
    return jax.lax.bitcast_convert_type(jnp.round(x).astype(np.float16), np.uint16).astype(np.uint32)
