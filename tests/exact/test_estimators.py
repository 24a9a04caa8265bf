"""Effective sample sizes and R-hat of many quantities at once are those of ArviZ."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.signal import lfilter

from ellipslice.sampling import estimators
from ellipslice.sampling.estimators import estimate

TAILS = (0.05, 0.95)


def of_arviz(draws):
    """Return ArviZ's estimates, one quantity at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant quantities
        return (
            array_stats.ess(draws, 0, 1, method="bulk"),
            array_stats.ess(draws, 0, 1, method="tail", prob=TAILS),
            array_stats.rhat(draws, 0, 1) if len(draws) > 1 else np.full(draws.shape[2], np.nan),
        )


def examples(rng, chains, draws, correlation):
    """Return autoregressions, and quantities with ties, heavy tails, outliers and constant parts."""
    shocks = rng.standard_normal((chains, draws, 8))
    found = lfilter([1.0], [1.0, -correlation], shocks, axis=1)
    found[:, :, 1] = np.round(found[:, :, 1])
    found[:, :, 2] = np.tan(shocks[:, :, 2])
    found[:, :, 3] = found[:, :, 3] > 1.5
    found[:, draws // 2 :, 4] = found[:, draws // 2 : draws // 2 + 1, 4]
    found[0, :, 5] += 3.0
    found[:, :, 6] = np.arange(draws)
    found[:, :, 7] *= 1e-200
    return found


@pytest.mark.parametrize("chains", [1, 2, 4])
@pytest.mark.parametrize("draws", [4, 5, 6, 7, 8, 9, 25, 100, 301])
def test_estimates_are_those_of_arviz(chains, draws):
    rng = np.random.default_rng([chains, draws])
    for correlation in (-0.9, 0.0, 0.5, 0.95, 0.999):
        given = examples(rng, chains, draws, correlation)
        found = estimate(given, TAILS)
        for ours, theirs in zip(found, of_arviz(given), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_blocks_do_not_change_the_estimates(monkeypatch):
    given = examples(np.random.default_rng(0), 4, 50, 0.5)[:, :, :6]
    whole = estimate(given, TAILS)
    for values in (1, 200 * 4):
        monkeypatch.setattr(estimators, "BLOCK_VALUES", values)
        for ours, theirs in zip(estimate(given, TAILS), whole, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
