"""Compiled chains in progress, on threads, with blocks of random numbers that are drawn ahead."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.compiled.block import BlockRunner, ChainState, Trace
from ellipslice.engines.rows import ChainRows, Rows
from ellipslice.engines.threads import limit_blas_threads
from ellipslice.jax_settings import on_cpu
from ellipslice.machine import available_cores
from ellipslice.noise import NoiseSpec, UpdateNoise, draw_block

TURN_SECONDS = 0.025
"""Time for which a chain makes updates in one turn. Its draws are then stored while the next turn runs."""

MAX_TURNS_PER_CORE = 4
"""Largest number of chains per core in one call of `advance`. It limits the time that progress and Ctrl-C wait."""

NOISE_BLOCKS_AHEAD = 2
"""Number of blocks of random numbers that are drawn ahead if cores are free: drawing may take longer than updating."""


class CompiledRun:
    """Chains in progress, on a pool of threads. If cores are left, other threads draw random numbers ahead.

    `advance` waits for one turn of the chains and starts the next one before it returns. So chains run while the
    caller collects and stores their draws.
    """

    def __init__(self, chains: list[CompiledChain], threads: int):
        self._chains = chains
        threads = min(len(chains), threads)
        self._pool = ThreadPoolExecutor(threads, "ellipslice-run")
        drawers = min(NOISE_BLOCKS_AHEAD * threads, available_cores())
        self._drawers = ThreadPoolExecutor(drawers, "ellipslice-draw") if threads < available_cores() else None
        self._running: list[Future[None]] = []
        self._limits = contextlib.ExitStack()

    @property
    def finished(self) -> bool:
        return not self._running and all(chain.finished for chain in self._chains)

    def advance(self) -> None:
        if not self._running:
            self._begin_turn()
        running, self._running = self._running, []
        for future in running:
            future.result()
        self._begin_turn()

    def extend(self, updates: int) -> None:
        for chain in self._chains:
            chain.updates = updates

    def take(self) -> list[Rows]:
        return [rows for chain in self._chains for rows in chain.take()]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        if self._drawers is not None:
            self._drawers.shutdown(cancel_futures=True)
        self._limits.close()

    def _begin_turn(self) -> None:
        """Begin a turn of the unfinished chains that have made the fewest updates."""
        active = [chain for chain in self._chains if not chain.finished]
        behind = sorted(active, key=lambda chain: chain.done)[: MAX_TURNS_PER_CORE * available_cores()]
        self._limits.close()
        self._limits.enter_context(limit_blas_threads(len(behind)))
        pause = len(active) > len(behind)
        self._running = [self._pool.submit(chain.advance, self._drawers, pause) for chain in behind]


class BlocksAhead:
    """The random numbers of one chain, in blocks of `length` updates, some of them drawn ahead.

    Parameters
    ----------
    spec : NoiseSpec
        Specification of the random numbers of an update.
    seed, number : int
        Seed of the run and index of the chain.
    length : int
        Number of updates in a block.
    """

    def __init__(self, spec: NoiseSpec, seed: int, number: int, length: int):
        self._spec, self._seed, self._number, self.length = spec, seed, number, length
        self._current: tuple[int, UpdateNoise] | None = None
        self._ahead: dict[int, Future[UpdateNoise]] = {}

    def draw(self, block: int) -> UpdateNoise:
        """Draw the random numbers of a block."""
        with on_cpu():
            return draw_block(self._spec, self._seed, self._number, block, self.length)

    def block(self, block: int) -> UpdateNoise:
        """Return the random numbers of a block: the current ones, else those drawn ahead, else new ones."""
        if self._current is None or self._current[0] != block:
            ahead = self._ahead.pop(block, None)
            self._current = block, self.draw(block) if ahead is None else ahead.result()
        return self._current[1]

    def draw_ahead(self, block: int, updates: int, drawers: Executor) -> None:
        """Start to draw the blocks after `block` on other threads, up to the block of the chain's last update."""
        for following in range(block + 1, block + 1 + NOISE_BLOCKS_AHEAD):
            if following not in self._ahead and following * self.length < updates:
                self._ahead[following] = drawers.submit(self.draw, following)

    def release(self) -> None:
        """Release the memory of the current block."""
        self._current = None


class GroupNoise:
    """The random numbers of a group of chains. It has the methods of `BlocksAhead`.

    Parameters
    ----------
    own : sequence of BlocksAhead
        Random numbers of the chains of the group.
    members : sequence of int
        For each member of the group, the entry of `own` that it uses.
    """

    def __init__(self, own: Sequence[BlocksAhead], members: Sequence[int]):
        self._own, self._members, self.length = own, members, own[0].length

    def block(self, block: int) -> tuple[UpdateNoise, ...]:
        """Return the random numbers of a block, one entry for each member."""
        drawn = [own.block(block) for own in self._own]
        return tuple(drawn[number] for number in self._members)

    def draw_ahead(self, block: int, updates: int, drawers: Executor) -> None:
        """Start to draw the blocks after `block` on other threads."""
        for own in self._own:
            own.draw_ahead(block, updates, drawers)

    def release(self) -> None:
        """Release the memory of the current block."""
        for own in self._own:
            own.release()


class _Call(NamedTuple):
    """One call of the compiled loop, whose results may not be computed yet."""

    trace: Trace
    chain: ChainState
    """The chain after the updates of the call."""
    count: int
    """Number of updates."""
    began: float
    """Start of the call, by `time.perf_counter`. Seconds."""


class CompiledChain:
    """One chain, or one group of chains in lock step: its state on the device, its random numbers, and its results.

    JAX's calls are asynchronous. The next call is sent before the results of the last one are read, so that the device
    never waits.

    Parameters
    ----------
    chain : ChainState
        The chain at its start.
    done : int
        Number of updates before the start.
    updates : int
        Total number of updates to make, including those before the start.
    noise : BlocksAhead or GroupNoise
    runner : BlockRunner
        Shared by all chains of the run.
    to_rows : callable
        Function of the results of a call, as `runner.read` returns them, to the rows of each chain.
    """

    def __init__(
        self,
        chain: ChainState,
        done: int,
        updates: int,
        noise: BlocksAhead | GroupNoise,
        runner: BlockRunner,
        to_rows: Callable[..., Iterable[Rows]],
    ):
        self._chain, self._noise, self._runner, self._to_rows = chain, noise, runner, to_rows
        self._sent = self.done = done
        self.updates = updates
        self._calls: deque[_Call] = deque()
        self._received: deque[tuple[Any, ...]] = deque()
        """Results that `take` has not returned yet: arguments of `to_rows`."""

    @classmethod
    def single(
        cls, position: int, spec: RunSpec, start: Checkpoint, updates: int, noise: BlocksAhead, runner: BlockRunner
    ) -> CompiledChain:
        """Return one chain, which is at `position` in its run."""
        chain = runner.begin(start.state)
        # The state of a scout is not part of a checkpoint, so a resumed chain repeats its last update.
        rows = ChainRows(position, spec, start, again=chain.scout_state is not None)
        return cls(chain, start.updates, updates, noise, runner, lambda *results: [rows.add(*results)])

    @property
    def finished(self) -> bool:
        """True if the results of all updates have been received."""
        return self.done >= self.updates

    def advance(self, drawers: Executor | None, pause: bool) -> None:
        """Make updates for one turn.

        Parameters
        ----------
        drawers : Executor or None
            Threads that draw random numbers ahead.
        pause : bool
            If true, receive all results before returning, so that a chain that waits for a core holds no traces.
        """
        end = time.perf_counter() + TURN_SECONDS
        with on_cpu():
            while self._sent < self.updates:
                self._send(drawers)
                if len(self._calls) > 1:
                    self._receive()
                if time.perf_counter() > end:
                    break
            while self._calls and (pause or self._sent >= self.updates):
                self._receive()
        if self.finished:
            self._noise.release()

    def take(self) -> list[Rows]:
        """Return the rows of all results received so far. Another thread may add more at the same time."""
        return [rows for _ in range(len(self._received)) for rows in self._to_rows(*self._received.popleft())]

    def _send(self, drawers: Executor | None) -> None:
        """Call the compiled loop for the rest of a block, or for fewer updates. Meanwhile `drawers` draw ahead."""
        block, first = divmod(self._sent, self._noise.length)
        noise = self._noise.block(block)
        if drawers:
            self._noise.draw_ahead(block, self.updates, drawers)
        count = min(self._noise.length - first, self._runner.updates_per_call, self.updates - self._sent)
        began = time.perf_counter()
        trace, self._chain = self._runner.run(self._chain, noise, first, first + count)
        self._calls.append(_Call(trace, self._chain, count, began))
        self._sent += count

    def _receive(self) -> None:
        """Wait for the oldest call, and keep its results."""
        call = self._calls.popleft()
        self._runner.check(call.chain)
        self._received.append(self._runner.read(call.trace, call.count))
        self.done += call.count
        self._runner.adapt(call.count, time.perf_counter() - call.began)
