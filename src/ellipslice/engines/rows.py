"""Rows: draws with their statistics, as engines hand them over, and how updates of one chain become rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np

from ellipslice.engines.base import Checkpoint, Counts, RunSpec
from ellipslice.moves import Info, Move, State

STATISTICS = {
    "total_log_likelihood": np.float64,
    "proposals": np.int64,
    "evaluations": np.int64,
    "nan_evaluations": np.int64,
    "search_failed": np.bool_,
    "angle": np.float64,
}
"""Names and types of the statistics that every move has. Those that a move declares come after them."""

DECLARED = {float: np.float64, int: np.int64, bool: np.bool_}
"""Types that a move can declare in `Move.statistics`, and as what they are stored."""


def statistics_of(move: Move) -> dict[str, Any]:
    """Return names and types of the statistics of a draw. Raise if the move declares some that cannot be."""
    for name, kind in move.statistics.items():
        if not isinstance(name, str) or name in STATISTICS:
            raise TypeError(
                f"{move!r} declares the statistic {name!r}; expected a string that is not the name of one that every "
                f"move has already ({', '.join(STATISTICS)})."
            )
        if kind not in DECLARED:
            raise TypeError(f"{move!r} declares {name} as {kind!r}; expected float, int or bool.")
    if move.statistics and move.path is not None:
        raise TypeError(
            f"{move!r} declares statistics, but it is a single search, which engines run themselves. Derive from Move, "
            "and call target.search in step."
        )
    return STATISTICS | {name: DECLARED[kind] for name, kind in move.statistics.items()}


class DeviceStates(NamedTuple):
    """States in the memory of a device, which are copied to the host when they are asked for."""

    buffer: Any
    """Shape (rows, chains, size)."""
    first: int
    stop: int
    """Rows `first` to `stop` are states. The others are undefined: no update has written to them."""

    def since(self, draw: int) -> DeviceStates:
        """Return the states without the first `draw` draws."""
        return self._replace(first=self.first + draw)


class DeviceCheckpoints(Sequence[Checkpoint]):
    """Checkpoints of chains that run together on a device, copied to the host when they are first asked for.

    Parameters
    ----------
    updates : int
        Number of updates behind the states.
    state : State
        The states of all chains, on the device.
    counts : Counts
        Sums over the updates of all chains. The first checkpoint has them.
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
    """Draws of consecutive chains. Warm-up and thinning are applied, so there may be no draw."""

    chains: slice
    """Positions in the run."""
    first: int
    """Number of the first draw."""
    f: np.ndarray | DeviceStates
    """Centred flat states, shape (chains, draws, size)."""
    statistics: dict[str, np.ndarray]
    """By name, shape (chains, draws) each."""
    resume: Sequence[Checkpoint]
    """Where each chain can continue with the same bits. Some of its draws may be in these rows already."""
    last: list[Checkpoint]
    """Where each chain is. Its counts include updates that left no draw. Of chains that run together the first only."""
    highest: float
    """Largest log-likelihood of the updates behind these rows."""

    @property
    def draws(self) -> int:
        """Number of draws of each chain."""
        return self.statistics["total_log_likelihood"].shape[1]

    def since(self, draw: int) -> Rows:
        """Return the rows without the draws before number `draw`."""
        skip = min(max(0, draw - self.first), self.draws)
        if not skip:
            return self
        f = self.f.since(skip) if isinstance(self.f, DeviceStates) else self.f[:, skip:]
        statistics = {name: values[:, skip:] for name, values in self.statistics.items()}
        return self._replace(first=self.first + skip, f=f, statistics=statistics)


class ChainRows:
    """Makes rows of consecutive updates of one chain.

    Update `warmup + (i + 1) * thin - 1`, counted from 0, leaves draw i.

    Parameters
    ----------
    position : int
        Of the chain in the run.
    spec : RunSpec
    start : Checkpoint
    again : bool
        Whether a chain that continues must make its last update again: the checkpoint to continue from is then one
        update before the last. Tangent planes need this, because they keep the gradient at the last state.
    """

    def __init__(self, position: int, spec: RunSpec, start: Checkpoint, again: bool = False):
        self._chains, self._again = slice(position, position + 1), again
        self._warmup, self._thin, self._declared = spec.warmup, spec.thin, tuple(spec.move.statistics)
        self._last = start

    @property
    def updates(self) -> int:
        """Number of updates so far."""
        return self._last.updates

    def add(self, f: np.ndarray, log_likelihood: np.ndarray, info: Info, proposals: np.ndarray | None = None) -> Rows:
        """Return the rows of the next updates, at least one.

        Parameters
        ----------
        f : array, shape (updates, size)
            The states after the updates.
        log_likelihood : array, shape (updates,)
        info : Info
            Arrays of shape (updates,).
        proposals : array, shape (updates,), optional
            Number of angles tried. Default: the evaluations. There are more if some were rejected without one.
        """
        tried = info.evaluations if proposals is None else proposals
        before, count = self._last, len(log_likelihood)
        summed = (info.evaluations, tried, info.nan_evaluations, info.search_failed, tried == 1)

        def after(updates: int) -> Checkpoint:
            if not updates:
                return before
            state = State(f[updates - 1].copy(), float(log_likelihood[updates - 1]))
            sums = [updates, *(column[:updates].sum() for column in summed)]
            return Checkpoint(before.updates + updates, state, before.counts.plus(sums))

        self._last = after(count)
        first = max(0, (before.updates - self._warmup) // self._thin)  # draws of the updates before these
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
