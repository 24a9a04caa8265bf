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

import json
import os
import shutil
import time
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.moves import State
from ellipslice.sampling.keep import Kept
from ellipslice.sampling.sinks import Checkpoint, Counts, Record
from ellipslice.store.columns import Column, Numbers
from ellipslice.store.journal import Lock, replace, sealed, sync_folder
from ellipslice.store.layout import checksums, grows, lay_out, resized, write_json
from ellipslice.store.read import RENAMED, is_inside

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
    *("sampling_time", "goals", "effective_size", "rhat", "reference_first_accepted", "degraded"),
)
"""Attributes that a commit may change; the others stay as they are written at the start."""


class Store:
    """A store that this process writes.

    Made by `create`, or by `open_store` to go on with one.
    """

    def __init__(self, path: Path, setup: dict[str, Any]):
        self.path, self.setup = path, setup
        self._lock: Lock | None = None
        self.attributes: dict[str, Any] = setup["attributes"]
        self.columns: dict[str, dict[str, Column]] = {"posterior": {}, "sample_stats": {}}
        self.numbers: list[Numbers] = []
        for name, metadata in setup["metadata"].items():
            if not is_inside(name):
                raise ValueError(f"{path} names {name!r}, which is nothing that ellipslice writes.")
            if not grows(metadata):
                continue
            group, own = name.split("/")
            if own == "draw":
                self.numbers.append(Numbers(path / name, metadata))
            else:
                renamed = group == "sample_stats" and own in RENAMED
                self.columns[group][RENAMED[own] if renamed else own] = Column(path / name, metadata)
        self.journal: dict[str, Any] = {}
        self.states = np.empty((0, 0))
        self._written = [0] * len(setup["chains"])
        self._due, self._broken = time.perf_counter() + EVERY, False

    def stands_at(self, journal: dict[str, Any], states: np.ndarray) -> None:
        """Take over what the last commit said."""
        self.journal, self.states, self._written = journal, states, list(journal["complete"])

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
        stop = first + statistics["total_log_likelihood"].shape[1]
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
        for column in self.every_column:
            column.sync()
        for numbers in self.numbers:
            numbers.reach(record.draws)
        states = np.stack([checkpoint.state.f for checkpoint in record.checkpoints])
        self.journal = {
            "complete": list(record.complete),
            "updates": [checkpoint.updates for checkpoint in record.checkpoints],
            "counts": [list(checkpoint.counts) for checkpoint in record.checkpoints],
            "log_likelihood": [float(checkpoint.state.log_likelihood).hex() for checkpoint in record.checkpoints],
            "states": {"dtype": states.dtype.newbyteorder("<").str, "shape": list(states.shape)},
            "checksums": {
                f"{group}/{column.folder.name}": column.checksums
                for group, own in self.columns.items()
                for column in own.values()
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
                write_json(self.path / name / "zarr.json", metadata)
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

    @property
    def every_column(self) -> list[Column]:
        """Of draws and of statistics."""
        return [column for own in self.columns.values() for column in own.values()]

    def _whole_or_broken(self) -> None:
        if self._broken:
            raise OSError("the store could not be written to a moment ago. What was safe before is safe.")

    def _with_length(self, draws: int) -> dict[str, Any]:
        """The metadata of all arrays when they have so many draws."""
        return {name: resized(metadata, draws) for name, metadata in self.setup["metadata"].items()}

    def _show(self, draws: int) -> None:
        together = {"kind": "inline", "must_understand": False, "metadata": self._with_length(draws)}
        write_json(
            self.path / "zarr.json",
            {
                "attributes": {**self.attributes, **self.journal["attributes"]},
                "zarr_format": 3,
                "consolidated_metadata": together,
                "node_type": "group",
            },
        )


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
        metadata = lay_out(partial, skeleton)
        saved = [_save(partial / PRIVATE / f"{i}.npy", array) for i, array in enumerate(arrays)]
        static = {name: value for name, value in skeleton.attrs.items() if name not in CHANGING}
        labels = {
            name: checksums(partial / name)
            for name, node in metadata.items()
            if node["node_type"] == "array" and not grows(node)
        }
        whole = {**setup, "format": FORMAT, "arrays": saved, "metadata": metadata, "attributes": static}
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
    moved.stands_at(store.journal, store.states)
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


def _save(path: Path, array: np.ndarray) -> int:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
    return zlib.crc32(path.read_bytes())
