"""The store of a run: a Zarr group that xarray reads, and a folder with the data that `resume` needs.

    run.zarr/zarr.json              metadata of all arrays, in one file that is replaced atomically
    run.zarr/posterior/f/c/0/12/0   a chunk of draws
    run.zarr/.ellipslice/setup      specification of the run, written once
    run.zarr/.ellipslice/*.npy      arrays of the prior and the move
    run.zarr/.ellipslice/journal    number of draws, states of the chains, checksums; replaced at every commit
    run.zarr/.ellipslice/lock       held by the process that writes

A commit writes a checkpoint in three steps: the draws, then the journal that counts them, then the metadata that
readers see. A process can be killed between any two steps: draws that the journal does not count are drawn again. A
store contains JSON and numbers only, so opening it runs no code.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.engines.base import Checkpoint, Counts, RunSpec
from ellipslice.moves import State
from ellipslice.result_parts import with_log_likelihood
from ellipslice.store.arrays import DrawCoordinate, GrowingArray
from ellipslice.store.journal import Lock, Snapshot, replace, with_checksum
from ellipslice.store.layout import PRIVATE, has_draw_axis, resized, write_json
from ellipslice.store.read import RESTORE, is_inside, open_tree
from ellipslice.store.rewrite import rewrite

if TYPE_CHECKING:
    import xarray

FORMAT = 2
"""Format version of the folder `.ellipslice`. Increase it with every change: other versions cannot be resumed."""

MIN_COMMIT_SECONDS = 1.0
"""Shortest time between two commits."""

MAX_COMMIT_FRACTION = 0.05
"""Largest fraction of the running time that commits take, approximately."""

CHANGING = (
    *("draws", "updates", "evaluations", "proposals", "nan_evaluations", "failed_searches"),
    *("interrupted", "stopped_by", "sampling_time", "stopping_rule"),
    *("effective_sample_size", "rhat", "first_proposal_acceptance_rate", "degraded"),
)
"""Attributes that a commit may change. The others are written once, when the store is created."""


class Store:
    """A store that this process writes: created by `create`, or opened by `open_store` to resume a run."""

    def __init__(self, path: Path, setup: dict[str, Any]):
        self.path, self.setup = path, setup
        self._lock: Lock | None = None
        self.attributes: dict[str, Any] = setup["attributes"]
        self.arrays: dict[str, dict[str, GrowingArray]] = {"posterior": {}, "sample_stats": {}}
        self.draw_coordinates: list[DrawCoordinate] = []
        for name, metadata in setup["metadata"].items():
            if not is_inside(name):
                raise ValueError(f"{path} names {name!r}, which ellipslice does not write. {RESTORE}")
            if not has_draw_axis(metadata):
                continue
            group, own = name.split("/")
            if own == "draw":
                self.draw_coordinates.append(DrawCoordinate(path / name, metadata))
            else:
                self.arrays[group][own] = GrowingArray(path / name, metadata)
        self.journal: dict[str, Any] = {}
        self.states = np.empty((0, 0))
        self._written = [0] * len(setup["chains"])
        self._due, self._broken = time.perf_counter() + MIN_COMMIT_SECONDS, False

    def restore(self, journal: dict[str, Any], states: np.ndarray) -> None:
        """Restore the state that the last commit recorded."""
        self.journal, self.states, self._written = journal, states, list(journal["complete"])

    def lock(self) -> None:
        """Prevent other processes from writing, until `close`."""
        self._lock = Lock(self.path / PRIVATE / "lock")

    @property
    def written(self) -> list[int]:
        """Number of draws of each chain that were written, with those that no commit counts yet."""
        return self._written

    @property
    def complete(self) -> list[int]:
        """Number of draws of each chain in the last checkpoint."""
        return self.journal["complete"]

    @property
    def draws_committed(self) -> int:
        """Number of draws that every chain has in the last checkpoint."""
        return min(self.complete)

    @property
    def how_to_resume(self) -> str:
        """Sentence for messages: how to resume the run."""
        return f"To continue the run, call ellipslice.resume({str(self.path)!r}, log_likelihood)."

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Last checkpoint of each chain. A resumed run continues from it."""
        known = (self.journal[name] for name in ("updates", "log_likelihood", "counts"))
        return [
            Checkpoint(updates, State(f.copy(), float.fromhex(value)), Counts(*counts))
            for f, updates, value, counts in zip(self.states, *known, strict=True)
        ]

    def reserve(self, draws: int) -> None:
        """Do nothing: files grow with the draws."""

    def write(
        self, chains: slice, first: int, latents: dict[str, np.ndarray], statistics: dict[str, np.ndarray]
    ) -> None:
        """Write draws of consecutive chains, from number `first` on. The next commit makes them durable."""
        self._raise_if_broken()
        self._broken = True
        for name, values in latents.items():
            self.arrays["posterior"][name].write(chains, first, values)
        for name, array in self.arrays["sample_stats"].items():  # a store of an older version may have fewer statistics
            array.write(chains, first, statistics[name])
        stop = first + statistics["total_log_likelihood"].shape[1]
        self._written[chains] = [stop] * (chains.stop - chains.start)
        self._broken = False

    @property
    def commit_due(self) -> bool:
        """True if it is time to commit."""
        return time.perf_counter() >= self._due

    def commit(self, snapshot: Snapshot) -> None:
        """Write a checkpoint of everything that was written, and publish it to readers."""
        # The numbers differ if an exception interrupted a write: the store is then not consistent.
        self._broken = self._broken or self._written != snapshot.draws_done
        self._raise_if_broken()
        began, self._broken = time.perf_counter(), True
        for array in self.growing_arrays:
            array.sync()
        for coordinate in self.draw_coordinates:
            coordinate.reach(snapshot.draws)
        states = snapshot.states
        self.journal = {
            **snapshot.entries,
            "states": {"dtype": states.dtype.newbyteorder("<").str, "shape": list(states.shape)},
            "checksums": {
                f"{group}/{array.folder.name}": array.checksums
                for group, own in self.arrays.items()
                for array in own.values()
            },
        }
        self.states = states
        content = with_checksum(self.journal, states.astype(states.dtype.newbyteorder("<")).tobytes())
        replace(self.path / PRIVATE / "journal", content)
        self._publish(snapshot.draws)
        self._broken = False
        took = time.perf_counter() - began
        self._due = time.perf_counter() + max(MIN_COMMIT_SECONDS, took / MAX_COMMIT_FRACTION)

    def close(self, *, tidy: bool = True) -> None:
        """Release the lock. If `tidy`, first update the metadata file of every array."""
        try:
            for name, metadata in self._with_length(min(self.complete)).items() if tidy and not self._broken else ():
                write_json(self.path / name / "zarr.json", metadata)
        finally:
            self._broken = True  # without the lock nothing may be written
            if self._lock is not None:
                self._lock.release()

    def tree(self, snapshot: Snapshot) -> xarray.DataTree:
        """Return the draws on disk as a DataTree. Values are read when they are used."""
        return open_tree(self.path)

    def values(self, draws: int, step: int = 1) -> dict[str, np.ndarray]:
        """Return every `step`-th of the first `draws` draws of all variables, and the total log-likelihood."""

        def read(array: GrowingArray) -> np.ndarray:
            return np.stack([array.read(chain, 0, draws)[::step] for chain in range(len(self._written))])

        kept = {name: read(array) for name, array in self.arrays["posterior"].items()}
        return with_log_likelihood(kept, read(self.arrays["sample_stats"]["total_log_likelihood"]))

    def select(self, rows: slice, spec: RunSpec, snapshot: Snapshot) -> None:
        """Keep only these draws of each chain, numbered anew. It is a commit."""
        self._raise_if_broken()
        rewrite(self, rows, {"warmup": spec.warmup, "thin": spec.thin}, snapshot)

    def replace_by(self, setup: dict[str, Any], new: Store) -> None:
        """Become the store that was written in another folder and is now in the place of this one."""
        if self._lock is not None:
            self._lock.release()
        self.__init__(self.path, setup)
        self.restore(new.journal, new.states)
        for own, other in zip(self.growing_arrays, new.growing_arrays, strict=True):
            own.checksums = other.checksums
        for own, other in zip(self.draw_coordinates, new.draw_coordinates, strict=True):
            own.chunks_written = other.chunks_written
        self.lock()

    def replay(self, sink: Any, step: int = 1000) -> None:
        """Write the draws of this store to another sink, `step` draws at a time."""
        draws = min(self.complete)
        for chain in range(len(self.complete)):
            for a in range(0, draws, step):
                b = min(a + step, draws)
                latents, statistics = (
                    {name: array.read(chain, a, b)[None] for name, array in self.arrays[group].items()}
                    for group in ("posterior", "sample_stats")
                )
                sink.write(slice(chain, chain + 1), a, latents, statistics)

    @property
    def growing_arrays(self) -> list[GrowingArray]:
        """All arrays of draws and statistics."""
        return [array for own in self.arrays.values() for array in own.values()]

    def _raise_if_broken(self) -> None:
        if self._broken:
            raise OSError(
                f"an earlier write to {self.path} failed. The last checkpoint is not affected: resume from it."
            )

    def _with_length(self, draws: int) -> dict[str, Any]:
        """Return the metadata of all nodes for a given number of draws."""
        return {name: resized(metadata, draws) for name, metadata in self.setup["metadata"].items()}

    def _publish(self, draws: int) -> None:
        """Replace the metadata that readers see, so that arrays have `draws` draws."""
        consolidated = {"kind": "inline", "must_understand": False, "metadata": self._with_length(draws)}
        write_json(
            self.path / "zarr.json",
            {
                "attributes": {**self.attributes, **self.journal["attributes"]},
                "zarr_format": 3,
                "consolidated_metadata": consolidated,
                "node_type": "group",
            },
        )
