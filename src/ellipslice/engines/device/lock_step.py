"""The loop over the updates of a block in which all chains make each update in parallel, in XLA.

A GPU waits for the host before each pass of a loop whose length is data. So the updates between two plain ones are a
loop of constant length, and a plain update is outside of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.engines.device.draws import ChainTotals, DrawBuffer, DrawSchedule
from ellipslice.engines.device.reference_updates import ReferenceUpdates
from ellipslice.moves import State


class _Carry(NamedTuple):
    """The carry of the loop over the updates of a block."""

    t: Any
    """Number of the next update in the block."""
    state: State
    f: Any
    """States that are kept as draws, shape (slots + 1, chains, size). The last row is for the other states."""
    statistics: Any
    """Statistics of all updates, shape (length + 1, statistics, chains). The last row is for discarded updates."""


def run_lock_step(
    updates: ReferenceUpdates, state: State, schedule: DrawSchedule, slots: int
) -> tuple[State, DrawBuffer, ChainTotals, Any]:
    """Make the updates of a block of all chains.

    Return their states, the draws, the totals, and the number of updates that accepted their first proposal. The
    parameters are those of `loop.run_block_on_device`. The array of states in the draws has one more row, of no use.
    """
    chains, size = state.f.shape
    length, several = len(updates.numbers), updates.most_before_plain
    fields = len(DrawBuffer._fields) - 2 + updates.statistics
    around, plain = (partial(_step, update, schedule) for update in (updates.around, updates.plain))

    def segment(now: _Carry) -> _Carry:
        """Make the updates up to the next plain one, and that one."""
        end = jnp.minimum(now.t + updates.until_plain(now.t), schedule.updates)
        now = lax.fori_loop(0, several, lambda _, now: around(end, now), now)
        return plain(schedule.updates, now)

    with jax.default_matmul_precision("highest"):  # TF32 would change the acceptance ratio
        f = jnp.zeros((slots + 1, chains, size), state.f.dtype)
        start = _Carry(jnp.int32(0), state, f, jnp.zeros((length + 1, fields, chains), state.f.dtype))
        end = lax.while_loop(lambda now: now.t < schedule.updates, segment, start)
    kept = jnp.clip(schedule.first + schedule.thin * jnp.arange(slots, dtype=np.int32), 0, length - 1)
    draws = DrawBuffer.of_statistics(end.f, list(jnp.moveaxis(end.statistics[kept], 1, 0)))
    return end.state, draws, *_totals(end.statistics[:length], schedule.updates, state)


def _step(update: Callable[..., Any], schedule: DrawSchedule, end: Any, now: _Carry) -> _Carry:
    """Make the next update if its number is below `end`. Otherwise compute it, and discard the result."""
    state, made = update(jnp.minimum(now.t, schedule.updates - 1), now.state)
    due = now.t < end
    leaves_draw, slot = schedule.slot(now.t)
    return _Carry(
        now.t + due,
        jax.tree.map(lambda new, old: jnp.where(due, new, old), state, now.state),
        now.f.at[jnp.where(due & leaves_draw, slot, len(now.f) - 1)].set(state.f),
        now.statistics.at[jnp.where(due, now.t, len(now.statistics) - 1)].set(jnp.stack(made.statistics())),
    )


def _totals(statistics: Any, updates: Any, before: State) -> tuple[ChainTotals, Any]:
    """Return the totals of the first `updates` updates, and how many of them accepted their first proposal."""
    log_likelihood, proposals, nans, failed, *_ = jnp.moveaxis(statistics, 1, 0)
    made = jnp.arange(len(statistics))[:, None] < updates

    def total(counts: Any) -> Any:
        return jnp.sum(jnp.where(made, counts, 0), axis=0, dtype=np.int32)

    highest = jnp.max(jnp.where(made, log_likelihood, -jnp.inf), axis=0)
    totals = ChainTotals(total(proposals), total(nans), total(failed), jnp.maximum(before.log_likelihood, highest))
    return totals, jnp.sum(made & (proposals == 1), dtype=np.int32)
