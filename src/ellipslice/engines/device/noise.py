"""Noise drawn where it is used: as `noise.py`, but by counters, so that a GPU makes it for many chains at once.

An update's noise is a pure function of (seed, chain, update) here too. It is not the noise that `noise.py` draws: a
GPU could not keep up with that generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.device.normals import positive
from ellipslice.engines.device.prior_draws import Source
from ellipslice.engines.host.angles import WIDTH
from ellipslice.moves.search import Path, next_angle
from ellipslice.noise import threefry, uniform


class DeviceNoise(NamedTuple):
    """The noise of a block of updates of all chains, worked out as far as the likelihood does not matter.

    The leading axes are (updates, chains).
    """

    nu: Any
    """Draws from the prior, (updates, chains, padded size); or two terms of them, side by side."""
    unit: Any
    """What the sum of two terms is multiplied by, (padded size,), or None."""
    level: Any
    here: Any
    """Positions of the current states on the curves."""
    theta: Any
    """The first angles, (WIDTH, updates, chains)."""
    brackets: Any
    """What they were drawn from at last: (theta_min, theta_max) of the last angle, (2, updates, chains)."""
    keys: Any
    """What more angles are made from, two words each: (2, updates, chains)."""


def chain_keys(seed: int, chains: Sequence[int]) -> np.ndarray:
    """Two words for each chain, shape (2, chains)."""
    key = np.random.SeedSequence(seed).generate_state(2, np.uint32)
    return np.stack(threefry(key[:1], key[1:], np.asarray(chains, np.uint32), np.zeros(1, np.uint32)))


def update_keys(keys: Any, first: Any, length: int) -> Any:
    """Two words for each of `length` updates of chains with these keys, from number `first` on: (2, length, chains)."""
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
    """The noise of `length` updates from number `first` on, for chains with these keys.

    `angles` makes the angles: `first_angles`, or `fused.fused_angles`. `in_terms` leaves it to the user to add up the
    terms of nu, which by itself takes a third as long as making them.
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
    """The uniform behind angle number `number`, counted from 0; those of the level and the bracket come before."""
    return _uniform(keys, number + 2, dtype)


def first_angles(path: Path, keys: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Positions, angles and last brackets of many updates."""
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
