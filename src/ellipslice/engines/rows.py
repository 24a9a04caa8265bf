"""Rows: draws with their statistics, as engines return them, and the conversion of updates to rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np

from ellipslice.engines.base import Checkpoint, Counts, Run, RunSpec
from ellipslice.moves import Info, Move, State

STATISTICS = {
    "total_log_likelihood": np.float64,
    "proposals": np.int64,
    "evaluations": np.int64,
    "nan_evaluations": np.int64,
    "search_failed": np.bool_,
    "angle": np.float64,
}
"""Names and types of the statistics that every move has. Statistics that a move declares come after them."""

DECLARED = {float: np.float64, int: np.int64, bool: np.bool_}
"""NumPy type in which a statistic is stored, for each type that `Move.statistics` can declare."""


def statistics_of(move: Move) -> dict[str, Any]:
    """Return the names and types of all statistics of a draw. Raise if the move declares an invalid one."""
    for name, kind in move.statistics.items():
        if not isinstance(name, str) or name in STATISTICS:
            raise TypeError(
                f"{move!r} declares the statistic {name!r}; expected a string that is not the name of a statistic that "
                f"every move has ({', '.join(STATISTICS)}). Rename it."
            )
        if kind not in DECLARED:
            raise TypeError(f"{move!r} declares the statistic {name} as {kind!r}; expected float, int or bool.")
    if move.statistics and move.path is not None:
        raise TypeError(
            f"{move!r} declares statistics, but it is a single search, whose loop is part of the engine. Derive the "
            "class from Move, and call target.search in step."
        )
    return STATISTICS | {name: DECLARED[kind] for name, kind in move.statistics.items()}


class DeviceStates(NamedTuple):
    """States in the memory of a device. They are copied to the host when they are needed."""

    buffer: Any
    """Device array, shape (rows, chains, size)."""
    first: int
    stop: int
    """Rows `first` to `stop - 1` are states. The others are undefined, because no update has written to them."""
    kept: Mapping[str, Any] | None = None
    """Result of `Engine.of_block` for the buffer: device arrays, shape (rows, chains, ...). None if there is none."""

    def since(self, draw: int) -> DeviceStates:
        """Return these states without the first `draw` of them."""
        return self._replace(first=self.first + draw)


class DeviceCheckpoints(Sequence[Checkpoint]):
    """Checkpoints of all chains of a run on a device. They are copied to the host at the first access.

    Parameters
    ----------
    updates : int
        Number of updates that each chain has made.
    state : State
        States of all chains, on the device.
    counts : Counts
        Sums over the updates of all chains. They become the counts of the first checkpoint.
    """

    def __init__(self, updates: int, state: State, counts: Counts):
        self._updates, self._state, self._counts = updates, state, counts

    def __len__(self) -> int:
        return len(self._state.log_likelihood)

    @overload
    def __getitem__(self, index: int) -> Checkpoint: ...
    @overload
    def __getitem__(self, index: slice) -> list[Checkpoint]: ...
    def __getitem__(self, index: int | slice) -> Checkpoint | list[Checkpoint]:
        return self._on_host[index]

    @cached_property
    def _on_host(self) -> list[Checkpoint]:
        states = zip(np.asarray(self._state.f), np.asarray(self._state.log_likelihood).tolist(), strict=True)
        first, *others = (Checkpoint(self._updates, State(*state)) for state in states)
        return [first._replace(counts=self._counts), *others]


class Rows(NamedTuple):
    """Draws of consecutive chains, after warm-up and thinning. There may be no draws."""

    chains: slice
    """Positions of the chains in the run."""
    first: int
    """Index of the first draw in its chain."""
    f: np.ndarray | DeviceStates
    """Centred flat states, shape (chains, draws, size)."""
    statistics: dict[str, np.ndarray]
    """Statistics by name, shape (chains, draws) each."""
    resume: Sequence[Checkpoint]
    """Checkpoint from which each chain can continue bit-identically. It may lie before some draws of these rows."""
    last: list[Checkpoint]
    """Last checkpoint of each chain; of the first chain only if all chains run as one batch. The counts include
    updates that are not kept as draws."""
    highest: float
    """Largest log-likelihood after any of these updates, including those that are not kept as draws."""

    @property
    def draws(self) -> int:
        """Number of draws of each chain."""
        return self.statistics["total_log_likelihood"].shape[1]

    def since(self, draw: int) -> Rows:
        """Return these rows without the draws whose index is below `draw`."""
        skip = min(max(0, draw - self.first), self.draws)
        if not skip:
            return self
        f = self.f.since(skip) if isinstance(self.f, DeviceStates) else self.f[:, skip:]
        statistics = {name: values[:, skip:] for name, values in self.statistics.items()}
        return self._replace(first=self.first + skip, f=f, statistics=statistics)


class ChainRows:
    """Converter of consecutive updates of one chain to rows.

    Draw i is the state after update `warmup + (i + 1) * thin - 1`, counted from 0.

    Parameters
    ----------
    position : int
        Position of the chain in the run.
    spec : RunSpec
    start : Checkpoint
    again : bool
        If true, a resumed chain repeats its last update: the checkpoint is one update before the last. Tangent planes
        require this, because the gradient at the last state is not part of a checkpoint. Default: False.
    """

    def __init__(self, position: int, spec: RunSpec, start: Checkpoint, again: bool = False):
        self._chains, self._again = slice(position, position + 1), again
        self._warmup, self._thin, self._declared = spec.warmup, spec.thin, tuple(spec.move.statistics)
        self._last = start

    @property
    def updates(self) -> int:
        """Number of updates that the chain has made."""
        return self._last.updates

    def add(self, f: np.ndarray, log_likelihood: np.ndarray, info: Info, proposals: np.ndarray | None = None) -> Rows:
        """Return the rows of the chain's next updates. There must be at least one update.

        Parameters
        ----------
        f : array, shape (updates, size)
            State after each update.
        log_likelihood : array, shape (updates,)
        info : Info
            Arrays of shape (updates,).
        proposals : array, shape (updates,), optional
            Number of angles tried in each update. Default: the number of evaluations. It is larger if a scout rejects
            angles without an evaluation.
        """
        tried = info.evaluations if proposals is None else proposals
        before, count = self._last, len(log_likelihood)
        summed = (info.evaluations, tried, info.nan_evaluations, info.search_failed, tried == 1)

        def after(updates: int) -> Checkpoint:
            if not updates:
                return before
            state = State(f[updates - 1].copy(), float(log_likelihood[updates - 1]))
            sums = Counts(updates, *(column[:updates].sum() for column in summed))
            return Checkpoint(before.updates + updates, state, before.counts + sums)

        self._last = after(count)
        first = max(0, (before.updates - self._warmup) // self._thin)  # number of draws before these updates
        row = self._warmup + (first + 1) * self._thin - 1 - before.updates
        columns = log_likelihood, tried, *info[:-1], *info.more
        names = *STATISTICS, *self._declared
        return Rows(
            chains=self._chains,
            first=first,
            f=f[None, row :: self._thin],
            statistics={name: column[None, row :: self._thin] for name, column in zip(names, columns, strict=True)},
            resume=[after(count - 1) if self._again else self._last],
            last=[self._last],
            highest=float(log_likelihood.max()),
        )


def collect(run: Run, chains: int) -> list[list[Rows]]:
    """Advance a pilot run of single chains to its end. Return the rows of each chain."""
    found: list[list[Rows]] = [[] for _ in range(chains)]
    try:
        while not run.finished:
            run.advance()
            for rows in run.take():
                own = found[rows.chains.start]
                own.append(rows.since(own[-1].first + own[-1].draws if own else 0))
    finally:
        run.close()
    return found
