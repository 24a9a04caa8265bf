"""Injected bugs in stores: a run that is interrupted and resumed must detect each of them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import ellipslice as es
from ellipslice.engines.base import Counts
from ellipslice.sampling import sinks
from ellipslice.store import arrays, store, verify
from ellipslice.store.read import open_tree
from seams import replace_starts
from stores import assert_same_stores

pytest.importorskip("zarr")

PRIOR = es.Diagonal(np.ones(2))
OPTIONS = {"warmup": 5, "thin": 2, "chains": 2, "seed": 1, "progress": False}


def log_likelihood(f):
    return float(-2 * np.square(np.asarray(f) - 0.7).sum())


def cut_and_go_on(folder):
    """Check that a run of 30 draws equals one that stops after 12 draws, with a leftover chunk, and is resumed."""
    es.sample(log_likelihood, PRIOR, move=es.moves.EllipticalSlice(), draws=30, store=folder / "whole.zarr", **OPTIONS)
    path = folder / "run.zarr"
    es.sample(log_likelihood, PRIOR, move=es.moves.EllipticalSlice(), draws=12, store=path, **OPTIONS)
    chunk = path / "posterior/f/c/0/1/0"
    chunk.parent.mkdir()
    chunk.write_bytes(b"left over")
    es.resume(path, log_likelihood, draws=30, progress=False)
    assert_same_stores(folder / "whole.zarr", path)


def test_without_a_mistake(tmp_path):
    cut_and_go_on(tmp_path)


def begins_at_the_wrong_update(monkeypatch):
    replace_starts(monkeypatch, lambda starts: [one._replace(updates=max(0, one.updates - 1)) for one in starts])


def begins_at_another_state(monkeypatch):
    before = store.Store.checkpoints.fget

    def checkpoints(self):
        return [one._replace(state=one.state._replace(f=one.state.f * (1 + 1e-15))) for one in before(self)]

    monkeypatch.setattr(store.Store, "checkpoints", property(checkpoints))


def leaves_what_was_not_committed(monkeypatch):
    monkeypatch.setattr(arrays.GrowingArray, "truncate", lambda self, complete: None)


def counts_an_update_twice(monkeypatch):
    replace_starts(
        monkeypatch,
        lambda starts: [
            one._replace(counts=one.counts + Counts(0, 0, 0, 0, 0, int(one.updates > 0))) for one in starts
        ],
    )


def writes_draws_again(monkeypatch):
    resume = sys.modules["ellipslice.sampling.resume"]  # as an attribute of the package this name is a function
    before = sinks.Collector

    def forgetful(keep, starts, draws_done):
        return before(keep, [one._replace(updates=one.updates - 4) for one in starts], [one - 1 for one in draws_done])

    monkeypatch.setattr(resume, "Collector", forgetful)


def forgets_the_checksums(monkeypatch):
    before = arrays.GrowingArray.check

    def check(self, complete, checksums):
        before(self, complete, checksums)
        self.checksums = [0] * len(self.checksums)

    monkeypatch.setattr(arrays.GrowingArray, "check", check)


@pytest.mark.parametrize(
    "plant",
    [
        begins_at_the_wrong_update,
        begins_at_another_state,
        leaves_what_was_not_committed,
        counts_an_update_twice,
        writes_draws_again,
        forgets_the_checksums,
    ],
)
def test_a_mistake_is_noticed(plant, tmp_path, monkeypatch):
    plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError, OSError)):
        cut_and_go_on(tmp_path)


def test_a_journal_ahead_of_its_draws_is_noticed(tmp_path, monkeypatch):
    """If the order of a checkpoint were reversed, a kill would leave draws that are counted but not on disk."""
    path = tmp_path / "run.zarr"
    before = store.Store.commit

    def commit(self, snapshot):
        before(self, snapshot)
        for chunk in path.glob("posterior/f/c/*/*/*"):  # as a power failure does to data that were not synced
            chunk.write_bytes(bytes(chunk.stat().st_size))

    monkeypatch.setattr(store.Store, "commit", commit)
    es.sample(log_likelihood, PRIOR, move=es.moves.EllipticalSlice(), draws=12, store=path, **OPTIONS)
    with pytest.raises(ValueError, match="the draws of chain 0"):
        es.resume(path, log_likelihood, draws=30, progress=False)


# --- damage that must be detected -----------------------------------------------------------------------------------


def does_not_look_at_labels(monkeypatch):
    monkeypatch.setattr(verify, "_check_labels", lambda store: None)


def does_not_look_at_draws(monkeypatch):
    monkeypatch.setattr(verify, "_check_draws", lambda store: None)


@pytest.mark.parametrize(
    ("plant", "chunk"),
    [(does_not_look_at_labels, "posterior/chain/c/0"), (does_not_look_at_draws, "posterior/f/c/0/0/0")],
)
def test_a_chunk_that_is_gone_would_be_read_all_the_same(plant, chunk, tmp_path, monkeypatch):
    """Zarr reads a missing chunk as one that was never written: without the check it would not be detected."""
    path = tmp_path / "run.zarr"
    es.sample(log_likelihood, PRIOR, move=es.moves.EllipticalSlice(), draws=12, store=path, **OPTIONS)
    (path / chunk).unlink()
    with pytest.raises(ValueError, match=r"missing|damaged"):
        verify.check_draws(path)
    plant(monkeypatch)
    verify.check_draws(path)
    group, name = chunk.split("/")[:2]
    assert not np.nan_to_num(open_tree(path)[group][name].values).any()  # zeros, or NaN
