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

from ellipslice.engines.base import Checkpoint, Counts
from ellipslice.moves import State
from ellipslice.store.columns import Column, Numbers
from ellipslice.store.journal import Lock, Snapshot, replace, sealed, sync_folder
from ellipslice.store.layout import checksums, grows, lay_out, resized, write_json
from ellipslice.store.read import is_inside, open_tree

if TYPE_CHECKING:
    import xarray

FORMAT = 2
"""Of what is beside the Zarr group. To be raised when it changes: stores of another one are refused."""

MIN_COMMIT_SECONDS = 1.0
"""Shortest time between two commits."""

MAX_COMMIT_FRACTION = 0.05
"""Largest fraction of the time that commits take, about."""

PRIVATE = ".ellipslice"

CHANGING = (
    *("draws", "updates", "evaluations", "proposals", "nan_evaluations", "failed_searches"),
    *("interrupted", "stopped_by", "sampling_time", "stopping_rule"),
    *("effective_sample_size", "rhat", "first_proposal_acceptance_rate", "degraded"),
)
"""Attributes that a commit may change; the others stay as they are written at the start."""


class Store:
    """A store that this process writes. It is made by `create`, or opened by `open_store` to resume a run."""

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
                self.columns[group][own] = Column(path / name, metadata)
        self.journal: dict[str, Any] = {}
        self.states = np.empty((0, 0))
        self._written = [0] * len(setup["chains"])
        self._due, self._broken = time.perf_counter() + MIN_COMMIT_SECONDS, False

    def restore(self, journal: dict[str, Any], states: np.ndarray) -> None:
        """Take over what the last commit recorded."""
        self.journal, self.states, self._written = journal, states, list(journal["complete"])

    def lock(self) -> None:
        """Keep other processes from writing, until `close`."""
        self._lock = Lock(self.path / PRIVATE / "lock")

    @property
    def complete(self) -> list[int]:
        """Number of draws of each chain that are safe."""
        return self.journal["complete"]

    @property
    def draws_safe(self) -> int:
        """Number of draws that are safe of every chain."""
        return min(self.complete)

    @property
    def how_to_resume(self) -> str:
        """A sentence that tells users how to continue the run."""
        return f"The store keeps what is there: ellipslice.resume({str(self.path)!r}, log_likelihood) goes on."

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Where each chain can begin again."""
        known = (self.journal[name] for name in ("updates", "log_likelihood", "counts"))
        return [
            Checkpoint(updates, State(f.copy(), float.fromhex(value)), Counts(*counts))
            for f, updates, value, counts in zip(self.states, *known, strict=True)
        ]

    def reserve(self, draws: int) -> None:
        """Do nothing: files grow."""

    def write(
        self, chains: slice, first: int, latents: dict[str, np.ndarray], statistics: dict[str, np.ndarray]
    ) -> None:
        """Take draws of consecutive chains. They are safe after the next commit."""
        self._whole_or_broken()
        self._broken = True
        for name, values in latents.items():
            self.columns["posterior"][name].write(chains, first, values)
        for name, column in self.columns["sample_stats"].items():  # a store keeps the statistics it was made with
            column.write(chains, first, statistics[name])
        stop = first + statistics["total_log_likelihood"].shape[1]
        self._written[chains] = [stop] * (chains.stop - chains.start)
        self._broken = False

    @property
    def commit_due(self) -> bool:
        """Whether it is time to commit."""
        return time.perf_counter() >= self._due

    def commit(self, snapshot: Snapshot) -> None:
        """Make everything that was written safe, and show it to readers."""
        self._broken = self._broken or self._written != snapshot.draws_done  # an exception came in between
        self._whole_or_broken()
        began, self._broken = time.perf_counter(), True
        for column in self.every_column:
            column.sync()
        for numbers in self.numbers:
            numbers.reach(snapshot.draws)
        states = snapshot.states
        self.journal = {
            **snapshot.entries,
            "states": {"dtype": states.dtype.newbyteorder("<").str, "shape": list(states.shape)},
            "checksums": {
                f"{group}/{column.folder.name}": column.checksums
                for group, own in self.columns.items()
                for column in own.values()
            },
        }
        self.states = states
        content = sealed(self.journal, states.astype(states.dtype.newbyteorder("<")).tobytes())
        replace(self.path / PRIVATE / "journal", content)
        self._show(snapshot.draws)
        self._broken = False
        took = time.perf_counter() - began
        self._due = time.perf_counter() + max(MIN_COMMIT_SECONDS, took / MAX_COMMIT_FRACTION)

    def close(self, *, tidy: bool = True) -> None:
        """Let other processes write; `tidy` brings the metadata of single arrays up to date as well."""
        try:
            for name, metadata in self._with_length(min(self.complete)).items() if tidy and not self._broken else ():
                write_json(self.path / name / "zarr.json", metadata)
        finally:
            self._broken = True  # what is not locked is not written to
            if self._lock is not None:
                self._lock.release()

    def tree(self, snapshot: Snapshot) -> xarray.DataTree:
        """Return the draws on disk, to be read when they are asked for."""
        return open_tree(self.path)

    def replay(self, sink: Any, step: int = 1000) -> None:
        """Write the draws that are here already to another sink, `step` at a time."""
        draws = min(self.complete)
        for chain in range(len(self.complete)):
            for a in range(0, draws, step):
                b = min(a + step, draws)
                latents, statistics = (
                    {name: column.read(chain, a, b)[None] for name, column in self.columns[group].items()}
                    for group in ("posterior", "sample_stats")
                )
                sink.write(slice(chain, chain + 1), a, latents, statistics)

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
    snapshot: Snapshot,
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
        store.commit(snapshot)
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
    moved.lock()
    moved.restore(store.journal, store.states)
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
