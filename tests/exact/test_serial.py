"""Priors and moves that are written to a store and read again are bit-identical."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import ellipslice as es
from catalogue import MOVES, PRIORS
from ellipslice.store.serial import read, write


def there_and_back(written):
    """Write an object as JSON and NumPy files, and read it again."""
    arrays = []
    for array in written.arrays:
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        file.seek(0)
        arrays.append(np.load(file, allow_pickle=False))
    return read(json.loads(json.dumps(written.tree)), arrays)


@pytest.mark.parametrize("name", PRIORS)
def test_a_prior_draws_the_same_bits(name):
    prior = PRIORS[name]()
    written = write(prior)
    if "FromDraws" in name or "routine" in name:
        assert not written.complete
        return
    assert written.complete
    again = there_and_back(written)
    assert type(again) is type(prior)
    assert repr(again) == repr(prior)
    draws = [np.asarray(one.draw_zero_mean(np.random.default_rng(0), 37)) for one in (prior, again)]
    np.testing.assert_array_equal(*draws)
    np.testing.assert_array_equal(np.asarray(prior.mean), np.asarray(again.mean))
    assert write(again).fingerprint == written.fingerprint


@pytest.mark.parametrize("name", MOVES)
def test_a_move_is_the_same(name):
    move = MOVES[name]()
    written = write(move)
    if not written.complete:
        assert "ControlVariables" in name  # by a kernel, which is a function
        return
    again = there_and_back(written)
    assert repr(again) == repr(move)
    assert write(again).fingerprint == written.fingerprint


def test_a_truncated_gaussian_is_the_same():
    prior = es.TruncatedGaussian.box(es.Diagonal(np.ones(4)), lower=0.0, upper=[1.0, 2.0, np.inf, 1.0])
    assert prior.inside.shape == (4,)  # computed at the first access, and not part of what is written
    again = there_and_back(write(prior))
    assert repr(again) == repr(prior)
    np.testing.assert_array_equal(again.A.toarray(), prior.A.toarray())
    np.testing.assert_array_equal(again.b, prior.b)
    np.testing.assert_array_equal(again.inside, prior.inside)


def test_fingerprints_tell_apart():
    several = [
        es.Diagonal(np.ones(3)),
        es.Diagonal(np.ones(4)),
        es.Diagonal(np.array([1.0, 1.0, 1.0 + 1e-15])),
        es.Diagonal(np.ones(3), mean=1.0),
        es.Diagonal(np.ones((3, 1))),
        es.Dense(np.eye(3)),
        es.Stack({"a": es.Diagonal(np.ones(3))}),
        es.Stack({"b": es.Diagonal(np.ones(3))}),
        es.moves.EllipticalSlice(),
        es.moves.EllipticalSlice(1.0),
    ]
    assert len({write(one).fingerprint for one in several}) == len(several)
    assert write(es.Diagonal(np.ones(3))).fingerprint == write(several[0]).fingerprint


def test_a_sparse_matrix_with_indices_beyond_it_is_refused():
    import scipy.sparse

    written = write(scipy.sparse.csr_array(np.eye(3)))
    written.arrays[1] = written.arrays[1] + 100
    with pytest.raises(ValueError, match="ind"):
        there_and_back(written)
