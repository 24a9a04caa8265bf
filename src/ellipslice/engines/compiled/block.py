"""The compiled loop over the updates of a block, its trace, and the runner that calls it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.engines.compiled.scouts import Scout
from ellipslice.engines.compiled.search import CompiledTarget, Found, search
from ellipslice.jax_settings import to_device
from ellipslice.moves import Info, Move, State
from ellipslice.noise import UpdateNoise
from ellipslice.undocumented.xla_loop import run_loop

MAX_CALL_SECONDS = 0.05
"""Target duration of a call. A call is longer only if a single update is. Progress and Ctrl-C wait for a call."""

MAX_GROWTH = 8
"""Largest ratio of the number of updates in a call to that of the call before it."""


class ChainState(NamedTuple):
    """State of a chain between two calls of the compiled loop."""

    state: State
    scout_state: Any
    """State that the scout carries from one search to the next: a pytree, or None."""


class Trace(NamedTuple):
    """Results of the updates of a block, one row per update. Rows without an update are zero.

    All statistics of one type share an array, because each array that a loop carries costs time.
    """

    f: Any
    """States, shape (rows, size)."""
    reals: Any
    """Log-likelihood, angle, and the statistics that the move declares as float: shape (rows, columns)."""
    integers: Any
    """Evaluations, NaN evaluations, search failed (0 or 1), proposals, and the statistics that the move declares as int
    or bool: shape (rows, columns)."""

    @staticmethod
    def empty(rows: int, f: Any, move: Move) -> Trace:
        """Return a trace of `rows` zero rows, for states with the size and type of `f`."""
        reals = sum(kind is float for kind in move.statistics.values())
        return Trace(
            jnp.zeros((rows, len(f)), f.dtype),
            jnp.zeros((rows, 2 + reals), f.dtype),
            jnp.zeros((rows, 4 + len(move.statistics) - reals), jnp.int32),
        )

    @staticmethod
    def row(found: Found, move: Move) -> Trace:
        """Return the row of one update."""
        evaluations, nans, failed, angle, more = found.info
        declared = list(zip(move.statistics.values(), more, strict=True))
        reals = found.state.log_likelihood, angle, *(value for kind, value in declared if kind is float)
        integers = evaluations, nans, failed, found.proposals, *(value for kind, value in declared if kind is not float)
        return Trace(found.state.f, jnp.stack(reals), jnp.stack([jnp.asarray(part, jnp.int32) for part in integers]))

    def columns(self, move: Move) -> tuple[Any, Any, Info, Any]:
        """Return states, log-likelihoods, info and proposals: the arguments of `ChainRows.add`."""
        log_likelihood, angle, *reals = np.moveaxis(self.reals, -1, 0)
        evaluations, nans, failed, proposals, *integers = np.moveaxis(self.integers, -1, 0)
        more = tuple(
            reals.pop(0) if kind is float else integers.pop(0).astype(kind) for kind in move.statistics.values()
        )
        return self.f, log_likelihood, Info(evaluations, nans, failed > 0, angle, more), proposals


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
    """Make the updates `span[0]` to `span[1] - 1` of a block. Return their trace and the chain after them.

    Parameters
    ----------
    rows : int
        Number of rows of the trace, at least the number of updates. It is static, so that one compiled function serves
        every span.
    move : Move
    scout : Scout
        Scout of the move's searches.
    likelihood : callable
        Log-likelihood of a centred flat vector.
    prepared : pytree
        Result of the move's `prepare`.
    start : ChainState
    noise : UpdateNoise
        Random numbers of all updates of the block.
    span : array of two int32
    """
    first, stop = span
    target = CompiledTarget(likelihood, prepared, scout)

    def update(noise: UpdateNoise, chain: ChainState) -> Found:
        if move.path is not None:  # an update is exactly one search, so the scout's state can pass to the next update
            return search(move.path, noise.search(noise.nu[0]), chain.state, likelihood, scout, chain.scout_state)
        state, info = move.step(noise, chain.state, target)
        return Found(state, info, info.evaluations, chain.scout_state)

    def write(t: Any, carry: tuple[ChainState, Trace]) -> tuple[ChainState, Trace]:
        chain, trace = carry
        found = update(noise.at(t), chain)
        trace = jax.tree.map(lambda column, value: column.at[t - first].set(value), trace, Trace.row(found, move))
        return ChainState(found.state, found.scout_state), trace

    chain, trace = lax.fori_loop(first, stop, write, (start, Trace.empty(rows, start.state.f, move)))
    return trace, chain


class BlockRunner:
    """Calls the compiled loop for all chains of a run, and reads its results.

    Parameters
    ----------
    move : Move
    scout : Scout
    likelihood : callable
        Log-likelihood of a centred flat vector.
    prepared : pytree
        Result of the move's `prepare`.
    max_updates : int
        Largest number of updates in a call, which is the number of rows of a trace.
    compile_mode : int
        Form in which the loop is compiled: one of the constants of `undocumented.xla_loop`, in which larger is faster.

    Attributes
    ----------
    updates_per_call : int
        Number of updates in the next call, for any chain. It grows as long as calls are short.
    """

    def __init__(self, move: Move, scout: Scout, likelihood: Any, prepared: Any, max_updates: int, compile_mode: int):
        self._loop, self._static = run_block, (max_updates, move, scout)
        self._move, self._scout = move, scout
        self._likelihood, self._prepared = likelihood, prepared
        self._max_updates, self._compile_mode = max_updates, compile_mode
        self.updates_per_call = 1

    def begin(self, state: State) -> ChainState:
        """Return a chain that starts at `state`, on the device."""
        f = to_device(state.f)
        # JAX would compile the loop twice if the log-likelihood were a Python float here, because the loop returns an
        # array.
        state = State(f, to_device(state.log_likelihood, f.dtype))
        return ChainState(state, self._scout.first_state(self._likelihood, state))

    def run(self, chain: ChainState, noise: Any, first: int, stop: int) -> tuple[Trace, ChainState]:
        """Make the updates `first` to `stop - 1` of a block. Return their trace and the chain after them.

        The call is asynchronous: reading the arrays waits until they are computed.
        """
        arguments = self._likelihood, self._prepared, chain, noise, np.array([first, stop], np.int32)
        result, mode = run_loop(self._compile_mode, self._loop, self._static, *arguments)
        # Chains share this object, and in the meantime another may have fallen back to a lower mode.
        self._compile_mode = min(self._compile_mode, mode)
        return result

    def check(self, chain: ChainState) -> None:
        """Raise if the scout's assumptions about the log-likelihood were violated."""
        self._scout.check(chain.scout_state)

    def read(self, trace: Trace, count: int) -> tuple[np.ndarray, np.ndarray, Info, np.ndarray]:
        """Return states, log-likelihoods, info and proposals of the first `count` rows of a trace, as NumPy arrays."""
        few = 2 * count <= len(trace.f)  # few rows are copied, because a view would keep the memory of all rows
        filled = (np.asarray(part)[:count] for part in trace)
        return Trace(*(part.copy() if few else part for part in filled)).columns(self._move)

    def adapt(self, count: int, seconds: float) -> None:
        """Increase `updates_per_call` if a call of `count` updates took much less than MAX_CALL_SECONDS."""
        growth = min(MAX_GROWTH, int(MAX_CALL_SECONDS / seconds))
        self.updates_per_call = min(max(self.updates_per_call, growth * count), self._max_updates)
