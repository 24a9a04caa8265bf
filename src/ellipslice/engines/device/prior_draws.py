"""Draws from the prior, made on the device from keys, and its factor as two float16 matrices for fast products."""

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
"""Smallest number of normals per draw for which draws in single precision use float16 matrix products."""

MAX_PREDICTOR_LATENTS = 5000
"""Largest number of latent elements with which a linear predictor is drawn on the device."""

HIGH_BITS = 15
"""Base-2 logarithm of the largest standard deviation of a draw, in units of its column.

The sums are whole numbers with a standard deviation of at most 2^22, because a normal has 2^7 steps per unit. They are
exact up to 2^24, which is four standard deviations."""

MAX_COMPENSATED_COLUMNS = 2048
"""Largest number of columns for which rounding is compensated, which takes three times as long as the factorisation."""

PANEL_COLUMNS = 64
"""Number of columns in a panel. Errors inside a panel are compensated column by column, earlier ones by products."""


class Source:
    """A source of draws nu from the prior, on the device."""

    def draw(self, keys: Any) -> Any:
        """Return one draw from N(0, Sigma) for each key, padded with zeros: shape (draws, padded size).

        The keys have the shape (2, draws).
        """
        raise NotImplementedError

    def draw_terms(self, keys: Any) -> tuple[Any, Any]:
        """Return the two terms of the draws, concatenated, and the factor of their sum; or the draws and None."""
        return self.draw(keys), None


@pytree
class UnwhitenedNormals(Source):
    """Draws by `unwhiten` of any prior that JAX can trace."""

    prior: Any
    padded: int = static()
    dtype: Any = static()

    def __init__(self, prior: Prior, padded: int, dtype: Any):
        set_fields(
            self, prior=jax.tree.map(lambda leaf: as_device_array(leaf, dtype), prior), padded=padded, dtype=dtype
        )

    def draw(self, keys: Any) -> Any:
        count = self.prior.noise_size
        with jax.default_matmul_precision("highest"):
            nu = self.prior.unwhiten(normals(keys, count + count % 2, self.dtype)[:, :count])
        return jnp.pad(nu, ((0, 0), (0, self.padded - nu.shape[1])))


@pytree
class Product(Source):
    """Draws of a prior by one matrix product, normals times a factor.

    The normals are always made in single precision. Rounding leaves them independent and hardly changes their variance.
    """

    rows: Any
    """The factor, shape (normals, padded size)."""

    def __init__(self, factor: np.ndarray, padded: int, dtype: Any):
        set_fields(self, rows=jnp.asarray(_padded(factor, padded), dtype))

    def draw(self, keys: Any) -> Any:
        z = normals(keys, len(self.rows), np.float32).astype(self.rows.dtype)
        return jnp.dot(z, self.rows, precision="highest")


@pytree
class Float16Product(Source):
    """Draws in single precision by a float16 matrix product, in a ninth of the time of `Product`."""

    terms: Any
    """The two terms of the factor (`split_to_float16`), concatenated: shape (normals, 2 padded size)."""
    unit: Any
    """Factor of the sum of the two terms, shape (padded size,)."""

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
    """Return the fastest source of draws from a prior on the device.

    Parameters
    ----------
    prior : Prior
    padded : int
        Number of elements of a state in memory, including padding.
    dtype : dtype
    float16 : bool, optional
        Use float16 products. Default: use them on a GPU, in single precision, for at least MIN_NORMALS_FOR_FLOAT16
        normals.
    """
    factor = prior.device_factor()
    if factor is None:
        return UnwhitenedNormals(prior, padded, dtype)
    return source_of_factor(factor, padded, dtype, float16)


def source_of_factor(factor: np.ndarray, padded: int, dtype: Any, float16: bool | None = None) -> Source:
    """Return the fastest source of draws z @ factor, as `source_of`. The factor has the shape (normals, size)."""
    if float16 is None:
        float16 = (
            bool(dtype == np.float32) and len(factor) >= MIN_NORMALS_FOR_FLOAT16 and jax.default_backend() == "gpu"
        )
    return Float16Product(factor, padded) if float16 else Product(factor, padded, dtype)


def can_draw(prior: Prior) -> bool:
    """Return True if a device can draw from this prior.

    The predictor of a `LinearPredictor` is drawn by one matrix, which must not be too large.
    """
    return prior.traceable and (not isinstance(prior, PredictorPrior) or prior.noise_size <= MAX_PREDICTOR_LATENTS)


def _padded(factor: np.ndarray, padded: int) -> np.ndarray:
    """Return a factor padded with zeros to `padded` columns and a multiple of 8 rows."""
    noise, size = factor.shape
    rows = np.zeros((noise + -noise % 8, padded))
    rows[:noise, :size] = factor
    return rows


def as_device_array(leaf: Any, dtype: Any) -> Any:
    """Return an array on the device. Convert it to `dtype` if it is in double precision."""
    return jnp.asarray(leaf, dtype) if np.asarray(leaf).dtype == np.float64 else jnp.asarray(leaf)


def split_to_float16(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return float16 matrices `high` and `low` and a `unit` per column, such that rows is about (high + low) * unit.

    A GPU multiplies float16 numbers many times faster than float32 numbers, and adds the products in float32. But the
    addition truncates instead of rounding. The sums are then too small by about 1e-6, and in directions in which the
    prior variance is small, the covariance has an error of about 1e-4.

    Sums of whole numbers below 2^24 are exact. So `high` and the normals (`rounded_normals`) are whole numbers, and all
    but a few of 100,000 sums stay below 2^24. The sums with `low` are a thousand times smaller than those with `high`,
    and so is their truncation error.
    """
    sd = np.sqrt(np.sum(rows**2, axis=0))
    unit = 2.0 ** (np.ceil(np.log2(np.where(sd > 0, sd, 1.0))) - HIGH_BITS)
    rows = rows / unit
    if len(unit) <= MAX_COMPENSATED_COLUMNS and _is_triangular(rows):
        rows = _compensate_rounding(rows)
    return *_round(rows), unit


def _round(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest whole numbers and the remainders, both in float16."""
    high = np.rint(rows).astype(np.float16)
    return high, (rows - high).astype(np.float16)


def _compensate_rounding(rows: np.ndarray) -> np.ndarray:
    """Return a triangular matrix with each column shifted to compensate for the rounding of the columns before it.

    Write the rounded matrix as rows + x @ rows; then x determines the relative error of the covariance. The columns are
    rounded one after the other, each after a shift by the errors of the earlier columns. This leaves
    x_j = (rounding error of column j) / rows_jj. (Babai's nearest plane algorithm for lattices, 1986.)
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
    """Return True if this is a padded Cholesky factor: zero below the diagonal and in the columns of the padding."""
    noise, size = rows.shape
    return noise <= size and not np.any(rows[:, noise:]) and not np.any(np.tril(rows, -1))
