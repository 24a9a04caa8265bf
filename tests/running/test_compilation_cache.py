"""Compiled programs are kept on disk: a second process compiles nothing, and no folder is a reason to fail."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice import program_folder
from ellipslice.jax_settings import jax_settings, to_device
from ellipslice.program_folder import ProgramFolder, delete_oldest
from ellipslice.undocumented import registry, xla_loop
from ellipslice.undocumented.compilation_cache import ITEM

SCRIPT = """
import hashlib, json, sys, threading
import jax, jax.monitoring, jax.numpy as jnp, numpy as np
counts = {"compile_requests_use_cache": 0, "cache_hits": 0}
def count(name, **_):
    last = name.split("/")[-1]
    if last in counts:
        counts[last] += 1
jax.monitoring.register_event_listener(count)
settings = dict(jax.config.values)
import ellipslice as es

def outside():
    return float(jax.jit(lambda x: jnp.sin(x).sum() * 3)(np.ones(3, np.float32)))

outside()
counts = dict.fromkeys(counts, 0)
digests = []
for engine in ("compiled", "batched"):
    tree = es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(5)), draws=20, seed=1, engine=engine)
    digests.append(hashlib.sha256(tree.posterior.f.values.tobytes()).hexdigest())
inside = dict(counts)
jax.clear_caches()
counts = dict.fromkeys(counts, 0)
outside()
print(json.dumps({"digests": digests, "inside": inside, "outside": counts, "degraded": tree.attrs.get("degraded"),
                  "unchanged": dict(jax.config.values) == settings}))
"""


def start(folder, **variables):
    hidden = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore", "XDG_CACHE_HOME": str(folder), **variables}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.long
def test_the_second_process_compiles_nothing_and_has_the_same_draws(tmp_path):
    first, second = (finish(start(tmp_path / "cache")) for _ in range(2))
    kept = files(tmp_path / "cache")
    assert first["inside"]["cache_hits"] < first["inside"]["compile_requests_use_cache"]
    assert second["inside"]["cache_hits"] == second["inside"]["compile_requests_use_cache"] >= 10
    assert len(kept) == len({path.name for path in kept}) >= 10
    without = finish(start(tmp_path / "cache", JAX_ENABLE_COMPILATION_CACHE="false"))
    assert without["inside"]["cache_hits"] == 0
    assert first["digests"] == second["digests"] == without["digests"]
    assert files(tmp_path / "cache") == kept
    for found in (first, second, without):  # the user's own programs and settings
        assert found["outside"]["cache_hits"] == 0
        assert found["unchanged"]
        assert found["degraded"] is None


@pytest.mark.long
def test_processes_in_parallel_share_the_folder(tmp_path):
    first = [finish(process) for process in [start(tmp_path / "cache") for _ in range(3)]]
    last = finish(start(tmp_path / "cache"))
    assert last["inside"]["cache_hits"] == last["inside"]["compile_requests_use_cache"]
    assert all(found["digests"] == last["digests"] and found["degraded"] is None for found in first)
    assert all(path.suffix == "" for path in files(tmp_path / "cache"))  # no unfinished file is left


# --- in this process ---


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache folder of the user, and no fallbacks so far."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(registry, "_taken", {})
    program_folder._open.cache_clear()
    yield tmp_path / "home"
    program_folder._open.cache_clear()


def compute(number):
    """Compile a program that contains a number, also if it was compiled before, and return its result."""
    jax.clear_caches()
    return float(jax.jit(lambda x: (x * number).sum())(np.arange(4.0)))


def test_only_programs_of_this_library_are_stored(home):
    assert compute(2.0) == 12.0
    assert not home.exists()
    with jax_settings():
        assert compute(2.0) == 12.0
    stored = files(home)
    assert stored
    assert compute(3.0) == 18.0

    def other():
        assert compute(5.0) == 30.0  # while this library runs in another thread

    with jax_settings():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert files(home) == stored
    assert (home / "ellipslice").stat().st_mode & 0o777 == 0o700
    assert registry.taken() == []


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("values", [np.ones(17), np.arange(3), np.float64(2.5), 1.5, np.zeros((0, 2))], ids=str)
def test_an_array_is_copied_to_the_device_without_a_program(home, values, double):
    jax.clear_caches()
    with jax_settings(double):
        found = to_device(values)
        expected = jnp.asarray(values)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert (found.dtype.itemsize == 8) == double
    before = np.array(found)
    if np.ndim(values):
        values += 1
    np.testing.assert_array_equal(found, before)


def test_a_copy_to_the_device_compiles_nothing(home):
    jax.clear_caches()
    with jax_settings():
        to_device(np.ones(19))
        to_device(2.0, np.float64)
    assert not home.exists()


def test_settings_are_restored_after_an_error(home):
    before = jax.config.jax_persistent_cache_min_compile_time_secs

    def fail():
        with jax_settings(), jax_settings():
            assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.0
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert jax.config.jax_persistent_cache_min_compile_time_secs == before
    compute(2.0)
    assert not home.exists()


@pytest.mark.parametrize("setting", ["folder", "switched off"])
def test_the_users_setting_wins(home, tmp_path, setting):
    from jax.experimental.compilation_cache import compilation_cache

    own = tmp_path / "own"
    with jax_settings():
        compute(1.5)
    before = files(home)
    name, value, usual = {
        "folder": ("jax_compilation_cache_dir", str(own), None),
        "switched off": ("jax_enable_compilation_cache", False, True),
    }[setting]
    jax.config.update(name, value)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0 if setting == "folder" else 1.0)
    if setting == "folder":  # JAX finds it only if it opens its cache again
        compilation_cache.reset_cache()
    try:
        with jax_settings():
            assert compute(7.0) == 42.0
        assert jax.config.values[name] == value
    finally:
        jax.config.update(name, usual)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
        compilation_cache.reset_cache()
    assert files(home) == before
    assert bool(files(own)) == (setting == "folder")
    assert registry.taken() == []


def foreign(home, monkeypatch):
    home.mkdir()
    (home / "ellipslice").mkdir(mode=0o700)
    user = os.geteuid() + 1
    monkeypatch.setattr(program_folder.os, "geteuid", lambda: user)
    return "belongs to another user"


def open_to_others(home, monkeypatch):
    home.mkdir()
    (home / "ellipslice").mkdir()
    (home / "ellipslice").chmod(0o770)
    return "is open to other users"


def a_file(home, monkeypatch):
    home.mkdir()
    (home / "ellipslice").write_text("")
    return "is not a folder"


def a_link(home, monkeypatch):
    home.mkdir()
    (home / "elsewhere").mkdir(mode=0o700)
    (home / "ellipslice").symlink_to(home / "elsewhere")
    return "is not a folder"


def read_only(home, monkeypatch):
    def mkdir(*_, **__):
        raise PermissionError(errno.EACCES, "Read-only file system")  # root may write anywhere

    monkeypatch.setattr(Path, "mkdir", mkdir)
    return "cannot be created"


def nobody(home, monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    return "there is no home folder"


@pytest.mark.parametrize("case", [foreign, open_to_others, a_file, a_link, read_only, nobody])
def test_a_folder_that_cannot_be_used_is_ignored(home, monkeypatch, case):
    said = case(home, monkeypatch)
    before = files(home)
    with jax_settings():
        assert compute(11.0) == 66.0
    assert files(home) == before
    assert [text.split(":")[0] for text in registry.taken()] == [ITEM]
    assert said in registry.taken()[0]


def test_a_run_says_that_nothing_was_stored(home, monkeypatch):
    nobody(home, monkeypatch)
    jax.clear_caches()
    tree = es.sample(es.likelihoods.Gaussian(np.ones(3), 1.0), es.Diagonal(np.ones(3)), draws=5, seed=1)
    assert tree.attrs["degraded"] == f"{ITEM}: there is no home folder"


def test_a_full_disk_is_no_error(home, monkeypatch):
    with jax_settings():
        compute(2.0)
    before = files(home)

    def write_bytes(path, content):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with jax_settings():
        assert compute(13.0) == 78.0
    assert files(home) == before
    assert "could not be written" in registry.taken()[0]
    assert "No space left on device" in registry.taken()[0]


def test_a_damaged_file_is_replaced(home):
    with jax_settings():
        expected = compute(0.3)
    before = {path: path.read_bytes() for path in files(home)}
    for path, content in before.items():
        path.write_bytes(content[: len(content) // 2])
    with jax_settings():
        assert compute(0.3) == expected
    assert set(files(home)) == set(before)
    assert all(len(path.read_bytes()) > len(content) / 2 for path, content in before.items())
    assert "a damaged file" in registry.taken()[0]


def test_a_program_that_xla_rejects_is_compiled(home, monkeypatch):
    with jax_settings():
        expected = compute(0.7)
    monkeypatch.setattr(ProgramFolder, "get", lambda folder, key: b"no program")
    with jax_settings():
        assert compute(0.7) == expected  # without a warning, which would be an error here
    assert "could not be stored or loaded" in registry.taken()[0]


def test_threads_never_read_part_of_a_program(tmp_path):
    folders = [ProgramFolder(tmp_path, tmp_path) for _ in range(4)]
    values = {f"program {i}": bytes([i]) * (200_000 + i) for i in range(8)}
    wrong = []

    def work(folder):
        for _ in range(5):
            for key, value in values.items():
                folder.put(key, value)
                found = folder.get(key)
                if found != value:
                    wrong.append(key)

    threads = [threading.Thread(target=work, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(files(tmp_path)) == len(values)


def test_the_folder_does_not_grow_beyond_its_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(program_folder, "MAX_BYTES", 100_000)
    monkeypatch.setattr(program_folder, "BYTES_BETWEEN_CHECKS", 20_000)
    folder = ProgramFolder(tmp_path / "a", tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "another machine").mkdir()
    (tmp_path / "another machine" / "old").write_bytes(bytes(50_000))
    os.utime(tmp_path / "another machine" / "old", (1, 1))
    folder.put("used", bytes(9_000))
    for i in range(30):
        os.utime(folder._file("used"), (1 + i, 1 + i))
        assert folder.get("used") == bytes(9_000)
        folder.put(f"{i}", bytes(10_000))
        assert sum(path.stat().st_size for path in files(tmp_path)) <= 100_000 + 30_000
    assert not (tmp_path / "another machine" / "old").exists()
    assert folder.get("used") is not None  # it was used all the time
    assert folder.get("0") is None


def test_nothing_is_deleted_without_need(tmp_path):
    for i in range(5):
        (tmp_path / str(i)).write_bytes(bytes(100))
        os.utime(tmp_path / str(i), (i, i))
    delete_oldest(tmp_path, 500)
    assert len(files(tmp_path)) == 5
    delete_oldest(tmp_path, 499)
    assert [path.name for path in files(tmp_path)] == ["2", "3", "4"]


@pytest.mark.parametrize("move", [es.moves.EllipticalSlice(), es.moves.NealMetropolis(0.5)], ids=["search", "steps"])
def test_a_loop_is_compiled_once(move):
    """The arguments of a loop have the types of its results, so that it is compiled only once."""

    def compiled():
        return sum(way._cache_size() for way in xla_loop._COMPILED.values())

    before = compiled()
    es.sample(lambda f: -jnp.sum(f**4), es.Diagonal(np.ones(7)), move=move, draws=3000, chains=2, seed=1)
    assert compiled() == before + 1
