"""Where draws go: what collects the rows of a run, and the sink that keeps draws in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from ellipslice.engines.base import Checkpoint, Counts
from ellipslice.engines.rows import Rows
from ellipslice.sampling.keep import Kept, StateSelector
from ellipslice.sampling.result import build_tree
from ellipslice.store.journal import Snapshot
from ellipslice.undocumented.memory import lazy_empty

if TYPE_CHECKING:
    import xarray


class DrawSink(Protocol):
    """Something that takes draws: memory, a store, or traces of a few elements."""

    def write(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        """Take draws of consecutive chains, from number `first` on: arrays of shape (chains, draws, ...)."""
        ...


class RunSink(DrawSink, Protocol):
    """The sink that keeps the draws of a run and returns the result: `MemorySink` or `Store`."""

    @property
    def how_to_resume(self) -> str:
        """A sentence that tells users how to continue the run; empty if it cannot be continued."""
        ...

    @property
    def draws_safe(self) -> int:
        """Number of draws of each chain that survive the end of this process."""
        ...

    @property
    def commit_due(self) -> bool:
        """Whether it is time to commit."""
        ...

    def reserve(self, draws: int) -> None:
        """Make room for so many draws of each chain. Raise MemoryError if there is not enough memory."""
        ...

    def commit(self, snapshot: Snapshot) -> None:
        """Make everything that was written safe."""
        ...

    def close(self, *, tidy: bool = True) -> None:
        """Release what the sink holds; `tidy` is False after an error."""
        ...

    def tree(self, snapshot: Snapshot) -> xarray.DataTree:
        """Return the result of the run."""
        ...


class Collector:
    """Takes the rows of a run, hands what is kept of their draws to the sinks, and remembers where the chains are.

    Parameters
    ----------
    keep : StateSelector
    starts : sequence of Checkpoint
        Where the chains begin.
    draws_done : sequence of int
        Number of draws of each chain that the sinks have already. A chain may begin a little earlier and make some of
        them again: these are dropped.

    Attributes
    ----------
    sinks : sequence of DrawSink
    resume_points : sequence of Checkpoint
        Where each chain can continue. Those of chains on a device stay there until they are asked for.
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
        """Where the chains are. Of chains that run together the first only."""
        return self._last

    def add(self, rows: Rows) -> None:
        """Take rows."""
        _check_finite(rows.highest)
        new = rows.since(self.draws_done[rows.chains.start])
        if new.draws:
            latents = self.keep(new.f)
            for sink in self.sinks:
                sink.write(new.chains, new.first, latents, new.statistics)
            self.draws_done[new.chains] = [new.first + new.draws] * len(new.resume)
        # Only now: whatever was raised above, a checkpoint does not get ahead of its draws.
        self._last[rows.chains] = rows.last
        if len(rows.resume) == len(self.resume_points):
            self.resume_points = rows.resume
        else:
            cast("list[Checkpoint]", self.resume_points)[rows.chains] = rows.resume


def _check_finite(highest: float) -> None:
    if highest == np.inf:
        raise ValueError(
            "the log-likelihood is +inf at a point the chain reached: it could never leave. A likelihood must be "
            "finite wherever it is not zero; look for a division by zero or an overflow."
        )


class MemorySink:
    """Draws in memory: arrays of shape (chains, room for draws, ...), of which the first ones are filled.

    Parameters
    ----------
    example : dict of arrays
        What is kept of one state, with a leading axis.
    statistics : mapping of str to dtype
    chains : sequence of int
        Their numbers.
    attributes : mapping
        Of the result, as far as they are known before the run.
    dims, coords : mapping, optional
        Names and labels of the latents' dimensions.
    """

    how_to_resume, draws_safe, commit_due = "", 0, False

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
        """Make room for so many draws of each chain. Raise MemoryError if there is not enough memory."""
        chains, room = self.statistics["total_log_likelihood"].shape
        if draws <= room:
            return
        check_memory((chains, draws), self.latents)
        for columns in (self.latents, self.statistics):
            for name, values in columns.items():
                columns[name] = lazy_empty((chains, draws, *values.shape[2:]), values.dtype)
                columns[name][:, :room] = values

    def write(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        for columns, new in ((self.latents, latents), (self.statistics, statistics)):
            for name, values in new.items():
                if not np.can_cast(values.dtype, columns[name].dtype):  # whole numbers first, then others
                    columns[name] = columns[name].astype(np.promote_types(values.dtype, columns[name].dtype))
                columns[name][chains, first : first + values.shape[1]] = values

    def commit(self, snapshot: Snapshot) -> None:
        """Do nothing: memory is lost with the process."""

    def close(self, *, tidy: bool = True) -> None:
        """Do nothing."""

    def tree(self, snapshot: Snapshot) -> xarray.DataTree:
        """Return the draws that every chain has, as a tree."""
        attributes = {**self._attributes, **snapshot.attributes}
        labels = self._chains, self._dims, self._coords
        return build_tree(self.latents, self.statistics, snapshot.draws, *labels, attributes)


def check_memory(shape: tuple[int, int], columns: Kept) -> None:
    """Raise if draws need more memory than there is."""
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return  # the system does not tell
    needed = sum(int(np.prod((*shape, *value.shape[2:]))) * value.dtype.itemsize for value in columns.values())
    if needed > 0.8 * available:
        raise MemoryError(
            f"keeping {shape[0]} x {shape[1]} draws takes {needed / 2**30:.1f} GiB, and this machine has "
            f"{available / 2**30:.1f}. Keep less of each draw with keep=, or fewer draws; or stream them to a disk "
            'with store="run.zarr".'
        )
