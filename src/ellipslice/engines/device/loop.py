"""The search loop of many chains at once in plain XLA, in which no chain waits for another.

Each pass evaluates a few angles of every chain's current update. A chain that finds an acceptable one goes on to its
next update; one that does not stays with the rest of its angles. So all chains are always busy, each somewhere else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.engines.device.noise import DeviceNoise, angle_uniform
from ellipslice.moves import State
from ellipslice.moves.search import MAX_EVALUATIONS, WIDTH, Path, next_angle
from ellipslice.programs.traced import over_many

AT_ONCE = 4
"""Passes that a GPU is told of at a time: their kernels are one graph, and a graph takes a while to launch."""


class Wanted(NamedTuple):
    """Which updates leave a draw: those whose number, counted from the end of warm-up, is thin - 1, 2 thin - 1, ..."""

    since: Any
    """The number of the block's first update, negative during warm-up."""
    thin: Any

    def slot(self, t: Any) -> tuple[Any, Any]:
        """Whether update t of the block leaves a draw, and its place among those of the block."""
        number = self.since + t + 1
        wanted = (number > 0) & (number % self.thin == 0)
        return wanted, number // self.thin - self._before - 1

    @property
    def first(self) -> Any:
        """The first update of the block that leaves a draw, if it is so long."""
        return (self._before + 1) * self.thin - self.since - 1

    @property
    def _before(self) -> Any:
        """Draws of earlier blocks."""
        return jnp.maximum(self.since, 0) // self.thin


class Draws(NamedTuple):
    """What the updates that leave a draw left behind, (draws, chains)."""

    f: Any
    """(draws, chains, size)"""
    log_likelihood: Any
    proposals: Any
    nans: Any
    stuck: Any
    angle: Any


class Counts(NamedTuple):
    """Sums over all updates of each chain, and its largest log-likelihood."""

    proposals: Any
    nans: Any
    stuck: Any
    highest: Any


class _Pass(NamedTuple):
    """Where all chains are. What is small is packed into few arrays: each array that is written to takes time."""

    whole: Any
    """Of each chain the update, its angles tried and NaNs met, and `Counts` but for the last, (6, chains)."""
    real: Any
    """Its log-likelihood, the highest so far, and beyond its table of angles the angle and bracket, (5, chains)."""
    f: Any
    draws: Any
    """The states that are draws, and what else is known of them, (draws, chains, size + 5)."""


def barrier_free_block(
    path: Path,
    look_ahead: int,
    passes: int,
    likelihood: Any,
    state: State,
    noise: DeviceNoise,
    stop: Any,
    wanted: Wanted,
    slots: int,
) -> tuple[State, Draws, Counts]:
    """`stop` updates of all chains, with room for `slots` draws.

    `look_ahead` angles, a divisor of WIDTH, are evaluated in a pass; after `passes` the loop looks whether it is done.
    """
    length, chains = noise.level.shape
    size, dtype = state.f.shape[1], state.f.dtype
    chain = jnp.arange(chains, dtype=jnp.int32)
    ahead = jnp.arange(look_ahead, dtype=jnp.int32)
    evaluate = over_many(likelihood, 2)

    def one_pass(_: Any, now: _Pass) -> _Pass:
        (t, tried, nans, *counts), (log_l, highest, *late), f, draws = now
        row = jnp.minimum(t, length - 1), chain
        here, running, in_table = noise.here[row], t < stop, tried < WIDTH
        late = _late_angle(path, noise, row, here, tried, late)
        column = jnp.minimum(tried, WIDTH - look_ahead)[:, None] + ahead
        table = noise.theta[column, row[0][:, None], chain[:, None]]
        theta = jnp.where(in_table[:, None], table, late[0][:, None])  # beyond the table all are the same one
        a, b = path.curve(f, noise.nu[row][:, :size], here[:, None])
        w_a, w_b = path.weights(theta)
        values = evaluate(a[:, None] * w_a[..., None] + b[:, None] * w_b[..., None])

        log_y = log_l - noise.level[row]
        accepted, used, met = _first_acceptable(values, log_y, jnp.where(in_table, look_ahead, 1))
        pick = chain, used - 1
        tried, nans, accepted = tried + used, nans + met, accepted & running
        ended = running & (accepted | (tried >= MAX_EVALUATIONS))
        f = jnp.where(accepted[:, None], a * w_a[pick][:, None] + b * w_b[pick][:, None], f)
        log_l = jnp.where(accepted, values[pick], log_l)
        stuck = ended & ~accepted
        angle = jnp.where(accepted, theta[pick] - here, 0.0)
        leaves_draw, slot = wanted.slot(t)
        place = jnp.where(ended & leaves_draw, slot, slots), chain
        known = (part.astype(dtype)[:, None] for part in (log_l, tried, nans, stuck, angle))
        counts = [count + jnp.where(ended, part, 0) for count, part in zip(counts, (tried, nans, stuck), strict=True)]
        now_at = t + ended, jnp.where(ended, 0, tried), jnp.where(ended, 0, nans)
        return _Pass(
            jnp.stack([*now_at, *counts]),
            jnp.stack([log_l, jnp.maximum(highest, log_l), *late]),
            f,
            draws.at[place].set(jnp.concatenate([f, *known], axis=1), mode="drop", unique_indices=True),
        )

    nothing = jnp.zeros(chains, dtype)
    begin = _Pass(
        jnp.zeros((6, chains), jnp.int32),
        jnp.stack([state.log_likelihood, state.log_likelihood, nothing, nothing, nothing]),
        state.f,
        jnp.zeros((slots, chains, size + 5), dtype),
    )
    at_once = min(AT_ONCE, passes) if jax.default_backend() == "gpu" else 1
    end = lax.while_loop(
        lambda now: jnp.any(now.whole[0] < stop),
        lambda now: lax.fori_loop(0, passes, one_pass, now, unroll=at_once),
        begin,
    )
    log_likelihood, proposals, nans, stuck, angle = (end.draws[..., size + i] for i in range(5))
    whole = proposals.astype(jnp.int32), nans.astype(jnp.int32), stuck > 0
    draws = Draws(end.draws[..., :size], log_likelihood, *whole, angle)
    counts = Counts(end.whole[3], end.whole[4], end.whole[5], end.real[1])
    return State(end.f, end.real[0]), draws, counts


def _first_acceptable(values: Any, log_y: Any, most: Any) -> tuple[Any, Any, Any]:
    """Of each chain: whether one of the first `most` values is above the level; how many were looked at; NaNs among.

    A bit for each value makes this one sum over them, and a few operations on words.
    """
    bit = jnp.left_shift(jnp.uint32(1), jnp.arange(values.shape[1], dtype=np.uint32))

    def bits(true: Any) -> Any:
        return jnp.sum(jnp.where(true, bit, np.uint32(0)), axis=1, dtype=np.uint32)

    looked_at = _ones_below(most.astype(np.uint32))
    above = bits(values > log_y[:, None]) & looked_at
    first = above & (~above + np.uint32(1))
    seen = jnp.where(above > 0, first | (first - np.uint32(1)), looked_at)
    return above > 0, _count_ones(seen), _count_ones(bits(jnp.isnan(values)) & seen)


def _ones_below(count: Any) -> Any:
    """A word whose lowest `count` bits are set, 1 to 32 of them."""
    return ~np.uint32(0) >> (np.uint32(32) - count)


def _count_ones(word: Any) -> Any:
    return lax.population_count(word).astype(jnp.int32)


def _late_angle(path: Path, noise: DeviceNoise, row: Any, here: Any, tried: Any, late: Any) -> tuple[Any, Any, Any]:
    """The angle number `tried` and its bracket, for chains that are beyond their table of angles."""
    edge = noise.theta[(WIDTH - 1, *row)], noise.brackets[(0, *row)], noise.brackets[(1, *row)]
    last = tuple(jnp.where(tried == WIDTH, new, old) for new, old in zip(edge, late, strict=True))
    u = angle_uniform(noise.keys[(slice(None), *row)], tried.astype(jnp.uint32), here.dtype)
    return next_angle(path, here, last, u)
