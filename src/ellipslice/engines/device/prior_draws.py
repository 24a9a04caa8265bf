"""Draws from the prior, made on the device from keys; and a factor as two matrices of float16 for fast products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.device.noise import ROUNDED_SD, normals, rounded_normals
from ellipslice.priors import Prior
from ellipslice.priors.parts.augmented import PredictorPrior
from ellipslice.pytree import pytree, set_fields, static

MIN_NORMALS_FOR_FLOAT16 = 64
"""From this many normals on, draws in single precision are made by products of half precision."""

MAX_PREDICTOR_LATENTS = 5000
"""Largest number of latent elements with which a linear predictor is drawn on the device."""

HIGH_BITS = 15
"""A draw has a standard deviation of at most 2^15 units, or 2^22 steps of its normals: 2^24 is four of them."""

MAX_COMPENSATED_COLUMNS = 2048
"""Columns of the largest matrix whose rounding is compensated. It takes three times the Cholesky factorisation."""

PANEL_COLUMNS = 64
"""Columns that are compensated one by one; panels before them by matrix products."""


class Source:
    """How nu is drawn on the device."""

    def draw(self, keys: Any) -> Any:
        """Return draws from N(0, Sigma), one for each of the keys (2, draws), padded with zeros."""
        raise NotImplementedError

    def draw_terms(self, keys: Any) -> tuple[Any, Any]:
        """Return two terms of the draws, one after the other, and the factor of their sum; or the draws, and None."""
        return self.draw(keys), None


@pytree
class Colored(Source):
    """Draws by `color` of any prior that JAX can trace."""

    prior: Any
    padded: int = static()
    dtype: Any = static()

    def __init__(self, prior: Prior, padded: int, dtype: Any):
        set_fields(self, prior=jax.tree.map(lambda leaf: _as(leaf, dtype), prior), padded=padded, dtype=dtype)

    def draw(self, keys: Any) -> Any:
        count = self.prior.noise_size
        with jax.default_matmul_precision("highest"):
            nu = self.prior.unwhiten(normals(keys, count + count % 2, self.dtype)[:, :count])
        return jnp.pad(nu, ((0, 0), (0, self.padded - nu.shape[1])))


@pytree
class Product(Source):
    """Draws of a prior that are a matrix times normals.

    The normals are made in single precision: rounding leaves them independent and does not change their variance.
    """

    rows: Any
    """The matrix, shape (noise, padded)."""

    def __init__(self, factor: np.ndarray, padded: int, dtype: Any):
        set_fields(self, rows=jnp.asarray(_padded(factor, padded), dtype))

    def draw(self, keys: Any) -> Any:
        z = normals(keys, len(self.rows), np.float32).astype(self.rows.dtype)
        return jnp.dot(z, self.rows, precision="highest")


@pytree
class Float16Product(Source):
    """Draws as of `Product` in single precision, by one product of half precision, in a ninth of the time."""

    terms: Any
    """The two terms of the matrix (`split_to_float16`), one after the other: (noise, 2 padded)."""
    unit: Any

    def __init__(self, factor: np.ndarray, padded: int):
        high, low, unit = split_to_float16(_padded(factor, padded))
        set_fields(
            self,
            terms=jnp.asarray(np.concatenate([high, low], axis=1)),
            unit=jnp.asarray(unit / ROUNDED_SD, np.float32),
        )

    def draw(self, keys: Any) -> Any:
        high, low = jnp.split(self.draw_terms(keys)[0], 2, axis=1)
        return (high + low) * self.unit

    def draw_terms(self, keys: Any) -> tuple[Any, Any]:
        z = rounded_normals(keys, len(self.terms))
        return jnp.dot(z, self.terms, preferred_element_type=np.float32), self.unit


def source_of(prior: Prior, padded: int, dtype: Any, float16: bool | None = None) -> Source:
    """Return the fastest way to draw from a prior on the device. `float16` decides about half precision."""
    factor = prior.device_factor()
    if factor is None:
        return Colored(prior, padded, dtype)
    if float16 is None:
        float16 = (
            bool(dtype == np.float32) and len(factor) >= MIN_NORMALS_FOR_FLOAT16 and jax.default_backend() == "gpu"
        )
    return Float16Product(factor, padded) if float16 else Product(factor, padded, dtype)


def can_draw(prior: Prior) -> bool:
    """Return whether a device can draw from this prior. One matrix draws the predictor of a `LinearPredictor`."""
    return prior.traceable and (not isinstance(prior, PredictorPrior) or prior.noise_size <= MAX_PREDICTOR_LATENTS)


def _padded(factor: np.ndarray, padded: int) -> np.ndarray:
    noise, size = factor.shape
    rows = np.zeros((noise + -noise % 8, padded))
    rows[:noise, :size] = factor
    return rows


def _as(leaf: Any, dtype: Any) -> Any:
    return jnp.asarray(leaf, dtype) if np.asarray(leaf).dtype == np.float64 else jnp.asarray(leaf)


def split_to_float16(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (high, low, unit) with rows = (high + low) * unit up to the rounding of float16; one unit for each column.

    A GPU multiplies float16 many times as fast as float32, and adds the products in float32. But it truncates there
    instead of rounding: sums are too small by a part in a million, and in directions in which the prior is narrow its
    covariance is off by a hundred times as much. Sums of whole numbers below 2^24 are exact. So `high` and the normals
    (`rounded_normals`) are whole numbers, and their sums stay below 2^24, except for a few in a hundred thousand. The
    sums with `low` are a thousandth of those with `high`, and so is their truncation error.
    """
    sd = np.sqrt(np.sum(rows**2, axis=0))
    unit = 2.0 ** (np.ceil(np.log2(np.where(sd > 0, sd, 1.0))) - HIGH_BITS)
    rows = rows / unit
    if len(unit) <= MAX_COMPENSATED_COLUMNS and _is_triangular(rows):
        rows = _compensate_rounding(rows)
    return *_round(rows), unit


def _round(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    high = np.rint(rows).astype(np.float16)
    return high, (rows - high).astype(np.float16)


def _compensate_rounding(rows: np.ndarray) -> np.ndarray:
    """Return a triangular matrix with each column shifted to compensate for the rounding of the columns before it.

    Write the rounded matrix as rows + x @ rows: x is the relative error of the covariance. Rounding the columns one
    after the other, each after a shift by the errors of the earlier ones, leaves x_j = (rounding error of column j) /
    rows_jj. (Babai's nearest plane algorithm for lattices, 1986.)
    """
    noise = len(rows)
    target, x = np.array(rows), np.zeros((noise, noise))
    for start in range(0, noise, PANEL_COLUMNS):
        end = min(start + PANEL_COLUMNS, noise)
        target[:end, start:end] += x[:end, :start] @ rows[:start, start:end]
        for j in range(start, end):
            target[:end, j] += x[:end, start:j] @ rows[start:j, j]
            high, low = _round(target[:end, j])
            if rows[j, j] != 0:
                x[:end, j] = (high.astype(np.float64) + low - target[:end, j]) / rows[j, j]
    return target


def _is_triangular(rows: np.ndarray) -> bool:
    """Return whether this is a Cholesky factor with zeros below the diagonal; padding does not count."""
    noise, size = rows.shape
    return noise <= size and not np.any(rows[:, noise:]) and not np.any(np.tril(rows, -1))
