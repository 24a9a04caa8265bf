"""The loop over the updates of a block: compiled code, its trace, and the object that calls it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.engines.compiled.scouts import Scout
from ellipslice.engines.compiled.search import CompiledTarget, Found, search
from ellipslice.moves import Info, Move, State
from ellipslice.noise import UpdateNoise
from ellipslice.undocumented.xla_loop import run_loop

MAX_CALL_SECONDS = 0.05
"""Longest call, unless a single update takes longer: progress and Ctrl-C wait for it."""

MAX_GROWTH = 8
"""The next call makes at most this many times as many updates as the last one."""


class ChainState(NamedTuple):
    """Where a chain is between two calls."""

    state: State
    known: Any
    """What the scout knows there."""


class Trace(NamedTuple):
    """One row for each update of a block. Rows that no update has written to are zero.

    Numbers of one type are side by side in one array, because each array of a loop takes time.
    """

    f: Any
    """States, shape (rows, size)."""
    reals: Any
    """Log-likelihood, angle, and what the move declares as float."""
    integers: Any
    """Evaluations, NaNs, whether the search failed, proposals, and what the move declares as int or bool."""

    @staticmethod
    def empty(rows: int, f: Any, move: Move) -> Trace:
        """Return the trace of a block before its first update; f is like a state."""
        reals = sum(kind is float for kind in move.statistics.values())
        return Trace(
            jnp.zeros((rows, len(f)), f.dtype),
            jnp.zeros((rows, 2 + reals), f.dtype),
            jnp.zeros((rows, 4 + len(move.statistics) - reals), jnp.int32),
        )

    @staticmethod
    def row(found: Found, move: Move) -> Trace:
        """Return what one update leaves in the trace."""
        evaluations, nans, stuck, angle, more = found.info
        declared = list(zip(move.statistics.values(), more, strict=True))
        reals = found.state.log_likelihood, angle, *(value for kind, value in declared if kind is float)
        integers = evaluations, nans, stuck, found.proposals, *(value for kind, value in declared if kind is not float)
        return Trace(found.state.f, jnp.stack(reals), jnp.stack([jnp.asarray(part, jnp.int32) for part in integers]))

    def columns(self, move: Move) -> tuple[Any, Any, Info, Any]:
        """Return states, log-likelihoods, info and proposals."""
        log_likelihood, angle, *reals = self.reals.T
        evaluations, nans, stuck, proposals, *integers = self.integers.T
        more = tuple(
            reals.pop(0) if kind is float else integers.pop(0).astype(kind) for kind in move.statistics.values()
        )
        return self.f, log_likelihood, Info(evaluations, nans, stuck > 0, angle, more), proposals


def run_block(
    rows: int,
    move: Move,
    scout: Scout,
    likelihood: Any,
    prepared: Any,
    start: ChainState,
    noise: UpdateNoise,
    span: Any,
) -> tuple[Trace, ChainState]:
    """Make the updates `span[0]` to `span[1]` of a block.

    Parameters
    ----------
    rows : int
        Rows of the trace: at least the number of updates. (It is static, so that any span runs the same code.)
    move : Move
    scout : Scout
        Of the move's searches.
    likelihood : callable
    prepared : pytree
        What the move prepared.
    start : ChainState
    noise : UpdateNoise
        Of all updates of the block.
    span : array of two int32
    """
    first, stop = span
    target = CompiledTarget(likelihood, prepared, scout)

    def update(noise: UpdateNoise, chain: ChainState) -> Found:
        if move.path is not None:  # an update is one search, so the scout can learn from the last one
            return search(move.path, noise.search(noise.nu[0]), chain.state, likelihood, scout, chain.known)
        state, info = move.step(noise, chain.state, target)
        return Found(state, info, info.evaluations, chain.known)

    def write(t: Any, carry: tuple[ChainState, Trace]) -> tuple[ChainState, Trace]:
        chain, trace = carry
        found = update(noise.at(t), chain)
        trace = jax.tree.map(lambda column, value: column.at[t - first].set(value), trace, Trace.row(found, move))
        return ChainState(found.state, found.known), trace

    chain, trace = lax.fori_loop(first, stop, write, (start, Trace.empty(rows, start.state.f, move)))
    return trace, chain


class BlockRunner:
    """Calls the compiled loop for the chains of a run, and reads what it returns.

    Parameters
    ----------
    move : Move
    scout : Scout
    likelihood : callable
    prepared : pytree
        What the move prepared.
    max_updates : int
        Largest number of updates in a call: the rows of a trace.
    way : int
        How the loop is compiled: see `undocumented.xla_loop`.

    Attributes
    ----------
    updates_per_call : int
        Updates in the next call, for any chain. It grows as long as calls are short.
    """

    def __init__(self, move: Move, scout: Scout, likelihood: Any, prepared: Any, max_updates: int, way: int):
        self._static, self._move, self._scout = (max_updates, move, scout), move, scout
        self._likelihood, self._prepared = likelihood, prepared
        self._max_updates, self._way = max_updates, way
        self.updates_per_call = 1

    def begin(self, state: State) -> ChainState:
        """Return a chain that begins at a state."""
        f = jnp.asarray(state.f)
        # A Python float would be another type to JAX than what the loop returns, and it would be compiled twice.
        state = State(f, jnp.asarray(state.log_likelihood, f.dtype))
        return ChainState(state, self._scout.first(self._likelihood, state))

    def run(self, chain: ChainState, noise: UpdateNoise, first: int, stop: int) -> tuple[Trace, ChainState]:
        """Make the updates `first` to `stop` of a block. Return their trace and the chain after them.

        The arrays may not be computed yet: reading them waits.
        """
        arguments = self._likelihood, self._prepared, chain, noise, np.array([first, stop], np.int32)
        result, way = run_loop(self._way, run_block, self._static, *arguments)
        # Chains share this object, and in the meantime another may have fallen back farther.
        self._way = min(self._way, way)
        return result

    def check(self, chain: ChainState) -> None:
        """Raise if the scout's assumptions do not hold."""
        self._scout.check(chain.known)

    def read(self, trace: Trace, count: int) -> tuple[np.ndarray, np.ndarray, Info, np.ndarray]:
        """Return states, log-likelihoods, info and proposals of the `count` updates with which a trace begins."""
        few = 2 * count <= len(trace.f)  # then they are copied, because a view would keep the memory of all rows
        filled = (np.asarray(part)[:count] for part in trace)
        return Trace(*(part.copy() if few else part for part in filled)).columns(self._move)

    def adapt(self, count: int, seconds: float) -> None:
        """Let the next calls make more updates, if `count` updates took so few seconds."""
        growth = min(MAX_GROWTH, int(MAX_CALL_SECONDS / seconds))
        self.updates_per_call = min(max(self.updates_per_call, growth * count), self._max_updates)
