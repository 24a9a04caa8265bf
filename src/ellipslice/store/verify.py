"""Open a store after checks: raise if its content is not what was written."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ellipslice.store.journal import read_checked
from ellipslice.store.layout import PRIVATE, checksums, equal_except_length
from ellipslice.store.read import RESTORE, is_inside, read_json
from ellipslice.store.rewrite import finish_rewrite
from ellipslice.store.store import FORMAT, Store


def open_store(path: Path) -> Store:
    """Lock and check a store to resume it. Remove what was written after its last commit."""
    if not path.exists():
        finish_rewrite(path)
    store = open_unchecked(path)
    store.lock()
    try:
        finish_rewrite(path)
        with raise_if_edited(path):
            _check(store)
    except BaseException:
        store.close(tidy=False)
        raise
    return store


def open_unchecked(path: Path) -> Store:
    """Return a store without locking it and without checking its draws."""
    entries = read_entries(path)
    with raise_if_edited(path):
        return Store(path, entries)


@contextlib.contextmanager
def raise_if_edited(path: Path) -> Iterator[None]:
    """Turn errors from entries that ellipslice did not write, although their checksum is right, into a ValueError."""
    try:
        yield
    except (LookupError, AttributeError, ArithmeticError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged, or was edited: its content is not what ellipslice writes ({error!r}). {RESTORE}"
        ) from None


def check_draws(path: Path) -> None:
    """Raise if the draws of a store are not those that were written. Another process may be writing to it."""
    store = open_unchecked(path)
    with raise_if_edited(path):
        _check_read_only(store)


def read_entries(path: Path) -> dict[str, Any]:
    """Return the specification in a store. Raise if ellipslice did not write it, or in another format."""
    if not path.exists():
        raise FileNotFoundError(f"there is no store at {path}. Create one with sample(..., store={str(path)!r}).")
    where = path / PRIVATE / "setup"
    if not where.is_file():
        kind = "It is another Zarr group" if (path / "zarr.json").exists() else "It is not a Zarr group"
        raise ValueError(
            f"{path} is not a store that ellipslice wrote: it has no {PRIVATE}/setup. {kind}. Check the path."
        )
    _check_format(where)
    return read_checked(where)[0]


def _check_format(where: Path) -> None:
    """Raise if a store has another format version, before its checksum is called wrong."""
    try:
        found = json.loads(where.read_bytes().partition(b"\n")[0])["entries"]["format"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return  # `read_checked` raises with a better message
    if found != FORMAT:
        raise ValueError(
            f"{where.parent.parent} has format version {found!r}, but this version of ellipslice resumes format "
            f"version {FORMAT}. Resume it with the version that made it (attribute ellipslice_version), read its draws "
            "with xarray.open_datatree, or start a new run."
        )


def load_arrays(store: Store) -> list[np.ndarray]:
    """Return the arrays of prior and move. Raise if a file is missing or damaged."""
    arrays = []
    for number, checksum in enumerate(store.setup["arrays"]):
        path = store.path / PRIVATE / f"{number}.npy"
        if not path.is_file() or zlib.crc32(path.read_bytes()) != checksum:
            raise ValueError(f"{path} is missing or damaged: it holds numbers of the prior or the move. {RESTORE}")
        arrays.append(np.load(path, allow_pickle=False))
    return arrays


# --- checks ----------------------------------------------------------------------------------------------------------


def _check(store: Store) -> None:
    """Raise if a store is not complete. Remove what was written after its last commit."""
    _read_journal(store)
    _check_metadata(store)
    _check_draws(store)
    _check_labels(store)
    for coordinate in store.draw_coordinates:
        coordinate.check(min(store.complete))
    for array in store.growing_arrays:
        array.truncate(store.complete)
    for left_over in store.path.rglob("*.new"):
        left_over.unlink()


def _check_read_only(store: Store) -> None:
    """Raise if draws are damaged. Change nothing, because another process may be writing to the store."""
    _read_journal(store)
    _check_draws(store)
    _check_labels(store)


def _read_journal(store: Store) -> None:
    """Restore the state of the last commit. Raise if the journal is damaged."""
    path = store.path / PRIVATE / "journal"
    entries, numbers = read_checked(path)
    form = entries["states"]
    try:
        states = np.frombuffer(numbers, np.dtype(form["dtype"])).reshape(form["shape"])
    except (ValueError, TypeError):
        raise ValueError(f"{path} is damaged: the states of the chains are incomplete. {RESTORE}") from None
    store.restore(entries, states.astype(states.dtype.newbyteorder("=")))


def _check_draws(store: Store) -> None:
    """Raise if draws or statistics do not match their checksums."""
    for group, own in store.arrays.items():
        for array in own.values():
            array.check(store.complete, store.journal["checksums"][f"{group}/{array.folder.name}"])


def _check_labels(store: Store) -> None:
    """Raise if labels of chains and dimensions do not match their checksums."""
    for name, expected in store.setup.get("labels", {}).items():
        if is_inside(name) and checksums(store.path / name) != expected:
            raise ValueError(f"{store.path / name} is damaged: its labels are not those that were written. {RESTORE}")


def _check_metadata(store: Store) -> None:
    """Raise if attributes or metadata differ from those of the new store."""
    root = read_json(store.path / "zarr.json")
    attributes = _mapping(root, "attributes")
    for name, value in store.attributes.items():
        if attributes.get(name) != value:
            raise ValueError(
                f"{store.path / 'zarr.json'} was edited: the attribute {name} is {attributes.get(name)!r}, but was "
                f"{value!r} when the store was created. {RESTORE}"
            )
    published = _mapping(_mapping(root, "consolidated_metadata"), "metadata")
    for name, metadata in store.setup["metadata"].items():
        path = store.path / name / "zarr.json"
        for where, found in ((path, read_json(path)), (store.path / "zarr.json", published.get(name))):
            if not isinstance(found, dict) or not equal_except_length(found, metadata):
                raise ValueError(
                    f"{where} is damaged, or was edited: the metadata of {name} are not the original ones. {RESTORE}"
                )


def _mapping(found: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an entry that should be a dict; an empty one if it is not."""
    value = found.get(name)
    return value if isinstance(value, dict) else {}
