"""Random words by counters (threefry) as standard normals, on the device: Box and Muller's, two for two words."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.noise import threefry

STEPS = 128
"""Whole normals are rounded to multiples of one over this."""

WHOLE_SD = (STEPS**2 + 1 / 12) ** 0.5
"""The standard deviation of `whole_normals`: rounding adds the variance of a uniform number, to hundreds of digits."""


def normals(keys: Any, count: int, dtype: Any) -> Any:
    """Standard normals, shape (updates, count), from keys (2, updates); `count` is even."""
    high, low = _words(keys, count)
    radius, angle = _radius(high, dtype), low.astype(dtype) * (2 * np.pi * 2.0**-32)
    return jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=1)


def whole_normals(keys: Any, count: int) -> Any:
    """Others, times STEPS and rounded to whole numbers, in float16.

    Two of them fill a word, so that XLA makes each pair once.
    """
    high, low = _words(keys, count)
    first, second = turned(STEPS * _radius(high, np.float32), low)
    words = _as_bits(first) | (_as_bits(second) << np.uint32(16))
    return jax.lax.bitcast_convert_type(words, np.float16).reshape(len(words), count)


def turned(radius: Any, word: Any) -> tuple[Any, Any]:
    """(radius, 0) turned by a random angle: one of less than 45 degrees, and two bits for the rest of the circle.

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
    """A uniform on (0, 1] whose logarithm is taken: fine near 0, where logarithms are large."""
    return (word.astype(dtype) + 0.5) * 2.0**-32


def _words(keys: Any, count: int) -> tuple[Any, Any]:
    return threefry(keys[0][:, None], keys[1][:, None], jnp.arange(count // 2, dtype=np.uint32), jnp.uint32(1))


def _radius(word: Any, dtype: Any) -> Any:
    return jnp.sqrt(-2 * jnp.log(positive(word, dtype)))


def _as_bits(x: Any) -> Any:
    return jax.lax.bitcast_convert_type(jnp.round(x).astype(np.float16), np.uint16).astype(np.uint32)
