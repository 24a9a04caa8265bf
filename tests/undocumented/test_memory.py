"""Memory for draws is reused after the last reference to it is gone."""

import gc
import sys

import numpy as np
import pytest

import ellipslice as es
from ellipslice.undocumented import memory as room

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere NumPy's memory is used")

LENGTH = 2 * room.MIN_MMAP_BYTES // 8
"""Size of an array of doubles for which memory is requested from the system."""


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    gc.collect()  # free the draws of other tests now, not during these tests
    monkeypatch.setattr(room, "_free_buffers", [])


def keep(monkeypatch, count):
    """Let the module keep up to `count` bytes."""
    monkeypatch.setattr(room, "kept_memory", lambda: count)


def doubles(length=LENGTH):
    return room.lazy_empty((length,), np.dtype(float))


def test_memory_is_kept_if_asked_for(monkeypatch):
    keep(monkeypatch, 2**30)
    array = doubles()
    array[:] = 1.0
    address = array.ctypes.data
    del array
    again = room.lazy_empty((2, LENGTH // 4), np.dtype(float))  # smaller, of another shape
    assert again.ctypes.data == address
    assert (again[0] == 1.0).all()  # the same pages
    again[1] = 2.0
    assert doubles().ctypes.data != address


def test_memory_is_handed_back_unless_asked_for(monkeypatch):
    keep(monkeypatch, 0)
    array = doubles()
    del array
    assert room._free_buffers == []


@pytest.mark.long
def test_a_view_holds_its_memory(monkeypatch):
    keep(monkeypatch, 2**30)
    view = doubles().reshape(2, -1)[1, ::3].T.view(np.int64)[5:]
    gc.collect()
    view[:] = 7
    other = doubles()
    other[:] = -1.0
    assert (view == 7).all()
    assert not room._free_buffers


@pytest.mark.short_cases("1048577-False")
@pytest.mark.parametrize(("wanted", "used"), [(LENGTH // 2, True), (LENGTH // 2 - 1, False), (LENGTH + 1, False)])
def test_memory_is_used_for_what_is_about_as_large(monkeypatch, wanted, used):
    keep(monkeypatch, 2**30)
    array = doubles()
    del array
    other = doubles(wanted)
    other[:] = 1.0
    assert (not room._free_buffers) == used


def test_no_more_is_kept_than_was_said(monkeypatch):
    keep(monkeypatch, 3 * 8 * LENGTH)
    arrays = [doubles() for _ in range(5)]
    addresses = [array.ctypes.data for array in arrays]
    while arrays:
        del arrays[0]
    assert len(room._free_buffers) == 3
    assert {doubles().ctypes.data for _ in range(3)} <= set(addresses[2:])  # the most recent ones


@pytest.mark.long
def test_draws_of_one_run_stay_when_another_is_let_go(monkeypatch):
    keep(monkeypatch, 2**30)
    prior, size = es.Diagonal(np.ones(200)), 3000

    def run(seed):
        return es.sample(
            lambda f: -2 * ((f - 1) ** 2).sum(),
            prior,
            move=es.moves.EllipticalSlice(),
            draws=size,
            chains=1,
            seed=seed,
            progress=False,
        )

    first = run(1)
    kept, expected = first.posterior["f"][0, 10:20], first.posterior["f"][0, 10:20].to_numpy().copy()
    del first
    gc.collect()
    for seed in (2, 3, 4):
        run(seed)
        gc.collect()
    np.testing.assert_array_equal(kept, expected)
    assert room._free_buffers  # the memory of the others was reused
    np.testing.assert_array_equal(run(1).posterior["f"][0, 10:20], expected)
