"""A run on disk: a Zarr group that xarray reads, and beside it what is needed to go on with it.

    run.zarr/zarr.json              the metadata of all arrays, in one file that is replaced at once
    run.zarr/posterior/f/c/0/12/0   a chunk of draws
    run.zarr/.ellipslice/setup      what was asked for: written once
    run.zarr/.ellipslice/*.npy      the numbers of prior and move
    run.zarr/.ellipslice/journal    how far it is, the states of the chains, checksums: replaced at every commit
    run.zarr/.ellipslice/lock

A commit makes the draws safe first, then the journal that counts them, then the metadata that shows them to readers. A
process can be killed between any two of these: what the journal does not count is made again. There is nothing in a
store that is run when it is opened, only JSON and numbers.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import uuid
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.moves import State
from ellipslice.sampling.columns import LONGEST, Column, Numbers, chunk_shape
from ellipslice.sampling.journal import Lock, replace, sealed, sync_folder, unseal
from ellipslice.sampling.keep import Kept
from ellipslice.sampling.reading import is_inside, read_json
from ellipslice.sampling.record import Checkpoint, Counts, Record

if TYPE_CHECKING:
    import xarray

FORMAT = 1
"""Of what is beside the Zarr group. To be raised when it changes: stores of another one are refused."""

EVERY = 1.0
"""Seconds between two commits, at least."""

SHARE = 0.05
"""Of the time that commits may take, about."""

PRIVATE = ".ellipslice"

CHANGING = (
    *("draws", "updates", "evaluations", "proposals", "nan_evaluations", "stuck_updates", "interrupted", "stopped_by"),
    *("sampling_time", "goals", "effective_size", "rhat", "reference_first_accepted"),
)
"""Attributes that a commit may change; the others stay as they are written at the start."""


class Store:
    """A store that this process writes.

    Made by `create`, or by `open_store` to go on with one.
    """

    def __init__(self, path: Path, setup: dict[str, Any]):
        self.path, self.setup = path, setup
        self._lock: Lock | None = None
        self._attributes: dict[str, Any] = setup["attributes"]
        self.columns: dict[str, dict[str, Column]] = {"posterior": {}, "sample_stats": {}}
        self._numbers: list[Numbers] = []
        for name, metadata in setup["metadata"].items():
            if not is_inside(name):
                raise ValueError(f"{path} names {name!r}, which is nothing that ellipslice writes.")
            if not _grows(metadata):
                continue
            group, own = name.split("/")
            if own == "draw":
                self._numbers.append(Numbers(path / name, metadata))
            else:
                self.columns[group][own] = Column(path / name, metadata)
        self.journal: dict[str, Any] = {}
        self.states = np.empty((0, 0))
        self._written = [0] * len(setup["chains"])
        self._due, self._broken = time.perf_counter() + EVERY, False

    def hold(self) -> None:
        """Keep other processes from writing, until `close`."""
        self._lock = Lock(self.path / PRIVATE / "lock")

    @property
    def complete(self) -> list[int]:
        """Draws of each chain that are safe."""
        return self.journal["complete"]

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Where each chain can begin again."""
        known = (self.journal[name] for name in ("updates", "log_likelihood", "counts"))
        return [
            Checkpoint(updates, State(f.copy(), float.fromhex(value)), Counts(*counts))
            for f, updates, value, counts in zip(self.states, *known, strict=True)
        ]

    def write(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        """Take draws of consecutive chains. They are safe after the next commit."""
        self._whole_or_broken()
        self._broken = True
        for group, new in (("posterior", latents), ("sample_stats", statistics)):
            for name, values in new.items():
                self.columns[group][name].write(chains, first, values)
        stop = first + statistics["log_likelihood"].shape[1]
        self._written[chains] = [stop] * (chains.stop - chains.start)
        self._broken = False

    @property
    def due(self) -> bool:
        """Whether it is time to commit."""
        return time.perf_counter() >= self._due

    def commit(self, record: Record, attributes: dict[str, Any], plans: dict[str, Any]) -> None:
        """Make everything that was written safe, and show it to readers.

        `plans` are what `resume` must know besides: how many draws are wanted, goals.
        """
        self._broken = self._broken or self._written != list(record.complete)  # an exception came in between
        self._whole_or_broken()
        began, self._broken = time.perf_counter(), True
        for column in self._every_column():
            column.sync()
        for numbers in self._numbers:
            numbers.reach(record.draws)
        states = np.stack([checkpoint.state.f for checkpoint in record.checkpoints])
        self.journal = {
            "complete": list(record.complete),
            "updates": [checkpoint.updates for checkpoint in record.checkpoints],
            "counts": [list(checkpoint.counts) for checkpoint in record.checkpoints],
            "log_likelihood": [float(checkpoint.state.log_likelihood).hex() for checkpoint in record.checkpoints],
            "states": {"dtype": states.dtype.newbyteorder("<").str, "shape": list(states.shape)},
            "checksums": {
                f"{group}/{name}": c.checksums for group, own in self.columns.items() for name, c in own.items()
            },
            "attributes": attributes,
            "plans": plans,
        }
        self.states = states
        content = sealed(self.journal, states.astype(states.dtype.newbyteorder("<")).tobytes())
        replace(self.path / PRIVATE / "journal", content)
        self._show(record.draws)
        self._broken = False
        took = time.perf_counter() - began
        self._due = time.perf_counter() + max(EVERY, took / SHARE)

    def close(self, *, tidy: bool = True) -> None:
        """Let other processes write; `tidy` brings the metadata of single arrays up to date as well."""
        try:
            for name, metadata in self._with_length(min(self.complete)).items() if tidy and not self._broken else ():
                _write_json(self.path / name / "zarr.json", metadata)
        finally:
            self._broken = True  # what is not locked is not written to
            if self._lock is not None:
                self._lock.release()

    def replay(self, taker: Any, step: int = 1000) -> None:
        """Hand over the draws that are here already, in pieces."""
        draws = min(self.complete)
        for chain in range(len(self.complete)):
            for a in range(0, draws, step):
                b = min(a + step, draws)
                latents, statistics = (
                    {name: column.read(chain, a, b)[None] for name, column in self.columns[group].items()}
                    for group in ("posterior", "sample_stats")
                )
                taker.write(slice(chain, chain + 1), a, latents, statistics)

    def _every_column(self) -> list[Column]:
        return [column for own in self.columns.values() for column in own.values()]

    def _whole_or_broken(self) -> None:
        if self._broken:
            raise OSError("the store could not be written to a moment ago. What was safe before is safe.")

    def _with_length(self, draws: int) -> dict[str, Any]:
        """The metadata of all arrays when they have so many draws."""
        return {name: _resized(metadata, draws) for name, metadata in self.setup["metadata"].items()}

    def _show(self, draws: int) -> None:
        together = {"kind": "inline", "must_understand": False, "metadata": self._with_length(draws)}
        _write_json(
            self.path / "zarr.json",
            {
                "attributes": {**self._attributes, **self.journal["attributes"]},
                "zarr_format": 3,
                "consolidated_metadata": together,
                "node_type": "group",
            },
        )

    # --- opening ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse a store that is not whole; take away what was written after its last commit."""
        self._read_journal()
        self._check_metadata()
        self._check_draws()
        self._check_labels()
        for numbers_of in self._numbers:
            numbers_of.check(min(self.complete))
        for column in self._every_column():
            column.trim(self.complete)
        for left_over in self.path.rglob("*.new"):
            left_over.unlink()

    def look(self) -> None:
        """Refuse a store whose draws are damaged; change nothing, for another process may be writing to it."""
        self._read_journal()
        self._check_draws()
        self._check_labels()

    def _read_journal(self) -> None:
        path = self.path / PRIVATE / "journal"
        entries, numbers = unseal(path)
        form = entries["states"]
        try:
            states = np.frombuffer(numbers, np.dtype(form["dtype"])).reshape(form["shape"])
        except (ValueError, TypeError):
            raise ValueError(f"{path} is damaged: the states of the chains are not whole.") from None
        self.journal, self.states = entries, states.astype(states.dtype.newbyteorder("="))
        self._written = list(self.complete)

    def _check_draws(self) -> None:
        for group, own in self.columns.items():
            for name, column in own.items():
                column.check(self.complete, self.journal["checksums"][f"{group}/{name}"])

    def _check_labels(self) -> None:
        for name, expected in self.setup.get("labels", {}).items():
            if is_inside(name) and _checksums(self.path / name) != expected:
                raise ValueError(f"{self.path / name} is damaged: the labels there are not those that were written.")

    def _check_metadata(self) -> None:
        root = read_json(self.path / "zarr.json")
        attributes = _mapping(root, "attributes")
        for name, value in self._attributes.items():
            if attributes.get(name) != value:
                raise ValueError(
                    f"{self.path / 'zarr.json'} was edited: the attribute {name} is {attributes.get(name)!r}, and was "
                    f"{value!r} when the store was made."
                )
        shown = _mapping(_mapping(root, "consolidated_metadata"), "metadata")
        for name, metadata in self.setup["metadata"].items():
            path = self.path / name / "zarr.json"
            for where, found in ((path, read_json(path)), (self.path / "zarr.json", shown.get(name))):
                if not isinstance(found, dict) or not _same_but_for_length(found, metadata):
                    raise ValueError(f"{where} is damaged, or was edited: {name} is not what the store was made with.")


def _mapping(found: dict[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _checksums(folder: Path) -> dict[str, int]:
    """Of the chunks of an array, by their names."""
    chunks = sorted(path for path in folder.glob("c/**/*") if path.is_file())
    return {str(path.relative_to(folder).as_posix()): zlib.crc32(path.read_bytes()) for path in chunks}


def create(
    path: Path,
    setup: dict[str, Any],
    arrays: Sequence[np.ndarray],
    skeleton: xarray.DataTree,
    record: Record,
    attributes: dict[str, Any],
    plans: dict[str, Any],
) -> Store:
    """Make a store: whole, with all that is needed to go on with it, or not at all.

    `skeleton` is the result with one draw, of which the groups, names and types are used.
    """
    check_free(path)
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.partial")
    (partial / PRIVATE).mkdir(parents=True)
    try:
        metadata = _lay_out(partial, skeleton)
        checksums = [_save(partial / PRIVATE / f"{i}.npy", array) for i, array in enumerate(arrays)]
        static = {name: value for name, value in skeleton.attrs.items() if name not in CHANGING}
        labels = {
            name: _checksums(partial / name)
            for name, node in metadata.items()
            if node["node_type"] == "array" and not _grows(node)
        }
        whole = {**setup, "format": FORMAT, "arrays": checksums, "metadata": metadata, "attributes": static}
        whole["labels"] = labels
        replace(partial / PRIVATE / "setup", sealed(whole))
        store = Store(partial, json.loads(json.dumps(whole)))
        store.commit(record, attributes, plans)
        for file in partial.rglob("*"):
            if file.is_file():
                with file.open("r+b") as opened:
                    os.fsync(opened.fileno())
            else:
                sync_folder(file)
        try:
            partial.rename(path)
        except OSError:
            check_free(path)
            raise
        sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    moved = Store(path, store.setup)
    moved.hold()
    moved.journal, moved.states = store.journal, store.states
    return moved


def check_free(path: Path) -> None:
    """Refuse a path where there is something already, and a machine without Zarr."""
    try:
        import zarr  # noqa: F401
    except ImportError:
        raise ImportError("store= needs the package zarr. Install it with: pip install 'ellipslice[store]'") from None
    if not path.exists():
        return
    if (path / PRIVATE / "setup").exists():
        raise FileExistsError(
            f"{path} holds a run already. Go on with it, ellipslice.resume({str(path)!r}, log_likelihood); or delete "
            "it, or choose another path."
        )
    raise FileExistsError(f"{path} exists already, and is not a store of ellipslice. Choose another path.")


def open_store(path: Path) -> Store:
    """Open a store to go on with it: held by this process alone, and whole."""
    store = as_made(path)
    store.hold()
    try:
        with refused_if_edited(path):
            store.check()
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
        store.look()


def read_entries(path: Path) -> dict[str, Any]:
    """What a store says was asked for; refused if it is no store of ours, or of another format."""
    if not path.exists():
        raise FileNotFoundError(f"there is no store at {path}. Make one with sample(..., store={str(path)!r}).")
    where = path / PRIVATE / "setup"
    if not where.is_file():
        what = "a Zarr group of something else" if (path / "zarr.json").exists() else "not a store"
        raise ValueError(f"{path} is not a store that ellipslice wrote, but {what}: it has no {PRIVATE}/setup.")
    check_format(where)
    return unseal(where)[0]


def check_format(where: Path) -> None:
    """Refuse a store of another format, before it is called damaged."""
    try:
        found = json.loads(where.read_bytes().partition(b"\n")[0])["entries"]["format"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return  # `unseal` says so
    if found != FORMAT:
        raise ValueError(
            f"{where.parent.parent} has format version {found!r}, and this ellipslice reads {FORMAT}. Go on with it by "
            "the version that made it, which its attribute ellipslice_version names; or read the draws with xarray."
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


def _save(path: Path, array: np.ndarray) -> int:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
    return zlib.crc32(path.read_bytes())


def _lay_out(path: Path, skeleton: xarray.DataTree) -> dict[str, Any]:
    """Let xarray and zarr write groups, coordinates and metadata; what they say of every node, by its name."""
    import zarr

    encoding: dict[str, dict[str, Any]] = {}
    for group, node in skeleton.children.items():
        own = encoding[f"/{group}"] = {}
        for name, variable in node.variables.items():
            if "draw" not in variable.dims:
                continue
            chains = variable.sizes.get("chain", 1)
            chunks = (LONGEST,) if name == "draw" else chunk_shape(chains, variable.values[0, 0])
            own[str(name)] = {"chunks": chunks, "compressors": None, "filters": None}
    with warnings.catch_warnings():
        # Consolidated metadata and strings are not in Zarr's specification yet; zarr writes and reads them.
        warnings.simplefilter("ignore")
        skeleton.to_zarr(path, zarr_format=3, consolidated=False, mode="a", encoding=encoding)
        zarr.consolidate_metadata(str(path))
    metadata = read_json(path / "zarr.json")["consolidated_metadata"]["metadata"]
    for name, entry in metadata.items():
        if _grows(entry):
            shutil.rmtree(path / name / "c", ignore_errors=True)
        (path / name / "zarr.json").write_bytes(_as_json(_resized(entry, 0)))
    return metadata


def _grows(metadata: dict[str, Any]) -> bool:
    return metadata["node_type"] == "array" and "draw" in (metadata.get("dimension_names") or ())


def _resized(metadata: dict[str, Any], draws: int) -> dict[str, Any]:
    if not _grows(metadata):
        return metadata
    named = zip(metadata["dimension_names"], metadata["shape"], strict=True)
    return {**metadata, "shape": [draws if name == "draw" else length for name, length in named]}


def _same_but_for_length(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    try:
        return _resized(found, 0) == _resized(expected, 0)
    except (KeyError, TypeError, ValueError):
        return False


def _write_json(path: Path, content: dict[str, Any]) -> None:
    replace(path, _as_json(content))


def _as_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True).encode()
