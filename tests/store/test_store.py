"""Stores: equal to a run in memory, resumed after a kill at any point, and rejected if damaged or foreign."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import zlib

import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import ellipslice as es
from ellipslice.store import arrays, store
from ellipslice.store.journal import Lock, read_checked, with_checksum
from stores import assert_same_stores

pytest.importorskip("zarr")

TARGET = np.array([1.0, -0.5, 0.3])
PRIOR = es.Diagonal(np.ones(3), mean=0.1)


def on_the_host(f):
    return float(-2 * np.square(np.asarray(f) - TARGET).sum())


def traced(f):
    return -2 * jnp.sum((f - TARGET) ** 2)


OPTIONS = {"draws": 60, "warmup": 15, "chains": 2, "seed": 5, "progress": False}


def make(path, log_likelihood=on_the_host, prior=PRIOR, **options):
    return es.sample(log_likelihood, prior, **{**OPTIONS, "store": path, **options})


def resume(path, log_likelihood=on_the_host, **options):
    return es.resume(path, log_likelihood, progress=False, **options)


def assert_same_trees(one, two):
    for group in ("posterior", "sample_stats"):
        assert set(one[group].variables) == set(two[group].variables)
        for name, values in one[group].variables.items():
            other = two[group].variables[name]
            assert values.dims == other.dims
            assert values.dtype == other.dtype
            np.testing.assert_array_equal(values.values, other.values, err_msg=name)
    assert {k: v for k, v in one.attrs.items() if k not in ("sampling_time", "created_at")} == {
        k: v for k, v in two.attrs.items() if k not in ("sampling_time", "created_at")
    }


# --- the same as in memory ------------------------------------------------------------------------------------------

STACK = es.Stack({"f": es.Dense(np.eye(4) + 0.5), "b": es.Diagonal(4.0)})
RUNS = {
    "host": (on_the_host, PRIOR, {}),
    "thinned": (on_the_host, PRIOR, {"thin": 3, "chains": [4, 1]}),
    "compiled": (traced, PRIOR, {"engine": "compiled"}),
    "together": (traced, PRIOR, {"engine": "batched", "thin": 2}),
    "single precision": (traced, es.Diagonal(np.ones(3)), {"engine": "batched", "precision": "single"}),
    "named": (lambda f, b: -float(np.sum((f - b) ** 2)), STACK, {}),
    "a function": (on_the_host, PRIOR, {"keep": lambda f: {"sum": f.sum(), "parts": f[:2]}}),
    "nothing": (on_the_host, PRIOR, {"keep": False}),
    "labels": (on_the_host, PRIOR, {"dims": {"f": ["place"]}, "coords": {"place": ["here", "there", "äöü"]}}),
    "dates": (
        on_the_host,
        PRIOR,
        {"dims": {"f": ["t"]}, "coords": {"t": np.arange("2026-01", "2026-04", dtype="M8[M]")}},
    ),
    "truncated": (None, es.TruncatedGaussian.box(PRIOR, lower=0.0), {}),
    "reference": (traced, PRIOR, {"reference": "laplace"}),
    "one value": (lambda f: -float((f - 1.0) ** 2), es.Diagonal(4.0), {"chains": 1}),
}


@pytest.mark.long_cases("together", "single precision", "truncated")
@pytest.mark.parametrize("name", RUNS)
def test_a_store_holds_what_memory_holds(name, tmp_path):
    log_likelihood, prior, options = RUNS[name]
    if name == "dates":
        options = {**options, "coords": {"t": options["coords"]["t"].astype("M8[ns]")}}
    in_memory = es.sample(log_likelihood, prior, **{**OPTIONS, **options})
    made = make(tmp_path / "run.zarr", log_likelihood, prior, **options)
    assert_same_trees(in_memory, made)
    assert_same_trees(in_memory, xarray.open_datatree(tmp_path / "run.zarr", engine="zarr"))
    again = resume(tmp_path / "run.zarr", log_likelihood, **({"keep": options["keep"]} if name == "a function" else {}))
    assert_same_trees(in_memory, again)  # nothing was left to do


@pytest.mark.long_cases("together")
@pytest.mark.parametrize("name", ["host", "thinned", "compiled", "together", "reference", "truncated"])
def test_more_draws_are_those_of_a_longer_run(name, tmp_path, monkeypatch):
    monkeypatch.setattr("ellipslice.engines.device.engine.block_length", lambda numbers: 16)
    log_likelihood, prior, options = RUNS[name]
    make(tmp_path / "whole.zarr", log_likelihood, prior, **options)
    make(tmp_path / "parts.zarr", log_likelihood, prior, **{**options, "draws": 1})
    for draws in (2, 33, 60):
        tree = resume(tmp_path / "parts.zarr", log_likelihood, draws=draws)
        assert tree.posterior.sizes["draw"] == draws
    assert_same_stores(tmp_path / "whole.zarr", tmp_path / "parts.zarr")


def test_a_resumed_run_reads_the_stored_statistics(tmp_path):
    make(tmp_path / "run.zarr", draws=20)
    again = resume(
        tmp_path / "run.zarr", until=es.Until(effective_sample_size=1)
    )  # it reads the stored total log-likelihood
    assert again.attrs["stopped_by"] == "goals"
    stored = tmp_path / "run.zarr/sample_stats/total_log_likelihood/c"
    damage = next(path for path in stored.rglob("*") if path.is_file())
    damage.write_bytes(bytes(damage.stat().st_size))
    with pytest.raises(ValueError, match="total_log_likelihood is damaged"):
        resume(tmp_path / "run.zarr")


def test_arrays_open_by_themselves_as_well(tmp_path):
    import zarr

    tree = make(tmp_path / "run.zarr")
    array = zarr.open_array(tmp_path / "run.zarr" / "posterior" / "f", mode="r")
    np.testing.assert_array_equal(array[:], tree.posterior.f.values)


def test_chains_in_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "MAX_CHUNK_BYTES", 200)  # a file of f has two chains and four draws
    in_memory = es.sample(on_the_host, PRIOR, **{**OPTIONS, "chains": 5})
    assert_same_trees(in_memory, make(tmp_path / "run.zarr", chains=5))
    assert len(list((tmp_path / "run.zarr/posterior/f/c").iterdir())) == 1
    monkeypatch.setattr(arrays, "MAX_CHUNK_BYTES", 50)
    assert_same_trees(in_memory, make(tmp_path / "more.zarr", chains=5))
    assert len(list((tmp_path / "more.zarr/posterior/f/c").iterdir())) == 3
    assert len(list((tmp_path / "more.zarr/posterior/f/c/0").iterdir())) == 60


# --- killed ---------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Raised as if the process had ended here. Nothing is written afterwards."""


class Disk:
    """Counts writes to the disk and blocks them from some point on. The write at that point is made by half."""

    def __init__(self, monkeypatch, folder):
        self.left, self._folder = 10**9, str(folder)
        opening, renaming, syncing = pathlib.Path.open, pathlib.Path.replace, os.fsync

        def opened(path, mode="r", *args, **kwargs):
            if mode in ("r", "rb") or self._folder not in str(path):
                return opening(path, mode, *args, **kwargs)
            self.count()
            file = opening(path, mode, *args, **kwargs)
            return Half(file, self) if "+" in mode and "b" in mode else file

        def renamed(path, target):
            self.count()
            return renaming(path, target)

        def synced(descriptor):
            self.count()
            return syncing(descriptor)

        monkeypatch.setattr(pathlib.Path, "open", opened)
        monkeypatch.setattr(pathlib.Path, "replace", renamed)
        monkeypatch.setattr(os, "fsync", synced)

    def count(self):
        self.left -= 1
        if self.left < 0:
            raise Killed


class Half:
    """A file of whose last write only half arrives."""

    def __init__(self, file, disk):
        self._file, self._disk = file, disk

    def write(self, rows):
        try:
            self._disk.count()
        except Killed:
            self._file.write(rows[: len(rows) // 2])
            self._file.flush()
            raise
        return self._file.write(rows)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


@pytest.mark.long_cases("together", "thinned")
@pytest.mark.parametrize("name", ["host", "thinned", "together", "a function"])
def test_a_run_killed_at_any_write_is_the_same_in_the_end(name, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "ellipslice.engines.host.engine.TURN_SECONDS", 1e-9
    )  # an update of each chain, and a check of the clock
    monkeypatch.setattr("ellipslice.engines.device.engine.block_length", lambda numbers: 16)
    monkeypatch.setattr(arrays, "MAX_CHUNK_BYTES", 300)
    monkeypatch.setattr(store, "MIN_COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(store, "MAX_COMMIT_FRACTION", 1e9)
    log_likelihood, prior, options = RUNS[name]
    options = {**options, "draws": 6, "warmup": 2}
    keep = {"keep": options["keep"]} if "keep" in options else {}
    make(tmp_path / "whole.zarr", log_likelihood, prior, **options)
    disk, generator, path = Disk(monkeypatch, tmp_path), random.Random(name), tmp_path / "run.zarr"
    kills = 0
    while kills < 12:
        disk.left = generator.randrange(250)
        try:
            if path.exists():
                resume(path, log_likelihood, **keep)
            else:
                make(path, log_likelihood, prior, **options)
        except Killed:
            kills += 1
            continue
        assert_same_stores(tmp_path / "whole.zarr", path)
        shutil.rmtree(path)
    disk.left = 10**9
    if path.exists():
        resume(path, log_likelihood, **keep)
        assert_same_stores(tmp_path / "whole.zarr", path)


def test_leftovers_are_taken_away(tmp_path):
    make(tmp_path / "whole.zarr", draws=60)
    path = tmp_path / "run.zarr"
    make(path, draws=40)
    chunk = path / "posterior/f/c/0/0/0"
    with chunk.open("r+b") as file:  # draws that were written but are no longer counted
        file.seek(40 * 24)
        file.write(b"\x01" * 24 * 30)
    other = path / "posterior/f/c/0/1/0"
    other.parent.mkdir()
    other.write_bytes(b"half of a chunk")
    (path / ".ellipslice/journal.new").write_bytes(b"{")
    resume(path, draws=60)
    assert_same_stores(tmp_path / "whole.zarr", path)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_killed_for_real(tmp_path):
    script = pathlib.Path(__file__).parents[1] / "faults" / "kills.py"
    command = [sys.executable, str(script), "--kills", "5", "--folder", str(tmp_path), "--runs", "host", "compiled"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 kills" in done.stdout


def test_interrupted_and_gone_on_with(tmp_path, monkeypatch):
    make(tmp_path / "whole.zarr", draws=200)
    calls = 0

    def interrupting(f):
        nonlocal calls
        calls += 1
        if calls == 500:
            signal.raise_signal(signal.SIGINT)
        return on_the_host(f)

    path = tmp_path / "run.zarr"
    with pytest.warns(UserWarning, match=r"stopped by Ctrl-C.*resume\(.*run\.zarr', log_likelihood\)"):
        tree = make(path, interrupting, draws=200)
    assert tree.attrs["stopped_by"] == "interrupt"
    assert 0 < tree.posterior.sizes["draw"] < 200
    assert resume(path).attrs["interrupted"] == 0
    assert_same_trees(xarray.open_datatree(tmp_path / "whole.zarr", engine="zarr"), named_alike(resume(path)))


def named_alike(tree):
    tree.attrs["likelihood"] = "on_the_host"
    return tree


def test_interrupted_during_warm_up(tmp_path):
    calls = 0

    def interrupting(f):
        nonlocal calls
        calls += 1
        if calls == 100:
            signal.raise_signal(signal.SIGINT)
        return on_the_host(f)

    with pytest.raises(KeyboardInterrupt, match="To continue the run"):
        make(tmp_path / "run.zarr", interrupting, warmup=1000)
    assert resume(tmp_path / "run.zarr").posterior.sizes["draw"] == 60


def test_an_error_of_the_likelihood_loses_nothing(tmp_path):
    make(tmp_path / "whole.zarr", draws=500)
    calls = 0

    def failing(f):
        nonlocal calls
        calls += 1
        if calls == 2000:
            raise RuntimeError("the simulator broke down")
        return on_the_host(f)

    path = tmp_path / "run.zarr"
    with pytest.raises(RuntimeError, match="broke down") as caught:
        make(path, failing, draws=500)
    assert any("draws of each chain are in the store" in note for note in caught.value.__notes__)
    tree = resume(path)
    assert_same_trees(xarray.open_datatree(tmp_path / "whole.zarr", engine="zarr"), named_alike(tree))


def test_a_full_disk(tmp_path, monkeypatch):
    make(tmp_path / "whole.zarr", draws=100)
    path, before, calls = tmp_path / "run.zarr", arrays.GrowingArray.write, 0

    def full(self, *args):
        nonlocal calls
        calls += 1
        if calls > 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        before(self, *args)

    monkeypatch.setattr("ellipslice.engines.host.engine.TURN_SECONDS", 1e-9)
    monkeypatch.setattr(arrays.GrowingArray, "write", full)
    with pytest.raises(OSError, match="No space left") as caught:
        make(path, draws=100)
    assert any("To continue the run" in note for note in caught.value.__notes__)
    monkeypatch.setattr(arrays.GrowingArray, "write", before)
    resume(path)
    assert_same_stores(tmp_path / "whole.zarr", path)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits on files")
def test_a_real_limit(tmp_path, monkeypatch):
    import resource

    make(tmp_path / "whole.zarr", draws=100)
    path, before = tmp_path / "run.zarr", resource.getrlimit(resource.RLIMIT_FSIZE)
    make(path, draws=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            resume(path, draws=100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    resume(path, draws=100)
    assert_same_stores(tmp_path / "whole.zarr", path)


# --- while it runs --------------------------------------------------------------------------------------------------


def test_draws_can_be_read_while_it_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MIN_COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(store, "MAX_COMMIT_FRACTION", 1e9)
    path, seen, calls = tmp_path / "run.zarr", [], 0

    def reading(f):
        nonlocal calls
        calls += 1
        if path.exists() and calls % 40 == 0:
            tree = xarray.open_datatree(path, engine="zarr").load()
            seen.append(tree)
            assert tree.attrs["stopped_by"] == "running"
        return on_the_host(f)

    monkeypatch.setattr("ellipslice.engines.host.engine.TURN_SECONDS", 1e-9)
    tree = make(path, reading)
    lengths = [one.posterior.sizes["draw"] for one in seen]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 3
    for one in seen:
        draws = one.posterior.sizes["draw"]
        np.testing.assert_array_equal(one.posterior.f, tree.posterior.f[:, :draws])
        np.testing.assert_array_equal(one.sample_stats.angle, tree.sample_stats.angle[:, :draws])


def test_two_processes_cannot_write_one_store(tmp_path):
    path, caught = tmp_path / "run.zarr", []

    def meddling(f):
        if path.exists() and not caught:
            with pytest.raises(BlockingIOError, match=r"is being written by process \d+ on") as error:
                resume(path)
            caught.append(error)
        return on_the_host(f)

    make(path, meddling)
    assert caught
    resume(path)


def test_a_warning_made_an_error_comes_after_the_end(tmp_path):
    def with_holes(f):
        return on_the_host(f) if f[0] > -0.5 else float("nan")

    with pytest.raises(UserWarning, match="gave NaN"):  # as pytest treats warnings here
        make(tmp_path / "run.zarr", with_holes, initial=TARGET)
    tree = xarray.open_datatree(tmp_path / "run.zarr", engine="zarr")
    assert tree.attrs["stopped_by"] == "draws"
    assert tree.posterior.sizes["draw"] == 60
    Lock(tmp_path / "run.zarr/.ellipslice/lock").release()


@pytest.mark.long
def test_the_lock_of_a_dead_process_is_free(tmp_path):
    code = "import sys, os, signal; from pathlib import Path; from ellipslice.store.journal import Lock\n"
    code += "lock = Lock(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "lock")], check=False, timeout=120)
    assert (tmp_path / "lock").read_text().startswith("process")
    lock = Lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        Lock(tmp_path / "lock")
    lock.release()
    Lock(tmp_path / "lock").release()


# --- refused --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run.zarr"
    make(path)
    return path


@pytest.fixture
def made(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path, position=5):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def edit(path, before, after):
    text = path.read_bytes()
    assert before in text
    path.write_bytes(text.replace(before, after))


DAMAGE = {
    "a truncated chunk": (lambda p: truncate(p / "posterior/f/c/0/0/0"), "f/c/0/0/0 has .* bytes, and should have"),
    "a missing chunk": (lambda p: (p / "sample_stats/angle/c/0/0").unlink(), "angle/c/0/0 is missing"),
    "a changed draw": (
        lambda p: flip(p / "posterior/f/c/0/0/0"),
        "f is damaged: the checksum of the draws of chain 0",
    ),
    "a changed statistic": (
        lambda p: flip(p / "sample_stats/nan_evaluations/c/0/0", -8192 * 8 + 3),
        "nan_evaluations is damaged: the checksum of the draws of chain 1",
    ),
    "a changed coordinate": (lambda p: flip(p / "posterior/draw/c/0"), "draw.c.0 is missing or damaged"),
    "a truncated journal": (lambda p: truncate(p / ".ellipslice/journal"), "journal is damaged, or was edited"),
    "an empty journal": (lambda p: (p / ".ellipslice/journal").write_bytes(b""), "journal is damaged"),
    "no journal": (lambda p: (p / ".ellipslice/journal").unlink(), "journal is missing"),
    "an edited journal": (
        lambda p: edit(p / ".ellipslice/journal", b'"complete": [60, 60]', b'"complete": [50, 60]'),
        "journal is damaged, or was edited",
    ),
    "an edited setup": (
        lambda p: edit(p / ".ellipslice/setup", b'"seed": 5', b'"seed": 6'),
        "setup is damaged, or was",
    ),
    "a setup that is no JSON": (lambda p: (p / ".ellipslice/setup").write_bytes(b"\xff\n"), "setup is damaged"),
    "another format": (
        lambda p: edit(p / ".ellipslice/setup", b'"format": 2', b'"format": 1'),
        "has format version 1, but this version of ellipslice resumes format version 2",
    ),
    "numbers of the prior": (lambda p: flip(p / ".ellipslice/0.npy", -1), "0.npy is missing or damaged"),
    "an attribute": (lambda p: edit(p / "zarr.json", b'"seed": 5', b'"seed": 6'), "the attribute seed is 6, but was 5"),
    "metadata": (
        lambda p: edit(p / "posterior/f/zarr.json", b"float64", b"float32"),
        "zarr.json is damaged, or was edited: the metadata of posterior/f",
    ),
    "metadata shown": (
        lambda p: edit(p / "zarr.json", b'"bool"', b'"int8"'),
        "metadata of sample_stats/search_failed",
    ),
    "no metadata": (lambda p: (p / "sample_stats/zarr.json").unlink(), "sample_stats.zarr.json is missing"),
    "no JSON": (lambda p: (p / "zarr.json").write_text("{"), "zarr.json is damaged: it is not JSON"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_store_is_refused(name, made):
    damage, message = DAMAGE[name]
    damage(made)
    with pytest.raises(ValueError, match=message):
        resume(made, draws=100)
    with pytest.raises(ValueError, match=message):  # and the store is not locked
        resume(made, draws=100)


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no store at"):
        resume(tmp_path / "nothing.zarr")
    with pytest.raises(ValueError, match=r"is not a store that ellipslice wrote.*It is not a Zarr group"):
        resume(tmp_path)
    xarray.Dataset({"a": ("x", [1.0])}).to_zarr(tmp_path / "foreign.zarr", zarr_format=3, consolidated=False)
    with pytest.raises(ValueError, match=r"is not a store that ellipslice wrote.*It is another Zarr group"):
        resume(tmp_path / "foreign.zarr")
    for bad in (3, b"bytes", ""):
        with pytest.raises(TypeError, match="store must be the path of a folder"):
            resume(bad)
    with pytest.raises(ValueError, match="a local folder"):
        make("s3://bucket/run.zarr")


def test_a_path_that_is_taken(made, tmp_path):
    with pytest.raises(FileExistsError, match=r"holds a run already.*ellipslice\.resume\("):
        make(made)
    with pytest.raises(FileExistsError, match="is not a store of ellipslice"):
        make(tmp_path)


def test_a_failed_start_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="coords names"):
        make(tmp_path / "run.zarr", coords={"nowhere": [1]})
    assert not list(tmp_path.iterdir())


def test_another_run_is_refused_by_name(made):
    refused = {
        "was created with seed=5, but seed=6": {"seed": 6},
        r"created with the prior Diagonal\(shape \(3,\)\), but Diagonal\(shape \(2,\)\) was given": {
            "prior": es.Diagonal(np.ones(2))
        },
        "but one with other numbers in it was given": {"prior": es.Diagonal(np.ones(3))},
        "created with the move EllipticalSlice.*but AuxiliaryEllipse": {"move": es.moves.AuxiliaryEllipse()},
        "was created with keep=None, but keep=False": {"keep": False},
        "has 60 draws of each chain already, but draws=50": {"draws": 50},
    }
    for message, options in refused.items():
        with pytest.raises(ValueError, match=message):
            resume(made, **options)
    with pytest.raises(TypeError, match="prior must be a prior of ellipslice"):
        resume(made, prior=np.eye(3))
    with pytest.raises(ValueError, match=r"this log-likelihood is not the one .* at the state of chain 0"):
        resume(made, lambda f: on_the_host(f) + 0.1, draws=70)
    with pytest.raises(ValueError, match="draws=70 was given with until"):
        resume(made, draws=70, until=es.Until(max_draws=80))
    tree = resume(made, draws=70, prior=PRIOR, move=es.moves.EllipticalSlice(), seed=5)
    assert tree.posterior.sizes["draw"] == 70


def test_another_keep_is_refused(tmp_path):
    make(tmp_path / "run.zarr", keep=lambda f: f[:2])
    for message, keep in {
        "Give it again": None,
        "was created with a function as keep, but keep=False": False,
        "contains f as float64 of shape .2,., but this keep returns f as float64 of shape .3,.": lambda f: f,
        "contains no g, but|contains f as .* but this keep returns no f": lambda f: {"g": f},
        "contains another f than this keep returns": lambda f: f[1:],
    }.items():
        with pytest.raises(ValueError, match=message):
            resume(tmp_path / "run.zarr", draws=70, keep=keep)
    resume(tmp_path / "run.zarr", draws=70, keep=lambda f: f[:2])


def test_a_keep_of_another_type(tmp_path):
    calls = 0

    def changing(f):
        nonlocal calls
        calls += 1
        return int(calls) if calls < 30 else float(f[0])

    with pytest.raises(ValueError, match="keep returned float64 for f, but int64 for the first draw"):
        make(tmp_path / "run.zarr", keep=changing)


def test_a_routine_must_be_handed_over_again(tmp_path):
    def routine(rng):
        return rng.standard_normal(3)

    prior = es.FromDraws(routine, 3)
    make(tmp_path / "whole.zarr", prior=prior)
    make(tmp_path / "run.zarr", prior=prior, draws=20)
    with pytest.raises(ValueError, match=r"does not contain the prior FromDraws.*code is never stored.*prior=\.\.\."):
        resume(tmp_path / "run.zarr", draws=60)
    with pytest.raises(ValueError, match="was created with the prior"):
        resume(tmp_path / "run.zarr", draws=60, prior=es.FromDraws(routine, 3, mean=1.0))
    resume(tmp_path / "run.zarr", draws=60, prior=prior)
    assert_same_stores(tmp_path / "whole.zarr", tmp_path / "run.zarr")


def test_other_versions_are_named(made):
    where = made / ".ellipslice/setup"
    entries, _ = read_checked(where)
    entries["attributes"]["numpy_version"] = "1.0"
    where.write_bytes(with_checksum(entries))
    edit(made / "zarr.json", f'"numpy_version": "{np.__version__}"'.encode(), b'"numpy_version": "1.0"')
    with pytest.warns(
        UserWarning, match=r"created with numpy 1\.0 \(now .*may not be bit-identical to those of an uninterrupted run"
    ):
        resume(made, draws=70)


# --- untrusted ------------------------------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self):
        return (pathlib.Path.touch, (pathlib.Path("exploded"),))


def test_nothing_in_a_store_is_run(made, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for file in made.rglob("*.npy"):
        assert np.load(file, allow_pickle=False).dtype.kind in "fiub"
    path = made / ".ellipslice/setup"
    entries, _ = read_checked(path)

    bomb = made / ".ellipslice/0.npy"
    np.save(bomb, np.array([Bomb()], dtype=object), allow_pickle=True)
    path.write_bytes(with_checksum({**entries, "arrays": [zlib.crc32(bomb.read_bytes()), *entries["arrays"][1:]]}))
    with pytest.raises(ValueError, match="allow_pickle"):
        resume(made, draws=70)

    for tree in (
        {"class": "Popen", "fields": {"args": "touch exploded"}},
        {"class": "Diagonal", "fields": {"__class__": "Popen"}},
        {"class": "Local", "fields": {"prepare": {"function": "os.system"}}},
        {"float": "__import__('os')"},
        {"array": "0"},
        {"missing": "os.system"},
        [1, 2],
        {"class": "EllipticalSlice", "fields": {"bracket_width": 1, "shrinking": "cut"}},  # a move is not a prior
    ):
        path.write_bytes(with_checksum({**entries, "arrays": [], "prior": {**entries["prior"], "tree": tree}}))
        with pytest.raises(ValueError, match=r"the prior in .* cannot be read"):
            resume(made, draws=70)
    for name in ("../outside", "posterior/../../outside", "/tmp", "posterior/..", "other/f", "posterior/a/b"):
        path.write_bytes(with_checksum({**entries, "metadata": {**entries["metadata"], name: {"node_type": "group"}}}))
        with pytest.raises(ValueError, match="which ellipslice does not write"):
            resume(made, draws=70)
    assert not (tmp_path / "exploded").exists()
    assert not (tmp_path / "outside").exists()


# --- memory ---------------------------------------------------------------------------------------------------------

MEMORY = """
import resource, sys
import numpy as np, jax.numpy as jnp
import ellipslice as es
def log_likelihood(f):
    return -jnp.sum((f - 1.0) ** 2)
es.sample(log_likelihood, es.Diagonal(np.ones(100)), draws=2000, seed=1, chains=1, store=sys.argv[1], progress=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tree = es.resume(sys.argv[1], log_likelihood, draws=300_000, progress=False)
print(tree.posterior.sizes["draw"], (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.long
def test_memory_stays_bounded(tmp_path):
    """Return the memory in use. Without this, glibc would keep up to 40 MiB of freed memory, a part per thread."""
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "run.zarr")]
    told = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(2**18)}
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=told).stdout.split()
    assert int(said[0]) == 300_000
    assert float(said[1]) < 36  # MiB, for 229 MiB of draws


def test_json_is_all_there_is(made):
    """Files contain JSON, JSON with a checksum, NumPy arrays or chunks of numbers."""
    for file in made.rglob("*"):
        if file.suffix == ".json":
            json.loads(file.read_bytes())
        elif file.is_file() and file.suffix != ".npy" and ".ellipslice" not in file.parts:
            assert file.name.isdigit()


def test_zarr_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"pip install 'ellipslice\[store\]'"):
        make(tmp_path / "run.zarr")
