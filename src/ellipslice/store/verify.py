"""Opening a store: to go on with it, or to look at it. Checked first, and refused if it is not what was written."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ellipslice.store.journal import unseal
from ellipslice.store.layout import checksums, same_but_for_length
from ellipslice.store.read import is_inside, read_json
from ellipslice.store.store import FORMAT, PRIVATE, Store


def open_store(path: Path) -> Store:
    """Open a store to go on with it: held by this process alone, and whole."""
    store = as_made(path)
    store.lock()
    try:
        with refused_if_edited(path):
            _check(store)
    except BaseException:
        store.close(tidy=False)
        raise
    return store


def as_made(path: Path) -> Store:
    """A store as it was made, neither held nor checked."""
    entries = read_entries(path)
    with refused_if_edited(path):
        return Store(path, entries)


@contextlib.contextmanager
def refused_if_edited(path: Path) -> Iterator[None]:
    """Whatever goes wrong with entries that have their checksum, and are not what this library writes."""
    try:
        yield
    except (LookupError, AttributeError, ArithmeticError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged, or was edited: it is not what ellipslice writes ({error!r}).") from None


def check_draws(path: Path) -> None:
    """Refuse a store whose draws are not those that were written; also while it is being written."""
    store = as_made(path)
    with refused_if_edited(path):
        _look(store)


def read_entries(path: Path) -> dict[str, Any]:
    """What a store says was asked for; refused if it is no store of ours, or of another format."""
    if not path.exists():
        raise FileNotFoundError(f"there is no store at {path}. Make one with sample(..., store={str(path)!r}).")
    where = path / PRIVATE / "setup"
    if not where.is_file():
        what = "a Zarr group of something else" if (path / "zarr.json").exists() else "not a store"
        raise ValueError(f"{path} is not a store that ellipslice wrote, but {what}: it has no {PRIVATE}/setup.")
    _check_format(where)
    return unseal(where)[0]


def _check_format(where: Path) -> None:
    """Refuse a store of another format, before it is called damaged."""
    try:
        found = json.loads(where.read_bytes().partition(b"\n")[0])["entries"]["format"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return  # `unseal` says so
    if found != FORMAT:
        raise ValueError(
            f"{where.parent.parent} has format version {found!r}, but this version of ellipslice resumes format "
            f"version {FORMAT}. Resume it with the version that made it (attribute ellipslice_version), read its draws "
            "with xarray.open_datatree, or start a new run."
        )


def load_arrays(store: Store) -> list[np.ndarray]:
    """The numbers of prior and move."""
    arrays = []
    for number, checksum in enumerate(store.setup["arrays"]):
        path = store.path / PRIVATE / f"{number}.npy"
        if not path.is_file() or zlib.crc32(path.read_bytes()) != checksum:
            raise ValueError(f"{path} is missing or damaged: a number of the prior or the move would be another.")
        arrays.append(np.load(path, allow_pickle=False))
    return arrays


# --- what is checked --------------------------------------------------------------------------------------------------


def _check(store: Store) -> None:
    """Refuse a store that is not whole; take away what was written after its last commit."""
    _read_journal(store)
    _check_metadata(store)
    _check_draws(store)
    _check_labels(store)
    for numbers_of in store.numbers:
        numbers_of.check(min(store.complete))
    for column in store.every_column:
        column.trim(store.complete)
    for left_over in store.path.rglob("*.new"):
        left_over.unlink()


def _look(store: Store) -> None:
    """Refuse a store whose draws are damaged; change nothing, for another process may be writing to it."""
    _read_journal(store)
    _check_draws(store)
    _check_labels(store)


def _read_journal(store: Store) -> None:
    path = store.path / PRIVATE / "journal"
    entries, numbers = unseal(path)
    form = entries["states"]
    try:
        states = np.frombuffer(numbers, np.dtype(form["dtype"])).reshape(form["shape"])
    except (ValueError, TypeError):
        raise ValueError(f"{path} is damaged: the states of the chains are not whole.") from None
    store.restore(entries, states.astype(states.dtype.newbyteorder("=")))


def _check_draws(store: Store) -> None:
    for group, own in store.columns.items():
        for column in own.values():
            column.check(store.complete, store.journal["checksums"][f"{group}/{column.folder.name}"])


def _check_labels(store: Store) -> None:
    for name, expected in store.setup.get("labels", {}).items():
        if is_inside(name) and checksums(store.path / name) != expected:
            raise ValueError(f"{store.path / name} is damaged: the labels there are not those that were written.")


def _check_metadata(store: Store) -> None:
    root = read_json(store.path / "zarr.json")
    attributes = _mapping(root, "attributes")
    for name, value in store.attributes.items():
        if attributes.get(name) != value:
            raise ValueError(
                f"{store.path / 'zarr.json'} was edited: the attribute {name} is {attributes.get(name)!r}, and was "
                f"{value!r} when the store was made."
            )
    shown = _mapping(_mapping(root, "consolidated_metadata"), "metadata")
    for name, metadata in store.setup["metadata"].items():
        path = store.path / name / "zarr.json"
        for where, found in ((path, read_json(path)), (store.path / "zarr.json", shown.get(name))):
            if not isinstance(found, dict) or not same_but_for_length(found, metadata):
                raise ValueError(f"{where} is damaged, or was edited: {name} is not what the store was made with.")


def _mapping(found: dict[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}
