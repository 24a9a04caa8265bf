"""Draws from the prior, made on the device from keys."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.device.float16_factor import in_halves
from ellipslice.engines.device.normals import WHOLE_SD, normals, whole_normals
from ellipslice.priors import Prior
from ellipslice.priors.parts.augmented import Carried
from ellipslice.pytree import pytree, set_fields, static

WORTH_HALVES = 64
"""From this many normals on, draws in single precision are made by products of half precision."""

LARGEST_CARRIED = 5000
"""Latent values beside which a predictor is drawn on the device."""


class Source:
    """Where nu comes from."""

    def draw(self, keys: Any) -> Any:
        """Draws from N(0, Sigma), one for each of the keys (2, draws), padded with zeros."""
        raise NotImplementedError

    def draw_terms(self, keys: Any) -> tuple[Any, Any]:
        """Two terms of the same side by side, and what their sum is multiplied by; or as `draw`, and None."""
        return self.draw(keys), None


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
    """A prior whose draws are a matrix times normals.

    The normals are made in single precision: rounding them leaves them independent, and their variance as it is.
    """

    rows: Any
    """The matrix, shape (noise, padded)."""

    def __init__(self, factor: np.ndarray, padded: int, dtype: Any):
        set_fields(self, rows=jnp.asarray(_padded(factor, padded), dtype))

    def draw(self, keys: Any) -> Any:
        z = normals(keys, len(self.rows), np.float32).astype(self.rows.dtype)
        return jnp.dot(z, self.rows, precision="highest")


@pytree
class HalvesProduct(Source):
    """The same in single precision, by one product of half precision, in a ninth of the time (`float16_factor.py`)."""

    terms: Any
    """Two matrices side by side that add up to the one, (noise, 2 padded)."""
    unit: Any

    def __init__(self, factor: np.ndarray, padded: int):
        high, low, unit = in_halves(_padded(factor, padded))
        set_fields(
            self, terms=jnp.asarray(np.concatenate([high, low], axis=1)), unit=jnp.asarray(unit / WHOLE_SD, np.float32)
        )

    def draw(self, keys: Any) -> Any:
        high, low = jnp.split(self.draw_terms(keys)[0], 2, axis=1)
        return (high + low) * self.unit

    def draw_terms(self, keys: Any) -> tuple[Any, Any]:
        z = whole_normals(keys, len(self.terms))
        return jnp.dot(z, self.terms, preferred_element_type=np.float32), self.unit


def source_of(prior: Prior, padded: int, dtype: Any, halves: bool | None = None) -> Source:
    """The quickest way to draw from a prior on the device; `halves` says whether in half precision."""
    factor = prior.device_factor()
    if factor is None:
        return Colored(prior, padded, dtype)
    if halves is None:
        halves = bool(dtype == np.float32) and len(factor) >= WORTH_HALVES and jax.default_backend() == "gpu"
    return HalvesProduct(factor, padded) if halves else Product(factor, padded, dtype)


def can_draw(prior: Prior) -> bool:
    """Whether a device can draw from this prior. (The predictor of a `Linear` likelihood is drawn by one matrix.)."""
    return prior.traceable and (not isinstance(prior, Carried) or prior.noise_size <= LARGEST_CARRIED)


def _padded(factor: np.ndarray, padded: int) -> np.ndarray:
    noise, size = factor.shape
    rows = np.zeros((noise + -noise % 8, padded))
    rows[:noise, :size] = factor
    return rows


def _as(leaf: Any, dtype: Any) -> Any:
    return jnp.asarray(leaf, dtype) if np.asarray(leaf).dtype == np.float64 else jnp.asarray(leaf)
