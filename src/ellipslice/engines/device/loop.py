"""The search loop of all chains in XLA, in which no chain waits for another.

Each pass of the loop evaluates the next few angles of every chain. A chain with an acceptable angle proceeds to its
next update. The other chains try further angles of the same update in the next pass. So all chains are always busy,
although they are at different updates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.engines.device.draws import ChainTotals, DrawBuffer, DrawSchedule
from ellipslice.engines.device.noise import DeviceNoise, angle_uniform
from ellipslice.moves import State
from ellipslice.moves.search import MAX_EVALUATIONS, WIDTH, Path, next_angle
from ellipslice.programs.traced import over_many

PASSES_PER_GRAPH = 4
"""Number of passes that a GPU launches as one graph of kernels, because each launch of a graph costs time."""


class _Angle(NamedTuple):
    """An angle of each chain, and the bracket from which it was drawn: arrays of shape (chains,)."""

    theta: Any
    theta_min: Any
    theta_max: Any


class _Chains(NamedTuple):
    """States and counters of all chains: arrays of shape (chains,), and `f` (chains, size)."""

    f: Any
    log_likelihood: Any
    update: Any
    """Number of the current update in the block."""
    tried: Any
    """Number of angles that this update has tried."""
    nan_evaluations: Any
    """Number of NaN evaluations of this update."""
    late: _Angle
    """The last angle of chains that have tried all angles of their table. It is undefined for the other chains."""
    totals: ChainTotals

    def pack(self) -> _PackedChains:
        integers = (
            self.update,
            self.tried,
            self.nan_evaluations,
            self.totals.proposals,
            self.totals.nan_evaluations,
            self.totals.failed_searches,
        )
        reals = self.log_likelihood, self.totals.highest, *self.late
        return _PackedChains(self.f, jnp.stack(integers), jnp.stack(reals))


class _PackedChains(NamedTuple):
    """`_Chains` in three arrays, because each array that the loop writes costs time."""

    f: Any
    integers: Any
    reals: Any

    def unpack(self) -> _Chains:
        update, tried, nans, all_proposals, all_nans, all_failed = self.integers
        log_likelihood, highest, *late = self.reals
        totals = ChainTotals(all_proposals, all_nans, all_failed, highest)
        return _Chains(self.f, log_likelihood, update, tried, nans, _Angle(*late), totals)


class _Carry(NamedTuple):
    """The carry of the loop, from one pass to the next."""

    chains: _PackedChains
    draws: Any
    """The packed `DrawBuffer` of the block, shape (draws, chains, size + 5)."""


def run_block_on_device(
    path: Path,
    look_ahead: int,
    passes: int,
    likelihood: Any,
    state: State,
    noise: DeviceNoise,
    schedule: DrawSchedule,
    slots: int,
) -> tuple[State, DrawBuffer, ChainTotals]:
    """Run a block of updates of all chains. Return their states, the draws and the totals.

    Parameters
    ----------
    path : Path
    look_ahead : int
        Number of angles of each chain that are evaluated in a pass: a divisor of WIDTH.
    passes : int
        Number of passes after which the loop checks whether all chains have made their updates.
    likelihood : callable
        Log-likelihood of a centred flat vector.
    state : State
        States before the block.
    noise : DeviceNoise
        Random numbers of the block.
    schedule : DrawSchedule
    slots : int
        Largest number of draws of a chain.
    """
    return run_searches(path, look_ahead, passes, over_many(likelihood, 2), state, noise, schedule, slots)


def run_searches(
    path: Path,
    look_ahead: int,
    passes: int,
    evaluate: Callable[[Any], Any],
    state: State,
    noise: DeviceNoise,
    schedule: DrawSchedule,
    slots: int,
) -> tuple[State, DrawBuffer, ChainTotals]:
    """Run a block of updates, as `run_block_on_device`, with another form of the log-likelihood.

    `evaluate` is a function of points, shape (chains, look_ahead, size). The path may have a `log_factor`.
    """
    block = _Block(path, look_ahead, evaluate, noise, schedule, slots)
    unroll = min(PASSES_PER_GRAPH, passes) if jax.default_backend() == "gpu" else 1
    end = lax.while_loop(
        lambda carry: jnp.any(carry.chains.unpack().update < schedule.updates),
        lambda carry: lax.fori_loop(0, passes, block.one_pass, carry, unroll=unroll),
        block.begin(state),
    )
    chains = end.chains.unpack()
    return State(chains.f, chains.log_likelihood), DrawBuffer.unpack(end.draws, state.f.shape[1]), chains.totals


class _Block:
    """The passes of one block. The attributes are what every pass reads."""

    def __init__(
        self,
        path: Path,
        look_ahead: int,
        evaluate: Callable[[Any], Any],
        noise: DeviceNoise,
        schedule: DrawSchedule,
        slots: int,
    ):
        self.path, self.look_ahead, self.evaluate = path, look_ahead, evaluate
        self.noise, self.schedule, self.slots = noise, schedule, slots
        self.length, count = noise.level.shape
        self.chain = jnp.arange(count, dtype=jnp.int32)

    def begin(self, state: State) -> _Carry:
        """Return the carry before the first pass."""
        count, dtype = len(state.f), state.f.dtype
        none, zero = jnp.zeros(count, jnp.int32), jnp.zeros(count, dtype)
        totals = ChainTotals(none, none, none, state.log_likelihood)
        chains = _Chains(state.f, state.log_likelihood, none, none, none, _Angle(zero, zero, zero), totals)
        return _Carry(chains.pack(), DrawBuffer.empty(self.slots, state))

    def one_pass(self, _: Any, carry: _Carry) -> _Carry:
        """Evaluate the next angles of every chain, and accept the first acceptable one of each."""
        now = carry.chains.unpack()
        row = jnp.minimum(now.update, self.length - 1), self.chain
        here, log_y = self.noise.here[row], now.log_likelihood - self.noise.level[row]
        if self.noise.floor is not None:
            log_y = jnp.fmax(log_y, self.noise.floor)
        running, in_table = now.update < self.schedule.updates, now.tried < WIDTH
        late = self._late_angle(row, here, now)
        theta = jnp.where(in_table[:, None], self._table(row, now.tried), late.theta[:, None])
        a, b = self.path.curve(now.f, self.noise.nu[row][:, : now.f.shape[1]], here[:, None])
        w_a, w_b = self.path.weights(theta)
        values = self.evaluate(a[:, None] * w_a[..., None] + b[:, None] * w_b[..., None])

        # Beyond the table all angles of a pass are equal, so only one of them counts.
        adjusted = values + self.path.log_factor(theta)
        above, used, nans = _first_acceptable(adjusted, log_y, jnp.where(in_table, self.look_ahead, 1))
        last = self.chain, used - 1
        accepted, tried = above & running, now.tried + used
        ended = running & (accepted | (tried >= MAX_EVALUATIONS))
        reached = DrawBuffer(
            f=jnp.where(accepted[:, None], a * w_a[last][:, None] + b * w_b[last][:, None], now.f),
            log_likelihood=jnp.where(accepted, values[last], now.log_likelihood),
            proposals=tried,
            nan_evaluations=now.nan_evaluations + nans,
            search_failed=ended & ~accepted,
            angle=jnp.where(accepted, self.path.angle(here, theta[last]), 0.0),
        )
        return _Carry(_proceed(now, reached, ended, late).pack(), self._write(carry.draws, now.update, reached, ended))

    def _table(self, row: Any, tried: Any) -> Any:
        """Return the next `look_ahead` angles in the table of each chain, shape (chains, look_ahead)."""
        ahead = jnp.arange(self.look_ahead, dtype=jnp.int32)
        column = jnp.minimum(tried, WIDTH - self.look_ahead)[:, None] + ahead
        update, chain = row
        return self.noise.theta[column, update[:, None], chain[:, None]]

    def _late_angle(self, row: Any, here: Any, now: _Chains) -> _Angle:
        """Return the next angle and its bracket, for chains that have tried all angles of their table."""
        noise, at_end = self.noise, now.tried == WIDTH
        edge = _Angle(noise.theta[(WIDTH - 1, *row)], noise.brackets[(0, *row)], noise.brackets[(1, *row)])
        last = tuple(jnp.where(at_end, new, old) for new, old in zip(edge, now.late, strict=True))
        u = angle_uniform(noise.keys[(slice(None), *row)], now.tried.astype(jnp.uint32), here.dtype)
        return _Angle(*next_angle(self.path, here, last, u))

    def _write(self, draws: Any, update: Any, reached: DrawBuffer, ended: Any) -> Any:
        """Return the draws with the states of the chains whose update has ended, if the update is kept as a draw."""
        leaves_draw, slot = self.schedule.slot(update)
        nowhere = self.slots  # beyond the buffer, where writes are dropped
        place = jnp.where(ended & leaves_draw, slot, nowhere), self.chain
        return draws.at[place].set(reached.pack(), mode="drop", unique_indices=True)


def _proceed(now: _Chains, reached: DrawBuffer, ended: Any, late: _Angle) -> _Chains:
    """Return the chains after a pass. A chain whose update has `ended` is at its next update."""
    totals = ChainTotals(
        proposals=now.totals.proposals + jnp.where(ended, reached.proposals, 0),
        nan_evaluations=now.totals.nan_evaluations + jnp.where(ended, reached.nan_evaluations, 0),
        failed_searches=now.totals.failed_searches + jnp.where(ended, reached.search_failed, 0),
        highest=jnp.maximum(now.totals.highest, reached.log_likelihood),
    )
    tried, nans = jnp.where(ended, 0, reached.proposals), jnp.where(ended, 0, reached.nan_evaluations)
    return _Chains(reached.f, reached.log_likelihood, now.update + ended, tried, nans, late, totals)


def _first_acceptable(values: Any, log_y: Any, most: Any) -> tuple[Any, Any, Any]:
    """Find the first value above the slice level among the first `most` values of each chain.

    Return for each chain whether there is one, the number of values used (up to that one, or `most`), and the number of
    NaNs among these. One bit per value reduces this to a sum over the values and a few operations on 32-bit words.
    """
    bit = jnp.left_shift(jnp.uint32(1), jnp.arange(values.shape[1], dtype=np.uint32))

    def bits(true: Any) -> Any:
        return jnp.sum(jnp.where(true, bit, np.uint32(0)), axis=1, dtype=np.uint32)

    candidates = _ones_below(most.astype(np.uint32))
    above = bits(values > log_y[:, None]) & candidates
    first = above & (~above + np.uint32(1))
    used = jnp.where(above > 0, first | (first - np.uint32(1)), candidates)
    return above > 0, _count_ones(used), _count_ones(bits(jnp.isnan(values)) & used)


def _ones_below(count: Any) -> Any:
    """Return a word whose lowest `count` bits are set; `count` is between 1 and 32."""
    return ~np.uint32(0) >> (np.uint32(32) - count)


def _count_ones(word: Any) -> Any:
    return lax.population_count(word).astype(jnp.int32)
