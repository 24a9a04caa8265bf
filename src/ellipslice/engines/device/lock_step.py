"""The loop over the updates of a block in which all chains make each update together, in XLA.

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

MAX_CHUNK = 16
"""Largest number of updates in a loop of constant length."""


class _Carry(NamedTuple):
    """The carry of the loop over the updates of a block."""

    t: Any
    """Number of the next update in the block."""
    state: State
    draws: Any
    """The packed `DrawBuffer` of the block."""
    totals: ChainTotals
    first_accepted: Any
    """Number of updates of all chains that accepted their first proposal."""


def run_lock_step(
    updates: ReferenceUpdates, state: State, schedule: DrawSchedule, slots: int
) -> tuple[State, DrawBuffer, ChainTotals, Any]:
    """Make the updates of a block of all chains.

    Return their states, the draws, the totals, and the number of updates that accepted their first proposal. The
    parameters are those of `loop.run_block_on_device`.
    """
    none = jnp.zeros(len(state.f), jnp.int32)
    totals = ChainTotals(none, none, none, state.log_likelihood)
    zero, draws = jnp.int32(0), DrawBuffer.empty(slots, state, updates.statistics)
    index, variants = updates.variants()
    several = [partial(_several, partial(_step, around, schedule, slots), _chunk(updates.every)) for around in variants]

    def segment(now: _Carry) -> _Carry:
        """Make the updates up to the next plain one, and that one."""
        end = jnp.minimum(now.t + updates.until_plain(now.t), schedule.updates)
        now = lax.while_loop(
            lambda now: now.t < end,
            lambda now: lax.switch(index, several, end, now) if len(several) > 1 else several[0](end, now),
            now,
        )
        return _step(updates.plain, schedule, slots, schedule.updates, now)

    with jax.default_matmul_precision("highest"):  # TF32 would change the acceptance ratio
        start = _Carry(zero, state, draws, totals, zero)
        end = lax.while_loop(lambda now: now.t < schedule.updates, segment, start)
    return end.state, DrawBuffer.unpack(end.draws, state.f.shape[1]), end.totals, end.first_accepted


def _chunk(every: Any) -> int:
    """Return the number of updates in a chunk: those between two plain ones, if they are few."""
    return min(int(every) - 1, MAX_CHUNK)


def _several(step: Callable[[Any, _Carry], _Carry], count: int, end: Any, now: _Carry) -> _Carry:
    """Make up to `count` updates, those with a number below `end`. The loop has a constant length."""
    return lax.fori_loop(0, count, lambda _, now: step(end, now), now)


def _step(update: Callable[..., Any], schedule: DrawSchedule, slots: int, end: Any, now: _Carry) -> _Carry:
    """Make the next update if its number is below `end`. Otherwise compute it, and discard the result."""
    state, made = update(jnp.minimum(now.t, schedule.updates - 1), now.state)
    due = now.t < end
    leaves_draw, slot = schedule.slot(now.t)
    place = jnp.where(due & leaves_draw, slot, slots)  # `slots` is beyond the buffer, where writes are dropped
    draws = now.draws.at[place].set(made.pack(), mode="drop")
    totals = ChainTotals(
        now.totals.proposals + made.proposals,
        now.totals.nan_evaluations + made.nan_evaluations,
        now.totals.failed_searches + made.search_failed,
        jnp.maximum(now.totals.highest, state.log_likelihood),
    )
    first_accepted = now.first_accepted + jnp.sum(made.proposals == 1, dtype=np.int32)
    after = now.t + 1, state, totals, first_accepted
    before = now.t, now.state, now.totals, now.first_accepted
    t, state, totals, first_accepted = jax.tree.map(lambda new, old: jnp.where(due, new, old), after, before)
    return _Carry(t, state, draws, totals, first_accepted)
