"""Malformed inputs to the command line, to the reader of stores and run folders, and to the API.

Each raises a clear error: on the command line one line and exit code 2 without traceback, elsewhere a ValueError, a
TypeError or an OSError with a message. Nothing is written or changed.

`make malformed` tries many more random inputs.
"""

from __future__ import annotations

import copy
import json
import math
import os
import shutil
import string
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tinygp import kernels
from typer.testing import CliRunner

import ellipslice as es
from ellipslice.apps.cli import app
from ellipslice.apps.fits.folder import open_folder
from ellipslice.gp import LatentGP
from ellipslice.store.journal import with_checksum
from ellipslice.store.read import open_tree
from stores import contents

pytest.importorskip("zarr")

EXAMPLES = int(os.environ.get("MALFORMED_EXAMPLES", "0"))
MANY = settings(
    max_examples=EXAMPLES or 25,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Folder in memory for many stores, because a disk would be slow."""

N = 8
X, Y = np.linspace(0.0, 3.0, N), np.array([1, 0, 2, 3, 5, 4, 1, 2])


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def assert_refused(result, words=""):
    """Check for exit code 2, one clear line and no traceback."""
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert "Traceback" not in result.output
    said = " ".join(result.stderr.replace("│", " ").split())
    assert "error: " in said or "─ Error ─" in said
    assert len(said) > 25, said
    for word in filter(None, words.split(" & ")):
        assert word.lower() in said.lower(), f"{word!r} is not in: {said}"


# --- command lines ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table and a finished fit of it."""
    folder = tmp_path_factory.mktemp("place")
    columns = {"t": X, "count": Y, "value": np.sin(X), "label": Y % 2, "tried": 5, "name": list("abcdefgh")}
    columns |= {"same": 1.0, "gaps": [1.0, np.nan] * 4, "far": [np.inf, *X[1:]], "zero": [0.0, *X[1:]], "two": Y % 3}
    columns |= {"date": [f"2024-01-{i + 1:02}" for i in range(N)]}
    pd.DataFrame(columns).to_csv(folder / "data.csv", index=False)
    pd.DataFrame({"t": np.arange(6000.0), "y": np.arange(6000) % 7}).to_csv(folder / "long.csv", index=False)
    known = ("--length-scale", 1, "--amplitude", 1, "--draws", 8, "--warmup", 2, "--chains", 2, "--seed", 1)
    given_ = ("--x", "t", "--y", "count", "--likelihood", "poisson", *known)
    assert run("fit", folder / "data.csv", *given_, "--out", folder / "run", "--quiet").exit_code == 0
    (folder / "empty").mkdir()
    (folder / "other").mkdir()
    (folder / "other" / "file.txt").write_text("not ours")
    return folder


FIT = [
    ("fit", "missing argument"),
    ("fit nowhere.csv --x t --y count", "no file & nowhere.csv"),
    ("fit empty --x t --y count", "is a folder"),
    ("fit data.csv", "--x & --y & --events"),
    ("fit data.csv --x t", "without --y"),
    ("fit data.csv --y count", "without --x"),
    ("fit data.csv --x time --y count", "no column 'time' & 't'"),
    ("fit data.csv --x t --y coumt", "did you mean 'count'"),
    ("fit data.csv --x t --y t", "named twice"),
    ("fit data.csv --x t --x t --y count", "named twice"),
    ("fit data.csv --x t --y name", "'a' & row 1 & numbers"),
    ("fit data.csv --x name --y value", "dates such as"),
    ("fit data.csv --x t --y date", "expected numbers"),
    ("fit data.csv --x t --y gaps", "4 of 8 rows & row 2 & --drop-missing"),
    ("fit data.csv --x gaps --y value", "--drop-missing"),
    ("fit data.csv --x far --y value", "inf & row 1 & finite"),
    ("fit data.csv --x same --y value", "same value in every row"),
    ("fit data.csv --x t --y same", "nothing to fit"),
    ("fit data.csv --x t --y value --likelihood poisson", "is not a count"),
    ("fit data.csv --x t --y value --likelihood negative-binomial", "is not a count"),
    ("fit data.csv --x t --y value --likelihood logistic", "labels"),
    ("fit data.csv --x t --y two --likelihood logistic", "labels"),
    ("fit data.csv --x t --y two --likelihood probit", "labels"),
    ("fit data.csv --x t --y two --likelihood logistic", "labels"),
    ("fit data.csv --x t --y count --likelihood binomial", "--trials"),
    ("fit data.csv --x t --y count --likelihood binomial --trials nothing", "no column 'nothing'"),
    ("fit data.csv --x t --y tried --likelihood binomial --trials count", "more than its trials"),
    ("fit data.csv --x t --y count --likelihood binomial --trials value", "trials"),
    ("fit data.csv --x t --y count --likelihood poison", "--likelihood & poisson & 'poison'"),
    ("fit data.csv --x t --y count --likelihood normal", "--likelihood & did you mean 'gaussian'"),
    ("fit data.csv --x t,count --y value", "no column 't,count' & one column at a time"),
    ("fit data.csv --x t --y value --decimal ;", "--decimal & a point or a comma"),
    ("fit data.csv --x t --y value --kernel rbf", "--kernel & squared-exponential & 'rbf'"),
    ("fit data.csv --x t --out made --y value --kernel", "--kernel"),
    ("fit data.csv --x t --y value --length-scale 0", "--length-scale & positive"),
    ("fit data.csv --x t --y value --length-scale -1", "--length-scale & positive"),
    ("fit data.csv --x t --y value --length-scale nan", "--length-scale & positive"),
    ("fit data.csv --x t --y value --length-scale inf", "--length-scale & positive"),
    ("fit data.csv --x t --y value --length-scale long", "--length-scale"),
    ("fit data.csv --x t --y value --length-scale 1 --length-scale 2", "2 times for 1 inputs"),
    ("fit data.csv --x t --y value --amplitude 0", "--amplitude & positive"),
    ("fit data.csv --x t --y value --noise-scale -0.1", "--noise-scale & positive"),
    ("fit data.csv --x t --y value --mean nan", "--mean & finite"),
    (
        "fit data.csv --x t --y count --likelihood poisson --noise-scale 1",
        "--noise-scale & given with the likelihood poisson",
    ),
    ("fit data.csv --x t --y count --likelihood poisson --dispersion 1", "--dispersion & negative-binomial"),
    ("fit data.csv --x t --y count --likelihood poisson --trials tried", "--trials & binomial"),
    ("fit data.csv --x t --y value --exposure tried", "--exposure & poisson"),
    ("fit data.csv --x t --y count --likelihood poisson --exposure zero", "'zero' & positive"),
    ("fit data.csv --x t --y count --likelihood poisson --exposure gaps", "--drop-missing"),
    ("fit data.csv --x t --y count --likelihood negative-binomial --dispersion 0", "--dispersion & positive"),
    ("fit data.csv --x t --y value --draws 0", "--draws & at least 1"),
    ("fit data.csv --x t --y value --draws -5", "--draws & at least 1"),
    ("fit data.csv --x t --y value --draws many", "--draws"),
    ("fit data.csv --x t --y value --draws 1.5", "--draws"),
    ("fit data.csv --x t --y value --warmup -1", "--warmup & at least 0"),
    ("fit data.csv --x t --y value --chains 0", "--chains & at least 1"),
    ("fit data.csv --x t --y value --seed -1", "--seed & at least 0"),
    ("fit data.csv --x t --y value --rhat 0.9", "--rhat & above 1"),
    ("fit data.csv --x t --y value --rhat 1.01 --chains 1", "--rhat & --chains 2"),
    ("fit data.csv --x t --y value --effective-sample-size 0", "--effective-sample-size & above 0"),
    ("fit data.csv --x t --y value --effective-sample-size nan", "--effective-sample-size & finite"),
    ("fit data.csv --x t --y value --max-seconds -3", "--max-seconds & above 0"),
    ("fit data.csv --x t --y value --window 0,1", "--window & --events"),
    ("fit data.csv --x t --y value --cells 5", "--cells & --events"),
    ("fit data.csv --x t --y value --predict-at nowhere.csv", "no file & nowhere.csv"),
    ("fit data.csv --x t --y value --delimiter ;", "no column 't' & --delimiter"),
    ("fit data.csv --x t --y value --delimiter ;;", "--delimiter & one character"),
    ("fit data.csv --x t --y value --out other", "not an empty folder"),
    ("fit data.csv --x t --y value --out data.csv", "data.csv"),
    ("fit data.csv --x t --y value --out run", "ellipslice resume"),
    ("fit data.csv --x t --y value --out data.csv/run", "data.csv"),
    ("fit data.csv --x t --y value --out /proc/run", "/proc/run"),
    ("fit data.csv --x t --y value --colour red", "--colour"),
    ("fit data.csv other.csv --x t --y value", "other.csv"),
    ("fit data.csv --events t --x t --y value", "--events & --x"),
    ("fit data.csv --events t --y value", "--events & --y"),
    ("fit data.csv --events nothing", "no column 'nothing'"),
    ("fit data.csv --events name", "dates such as"),
    ("fit data.csv --events t --likelihood gaussian", "--events & --likelihood poisson & gaussian"),
    ("fit data.csv --events t --exposure tried", "--exposure & events"),
    ("fit data.csv --events t --window 0", "--window & LOW,HIGH & '0'"),
    ("fit data.csv --events t --window a,b", "--window & LOW,HIGH"),
    ("fit data.csv --events t --window 3,0", "LOW < HIGH"),
    ("fit data.csv --events t --window 1,1", "LOW < HIGH"),
    ("fit data.csv --events t --window nan,1", "--window"),
    ("fit data.csv --events t --window 0,1,2", "--window & LOW,HIGH"),
    ("fit data.csv --events t --window 0,1", "outside the window"),
    ("fit data.csv --events t --window 0,4 --window 0,4", "2 times for 1 inputs"),
    ("fit data.csv --events t --cells 0", "--cells & at least 1"),
    ("fit data.csv --events t --cells few", "--cells"),
    ("fit data.csv --events t --cells 6000", "6,000 cells & 5,000"),
    ("fit long.csv --x t --y y", "6,000 rows & 5,000 & --amplitude and --length-scale and --noise-scale"),
    ("fit data.csv --events same", "same value in every row"),
]

OTHERS = [
    ("resume", "missing argument"),
    ("resume nowhere", "no folder nowhere"),
    ("resume empty", "no settings.json"),
    ("resume data.csv", "is a file"),
    ("resume run/draws.zarr", "no settings.json"),
    ("resume run --draws 4", "8 draws of each chain already"),
    ("resume run --draws 0", "draws & at least 1"),
    ("resume run --draws ten", "--draws"),
    ("resume run --rhat 1", "rhat & above 1"),
    ("resume run --effective-sample-size -1", "effective_sample_size"),
    ("resume run run", "run"),
    ("summary", "missing argument"),
    ("summary nowhere", "no folder nowhere"),
    ("summary empty", "no settings.json"),
    ("summary other", "no settings.json"),
    ("summary run --verbose", "--verbose"),
    ("plot", "missing argument"),
    ("plot nowhere", "no folder nowhere"),
    ("plot run --variable everything", "'everything' & expected"),
    ("plot run --out picture.doc", ".png, .pdf or .svg"),
    ("plot run --out data.csv/a.png", "data.csv"),
    ("plot run --out /proc/a.png", "/proc"),
    ("report", "missing argument"),
    ("report nowhere", "no folder nowhere"),
    ("report empty", "no settings.json"),
    ("report run --out other", "other"),
    ("report run --out data.csv/a.html", "data.csv"),
    ("fitt data.csv", "no such command"),
    ("--draws 3", "--draws"),
    ("demo --draws 0", "draws"),
    ("paper --problems R99", "R99"),
]  # fmt: skip


@pytest.mark.long_cases("fit-missing argument")
@pytest.mark.parametrize(("line", "words"), FIT + OTHERS)
def test_a_mistaken_command_line(line, words, place, monkeypatch):
    monkeypatch.chdir(place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    given_ = line.split(" ")
    if given_[0] == "fit" and "--out" not in given_ and len(given_) > 1:
        given_ += ["--out", "made"]
    assert_refused(run(*given_), words)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


OPTIONS = (
    "--x",
    "--y",
    "--events",
    "--likelihood",
    "--kernel",
    "--length-scale",
    "--amplitude",
    "--noise-scale",
    "--mean",
)
OPTIONS += (
    "--draws",
    "--chains",
    "--seed",
    "--rhat",
    "--max-seconds",
    "--window",
    "--cells",
    "--trials",
    "--predict-at",
    "--zzz",
)
VALUES = st.one_of(
    st.sampled_from(["", "-", "t", "nan", "-1", "0", "1e400", "٣", "../..", "\x1b[31m", "a,b", "--x", "$(ls)"]),
    st.text(string.printable, max_size=8),
)


@MANY
@given(st.lists(st.tuples(st.sampled_from(OPTIONS), VALUES), max_size=5), st.sampled_from(["fit", "summary", "plot"]))
def test_any_command_line_is_answered(place, pairs, command):
    """Any command line gives an answer. (The table does not exist, so that no valid command runs.)"""
    arguments = [command, place / "nowhere.csv", *(part for pair in pairs for part in pair)]
    result = run(*arguments)
    assert result.exit_code in (0, 2), (result.output, result.exception)  # 0: --help
    assert "Traceback" not in result.output


# --- tables -----------------------------------------------------------------------------------------------------------

TABLES = {
    "nothing.csv": (b"", "is empty"),
    "newline.csv": (b"\n\n\n", "is empty"),
    "header.csv": (b"t,y\n", "no rows"),
    "spaces.csv": (b"   \n", ""),
    "twice.csv": (b"t,t,y\n1,2,3\n4,5,6\n", "2 columns named 't'"),
    "ragged.csv": (b"t,y\n1,2\n3,4,5,6\n7,8\n", ""),
    "quotes.csv": (b't,y\n1,"2\n3,4\n', ""),
    "binary.csv": (bytes(range(256)) * 4, ""),
    "latin.csv": ("t,y\n1,2\n3,\xe9\n".encode("latin-1"), "UTF-8"),
    "utf16.csv": ("t,y\n1,2\n3,4\n".encode("utf-16"), ""),
    "png.csv": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ""),
    "zip.csv": (b"PK\x03\x04\0\0\0\0", ""),
    "one.csv": (b"t,y\n1,2\n", ""),
    "words.csv": (b"t,y\n1,two\n3,4\n", "'two' & row 1"),
    "huge.csv": (b"t,y\n1,1e999\n2,3\n", "inf & row 1"),
    "nan.csv": (b"t,y\n1,nan\n2,3\n", "--drop-missing"),
    "dates.csv": (b"t,y\n2024-13-01,1\n2024-01-02,2\n", "dates such as"),
    "mixed.csv": (b"t,y\n2024-01-01,1\nyesterday,2\n", "dates such as"),
    "colon.csv": (b"t:y\n1:2\n3:4\n", "no column 't' & 't:y'"),
    "decimal.csv": (b"t;y\n1,5;2\n3,5;4\n", "--decimal ','"),
    "nul.csv": (b"t,y\n1,2\0\n3,4\n", ""),
    "comma.csv": (b"t,y\n1,2\n3,\n", "--drop-missing"),
    "bool.csv": (b"t,y\nTrue,1\nTrue,2\n", "same value"),
    "empty.parquet": (b"", "Parquet"),
    "cut.parquet": (b"PAR1" + b"\0" * 40, "Parquet"),
    "text.parquet": (b"t,y\n1,2\n", "Parquet"),
    "pickle.parquet": (b"\x80\x04cos\nsystem\n(S'true'\ntR.", "Parquet"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_none(name, tmp_path):
    content, words = TABLES[name]
    (tmp_path / name).write_bytes(content)
    assert_refused(run("fit", tmp_path / name, "--x", "t", "--y", "y", "--out", tmp_path / "run"), words)
    assert not (tmp_path / "run").exists()


@MANY
@given(st.binary(max_size=60), st.sampled_from(["csv", "tsv", "parquet"]), st.booleans())
def test_any_bytes_are_no_table(content, ending, headed):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / f"a.{ending}"
        path.write_bytes((b"t,y\n" if headed else b"") + content)
        result = run("fit", path, "--x", "t", "--y", "label", "--out", Path(folder) / "run")  # no such column
        assert_refused(result)
        assert [found.name for found in Path(folder).iterdir()] == [path.name]


# --- run folders ------------------------------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 10**20), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=4,
)


def places(tree, path=()):
    """Yield the paths of all values in a JSON object."""
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def changed(tree, path, value):
    """Return the object with another value at one path."""
    if not path:
        return value
    tree = copy.copy(tree)
    tree[path[0]] = changed(tree[path[0]], path[1:], value)
    return tree


@pytest.mark.long
@MANY
@given(st.data())
def test_settings_that_were_edited(place, data):
    path = place / "run/settings.json"
    before = path.read_bytes()
    found = json.loads(before)
    where = data.draw(
        st.sampled_from([path for path in places(found) if path[:1] not in (("versions",), ("command",))])
    )
    edited = changed(found, where, data.draw(ANYTHING))
    path.write_text(json.dumps(edited))
    try:
        result = run("summary", place / "run")
        assert "Traceback" not in result.output, result.output
        assert result.exit_code in (0, 2), (where, result.output, result.exception)
        if result.exit_code == 2:
            assert_refused(result)
    finally:
        path.write_bytes(before)


SETTINGS = {
    "not JSON": (b"{", "not valid JSON"),
    "empty": (b"", "not valid JSON"),
    "a list": (b"[]", "was not written by"),
    "a number": (b"3", "was not written by"),
    "nothing in it": (b"{}", "was not written by"),
    "another format": (b'{"format": 99}', "format version 99"),
    "only a format": (b'{"format": 2}', "damaged"),
    "deep": (b"[" * 100_000, "not valid JSON"),
    "not text": (bytes(range(128, 256)), "not valid JSON"),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("command", ["resume", "summary", "plot", "report"])
def test_settings_that_are_none(name, command, place, tmp_path):
    content, words = SETTINGS[name]
    (tmp_path / "settings.json").write_bytes(content)
    assert_refused(run(command, tmp_path), words)
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


FOLDERS = {
    "no data": (lambda run: (run / "data.csv").unlink(), "data.csv is missing"),
    "other data": (lambda run: (run / "data.csv").write_text("t,count\n1,2\n3,4\n"), "was changed"),
    "no store": (lambda run: shutil.rmtree(run / "draws.zarr"), "no draws yet"),
    "a file for a store": (lambda run: _a_file(run / "draws.zarr"), "draws.zarr"),
    "an empty store": (lambda run: _emptied(run / "draws.zarr"), "draws.zarr"),
    "no metadata": (lambda run: (run / "draws.zarr/zarr.json").unlink(), "zarr.json is missing"),
}


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("command", ["summary", "report"])
def test_a_folder_that_is_not_whole(name, command, place, tmp_path):
    edit, words = FOLDERS[name]
    shutil.copytree(place / "run", tmp_path / "run")
    edit(tmp_path / "run")
    assert_refused(run(command, tmp_path / "run"), words)


def _a_file(path):
    shutil.rmtree(path)
    path.write_text("not a folder")


def _emptied(path):
    shutil.rmtree(path)
    path.mkdir()


# --- stores -----------------------------------------------------------------------------------------------------------


def log_likelihood(f):
    return -float(np.sum((np.asarray(f) - 0.5) ** 2))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "run.zarr"
    es.sample(
        log_likelihood, es.Dense(np.eye(3) + 0.5), draws=20, warmup=5, chains=2, seed=1, progress=False, store=path
    )
    return path


def damage(path, data):
    """Change one file: flip, truncate or add bytes, or remove or empty the file."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.name != "lock")
    file = data.draw(st.sampled_from(files))
    content = file.read_bytes()
    kind = data.draw(st.sampled_from(["flip", "cut", "add", "remove", "empty", "zeros"]))
    if kind == "remove":
        file.unlink()
    elif kind == "flip" and content:
        at, bit = data.draw(st.integers(0, min(len(content), 4000) - 1)), data.draw(st.integers(0, 7))
        file.write_bytes(content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :])
    elif kind == "cut":
        file.write_bytes(content[: data.draw(st.integers(0, max(0, len(content) - 1)))])
    elif kind == "add":
        file.write_bytes(content + data.draw(st.binary(min_size=1, max_size=9)))
    else:
        file.write_bytes(b"" if kind == "empty" else bytes(len(content)))
    return f"{kind} {file.relative_to(path)}"


@MANY
@given(data=st.data())
def test_a_damaged_store_is_refused_or_the_same(store, data):
    """A damaged store is never resumed to other draws, and its rejection does not change it."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.zarr"
        shutil.copytree(store, path)
        what = damage(path, data)
        before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file() and file.name != "lock"}
        if check_answer(lambda: es.resume(path, log_likelihood, progress=False), what):
            assert contents(path) == contents(store), what
        else:
            after = {file: file.read_bytes() for file in path.rglob("*") if file.is_file() and file.name != "lock"}
            assert after == before, what


@MANY
@given(data=st.data())
def test_a_damaged_store_is_read_or_refused(store, data):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.zarr"
        shutil.copytree(store, path)
        what = damage(path, data)
        check_answer(lambda: open_tree(path).sample_stats, what)


@MANY
@given(data=st.data())
def test_metadata_that_were_edited(store, data):
    """Any value anywhere in the metadata of a store is checked."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.zarr"
        shutil.copytree(store, path)
        root = json.loads((path / "zarr.json").read_bytes())
        where = data.draw(st.sampled_from(list(places(root))))
        (path / "zarr.json").write_text(json.dumps(changed(root, where, data.draw(ANYTHING))))
        check_answer(lambda: open_tree(path), where)
        check_answer(lambda: es.resume(path, log_likelihood, progress=False), where)


@MANY
@given(data=st.data())
def test_a_setup_that_was_edited_and_sealed_again(store, data):
    """Even with correct checksums, no code is run, and foreign content is rejected."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.zarr"
        shutil.copytree(store, path)
        where = path / ".ellipslice/setup"
        entries = json.loads(where.read_bytes())["entries"]
        spot = data.draw(st.sampled_from(list(places(entries))[1:]))
        where.write_bytes(with_checksum(changed(entries, spot, data.draw(ANYTHING))))
        check_answer(lambda: es.resume(path, log_likelihood, progress=False), spot)


# --- the API ----------------------------------------------------------------------------------------------------------

JUNK = st.one_of(
    st.sampled_from(
        [
            *(-1, 0, 1.5, math.nan, math.inf, "", "ten", b"x", [], [1], {}, {"a": 1}, (), object(), print, es, 1j),
            *(np.array(3), np.zeros((2, 2)), np.array(["a"]), np.nan * np.ones(3), float, set(), range(3), True),
        ]
    ),
    st.integers(-3, 3),
    st.floats(allow_nan=True),
    st.text(max_size=4),
)
SAMPLE = (
    "move",
    "warmup",
    "chains",
    "seed",
    "initial",
    "thin",
    "keep",
    "engine",
    "precision",
    "vectorized",
    "log_concave",
)
SAMPLE += ("look_ahead", "reference", "until", "dims", "coords", "draws")


@MANY
@pytest.mark.filterwarnings("ignore")
@given(name=st.sampled_from(SAMPLE), value=JUNK)
def test_any_option_of_sample_is_taken_or_refused(name, value):
    options = {"draws": 3, "warmup": 1, "chains": 1, "seed": 1, "progress": False, name: value}
    options = {key: option for key, option in options.items() if not (key == "draws" and name == "until")}
    check_answer(lambda: es.sample(log_likelihood, es.Diagonal(np.ones(3)), **options), (name, value))


@MANY
@pytest.mark.filterwarnings("ignore")
@given(value=JUNK)
@pytest.mark.parametrize("which", ["prior", "likelihood", "Dense", "Diagonal", "LowRank", "store", "Until", "resume"])
def test_anything_for_what_is_needed(which, value):
    options = {"draws": 3, "warmup": 1, "chains": 1, "seed": 1, "progress": False}
    prior = es.Diagonal(np.ones(3))
    if which == "store" and isinstance(value, str | bytes | os.PathLike):
        return  # an ordinary name
    calls = {
        "prior": lambda: es.sample(log_likelihood, value, **options),
        "likelihood": lambda: es.sample(value, prior, **options),
        "Dense": lambda: es.Dense(value),
        "Diagonal": lambda: es.Diagonal(value),
        "LowRank": lambda: es.LowRank(value),
        "store": lambda: es.sample(log_likelihood, prior, store=value, **options) if value is not None else None,
        "Until": lambda: es.Until(effective_sample_size=value),
        "resume": lambda: es.resume("/nowhere/run.zarr" if callable(value) else value, log_likelihood),
    }
    check_answer(calls[which], (which, value))


def check_answer(call, what):
    """Call a function that may raise a clear error. Return True if it ran."""
    try:
        call()
    except (ValueError, TypeError, OSError, MemoryError) as error:
        said = error
    else:
        return True
    assert len(str(said)) > 15, (what, said)
    assert not isinstance(said, UnicodeError), what
    return False


MODELS = [
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).fit(X, Y[:-1], draws=3), "8"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).fit(X, Y - 5, draws=3), "count"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).fit(X, list("abcdefgh"), draws=3), "dtype"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).fit("X", Y, draws=3), "X"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).fit(X * np.nan, Y, draws=3), "finite"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).fit([], [], draws=3), "shape"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).fit(X, Y, draws=3, store=3), "path"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).fit(X, Y, draws=3, store=""), "path"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).fit(X, Y, store="s3://a/b"), "a local folder"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).resume("/nowhere", X, Y), "no store at"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).open("/nowhere", X, Y), "no store at"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson).open("/proc", X, Y), "/proc"),
    (lambda: LatentGP(kernels.ExpSquared, es.likelihoods.Poisson), "class ExpSquared"),
    (lambda: LatentGP(3, es.likelihoods.Poisson), "kernel"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), es.likelihoods.Poisson(Y)), "a function of y"),
    (lambda: LatentGP(kernels.ExpSquared(1.0), None), "likelihood"),
    (lambda: LatentGP({}, es.likelihoods.Poisson), "empty"),
    (lambda: LatentGP(lambda a: kernels.ExpSquared(a), es.likelihoods.Poisson, parameters={"a": 3}), "distribution"),
    (lambda: LatentGP(lambda a: kernels.ExpSquared(a), es.likelihoods.Poisson), "'a'"),
    (lambda: es.gp.CoxProcess(kernels.ExpSquared(1.0), (1, 0), 3), "window"),
    (lambda: es.gp.CoxProcess(kernels.ExpSquared(1.0), (0, 1), 0), "cells"),
    (lambda: es.gp.CoxProcess(kernels.ExpSquared(1.0), (0, 1), 3).fit([2.0]), "outside the window"),
    (lambda: es.gp.CoxProcess(kernels.ExpSquared(1.0), (0, 1), 3).resume("/nowhere", [0.5]), "no store at"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MODELS)))
def test_a_model_that_makes_no_sense(number):
    call, words = MODELS[number]
    with pytest.raises((ValueError, TypeError, OSError)) as caught:
        call()
    assert words.lower() in str(caught.value).lower()


# --- what a machine does ----------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A disk of eight megabytes, if one can be mounted."""
    import subprocess

    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_full(small_disk, tmp_path):
    """On a full disk the run fails, stored draws can be read, and after space is freed it resumes to the same store."""
    prior, options = es.Diagonal(np.ones(40)), {"warmup": 5, "chains": 2, "seed": 1, "progress": False}

    def quick(f):
        return -jnp.sum(f**2)

    path = small_disk / "run.zarr"
    with pytest.raises(OSError, match="No space left"):
        es.sample(quick, prior, draws=20_000, store=path, **options)
    assert open_tree(path).posterior.sizes["draw"] < 20_000
    assert not list(small_disk.glob("*.partial"))
    shutil.copytree(path, tmp_path / "run.zarr")
    es.resume(tmp_path / "run.zarr", quick, progress=False)
    es.sample(quick, prior, draws=20_000, store=tmp_path / "whole.zarr", **options)
    assert contents(tmp_path / "run.zarr") == contents(tmp_path / "whole.zarr")


def test_a_folder_that_cannot_be_written_to(small_disk, store):
    import subprocess

    shutil.copytree(store, small_disk / "run.zarr")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    before = contents(small_disk / "run.zarr")
    assert open_tree(small_disk / "run.zarr").posterior.sizes["draw"] == 20  # reading requires no lock
    with pytest.raises(OSError, match="Read-only"):
        es.resume(small_disk / "run.zarr", log_likelihood, draws=30, progress=False)
    with pytest.raises(OSError, match="Read-only"):
        es.sample(log_likelihood, es.Diagonal(np.ones(2)), draws=3, store=small_disk / "new.zarr", progress=False)
    table = small_disk.parent / "a.csv"
    pd.DataFrame({"t": X, "y": Y}).to_csv(table, index=False)
    assert_refused(run("fit", table, "--x", "t", "--y", "y", "--out", small_disk / "run"), "Read-only")
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert contents(small_disk / "run.zarr") == before


def test_a_clock_that_was_set_back(tmp_path, monkeypatch):
    """File times in the future and a clock that runs backwards have no effect."""
    import time

    prior, options = es.Diagonal(np.ones(3)), {"warmup": 5, "chains": 2, "seed": 1, "progress": False}
    es.sample(log_likelihood, prior, draws=40, store=tmp_path / "whole.zarr", **options)
    es.sample(log_likelihood, prior, draws=10, store=tmp_path / "run.zarr", **options)
    for file in (tmp_path / "run.zarr").rglob("*"):
        os.utime(file, (4e9, 4e9))
    clock = iter(range(2_000_000_000, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    es.resume(tmp_path / "run.zarr", log_likelihood, draws=40, progress=False)
    assert contents(tmp_path / "run.zarr") == contents(tmp_path / "whole.zarr")


def test_how_many_there_are():
    """Number of cases written by hand. Each test with `MANY` adds its examples, 25 in `make test`."""
    by_hand = len(FIT) + len(OTHERS) + len(TABLES) + 4 * len(SETTINGS) + 2 * len(FOLDERS) + len(MODELS)
    assert by_hand >= 200


def test_opening_a_folder_of_somebody_else_reads_text_and_numbers_only(place, monkeypatch):
    import pickle

    def never(*_, **__):
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, never)
    assert open_folder(place / "run").fit().tree.posterior.sizes["draw"] == 8
