"""Random numbers of the updates, drawn on the device from counters (Threefry), and the angles that follow from them.

The random numbers of an update are a pure function of (seed, chain, update), as in `ellipslice.noise`. They are not the
same numbers: a device could not keep up with that generator.
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
"""Rounded normals are multiples of one over this."""

ROUNDED_SD = (STEPS_PER_UNIT**2 + 1 / 12) ** 0.5
"""Standard deviation of `rounded_normals`: rounding adds the variance of a uniform number, to hundreds of digits."""


class DeviceNoise(NamedTuple):
    """The random numbers of a block of updates of all chains, and what follows from them without the likelihood.

    The leading axes are (updates, chains).
    """

    nu: Any
    """Draws from the prior, (updates, chains, padded size); or two terms of them, one after the other."""
    unit: Any
    """What the sum of two terms is multiplied by, (padded size,); None if `nu` is not in two terms."""
    level: Any
    """Standard exponentials: log y = log L(f) - level."""
    here: Any
    """Positions of the current states on the curves."""
    theta: Any
    """The first angles, (WIDTH, updates, chains)."""
    brackets: Any
    """The bracket (theta_min, theta_max) that the last of these angles was drawn from, (2, updates, chains)."""
    keys: Any
    """Keys that further angles are made from, two words each: (2, updates, chains)."""


def chain_keys(seed: int, chains: Sequence[int]) -> np.ndarray:
    """Return the Threefry key of each chain: two 32-bit words, shape (2, chains)."""
    key = np.random.SeedSequence(seed).generate_state(2, np.uint32)
    return np.stack(threefry(key[:1], key[1:], np.asarray(chains, np.uint32), np.zeros(1, np.uint32)))


def update_keys(keys: Any, first: Any, length: int) -> Any:
    """Return the keys of `length` updates of each chain, from number `first` on: shape (2, length, chains)."""
    number = first + jnp.arange(length, dtype=np.uint32)
    return jnp.stack(threefry(keys[0], keys[1], number[:, None], jnp.uint32(0)))


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
    """Return the random numbers of `length` updates from number `first` on, for chains with these keys.

    `angles` makes the angles: `first_angles`, or `kernel_angles.fused_angles`. `in_terms` leaves it to the caller to
    add the two terms of nu. An operation for that alone takes a third of the time of making them.
    """
    keys = update_keys(keys, first, length)
    flat = keys.reshape(2, -1)
    nu, unit = source.draw_terms(flat) if in_terms else (source.draw(flat), None)
    nu = nu.reshape(*keys.shape[1:], -1)
    level = -jnp.log(positive(threefry(keys[0], keys[1], jnp.uint32(0), jnp.uint32(0))[0], dtype))
    here, theta, brackets = angles(path, keys, dtype)
    return DeviceNoise(nu, unit, level, here, theta, brackets, keys)


def _uniform(keys: Any, number: Any, dtype: Any) -> Any:
    return uniform(jnp.moveaxis(keys, 0, -1), jnp.asarray(number, np.uint32), dtype)


def angle_uniform(keys: Any, number: Any, dtype: Any) -> Any:
    """Return the uniform of angle number `number`, counted from 0; those of the level and the bracket come before."""
    return _uniform(keys, number + 2, dtype)


def first_angles(path: Path, keys: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Return positions, first angles and last brackets of many updates, from their keys."""
    return traced_angles(path, _uniform(keys, 1, dtype), lambda number: angle_uniform(keys, number, dtype))


def traced_angles(path: Path, place: Any, uniform: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """Return positions, angles and last brackets of many updates, with angles along the first axis.

    `uniform(k)` determines angle number k.
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
    """Return standard normals, shape (updates, count), from keys (2, updates), by Box and Muller's transformation.

    `count` is even: two words make two normals.
    """
    high, low = _words(keys, count)
    radius, angle = _radius(high, dtype), low.astype(dtype) * (2 * np.pi * 2.0**-32)
    return jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=1)


def rounded_normals(keys: Any, count: int) -> Any:
    """Return standard normals times STEPS_PER_UNIT, rounded to whole numbers, in float16: shape (updates, count).

    Two of them fill a word, so that XLA computes each pair once.
    """
    high, low = _words(keys, count)
    first, second = rotate(STEPS_PER_UNIT * _radius(high, np.float32), low)
    words = _as_bits(first) | (_as_bits(second) << np.uint32(16))
    return jax.lax.bitcast_convert_type(words, np.float16).reshape(len(words), count)


def rotate(radius: Any, word: Any) -> tuple[Any, Any]:
    """Return (radius, 0) rotated by a random angle: one below 45 degrees, and two bits for the rest of the circle.

    These series, whose error is below 4e-7, take less time than sine and cosine of any angle.
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
    """Return a uniform on (0, 1] to take the logarithm of: with a fine grid near 0, where logarithms are large."""
    return (word.astype(dtype) + 0.5) * 2.0**-32


def _words(keys: Any, count: int) -> tuple[Any, Any]:
    return threefry(keys[0][:, None], keys[1][:, None], jnp.arange(count // 2, dtype=np.uint32), jnp.uint32(1))


def _radius(word: Any, dtype: Any) -> Any:
    return jnp.sqrt(-2 * jnp.log(positive(word, dtype)))


def _as_bits(x: Any) -> Any:
    return jax.lax.bitcast_convert_type(jnp.round(x).astype(np.float16), np.uint16).astype(np.uint32)
