"""Injected bugs in `SliceSearch.process`: the comparison with points evaluated one by one finds each of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ellipslice as es
from ellipslice.engines.host.search import ConfirmedSearch, SliceSearch
from farmed import PRIOR
from seams import replace_process

OPTIONS = {"draws": 60, "warmup": 7, "chains": 2, "seed": 4, "engine": "host", "progress": False}


def bowls(f):
    return -4.0 * np.square(f - 0.3).sum(axis=-1)


def rounded_otherwise(f):
    """Return values that differ in the last digits between a batch and a single point."""
    return bowls(f) * (1.0 if f.ndim == 1 or len(f) == 1 else 1.0 + 1e-13)


def in_batches(log_likelihood=bowls):
    return es.sample(log_likelihood, PRIOR, move=es.moves.EllipticalSlice(), vectorized=True, look_ahead=8, **OPTIONS)


def by_workers(log_likelihood=bowls):
    with ThreadPoolExecutor(2) as pool:
        return es.sample(log_likelihood, PRIOR, move=es.moves.EllipticalSlice(), executor=pool, look_ahead=4, **OPTIONS)


def same(one, two):
    names = ("total_log_likelihood", "evaluations", "angle")
    return all(np.array_equal(one.sample_stats[name], two.sample_stats[name]) for name in names)


@pytest.fixture
def alone():
    return es.sample(bowls, PRIOR, move=es.moves.EllipticalSlice(), **OPTIONS)


def last_on_the_slice(self, points, values):
    found = [i for i, value in enumerate(values) if value > self.log_y]
    rejected = found[-1] if found else len(points)
    return right(self, points, [-np.inf] * rejected + [values[i] for i in found[-1:]])


def level_left_out(self, points, values):
    self.log_y = -np.inf
    return right(self, points, values)


def count_begins_anew(self, points, values):
    self.tried = 0
    return right(self, points, values)


right = SliceSearch.process


@pytest.mark.parametrize("run", [in_batches, by_workers])
def test_no_bug_injected(run, alone):
    assert same(run(), alone)


def test_the_last_point_on_the_slice_is_accepted(monkeypatch, alone):
    """The last point on the slice comes from a bracket that a correct search would not have shrunk to."""
    replace_process(monkeypatch, last_on_the_slice)
    assert not same(in_batches(), alone)


@pytest.mark.parametrize("run", [in_batches, by_workers])
@pytest.mark.parametrize("process", [level_left_out, count_begins_anew])
def test_a_wrong_level_or_count(run, process, alone, monkeypatch):
    replace_process(monkeypatch, process)
    assert not same(run(), alone)


def test_values_of_a_batch_are_taken_as_they_are(monkeypatch, alone):
    """Without `ConfirmedSearch` the log-likelihood has the rounding of a batch."""
    assert same(in_batches(rounded_otherwise), alone)
    monkeypatch.setattr(ConfirmedSearch, "process", SliceSearch.process)
    assert not same(in_batches(rounded_otherwise), alone)
