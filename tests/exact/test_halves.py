"""Matrices in half precision: the draws have the covariance of the prior up to 1e-5, in every direction."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ellipslice.apps.paper import problem
from ellipslice.engines.device.noise import ROUNDED_SD, rounded_normals
from ellipslice.engines.device.prior_draws import Float16Product, _round, split_to_float16
from ellipslice.jax_settings import jax_settings
from ellipslice.priors import Dense

ROWS = np.asarray(Dense(problem("USPS").covariance).rows)


def off(rows: np.ndarray, truth: np.ndarray = ROWS) -> float:
    """Return the error of the covariance rows.T @ rows in the worst direction, relative to the true variance there."""
    whitened = np.linalg.solve(truth.T, rows.T)
    return np.abs(np.linalg.eigvalsh(whitened @ whitened.T) - 1).max()


@pytest.mark.parametrize("size", [1.0, 1e6, 1e-20])
def test_two_halves_keep_the_covariance(size):
    high, low, unit = (part.astype(np.float64) for part in split_to_float16(size * ROWS))
    assert off((high + low) * unit / size) < 1e-5 < off(high * unit / size)
    assert off(ROWS.astype(np.float32).astype(np.float64)) > 5e-6  # single precision itself is not better


def test_columns_have_units_of_their_own():
    sizes = 10.0 ** np.linspace(-6, 6, 100)
    rows = np.linalg.cholesky(np.cov(np.random.default_rng(0).normal(size=(100, 300)))).T * sizes
    high, low, unit = (part.astype(np.float64) for part in split_to_float16(rows))
    assert off((high + low) * unit, rows) < 1e-5


def test_roundings_are_made_up_for_by_later_columns():
    """With compensation the rounded matrix has a smaller error of the covariance than without."""
    *_, unit = split_to_float16(ROWS)
    plain = sum(part.astype(np.float64) for part in _round(ROWS / unit)) * unit
    high, low, _ = (part.astype(np.float64) for part in split_to_float16(ROWS))
    assert off((high + low) * unit) < 0.8 * off(plain)


@pytest.mark.parametrize("triangular", [False, True])
@pytest.mark.parametrize("shape", [(8, 20), (20, 8), (16, 16), (72, 200), (200, 256)])
def test_any_matrix_will_do(shape, triangular):
    rows = np.random.default_rng(0).normal(size=shape)
    rows = np.triu(rows) + 10 * np.eye(*shape) if triangular else rows
    rows[:, -2:] = 0  # padding
    high, low, unit = (part.astype(np.float64) for part in split_to_float16(rows))
    assert np.array_equal(high, np.rint(high))
    np.testing.assert_allclose((high + low) * unit, rows, atol=1e-5)


def test_padding_changes_nothing():
    rows = ROWS[:200, :200]
    for one, other in zip(split_to_float16(rows), split_to_float16(np.pad(rows, ((0, 0), (0, 56)))), strict=True):
        assert np.array_equal(one, other[..., :200])


def cut_off_product(z: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return z @ rows as a GPU computes it: sums of sixteen products are truncated to float32."""
    total = np.zeros((len(z), rows.shape[1]))
    for start in range(0, len(rows), 16):
        mantissa, exponent = np.frexp(total + z[:, start : start + 16] @ rows[start : start + 16])
        total = np.ldexp(np.trunc(mantissa * 2.0**24), exponent - 24)
    return total


def difference(nu: np.ndarray, exact: np.ndarray) -> float:
    """Return `off` for the covariances of two samples that were made from the same normals."""
    one, other = (np.linalg.solve(ROWS.T, part.T) for part in (nu, exact))
    return np.abs(np.linalg.eigvalsh((one @ one.T - other @ other.T) / len(nu))).max()


@pytest.mark.long
def test_nothing_is_cut_off_sums_of_whole_numbers():
    """With plain float16 matrices sums are truncated, and the covariance has an error (8.5e-5 on an H200)."""
    z = np.rint(128 * np.random.default_rng(0).normal(size=(1024, len(ROWS))))

    def off_by(high: np.ndarray, low: np.ndarray, unit: np.ndarray | float) -> float:
        made = (cut_off_product(z, high) + cut_off_product(z, low)) * unit
        return difference(made / ROUNDED_SD, z @ ROWS / ROUNDED_SD)

    assert off_by(*(part.astype(np.float64) for part in split_to_float16(ROWS))) < 1.5e-5
    unit = 2.0**-10
    high = (ROWS / unit).astype(np.float16).astype(np.float64)
    assert off_by(high, (ROWS / unit - high).astype(np.float16).astype(np.float64), unit) > 5e-5


@pytest.mark.long
def test_products_on_this_device_are_as_exact():
    size, draws = len(ROWS), 4096
    with jax_settings(False):
        source = Float16Product(ROWS, size + 1)
        keys = jnp.asarray(np.random.default_rng(0).integers(0, 2**32, (2, draws), dtype=np.uint32))
        z = np.asarray(jax.jit(lambda keys: rounded_normals(keys, size + 1))(keys)).astype(np.float64)[:, :size]
        nu = np.asarray(jax.jit(source.draw)(keys)).astype(np.float64)[:, :size]
    assert difference(nu, z @ ROWS / ROUNDED_SD) < 1.5e-5
