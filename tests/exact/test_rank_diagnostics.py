"""Effective sample sizes and R-hat of many quantities equal those of ArviZ, which computes one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats

from ellipslice.sampling import rank_diagnostics as module
from ellipslice.sampling.rank_diagnostics import rank_diagnostics

TAILS = (0.05, 0.95)


def autoregression(shape, coefficient, seed=0):
    rng = np.random.default_rng(seed)
    normals, x = rng.standard_normal(shape), np.empty(shape)
    x[:, 0] = normals[:, 0]
    for i in range(1, shape[1]):
        x[:, i] = coefficient * x[:, i - 1] + np.sqrt(1 - coefficient**2) * normals[:, i]
    return x


def check(draws):
    found = rank_diagnostics(draws, TAILS)
    np.testing.assert_allclose(found.bulk, array_stats.ess(draws, 0, 1, method="bulk"), rtol=1e-12)
    np.testing.assert_allclose(found.tail, array_stats.ess(draws, 0, 1, method="tail", prob=TAILS), rtol=1e-12)
    if len(draws) > 1:
        np.testing.assert_allclose(found.rhat, array_stats.rhat(draws, 0, 1), rtol=1e-12)


@pytest.mark.parametrize("coefficient", [-0.6, 0.0, 0.5, 0.97, 0.999])
@pytest.mark.parametrize("shape", [(4, 400, 6), (2, 301, 3), (1, 250, 3), (3, 16, 8), (4, 5, 8), (4, 4, 8)])
def test_equal_to_arviz(shape, coefficient):
    check(autoregression(shape, coefficient))


def test_ties_and_rounded_values():
    draws = autoregression((4, 300, 8), 0.7)
    stays = np.random.default_rng(1).random((4, 299, 8)) < 0.5
    for i in range(1, 300):
        draws[:, i] = np.where(stays[:, i - 1], draws[:, i - 1], draws[:, i])
    check(draws)
    check(np.round(draws))
    check((draws > 1).astype(float))


def test_chains_that_differ():
    draws = autoregression((4, 200, 5), 0.3)
    draws[2] += 5.0
    draws[3] *= 4.0
    check(draws)


def test_a_tail_that_is_constant():
    draws = np.zeros((4, 100, 1))
    draws[1, 50] = 1.0
    check(draws)


def test_groups_of_quantities(monkeypatch):
    draws = autoregression((4, 50, 7), 0.5)
    whole = rank_diagnostics(draws, TAILS)
    monkeypatch.setattr(module, "GROUP", 2 * 4 * 50)
    for one, other in zip(rank_diagnostics(draws, TAILS), whole, strict=True):
        np.testing.assert_array_equal(one, other)
