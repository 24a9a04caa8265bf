"""A Dask cluster of several processes, with workers that are killed during a run."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

import ellipslice as es
from farmed import PRIOR, bowl, slow_bowl

distributed = pytest.importorskip("distributed")

OPTIONS = {"warmup": 5, "chains": 3, "seed": 4, "progress": False}


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 3, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options, silence_logs=50) as cluster, distributed.Client(cluster) as made:
        yield made


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # warnings of Dask about its threads and sockets
def test_killed_workers_change_nothing(client, tmp_path):
    """Two of three workers die during a run with a store. The log-likelihood is a closure, which Dask can send."""
    pytest.importorskip("zarr")
    alone = es.sample(bowl, PRIOR, move=es.moves.EllipticalSlice(), draws=150, **OPTIONS)
    shift = 0.0
    executor = client.get_executor()
    es.sample(
        lambda f: slow_bowl(f) + shift, PRIOR, move=es.moves.EllipticalSlice(), draws=3, executor=executor, **OPTIONS
    )
    killed = []

    def kill():
        for pid in pids[:2]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    pids = list(client.run(os.getpid).values())
    timer = threading.Timer(3.0, kill)
    timer.start()
    made = es.sample(
        lambda f: slow_bowl(f) + shift,
        PRIOR,
        move=es.moves.EllipticalSlice(),
        draws=150,
        executor=executor,
        store=tmp_path / "run.zarr",
        **OPTIONS,
    )
    timer.join()
    assert len(killed) == 2
    assert set(client.run(os.getpid).values()) != set(pids)
    np.testing.assert_array_equal(made.posterior.f, alone.posterior.f)
    np.testing.assert_array_equal(made.sample_stats.evaluations, alone.sample_stats.evaluations)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_one_chain_uses_the_cluster(client):
    options = {**OPTIONS, "chains": 1, "draws": 30}
    alone = es.sample(bowl, PRIOR, move=es.moves.EllipticalSlice(), **options)
    made = es.sample(
        slow_bowl, PRIOR, move=es.moves.EllipticalSlice(), executor=client.get_executor(), look_ahead=3, **options
    )
    np.testing.assert_array_equal(made.posterior.f, alone.posterior.f)
