"""What is kept of a run, and where its chains are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ellipslice.engines.base import Batch, Piece
from ellipslice.moves import Info, State
from ellipslice.sampling.keep import Keep, Kept
from ellipslice.undocumented.memory import lazy_empty, populate_pages

STATISTICS = {"total_log_likelihood": np.float64, "proposals": np.int64} | {
    name: {"stuck": np.bool_, "angle": np.float64}.get(name, np.int64) for name in Info._fields
}
"""What is recorded of the update that made a draw, and as what."""


class Counts(NamedTuple):
    """Sums over updates."""

    updates: int = 0
    evaluations: int = 0
    proposals: int = 0
    nans: int = 0
    stuck: int = 0
    first_accepted: int = 0
    """Updates that took their first proposal."""

    def plus(self, more: Sequence[int]) -> Counts:
        """The sums with some more added."""
        return Counts(*(int(a) + int(b) for a, b in zip(self, more, strict=True)))


class Checkpoint(NamedTuple):
    """Where a chain can begin again: its state after some updates, and their sums."""

    updates: int
    """How many it has made."""
    state: State
    """Centred and flat."""
    counts: Counts = Counts()
    """Of these updates; of chains that run together the first has the sums of all."""


class Taker(Protocol):
    """Somewhere draws go."""

    def write(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        """Take draws of consecutive chains, from number `first` on: arrays of shape (chains, draws, ...)."""
        ...


class Record:
    """Sorts out which updates leave a draw, hands these over, and counts.

    Update `warmup + (i + 1) * thin - 1`, counted from 0, leaves draw i.

    Parameters
    ----------
    keep : Keep
    starts : sequence of Checkpoint
        Where the chains begin.
    complete : sequence of int
        Draws of each chain that were handed over before. A chain may begin a little earlier, and make these again.
    warmup, thin : int

    Attributes
    ----------
    takers : sequence of Taker
        Where draws go.
    """

    def __init__(
        self,
        keep: Keep,
        starts: Sequence[Checkpoint],
        complete: Sequence[int],
        warmup: int,
        thin: int,
    ):
        self._keep, self._warmup, self._thin = keep, warmup, thin
        self.takers: Sequence[Taker] = []
        self.complete = list(complete)
        self.checkpoints = list(starts)
        """For each chain a state one update before its last: from there on it is the same to the bit.

        (Not the last itself: planes remember the gradient there, which another program might round otherwise.)"""
        self._last = list(starts)
        self._together = False

    @property
    def example(self) -> Kept:
        """What is kept of the first state, with a leading axis."""
        return self._keep.example

    @property
    def draws(self) -> int:
        """Draws that every chain has."""
        return min(self.complete)

    @property
    def total(self) -> int:
        """Draws of all chains together."""
        return sum(self.complete)

    @property
    def counts(self) -> Counts:
        """Sums over the updates of all chains."""
        return Counts(*(sum(column) for column in zip(*(last.counts for last in self._last), strict=True)))

    @property
    def last(self) -> list[State]:
        """Where chains are: of those that run together the first alone."""
        return [last.state for last in self._last]

    def add(self, piece: Piece | Batch) -> None:
        """Take in some updates of one chain, or draws of all."""
        if isinstance(piece, Batch):
            self._add_batch(piece)
        else:
            self._add_piece(piece)

    def _add_piece(self, piece: Piece) -> None:
        count, chain, info = len(piece.log_likelihood), piece.chain, piece.info
        columns = (info.evaluations, piece.proposals, info.nans, info.stuck, piece.proposals == 1)
        before = self._last[chain]

        def after(updates: int) -> Checkpoint:
            if not updates:
                return before
            state = State(piece.f[updates - 1].copy(), float(piece.log_likelihood[updates - 1]))
            sums = [updates, *(column[:updates].sum() for column in columns)]
            return Checkpoint(before.updates + updates, state, before.counts.plus(sums))

        _check_finite(float(piece.log_likelihood.max()))
        # The first draw at or after the piece's start that is new, and the row that holds it.
        draw = max(self.complete[chain], -(-(piece.first - self._warmup - self._thin + 1) // self._thin))
        row = self._warmup + (draw + 1) * self._thin - 1 - piece.first
        rows = slice(row, count, self._thin)
        kept = len(range(row, count, self._thin))
        if kept:
            statistics = {"total_log_likelihood": piece.log_likelihood, "proposals": piece.proposals, **info._asdict()}
            latents = {name: values[None] for name, values in self._keep(piece.f[rows]).items()}
            self._hand_over(slice(chain, chain + 1), draw, latents, {n: v[rows][None] for n, v in statistics.items()})
            self.complete[chain] = draw + kept
        # At last: whatever was raised above, a chain does not get ahead of its draws.
        self.checkpoints[chain], self._last[chain] = after(count - 1), after(count)

    def _add_batch(self, batch: Batch) -> None:
        totals, count, chains = batch.totals, len(batch.log_likelihood), len(self.complete)
        _check_finite(totals.highest)
        skip = self.draws - batch.first
        if skip < count:
            kept = self._keep.of_batch(batch.f, slice(skip, count))
            latents = {name: np.moveaxis(values, 1, 0) for name, values in kept.items()}
            statistics = {"total_log_likelihood": batch.log_likelihood, "proposals": batch.info.evaluations}
            statistics |= batch.info._asdict()
            own = {name: values[skip:].T for name, values in statistics.items()}
            self._hand_over(slice(0, chains), batch.first + skip, latents, own)
            self.complete = [batch.first + count] * chains
        again = self._together and batch.updates == self.checkpoints[0].updates  # a block that was cut short before
        counts = self.checkpoints[0].counts if again else self._last[0].counts
        states = zip(np.asarray(batch.before.f), np.asarray(batch.before.log_likelihood).tolist(), strict=True)
        self.checkpoints = [Checkpoint(batch.updates, State(*state)) for state in states]
        self.checkpoints[0] = self.checkpoints[0]._replace(counts=counts)
        last = self._last[0].state
        if count:
            last = State(np.asarray(batch.f[count - 1, 0]), float(batch.log_likelihood[-1, 0]))
        more = (totals.updates, totals.proposals, totals.proposals, totals.nans, totals.stuck, 0)
        self._together, self._last = True, [Checkpoint(0, last, counts.plus(more))]

    def _hand_over(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        for taker in self.takers:
            taker.write(chains, first, latents, statistics)


def _check_finite(highest: float) -> None:
    if highest == np.inf:
        raise ValueError(
            "the log-likelihood is +inf at a point the chain reached: it could never leave. A likelihood must be "
            "finite wherever it is not zero; look for a division by zero or an overflow."
        )


class Memory:
    """Draws in memory: arrays of shape (chains, room for draws, ...), of which the first `draws` are filled."""

    def __init__(self, example: Kept, chains: int, draws: int):
        self.latents = {name: np.empty((chains, 0, *value.shape[1:]), value.dtype) for name, value in example.items()}
        self.statistics = {name: np.empty((chains, 0), dtype) for name, dtype in STATISTICS.items()}
        self.reserve(draws)

    def reserve(self, draws: int) -> None:
        """Make room for so many draws of each chain."""
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
                rows = columns[name][chains, first : first + values.shape[1]]
                for one in rows:
                    populate_pages(one)
                rows[...] = values


def check_memory(shape: tuple[int, int], columns: Kept) -> None:
    """Refuse to keep more than there is memory for."""
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return  # not a system that says
    needed = sum(int(np.prod((*shape, *value.shape[2:]))) * value.dtype.itemsize for value in columns.values())
    if needed > 0.8 * available:
        raise MemoryError(
            f"keeping {shape[0]} x {shape[1]} draws takes {needed / 2**30:.1f} GiB, and this machine has "
            f"{available / 2**30:.1f}. Keep less of each draw with keep=, or fewer draws; or stream them to a disk "
            'with store="run.zarr".'
        )
