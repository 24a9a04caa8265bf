"""Collect the rows of a run and hand the draws to sinks; the sink that keeps draws in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from ellipslice.engines.base import Checkpoint, Counts, RunSpec
from ellipslice.engines.rows import Rows
from ellipslice.result_parts import with_log_likelihood
from ellipslice.sampling.keep import Kept, StateSelector
from ellipslice.sampling.result import build_tree
from ellipslice.store.journal import Snapshot
from ellipslice.undocumented.memory import lazy_empty

if TYPE_CHECKING:
    import xarray


class DrawSink(Protocol):
    """Receiver of draws: memory, a store, or traces of a few elements."""

    def write(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        """Write draws of consecutive chains, from number `first` on: arrays of shape (chains, draws, ...)."""
        ...


class RunSink(DrawSink, Protocol):
    """Sink that keeps the draws of a run and returns the result: `MemorySink` or `Store`."""

    @property
    def how_to_resume(self) -> str:
        """Sentence for messages: how to resume the run; empty if that is impossible."""
        ...

    @property
    def draws_committed(self) -> int:
        """Number of draws of each chain that are on disk."""
        ...

    @property
    def commit_due(self) -> bool:
        """True if it is time to commit."""
        ...

    def reserve(self, draws: int) -> None:
        """Reserve memory for `draws` draws of each chain. Raise MemoryError if there is not enough."""
        ...

    def commit(self, snapshot: Snapshot) -> None:
        """Write a checkpoint of everything that was written."""
        ...

    def close(self, *, tidy: bool = True) -> None:
        """Release locks and files. `tidy` is False after an error."""
        ...

    def values(self, draws: int, step: int = 1) -> Kept:
        """Return every `step`-th of the first `draws` draws of all variables, and the total log-likelihood."""
        ...

    def select(self, rows: slice, spec: RunSpec, snapshot: Snapshot) -> None:
        """Keep only these draws of each chain, numbered anew. `spec` and `snapshot` describe the run with them."""
        ...

    def tree(self, snapshot: Snapshot) -> xarray.DataTree:
        """Return the result of the run."""
        ...


class Collector:
    """Receiver of the rows of a run: it hands their draws to the sinks, and records the states of the chains.

    Parameters
    ----------
    keep : StateSelector
    starts : sequence of Checkpoint
        State from which each chain begins.
    draws_done : sequence of int
        Number of draws of each chain that the sinks have already. A resumed chain may begin earlier and make some of
        these draws again; they are dropped.

    Attributes
    ----------
    sinks : sequence of DrawSink
    resume_points : sequence of Checkpoint
        State from which each chain can continue. States on a device are copied to the host when they are used.
    """

    def __init__(self, keep: StateSelector, starts: Sequence[Checkpoint], draws_done: Sequence[int]):
        self.keep = keep
        self.sinks: Sequence[DrawSink] = []
        self.draws_done = list(draws_done)
        self.resume_points: Sequence[Checkpoint] = list(starts)
        self._last = list(starts)

    @property
    def draws(self) -> int:
        """Number of draws that every chain has."""
        return min(self.draws_done)

    @property
    def counts(self) -> Counts:
        """Sums over the updates of all chains."""
        return Counts(*(sum(column) for column in zip(*(last.counts for last in self._last), strict=True)))

    @property
    def last(self) -> list[Checkpoint]:
        """Last state of each chain. The batched and fused engines return only that of the first chain."""
        return self._last

    def add(self, rows: Rows) -> None:
        """Hand the new draws of some rows to the sinks, and update the states of their chains."""
        _check_finite(rows.highest)
        new = rows.since(self.draws_done[rows.chains.start])
        if new.draws:
            latents = self.keep(new.f)
            for sink in self.sinks:
                sink.write(new.chains, new.first, latents, new.statistics)
            self.draws_done[new.chains] = [new.first + new.draws] * len(new.resume)
        # After the sinks, so that an exception above cannot leave a checkpoint ahead of its draws.
        self._last[rows.chains] = rows.last
        if len(rows.resume) == len(self.resume_points):
            self.resume_points = rows.resume
        else:
            cast("list[Checkpoint]", self.resume_points)[rows.chains] = rows.resume


def _check_finite(highest: float) -> None:
    """Raise if the largest log-likelihood is +inf."""
    if highest == np.inf:
        raise ValueError(
            "the log-likelihood is +inf at a state of a chain, which could never leave it. It must be finite or -inf: "
            "check for a division by zero or an overflow."
        )


class MemorySink:
    """Sink that keeps draws in memory, in arrays of shape (chains, reserved draws, ...).

    Parameters
    ----------
    example : dict of arrays
        Stored values of one state, with a leading axis of length 1.
    statistics : mapping of str to dtype
        Names and types of the statistics.
    chains : sequence of int
        Indices of the chains.
    attributes : mapping
        Attributes of the result that are known before the run.
    dims, coords : mapping, optional
        Names and labels of the dimensions of the latents.
    """

    how_to_resume, draws_committed, commit_due = "", 0, False

    def __init__(
        self,
        example: Kept,
        statistics: Mapping[str, Any],
        chains: Sequence[int],
        attributes: Mapping[str, Any],
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Any] | None = None,
    ):
        shape = len(chains), 0
        self.latents = {name: np.empty((*shape, *value.shape[1:]), value.dtype) for name, value in example.items()}
        self.statistics = {name: np.empty(shape, dtype) for name, dtype in statistics.items()}
        self._chains, self._attributes, self._dims, self._coords = chains, attributes, dims, coords

    def reserve(self, draws: int) -> None:
        """Reserve memory for `draws` draws of each chain. Raise MemoryError if there is not enough."""
        chains, reserved = self.statistics["total_log_likelihood"].shape
        if draws <= reserved:
            return
        check_memory((chains, draws), self.latents)
        for columns in (self.latents, self.statistics):
            for name, values in columns.items():
                columns[name] = lazy_empty((chains, draws, *values.shape[2:]), values.dtype)
                columns[name][:, :reserved] = values

    def write(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        """Write draws of consecutive chains, from number `first` on: arrays of shape (chains, draws, ...)."""
        for columns, new in ((self.latents, latents), (self.statistics, statistics)):
            for name, values in new.items():
                if not np.can_cast(values.dtype, columns[name].dtype):  # `keep` may return integers first, then floats
                    columns[name] = columns[name].astype(np.promote_types(values.dtype, columns[name].dtype))
                columns[name][chains, first : first + values.shape[1]] = values

    def commit(self, snapshot: Snapshot) -> None:
        """Do nothing, because memory does not survive the process."""

    def close(self, *, tidy: bool = True) -> None:
        """Do nothing, because there are no files."""

    def values(self, draws: int, step: int = 1) -> Kept:
        """Return every `step`-th of the first `draws` draws of all variables, and the total log-likelihood."""
        kept = {name: values[:, :draws:step] for name, values in self.latents.items()}
        return with_log_likelihood(kept, self.statistics["total_log_likelihood"][:, :draws:step])

    def select(self, rows: slice, spec: RunSpec, snapshot: Snapshot) -> None:
        """Keep only these draws of each chain, numbered anew."""
        for columns in (self.latents, self.statistics):
            for values in columns.values():
                values[:, : snapshot.draws] = values[:, rows].copy()

    def tree(self, snapshot: Snapshot) -> xarray.DataTree:
        """Return the result, with the draws that every chain has."""
        attributes = {**self._attributes, **snapshot.attributes}
        labels = self._chains, self._dims, self._coords
        return build_tree(self.latents, self.statistics, snapshot.draws, *labels, attributes)


def check_memory(shape: tuple[int, int], columns: Kept) -> None:
    """Raise MemoryError if the draws need more than 80 % of the memory of this machine."""
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return  # the system does not report its memory
    needed = sum(int(np.prod((*shape, *value.shape[2:]))) * value.dtype.itemsize for value in columns.values())
    if needed > 0.8 * available:
        raise MemoryError(
            f"{shape[0]} chains with {shape[1]} draws require {needed / 2**30:.1f} GiB, but this machine has "
            f"{available / 2**30:.1f} GiB. Store less of each draw with keep=, make fewer draws, or write them to disk "
            'with store="run.zarr".'
        )
