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

from ellipslice.engines.angles import traced_angles
from ellipslice.moves import Search
from ellipslice.noise import threefry, uniform
from ellipslice.priors import Dense, LowRank, Prior
from ellipslice.priors.carried import Carried
from ellipslice.pytree import pytree, set_fields, static

SPLIT = 64
"""From this many normals on the product that makes nu is made of products of half precision."""


LARGEST_CARRIED = 5000
"""Latent values beside which a predictor is drawn on the device."""


class DeviceNoise(NamedTuple):
    """The noise of a block of updates of all chains, worked out as far as the likelihood does not matter.

    The leading axes are (updates, chains).
    """

    nu: Any
    """Draws from the prior, (updates, chains, padded size)."""
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
    move: Search,
    source: Source,
    keys: Any,
    first: Any,
    length: int,
    dtype: Any,
    angles: Callable[..., Any],
) -> DeviceNoise:
    """The noise of `length` updates from number `first` on, for chains with these keys.

    `angles` makes the angles: `first_angles`, or `fused.fused_angles`.
    """
    keys = update_keys(keys, first, length)
    nu = source.draw(keys.reshape(2, -1)).reshape(*keys.shape[1:], -1)
    level = -jnp.log(_positive(threefry(keys[0], keys[1], jnp.uint32(0), jnp.uint32(0))[0], dtype))
    here, theta, brackets = angles(move, keys, dtype)
    return DeviceNoise(nu, level, here, theta, brackets, keys)


def _uniform(keys: Any, number: Any, dtype: Any) -> Any:
    return uniform(jnp.moveaxis(keys, 0, -1), jnp.asarray(number, np.uint32), dtype)


def angle_uniform(keys: Any, number: Any, dtype: Any) -> Any:
    """The uniform behind angle number `number`, counted from 0; those of the level and the bracket come before."""
    return _uniform(keys, number + 2, dtype)


def first_angles(move: Search, keys: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Positions, angles and last brackets of many updates."""
    return traced_angles(move, _uniform(keys, 1, dtype), lambda number: angle_uniform(keys, number, dtype))


def normals(keys: Any, count: int, dtype: Any) -> Any:
    """Standard normals by Box and Muller, shape (updates, count), from keys (2, updates); `count` is even."""
    radius, angle = _polar(keys, count, dtype)
    return jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=1)


def rounded_normals(keys: Any, count: int) -> Any:
    """The same, rounded to bfloat16, in another order.

    Two of them fill a word, so that XLA makes each pair once.
    """
    radius, angle = _polar(keys, count, np.float32)
    pair = [_as_bits(radius * jnp.cos(angle)), _as_bits(radius * jnp.sin(angle))]
    words = pair[0] | (pair[1] << np.uint32(16))
    return jax.lax.bitcast_convert_type(words, jnp.bfloat16).reshape(len(words), count)


def _as_bits(x: Any) -> Any:
    return jax.lax.bitcast_convert_type(x.astype(jnp.bfloat16), np.uint16).astype(np.uint32)


def _polar(keys: Any, count: int, dtype: Any) -> tuple[Any, Any]:
    high, low = threefry(keys[0][:, None], keys[1][:, None], jnp.arange(count // 2, dtype=np.uint32), jnp.uint32(1))
    return jnp.sqrt(-2 * jnp.log(_positive(high, dtype))), low.astype(dtype) * (2 * np.pi * 2.0**-32)


def _positive(word: Any, dtype: Any) -> Any:
    """A uniform on (0, 1] whose logarithm is taken: fine near 0, where logarithms are large."""
    return (word.astype(dtype) + 0.5) * 2.0**-32


class Source:
    """Where nu comes from, on the device."""

    def draw(self, keys: Any) -> Any:
        """Draws from N(0, Sigma), one for each of the keys (2, draws), padded with zeros."""
        raise NotImplementedError


@pytree
class Colored(Source):
    """Any prior that JAX can trace."""

    prior: Any
    padded: int = static()
    dtype: Any = static()

    def __init__(self, prior: Prior, padded: int, dtype: Any):
        set_fields(self, prior=jax.tree.map(lambda leaf: _as(leaf, dtype), prior), padded=padded, dtype=dtype)

    def draw(self, keys: Any) -> Any:
        count = self.prior.noise_size
        with jax.default_matmul_precision("highest"):
            nu = self.prior.color(normals(keys, count + count % 2, self.dtype)[:, :count])
        return jnp.pad(nu, ((0, 0), (0, self.padded - nu.shape[1])))


@pytree
class Product(Source):
    """A prior whose draws are a matrix times normals."""

    rows: Any
    """The matrix, shape (noise, padded): its one term, or three of half precision that add up to it."""
    dtype: Any = static()

    def __init__(self, factor: np.ndarray, padded: int, dtype: Any, split: bool):
        noise, size = factor.shape
        rows = np.zeros((noise + (-noise) % 8, padded))
        rows[:noise, :size] = factor
        set_fields(self, rows=split_terms(rows) if split else (jnp.asarray(rows, dtype),), dtype=dtype)

    def draw(self, keys: Any) -> Any:
        """A product with one matrix, as exact as the type; or with three, of normals that were rounded first.

        Rounding the normals does no harm: they stay independent, and their variance changes by less than 1e-6. Rounding
        the matrix would change the covariance, so it comes in three terms that hold all its digits.
        """
        if len(self.rows) == 1:
            z = normals(keys, self.rows[0].shape[0], self.dtype)
            return jnp.dot(z, self.rows[0], precision="highest")
        z = rounded_normals(keys, self.rows[0].shape[0])
        return sum(jnp.dot(z, term, preferred_element_type=np.float32) for term in reversed(self.rows))


def split_terms(rows: np.ndarray, terms: int = 3) -> tuple[Any, ...]:
    """Matrices of half precision (bfloat16) that add up to this one, to 24 bits."""
    parts, rest = [], rows
    for _ in range(terms):
        parts.append(jnp.asarray(rest, jnp.bfloat16))
        rest = rest - np.asarray(parts[-1]).astype(np.float64)
    return tuple(parts)


def source_of(prior: Prior, padded: int, dtype: Any, split: bool | None = None) -> Source:
    """The quickest way to draw from a prior on the device; `split` says whether by products of half precision."""
    factor = _factor(prior)
    if factor is None:
        return Colored(prior, padded, dtype)
    if split is None:
        split = bool(dtype == np.float32) and len(factor) >= SPLIT and jax.default_backend() == "gpu"
    return Product(factor, padded, dtype, split)


def can_draw(prior: Prior) -> bool:
    """Whether a device can draw from this prior. (The predictor of a `Linear` likelihood is drawn by one matrix.)."""
    return prior.traceable and (not isinstance(prior, Carried) or prior.noise_size <= LARGEST_CARRIED)


def _factor(prior: Prior) -> np.ndarray | None:
    """The matrix that maps normals to draws, if the prior has one."""
    if isinstance(prior, Dense) or (isinstance(prior, LowRank) and prior.deviation is None):
        return np.asarray(prior.rows)
    if isinstance(prior, Carried):
        return np.asarray(prior.color(np.eye(prior.noise_size)))
    return None


def _as(leaf: Any, dtype: Any) -> Any:
    return jnp.asarray(leaf, dtype) if np.asarray(leaf).dtype == np.float64 else jnp.asarray(leaf)
