"""The compiled engine: likelihoods that JAX can trace, one compiled loop per chain, a thread per core."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines import loops
from ellipslice.engines.angles import WIDTH, AngleTable
from ellipslice.engines.base import Engine, Piece
from ellipslice.engines.loops import Block, Progress, Trace
from ellipslice.engines.tracing import compilable, largest_array, operations
from ellipslice.moves import Info, Move, Search, State
from ellipslice.moves.base import Lots
from ellipslice.noise import Noise, block_length, draw_block
from ellipslice.settings import jax_settings

TURN = 0.1
"""Seconds of work between two looks at the clock: how fast progress and Ctrl-C are answered."""

ONE_FUNCTION = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "add",
        "and",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "broadcast_in_dim",
        "cbrt",
        "ceil",
        "clamp",
        "concatenate",
        "cond",
        "convert_element_type",
        "copy",
        "cos",
        "cosh",
        "custom_jvp_call",
        "custom_vjp_call",
        "div",
        "dynamic_slice",
        "dynamic_update_slice",
        "eq",
        "erf",
        "erf_inv",
        "erfc",
        "exp",
        "exp2",
        "expand_dims",
        "expm1",
        "floor",
        "ge",
        "gt",
        "integer_pow",
        "iota",
        "is_finite",
        "jit",
        "le",
        "lgamma",
        "log",
        "log1p",
        "logistic",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "not",
        "optimization_barrier",
        "or",
        "pjit",
        "pow",
        "reduce_and",
        "reduce_max",
        "reduce_min",
        "reduce_or",
        "reduce_prod",
        "reduce_sum",
        "rem",
        "reshape",
        "rev",
        "round",
        "rsqrt",
        "scan",
        "select_n",
        "sign",
        "sin",
        "sinh",
        "slice",
        "sqrt",
        "square",
        "squeeze",
        "stop_gradient",
        "sub",
        "tan",
        "tanh",
        "transpose",
        "while",
        "xor",
    ]
)
"""Operations that XLA's CPU backend can put into one function with the loop around them, if arrays are small."""

SMALL = 4096
"""Values in an array that is small. (For larger ones it would gain little.)"""


class CompiledEngine(Engine):
    """Chains in compiled code. Each has its own loop, so none waits for another, and the same bits in any company."""

    name: ClassVar[str] = "compiled"

    @cached_property
    def _likelihood(self) -> Any:
        with jax_settings():
            return compilable(self.posterior.log_likelihood, self.posterior.prior.size)

    @property
    def operations(self) -> set[str]:
        """The names of the operations in the log-likelihood, as far as we have traced it."""
        return operations(self._likelihood)

    def evaluate(self, f: np.ndarray) -> float:
        return float(loops.evaluate(self._likelihood, f))

    def run(
        self,
        move: Move,
        seed: int,
        chains: Sequence[int],
        starts: Sequence[State],
        updates: int,
        look_ahead: int | None = None,
    ) -> CompiledRun:
        with jax_settings():
            prior = self.posterior.prior
            in_one = (
                jax.default_backend() == "cpu"
                and self.operations <= ONE_FUNCTION
                and max(prior.size, largest_array(self._likelihood)) <= SMALL
            )
            prepared = move.prepare(prior)
            lots = move.lots(prior, prepared)
            updater = (
                _Searches(in_one and look_ahead in (None, 1), move, look_ahead or 1, self._likelihood)
                if isinstance(move, Search)
                else _Steps(in_one and prepared is None, move, self._likelihood, jax.tree.map(jnp.asarray, prepared))
            )
            return CompiledRun(
                [
                    _Chain(i, number, state, updates, prior.size, lots, updater, seed)
                    for i, (number, state) in enumerate(zip(chains, starts, strict=True))
                ]
            )


class CompiledRun:
    """Chains under way, a thread for each core."""

    def __init__(self, chains: list[_Chain]):
        self._chains = chains
        self._pool = ThreadPoolExecutor(min(len(chains), os.cpu_count() or 1), "ellipslice")

    @property
    def finished(self) -> bool:
        return all(chain.finished for chain in self._chains)

    def advance(self) -> None:
        for future in [self._pool.submit(chain.advance) for chain in self._chains if not chain.finished]:
            future.result()

    def take(self) -> list[Piece]:
        return [piece for chain in self._chains for piece in chain.take()]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class _Chain:
    """One chain: its state on the device, its noise, and what it has drawn but not handed over."""

    def __init__(
        self, position: int, number: int, state: State, updates: int, size: int, lots: Lots, updater: Any, seed: int
    ):
        self._position, self._number, self._lots, self._updater, self._seed = position, number, lots, updater, seed
        self._length = block_length(size)
        self._progress = Progress(jnp.int32(0), jnp.int32(0), jnp.int32(0), jax.tree.map(jnp.asarray, state))
        self._updates, self._done = updates, 0
        self._stretch = 1  # then twice as many as long as a turn has room for them
        self._block: int = -1
        self._noise: Any = None
        self._next: Any = None
        self._drawn: list[Piece] = []

    @property
    def finished(self) -> bool:
        return self._done >= self._updates

    def advance(self) -> None:
        end = time.perf_counter() + TURN
        with jax_settings():
            while not self.finished:
                self._advance_stretch()
                if time.perf_counter() > end:
                    break

    def take(self) -> list[Piece]:
        drawn, self._drawn = self._drawn, []
        return drawn

    def _advance_stretch(self) -> None:
        """A block of updates, or as many as fit into a turn; the next block's noise is drawn while they run."""
        block, first = divmod(self._done, self._length)
        if block != self._block:
            self._noise, self._next = (self._next or self._draw(block)), None
            self._block = block
            self._progress = self._progress._replace(t=jnp.int32(0))
        stop = min(self._length, first + self._stretch, first + self._updates - self._done)
        began = time.perf_counter()
        trace, self._progress = self._updater.run(self._progress, self._noise, stop)
        if self._next is None and (block + 1) * self._length < self._updates:
            self._next = self._draw(block + 1)
        reached = int(self._progress.t)
        if reached > first:
            rows = slice(first, reached)
            self._drawn.append(Piece(self._position, self._done, *self._updater.read(trace, self._noise, rows)))
            self._done += reached - first
        if reached < stop:
            self._noise = self._updater.more_angles(self._noise, reached, int(self._progress.tried))
        if time.perf_counter() - began < TURN / 2:
            self._stretch = min(2 * self._stretch, self._length)

    def _draw(self, block: int) -> Any:
        source, draws, parts = self._lots
        return self._updater.prepare(draw_block(source, self._seed, self._number, block, self._length, parts, draws))


class _Searches:
    """How the updates of a search are run: its angles are worked out ahead, and looked up."""

    def __init__(self, in_one: bool, move: Search, look_ahead: int, likelihood: Any):
        self.move, self._look_ahead, self._likelihood, self._in_one = move, look_ahead, likelihood, in_one

    def prepare(self, noise: Noise) -> tuple[Block, AngleTable]:
        table = AngleTable(self.move, noise.uniforms[:, 0], compiled=True)
        tried = np.zeros(len(noise.level), np.int32)
        return Block(noise.nu[:, 0], noise.level[:, 0], table.here, table.theta, tried), table

    def run(self, progress: Progress, noise: tuple[Block, AngleTable], stop: int) -> tuple[Trace, Progress]:
        arguments = self.move, self._look_ahead, self._likelihood, progress, noise[0], stop
        try:
            return loops.search_block(self._in_one, *arguments)
        except jax.errors.JaxRuntimeError:
            if not self._in_one:
                raise
            self._in_one = False  # XLA could not, so as it comes
            return loops.search_block(False, *arguments)

    def read(self, trace: Trace, noise: tuple[Block, AngleTable], rows: slice) -> tuple[np.ndarray, np.ndarray, Info]:
        f, log_likelihood, info = jax.tree.map(lambda part: np.asarray(part)[rows], trace)
        table = noise[1]
        column = info.evaluations - 1
        angle = table.theta[rows][np.arange(len(column)), column % WIDTH] - table.here[rows]
        for row in np.flatnonzero(column >= WIDTH):
            angle[row] = table.angle(rows.start + int(row), int(column[row]))
        return f, log_likelihood, info._replace(angle=np.where(info.stuck, 0.0, angle))

    def more_angles(self, noise: tuple[Block, AngleTable], t: int, tried: int) -> tuple[Block, AngleTable]:
        """The next sheet for update `t`, which has tried all it had."""
        block, table = noise
        theta, before = block.theta.copy(), block.tried.copy()
        theta[t], before[t] = table.sheet(t, tried // WIDTH), tried
        return block._replace(theta=theta, tried=before), table


class _Steps:
    """How the updates of any other move are run."""

    def __init__(self, in_one: bool, move: Move, likelihood: Any, prepared: Any):
        self.move, self._likelihood, self._prepared, self._in_one = move, likelihood, prepared, in_one

    def prepare(self, noise: Noise) -> Noise:
        return noise

    def run(self, progress: Progress, noise: Noise, stop: int) -> tuple[Trace, Progress]:
        return loops.step_block(self._in_one, self.move, self._likelihood, self._prepared, progress, noise, stop)

    def read(self, trace: Trace, noise: Noise, rows: slice) -> tuple[np.ndarray, np.ndarray, Info]:
        return tuple(jax.tree.map(lambda part: np.asarray(part)[rows], trace))
