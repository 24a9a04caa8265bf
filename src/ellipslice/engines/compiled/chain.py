"""Compiled chains in progress: threads, turns, and blocks of random numbers drawn ahead."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.compiled.block import BlockRunner, ChainState, Trace
from ellipslice.engines.rows import ChainRows, Rows
from ellipslice.engines.threads import blas_beside, cores
from ellipslice.jax_settings import on_cpu
from ellipslice.noise import NoiseSpec, UpdateNoise, draw_block

TURN_SECONDS = 0.025
"""Work of a core before draws are handed over: they are stored while the next turn runs."""

MAX_TURNS_PER_CORE = 4
"""Turns before other chains follow: progress and Ctrl-C wait for no more, whatever the number of chains."""

NOISE_BLOCKS_AHEAD = 2
"""Blocks of random numbers drawn while updates are made, if cores are free: a draw may take longer than an update."""


class CompiledRun:
    """Chains in progress, one for each core at a time. If cores are left, threads draw random numbers for them.

    The next turn begins as soon as one has ended: chains run while their draws are taken and stored.
    """

    def __init__(self, chains: list[CompiledChain], threads: int):
        self._chains = chains
        threads = min(len(chains), threads)
        self._pool = ThreadPoolExecutor(threads, "ellipslice-run")
        drawers = min(NOISE_BLOCKS_AHEAD * threads, cores())
        self._drawers = ThreadPoolExecutor(drawers, "ellipslice-draw") if threads < cores() else None
        self._under_way: list[Future[None]] = []
        self._limits = contextlib.ExitStack()

    @property
    def finished(self) -> bool:
        return not self._under_way and all(chain.finished for chain in self._chains)

    def advance(self) -> None:
        if not self._under_way:
            self._begin_turn()
        under_way, self._under_way = self._under_way, []
        for future in under_way:
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
        """Begin a turn of the chains that have made the fewest updates, if any is not finished."""
        active = [chain for chain in self._chains if not chain.finished]
        behind = sorted(active, key=lambda chain: chain.done)[: MAX_TURNS_PER_CORE * cores()]
        self._limits.close()
        self._limits.enter_context(blas_beside(len(behind)))
        pause = len(active) > len(behind)
        self._under_way = [self._pool.submit(chain.advance, self._drawers, pause) for chain in behind]


class BlocksAhead:
    """The random numbers of one chain, in blocks of `length` updates.

    Parameters
    ----------
    spec : NoiseSpec
        What is drawn for each update.
    seed, number : int
        Of the run, and of the chain.
    length : int
        Updates in a block.
    """

    def __init__(self, spec: NoiseSpec, seed: int, number: int, length: int):
        self._spec, self._seed, self._number, self.length = spec, seed, number, length
        self._current: tuple[int, UpdateNoise] | None = None
        self._ahead: dict[int, Future[UpdateNoise]] = {}

    def draw(self, block: int) -> UpdateNoise:
        """Draw a block."""
        with on_cpu():
            return draw_block(self._spec, self._seed, self._number, block, self.length)

    def block(self, block: int) -> UpdateNoise:
        """Return a block: the one in use, or one that was drawn ahead, or else draw it."""
        if self._current is None or self._current[0] != block:
            ahead = self._ahead.pop(block, None)
            self._current = block, self.draw(block) if ahead is None else ahead.result()
        return self._current[1]

    def draw_ahead(self, block: int, updates: int, drawers: Executor) -> None:
        """Let other threads draw the blocks after one, as far as the chain makes updates."""
        for following in range(block + 1, block + 1 + NOISE_BLOCKS_AHEAD):
            if following not in self._ahead and following * self.length < updates:
                self._ahead[following] = drawers.submit(self.draw, following)

    def release(self) -> None:
        """Release the memory of the block in use."""
        self._current = None


class _Call(NamedTuple):
    """Updates that were sent to the device."""

    trace: Trace
    chain: ChainState
    """The chain after them."""
    count: int
    began: float
    """When, by `time.perf_counter`."""


class CompiledChain:
    """One chain: its state on the device, its random numbers, and draws that were not taken yet.

    Updates are sent to the device before the last ones have come back, so that it never waits.

    Parameters
    ----------
    position : int
        Of the chain in the run.
    spec : RunSpec
    start : Checkpoint
    updates : int
        Number of updates to make, including those before the start.
    noise : BlocksAhead
    runner : BlockRunner
        Shared by all chains of the run.
    """

    def __init__(
        self,
        position: int,
        spec: RunSpec,
        start: Checkpoint,
        updates: int,
        noise: BlocksAhead,
        runner: BlockRunner,
    ):
        self.position, self._noise, self._runner = position, noise, runner
        self._chain = runner.begin(start.state)
        # What a scout learned in the last update is not in a checkpoint: it must be learned again.
        self._rows = ChainRows(position, spec, start, again=self._chain.known is not None)
        self._sent = self.done = start.updates
        self.updates = updates
        self._under_way: deque[_Call] = deque()
        self._received: deque[tuple[Any, ...]] = deque()
        """Updates that were not taken yet: the arguments of `ChainRows.add`."""

    @property
    def finished(self) -> bool:
        """Whether all updates have come back."""
        return self.done >= self.updates

    def advance(self, drawers: Executor | None, pause: bool) -> None:
        """Make updates for one turn. Before a pause all come back, so that a chain that waits holds no traces."""
        end = time.perf_counter() + TURN_SECONDS
        with on_cpu():
            while self._sent < self.updates:
                self._send(drawers)
                if len(self._under_way) > 1:
                    self._receive()
                if time.perf_counter() > end:
                    break
            while self._under_way and (pause or self._sent >= self.updates):
                self._receive()
        if self.finished:
            self._noise.release()

    def take(self) -> list[Rows]:
        """Return the rows of all updates that came back. Another thread may add more at the same time."""
        return [self._rows.add(*self._received.popleft()) for _ in range(len(self._received))]

    def _send(self, drawers: Executor | None) -> None:
        """Begin a call: the rest of a block, or fewer updates. Drawers draw the next blocks while it runs."""
        block, first = divmod(self._sent, self._noise.length)
        noise = self._noise.block(block)
        if drawers:
            self._noise.draw_ahead(block, self.updates, drawers)
        count = min(self._noise.length - first, self._runner.updates_per_call, self.updates - self._sent)
        began = time.perf_counter()
        trace, self._chain = self._runner.run(self._chain, noise, first, first + count)
        self._under_way.append(_Call(trace, self._chain, count, began))
        self._sent += count

    def _receive(self) -> None:
        """Wait for the first call in progress, and keep what it drew."""
        call = self._under_way.popleft()
        self._runner.check(call.chain)
        self._received.append(self._runner.read(call.trace, call.count))
        self.done += call.count
        self._runner.adapt(call.count, time.perf_counter() - call.began)
