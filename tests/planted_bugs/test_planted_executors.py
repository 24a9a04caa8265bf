"""Injected bugs in chains on workers: the comparison with a run in one process detects each of them."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import pytest

import ellipslice as es
from ellipslice.engines.host.engine import HostEngine
from ellipslice.engines.workers import engine as workers_engine
from ellipslice.engines.workers import pool, remote
from farmed import PRIOR, Pickled, bowl

OPTIONS = {"draws": 60, "warmup": 7, "chains": 2, "seed": 4, "progress": False}


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch):
    monkeypatch.setattr(workers_engine, "TASK_SECONDS", 0.0)


def differs(log_likelihood, executor, **options):
    alone = es.sample(log_likelihood, PRIOR, move=es.moves.EllipticalSlice(), **OPTIONS)
    made = es.sample(log_likelihood, PRIOR, move=es.moves.EllipticalSlice(), executor=executor, **OPTIONS, **options)
    return not all(
        np.array_equal(alone.sample_stats[name], made.sample_stats[name])
        for name in ("total_log_likelihood", "evaluations", "angle")
    )


def test_nothing_planted():
    assert not differs(bowl, Pickled())
    assert not differs(bowl, Pickled(), look_ahead=4)


def test_a_stretch_begins_with_the_noise_of_another_update(monkeypatch):
    alone = es.sample(bowl, PRIOR, move=es.moves.EllipticalSlice(), **OPTIONS)
    right = HostEngine._chains

    def wrong(self, spec, starts, updates):
        chains = right(self, spec, starts, updates)
        for chain in chains:
            enter = chain.noise._enter
            chain.noise._enter = lambda update, enter=enter: enter(update + 1)
        return chains

    monkeypatch.setattr(HostEngine, "_chains", wrong)
    made = es.sample(bowl, PRIOR, move=es.moves.EllipticalSlice(), executor=Pickled(), **OPTIONS)
    assert not np.array_equal(made.posterior.f, alone.posterior.f)


def test_every_worker_has_noise_of_its_own(monkeypatch):
    right = remote.RunPayload.advance

    def other_seed(self, *arguments):
        spec, self.spec = self.spec, replace(self.spec, seed=self.spec.seed + 1)
        try:
            return right(self, *arguments)
        finally:
            self.spec = spec

    monkeypatch.setattr(remote.RunPayload, "advance", other_seed)
    assert differs(bowl, Pickled())


def test_values_of_the_last_ellipse_are_taken_for_this_one(monkeypatch):
    monkeypatch.setattr(workers_engine._ProposalQueue, "cancel", lambda self: None)
    assert differs(bowl, Pickled(), look_ahead=4)


def test_whoever_answers_first_is_accepted(monkeypatch):
    """A later angle must not be accepted before the earlier ones are rejected, because its bracket assumes that."""

    class LastFirst(deque):
        def __getitem__(self, index):
            return super().__getitem__(-1 - index)

        popleft = deque.pop

    monkeypatch.setattr(workers_engine, "deque", LastFirst)
    assert differs(bowl, Pickled(), look_ahead=4)


def test_a_worker_keeps_the_job_of_another_run(monkeypatch):
    """Payloads have unique keys. By the name of the likelihood they would be confused."""
    monkeypatch.setattr(remote.secrets, "token_hex", lambda size: "the same")
    monkeypatch.setattr(pool, "drop_payloads", lambda keys: None)  # as if the workers were other processes
    remote._payloads.clear()
    workers = Pickled()
    es.sample(bowl, PRIOR, move=es.moves.EllipticalSlice(), executor=workers, **OPTIONS)
    with pytest.raises(ValueError, match="a worker of the executor computed"):
        es.sample(other, PRIOR, move=es.moves.EllipticalSlice(), executor=workers, **OPTIONS)
    remote._payloads.clear()


def other(f):
    return bowl(f) + 1.0
