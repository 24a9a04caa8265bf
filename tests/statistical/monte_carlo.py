"""Compare draws with known answers. Every tolerance is a Monte Carlo error, and none is chosen by hand.

The mean of a chain is compared with its expectation in units of its standard error, which is computed from the
effective sample size (`arviz_stats`). `LIMIT` makes a false alarm rarer than 1 in 10,000 for a file of up to 1,000
comparisons.

`ELLIPSLICE_TEST_SEED=17 pytest tests/statistical` runs all tests with another seed.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from arviz_stats.base import array_stats
from scipy import stats

FALSE_ALARMS_PER_FILE = 1e-4
COMPARISONS_PER_FILE = 1000
P_LIMIT = FALSE_ALARMS_PER_FILE / COMPARISONS_PER_FILE
LIMIT = float(stats.norm.isf(P_LIMIT / 2))
"""Largest |z| that passes: 5.3."""

SEED = int(os.environ.get("ELLIPSLICE_TEST_SEED", "0")) * 1000
"""Base of the seeds. Every test adds its own small number."""


def standard_error(values: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean over the first two axes, (chain, draw)."""
    size = array_stats.ess(values, chain_axis=0, draw_axis=1, method="mean")
    return values.std(axis=(0, 1)) / np.sqrt(size)


def compare(values: np.ndarray, expected: Any, what: str, error: Any = 0.0) -> None:
    """Check the means of `values`, shape (chain, draw, ...), against expectations that have a standard error."""
    expected = np.broadcast_to(np.asarray(expected, dtype=float), values.shape[2:])
    spread = values.std(axis=(0, 1))
    moving = spread > 1e-9 * (1 + np.abs(expected))
    fixed = values.mean(axis=(0, 1))[~moving]
    np.testing.assert_allclose(fixed, expected[~moving], rtol=1e-8, atol=1e-8, err_msg=f"{what}: constant, and wrong")
    if not moving.any():
        return
    values, expected = values[:, :, moving], expected[moving]
    own = standard_error(values)
    z = (values.mean(axis=(0, 1)) - expected) / np.hypot(own, np.broadcast_to(error, moving.shape)[moving])
    worst = int(np.argmax(np.abs(z)))
    assert np.isfinite(z).all(), f"{what}: no standard error"
    assert abs(z[worst]) < LIMIT, (
        f"{what}: number {worst} is {values.mean(axis=(0, 1))[worst]:.6g}, should be {expected[worst]:.6g}: "
        f"{z[worst]:.1f} standard errors off"
    )


def compare_gaussian(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray, what: str) -> None:
    """Check draws, shape (chain, draw, size), against N(mean, covariance): moments and marginal distributions."""
    centred = draws - mean
    compare(draws, mean, f"{what}, mean")
    compare(centred**2, covariance.diagonal(), f"{what}, variance")
    compare(centred[..., :-1] * centred[..., 1:], covariance.diagonal(1), f"{what}, covariance of neighbours")
    compare(centred[..., 0] * centred[..., -1], covariance[0, -1], f"{what}, covariance of the ends")
    size = draws.shape[-1]
    for i in {i for i in (0, size // 2, size - 1) if covariance[i, i] > 1e-12 * covariance.max()}:
        compare_distribution(draws[..., i], stats.norm(mean[i], math.sqrt(covariance[i, i])).cdf, f"{what}, value {i}")


def compare_distribution(draws: np.ndarray, cdf: Any, what: str) -> None:
    """Check draws, shape (chain, draw), against a distribution: the probability integral transform must be uniform."""
    u = cdf(thinned(draws))
    p = stats.kstest(u, "uniform").pvalue
    assert p > P_LIMIT, f"{what}: not the distribution it should be (Kolmogorov-Smirnov, {len(u)} draws, p = {p:.2g})"


def thinned(draws: np.ndarray) -> np.ndarray:
    """Return draws, shape (chain, draw), thinned until they are nearly independent, in one axis."""
    square = (draws - draws.mean()) ** 2
    size = array_stats.ess(np.stack([draws, square], axis=-1), chain_axis=0, draw_axis=1, method="mean").min()
    step = math.ceil(3 * draws.size / min(size, draws.size))
    return draws[:, ::step].ravel()
