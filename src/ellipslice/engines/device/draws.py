"""Draws of a block on a device: which updates are kept, the buffer of their states and statistics, and the totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from ellipslice.moves import State


class DrawSchedule(NamedTuple):
    """The updates of a block that are kept as draws.

    An update is kept if its number, counted from the end of warm-up, is thin - 1, 2 thin - 1, ...
    """

    updates: Any
    """Number of updates in the block."""
    since: Any
    """Number of the block's first update, counted from the end of warm-up. It is negative during warm-up."""
    thin: Any

    def slot(self, t: Any) -> tuple[Any, Any]:
        """Return whether update t of the block is kept as a draw, and the index of that draw in the block."""
        number = self.since + t + 1
        leaves_draw = (number > 0) & (number % self.thin == 0)
        return leaves_draw, number // self.thin - self._before - 1

    @property
    def first(self) -> Any:
        """Number of the first update that is kept as a draw, counted in this block. It may be in a later block."""
        return (self._before + 1) * self.thin - self.since - 1

    @property
    def _before(self) -> Any:
        """Number of draws in earlier blocks."""
        return jnp.maximum(self.since, 0) // self.thin


class DrawBuffer(NamedTuple):
    """The draws of a block with their statistics: arrays of shape (draws, chains), and `f` (draws, chains, size)."""

    f: Any
    log_likelihood: Any
    proposals: Any
    nan_evaluations: Any
    search_failed: Any
    angle: Any
    more: tuple[Any, ...] = ()
    """Statistics that only the move has, in the order of `Move.statistics`. All are real numbers."""

    @staticmethod
    def empty(slots: int, state: State) -> Any:
        """Return a packed buffer of `slots` draws of all chains."""
        chains, size = state.f.shape
        return jnp.zeros((slots, chains, size + len(DrawBuffer._fields) - 2), state.f.dtype)

    def statistics(self) -> list[Any]:
        """Return all fields but `f`, in the type of `f`."""
        return [number.astype(self.f.dtype) for number in (*self[1:-1], *self.more)]

    def pack(self) -> Any:
        """Return one array with all fields, shape (..., size + 5 or more), so that a draw is stored by one write."""
        return jnp.concatenate([self.f, *(number[..., None] for number in self.statistics())], axis=-1)

    @classmethod
    def unpack(cls, rows: Any, size: int) -> DrawBuffer:
        """Return the fields of an array that `pack` has made, with their types."""
        return cls.of_statistics(rows[..., :size], [rows[..., column] for column in range(size, rows.shape[-1])])

    @classmethod
    def of_statistics(cls, f: Any, statistics: Sequence[Any]) -> DrawBuffer:
        """Return the states `f` with the statistics that `statistics` has returned, with their types."""
        log_likelihood, proposals, nans, failed, angle, *more = statistics
        return cls(
            f=f,
            log_likelihood=log_likelihood,
            proposals=proposals.astype(jnp.int32),
            nan_evaluations=nans.astype(jnp.int32),
            search_failed=failed > 0,
            angle=angle,
            more=tuple(more),
        )


class ChainTotals(NamedTuple):
    """Sums over all updates of each chain, and its largest log-likelihood: arrays of shape (chains,)."""

    proposals: Any
    nan_evaluations: Any
    failed_searches: Any
    highest: Any
