"""Priors that are equal up to rounding error, and priors that are not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import ellipslice as es
from catalogue import PRIORS
from ellipslice.store import serial
from ellipslice.store.approximately_equal import approximately_equal

X = np.linspace(0.0, 1.0, 6)
K = np.exp(-np.abs(X[:, None] - X))


def shaken(prior, by):
    """Return an object with all its numbers changed by rounding errors, as if made on another machine."""
    written = serial.write(prior)
    rng = np.random.default_rng(0)
    arrays = [a * (1 + by * rng.uniform(-1, 1, a.shape)) if a.dtype.kind == "f" else a for a in written.arrays]
    return serial.read(written.tree, arrays)


@pytest.mark.parametrize("name", [name for name in PRIORS if "FromDraws" not in name and "routine" not in name])
def test_every_prior_is_like_itself_shaken_by_rounding_and_not_by_more(name):
    prior = PRIORS[name]()
    assert serial.write(prior).complete
    assert approximately_equal(prior, shaken(prior, 1e-13))
    assert not approximately_equal(prior, shaken(prior, 1e-3))


def test_a_factor_of_the_same_covariance_is_alike():
    other = es.Dense(factor=np.linalg.cholesky(K[::-1, ::-1])[::-1])
    assert not np.allclose(es.Dense(K).rows, other.rows)
    assert approximately_equal(es.Dense(K), other)
    assert approximately_equal(es.Stack({"a": es.Dense(K)}), es.Stack({"a": other}))


@pytest.mark.parametrize(
    "other",
    [
        es.Dense(K, mean=0.1),
        es.Dense(K * 1.001),
        es.Dense(K[:5, :5]),
        es.Diagonal(np.ones(6)),
        es.Stack({"a": es.Dense(K)}),
        es.SparsePrecision(scipy.sparse.eye(6).tocsc()),
    ],
)
def test_others_are_not(other):
    assert not approximately_equal(es.Dense(K), other)
    assert not approximately_equal(other, es.Dense(K))
