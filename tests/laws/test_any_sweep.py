"""Sweeps of `Local` over any prior and any blocks: blocks of one element, repeated inputs, extreme scales."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tinygp.kernels import quasisep

import ellipslice as es
from ellipslice.moves import Local
from sweeps import check_sweep, conditional_covariance

SEEDS = st.integers(0, 2**32 - 1)


def scales(rng, size):
    return 10.0 ** rng.uniform(-6, 6, size)


def dense(rng, size):
    rows = rng.standard_normal((size + 2, size)) * scales(rng, size)
    return es.Dense(rows.T @ rows), rows.T @ rows


def repeated(rng, size):
    # Repeated inputs have equal elements, so a block must contain all of them or it cannot move.
    x = rng.integers(0, size, size)
    covariance = rng.uniform(0.1, 10) * np.exp(-np.abs(x[:, None] - x) / 2)
    return es.Dense(covariance), covariance


def diagonal(rng, size):
    variance = scales(rng, size)
    return es.Diagonal(variance), np.diag(variance)


def low_rank(rng, size):
    scale = scales(rng, size)
    factor, spread = rng.standard_normal((size, 2)) * scale[:, None], rng.uniform(0.01, 10, size) * scale**2
    return es.LowRank(factor, diagonal=spread), factor @ factor.T + np.diag(spread)


def sparse(rng, size):
    rows = rng.standard_normal((size + 2, size)) * (rng.random((size + 2, size)) < 0.5)
    scale = scales(rng, size)
    precision = (rows.T @ rows + np.eye(size)) * np.outer(scale, scale)
    inverse = np.linalg.inv(rows.T @ rows + np.eye(size)) / np.outer(scale, scale)
    return es.SparsePrecision(csr_array(precision)), inverse


def walk(rng, size):
    # The elements sum to zero, so a block of one element cannot move.
    laplacian = np.diff(np.eye(size + 1), axis=0).T @ np.diff(np.eye(size + 1), axis=0)
    precision = 10.0 ** rng.uniform(-6, 6)
    prior = es.SparsePrecision.random_walk(size + 1, precision=precision)
    return prior, np.linalg.pinv(laplacian, hermitian=True) / precision


def product(rng, size):
    one, two = (np.atleast_2d(np.cov(rng.standard_normal((n, 3 * n + 3)))) for n in (2, -(-size // 2)))
    scale = float(scales(rng, 1)[0])
    return es.Kronecker(one * scale, two), np.kron(one * scale, two)


def stack(rng, size):
    (f, covariance), b = dense(rng, size), scales(rng, 1)
    whole = np.zeros((size + 1, size + 1))
    whole[:size, :size], whole[-1, -1] = covariance, b[0]
    return es.Stack({"f": f, "b": es.Diagonal(b)}), whole


def series(rng, size):
    gaps = 10.0 ** rng.uniform(-2, 2, size)  # the dense formula is inaccurate for smaller gaps
    times, variance = np.cumsum(gaps), float(scales(rng, 1)[0])
    distance = np.abs(times[:, None] - times)
    covariance = variance * (1 + np.sqrt(3) * distance) * np.exp(-np.sqrt(3) * distance)
    return es.Markov(quasisep.Matern32(scale=1.0, sigma=np.sqrt(variance)), times), covariance


MAKERS = [dense, repeated, diagonal, low_rank, sparse, walk, product, stack]


def blocks_of(rng, size, how):
    """Return a `Local` with random blocks, or with blocks that it chooses itself."""
    if how == "given":
        which = rng.integers(0, rng.integers(1, size + 1), size)
        return Local([np.flatnonzero(which == i) for i in np.unique(which)])
    if how == "k-means":
        return Local.kmeans(rng.integers(0, 3, (size, 2)), int(rng.integers(1, size + 1)))
    if how == "random":
        return Local.random(int(rng.integers(1, size + 1)), partitions=3, seed=int(rng.integers(100)))
    return Local.contiguous(int(rng.integers(1, size + 1)))


def check_any_sweep(prior, covariance, move):
    """Check a sweep: the conditional priors are those of the dense formula, and the sweep leaves the prior invariant.

    If a block is determined by the rest, or if the sweep does not reach all of the prior's support, `prepare` must
    raise.
    """
    partitions = move.blocks.partitions(prior)
    deviation = np.sqrt(covariance.diagonal())
    scale = np.outer(deviation, deviation)
    given_the_rest = [[conditional_covariance(covariance, b) / scale[np.ix_(b, b)] for b in p] for p in partitions]
    if any(own.diagonal().max() < 1e-10 for blocks in given_the_rest for own in blocks):
        with pytest.raises(ValueError, match="determined by the rest"):
            move.prepare(prior)
        return
    moved = np.zeros_like(covariance)
    for block, own in (
        (b, c) for p, each in zip(partitions, given_the_rest, strict=True) for b, c in zip(p, each, strict=True)
    ):
        values, vectors = np.linalg.eigh(own)
        moved[np.ix_(block, block)] += vectors[:, values > 1e-10] @ vectors[:, values > 1e-10].T
    if np.linalg.matrix_rank(moved, 1e-8, hermitian=True) < prior.rank:
        with pytest.raises(ValueError, match="never change"):
            move.prepare(prior)
    for prepared, blocks, expected in zip(move.prepare_part(prior), partitions, given_the_rest, strict=True):
        for found, block, own in zip(prepared.blocks, blocks, expected, strict=True):
            np.testing.assert_array_equal(found.indices, block)
            conditional = found.conditional.prior
            with jax.enable_x64(True):
                rows = np.asarray(conditional.unwhiten(np.eye(conditional.noise_size))) / deviation[block]
            np.testing.assert_allclose(rows.T @ rows, own, rtol=0, atol=1e-8)
    check_sweep(move, prior, covariance)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(MAKERS), st.integers(1, 7), st.sampled_from(["given", "k-means", "random", "contiguous"]), SEEDS)
def test_any_sweep_keeps_the_prior(make, size, how, seed):
    rng = np.random.default_rng(seed)
    prior, covariance = make(rng, size)
    check_any_sweep(prior, covariance, blocks_of(rng, prior.size, how))


@pytest.mark.long
@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.sampled_from([1, 4]), SEEDS)
def test_any_sweep_over_a_time_series(size, seed):
    # There are few sizes, because each one is compiled.
    rng = np.random.default_rng(seed)
    prior, covariance = series(rng, size)
    check_any_sweep(prior, covariance, blocks_of(rng, size, "given"))
