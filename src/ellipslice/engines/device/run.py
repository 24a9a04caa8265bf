"""A run of all chains on a device, in blocks of updates.

While the draws of one block are read, the next block runs on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from ellipslice.engines.base import Checkpoint, Counts, RunSpec
from ellipslice.engines.device.draws import DrawBuffer, DrawSchedule
from ellipslice.engines.device.lock_step import run_lock_step
from ellipslice.engines.device.loop import run_block_on_device
from ellipslice.engines.device.noise import DeviceNoise, draw_noise, first_angles
from ellipslice.engines.device.prior_draws import Source
from ellipslice.engines.device.reference_updates import UPDATES
from ellipslice.engines.device.sharding import REPLICATED, SHARED, SHARED_DRAWS
from ellipslice.engines.rows import STATISTICS, DeviceCheckpoints, DeviceStates, Rows
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import Move, State
from ellipslice.undocumented.gpu_graph import with_loops_in_graphs


class Plan(NamedTuple):
    """Settings that are compiled into the code of a block: a static argument."""

    fused: bool
    """True for the GPU kernel, False for the XLA loop."""
    move: Move
    """A move that is a single search, or one that runs in lock step."""
    look_ahead: int
    """Number of angles of a chain that are evaluated in parallel."""
    length: int
    """Number of updates in a block."""
    slots: int
    """Largest number of draws of a chain in a block."""
    dtype: Any
    kicks: int | None = None
    """Number of kicks of a trajectory. None if the move has none, or if they are data, as on a CPU."""
    mesh: Mesh | None = None
    """The devices among which the chains are divided. None if there is only one."""


class _Sums(NamedTuple):
    """Sums over the updates of all chains in a block: arrays of shape (devices,)."""

    updates: Any
    proposals: Any
    nan_evaluations: Any
    search_failed: Any
    first_accepted: Any
    """Number of updates that accepted their first proposal. It is 0 unless chains run in lock step."""
    highest: Any
    """Largest log-likelihood after any of these updates."""


def _run_block(plan: Plan, *arguments: Any) -> tuple[State, DrawBuffer, _Sums]:
    """Run a block of updates of all chains. The arguments are those of `_run_on_one_device`.

    Return the new states, the draws and the sums. Several devices do not wait for each other inside a block.
    """
    if plan.mesh is None:
        return _run_on_one_device(plan, *arguments)
    layout: list[Any] = [SHARED_DRAWS] * len(DrawBuffer._fields)
    state, draws = State(SHARED, SHARED), DrawBuffer(*layout)
    in_specs = REPLICATED, REPLICATED, SHARED_DRAWS, REPLICATED, state, REPLICATED, REPLICATED, REPLICATED
    out_specs = state, draws, _Sums(*[SHARED] * len(_Sums._fields))
    run = jax.shard_map(
        partial(_run_on_one_device, plan), mesh=plan.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )
    return run(*arguments)


run_block = jax.jit(_run_block, static_argnums=0)
run_lock_step_block = with_loops_in_graphs(_run_block)
"""`run_block` for moves that run in lock step, which have few loops whose length is data."""


def _run_on_one_device(
    plan: Plan, likelihood: Any, source: Any, keys: Any, first: Any, state: State, stop: Any, since: Any, thin: Any
) -> tuple[State, DrawBuffer, _Sums]:
    """Run the block's updates of the chains of one device.

    Parameters
    ----------
    plan : Plan
    likelihood : callable
    source : Source or ReferenceSources
        Source of draws from the prior, or the sources of a move that runs in lock step.
    keys : array, shape (2, chains)
        Threefry keys of the chains.
    first : uint32
        Number of the block's first update.
    state : State
        States of the chains before the block.
    stop, since, thin : int32
        Number of updates to make, number of the first one counted from the end of warm-up, and thinning: the fields of
        `DrawSchedule`.
    """
    schedule = DrawSchedule(stop, since, thin)
    if plan.move.path is None:
        source = source if plan.kicks is None else source.with_kicks(plan.kicks)
        updates = UPDATES[type(plan.move)](
            plan.move, plan.look_ahead, likelihood, source, keys, first, plan.length, plan.dtype
        )
        state, draws, counts, first_accepted = run_lock_step(updates, state, schedule, plan.slots)
    else:
        loop, noise = _loop_and_noise(plan, source, keys, first)
        state, draws, counts = loop(likelihood, state, noise, schedule, plan.slots)
        first_accepted = jnp.int32(0)
    proposals, nans, failed = (jnp.sum(part, dtype=np.int32) for part in counts[:3])
    sums = _Sums(stop * counts.nan_evaluations.size, proposals, nans, failed, first_accepted, jnp.max(counts.highest))
    return state, draws, _Sums(*(jnp.reshape(part, 1) for part in sums))


def _loop_and_noise(plan: Plan, source: Source, keys: Any, first: Any) -> tuple[Callable[..., Any], DeviceNoise]:
    """Return the loop for moves that are a single search, and the random numbers of the block."""
    path = plan.move.path
    assert path is not None  # noqa: S101  the caller has checked it
    if plan.fused:
        from ellipslice.engines.device import kernel, kernel_angles  # Pallas takes a second to import

        angles, loop = kernel_angles.fused_angles, partial(kernel.fused_block, path, plan.look_ahead)
    else:
        angles, loop = first_angles, partial(run_block_on_device, path, plan.look_ahead, plan.look_ahead)
    return loop, draw_noise(path, source, keys, first, plan.length, plan.dtype, angles, in_terms=plan.fused)


class _Block(NamedTuple):
    """A block of updates that was sent to the device, and whose results may not be computed yet."""

    first: int
    """Number of its first update."""
    stop: int
    """Number of the first update after the block."""
    before: State
    """States of the chains before the block, on the device."""
    draws: DrawBuffer
    kept: Mapping[str, Any] | None
    """Result of `Engine.of_block` for the states of the draws."""
    sums: _Sums


class BatchedRun:
    """All chains of a run in progress on the device; see `base.Run`.

    Parameters
    ----------
    plan : Plan
    fixed : tuple
        Arguments of `run_block` that stay the same: the likelihood, the source of draws and the chain keys.
    spec : RunSpec
    starts : sequence of Checkpoint
    state : State
        Initial states of all chains, on the device.
    updates : int
        Total number of updates of each chain, including those before the start.
    of_block : callable, optional
        `Engine.of_block`.
    """

    def __init__(
        self,
        plan: Plan,
        fixed: tuple[Any, ...],
        spec: RunSpec,
        starts: Sequence[Checkpoint],
        state: State,
        updates: int,
        of_block: Callable[[Any], Mapping[str, Any] | None] | None = None,
    ):
        self._plan, self._fixed, self._spec, self._state, self._of_block = plan, fixed, spec, state, of_block
        self._done, self._updates = starts[0].updates, updates
        self._block_start = self._done, state
        """Number of updates and states at the start of the block that was sent last."""
        self._sent: _Block | None = None
        self._before = self._last = starts[0]
        """Checkpoints of the first chain, with the counts of all chains: before and after the block read last."""
        self._rows: list[Rows] = []

    @property
    def finished(self) -> bool:
        return self._done >= self._updates and self._sent is None

    def advance(self) -> None:
        sent, self._sent = self._sent, None
        if self._done < self._updates:
            first, before = self._done, self._state
            self._block_start = first, before
            count = min(self._plan.length, self._updates - first)
            numbers = (np.int32(number) for number in (count, first - self._spec.warmup, self._spec.thin))
            run = run_lock_step_block if self._plan.move.path is None else run_block
            with jax_settings(self._plan.dtype == np.float64):
                self._state, draws, sums = run(self._plan, *self._fixed, np.uint32(first), before, *numbers)
            self._done += count
            # Before the next block, because a device computes in the order of the calls.
            kept = None
            if self._of_block is not None and self._draws_before(self._done) > self._draws_before(first):
                kept = self._of_block(draws.f)
            self._sent = _Block(first, self._done, before, draws, kept, sums)
        if sent is not None:
            self._rows.append(self._read(sent))

    def _draws_before(self, update: int) -> int:
        """Return the number of draws of each chain before an update."""
        return max(0, update - self._spec.warmup) // self._spec.thin

    def extend(self, updates: int) -> None:
        if updates > self._updates and self._done % self._plan.length:
            # Repeat the last block with its full length, because random numbers of a shorter block round differently.
            self._done, self._state = self._block_start
        self._updates = updates

    def take(self) -> list[Rows]:
        rows, self._rows = self._rows, []
        return rows

    def close(self) -> None:
        """Do nothing, because a run on a device holds only memory."""

    def _read(self, block: _Block) -> Rows:
        """Return the rows of a block. Statistics are copied to the host; states stay on the device until needed."""
        first, stop = self._draws_before(block.first), self._draws_before(block.stop)
        count, (f, *statistics, more) = stop - first, block.draws
        log_likelihood, proposals, *rest = (np.asarray(part)[:count].T for part in statistics)
        columns = log_likelihood, proposals, proposals, *rest, *(np.asarray(part)[:count].T for part in more)
        names = *STATISTICS, *self._spec.move.statistics
        sums = _Sums(*(np.asarray(part) for part in block.sums))
        # `extend` repeats a block that was cut short, so the counts start again from the beginning of that block.
        before = self._before if block.first == self._before.updates else self._last
        total, tried, nans, failed, first_accepted = (part.sum().item() for part in sums[:-1])
        counts = before.counts + Counts(total, tried, tried, nans, failed, first_accepted)
        state = self._last.state
        if count:
            state = State(np.asarray(f[count - 1, 0]), float(log_likelihood[0, -1]))
        self._before = before._replace(updates=block.first)
        self._last = Checkpoint(block.stop, state, counts)
        resume = DeviceCheckpoints(block.first, block.before, before.counts)
        return Rows(
            chains=slice(0, len(resume)),
            first=first,
            f=DeviceStates(f, 0, count, block.kept),
            statistics=dict(zip(names, columns, strict=True)),
            resume=resume,
            last=[self._last],
            highest=sums.highest.max().item(),
        )
