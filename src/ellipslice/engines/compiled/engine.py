"""The compiled engine: likelihoods that JAX can trace, one compiled loop per chain, a thread per core."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Hashable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.base import Engine, Piece
from ellipslice.engines.compiled import search as loops
from ellipslice.engines.compiled.block import BoundedSearches, Steps
from ellipslice.engines.devices import on_a_cpu, on_one_device
from ellipslice.engines.lanes import ITEM as LANES
from ellipslice.engines.lanes import in_lanes
from ellipslice.engines.threads import blas_beside, cores
from ellipslice.engines.tracing import Look, compilable, identity, look
from ellipslice.likelihoods import Likelihood
from ellipslice.moves import Move, Search, State
from ellipslice.moves.base import Lots
from ellipslice.noise import block_length, draw_block
from ellipslice.settings import on_cpu
from ellipslice.undocumented.registry import first_line, note
from ellipslice.undocumented.xla_loop import PLAIN, WIDE, possible

TURN = 0.025
"""Seconds of work of a core before draws are handed over: they are stored while the next turn runs."""

CALL = 0.05
"""Seconds of a call, at most, if an update does not take longer: progress and Ctrl-C wait for it."""

TURNS = 4
"""Turns of each core before others are heard: progress and Ctrl-C wait for no more, however many chains there are."""

AHEAD = 2
"""Blocks of noise that are drawn while updates are made, if there are cores left: draws may take longer than these."""

LONG = 2**17
"""Values in a state that is long. Its updates are run one by one: room for a block of states would be much, and a call
takes no time beside an update."""


class CompiledEngine(Engine):
    """Chains in compiled code. Each has its own loop, so none waits for another, and the same bits in any company."""

    name = "compiled"

    @cached_property
    def _likelihood(self) -> Any:
        with on_cpu():
            return compilable(self.posterior.log_likelihood, self.posterior.prior.size)

    @cached_property
    def _quick(self) -> Any:
        """The same, arranged for a CPU; if it is on one device, for XLA does well with what is not."""
        likelihood, size = self._likelihood, self.posterior.prior.size
        with on_cpu():
            return in_lanes(likelihood, size) if on_one_device(likelihood) else likelihood

    @cached_property
    def look(self) -> Look:
        """Properties of the log-likelihood's program."""
        with on_cpu():
            return look(self._likelihood, self.posterior.prior.size)

    @property
    def identity(self) -> Hashable:
        return identity(self._likelihood)

    def evaluate(self, f: np.ndarray) -> float:
        with on_cpu():
            try:
                return float(loops.evaluate(self._quick, f))
            except Exception as error:
                if self._quick is self._likelihood:
                    raise
                value = float(loops.evaluate(self._likelihood, f))  # its own fault, if it raises too
                note(LANES, f"a log-likelihood in lanes could not be compiled ({first_line(error)})")
                self._quick = self._likelihood
                return value

    def evaluate_together(self, f: np.ndarray) -> np.ndarray:
        """The log-likelihoods of many, shape (count, size), to rounding."""
        with on_cpu():
            return np.asarray(loops.evaluate_together(self._quick, f))

    def check(self, move: Move, look_ahead: int | None, by_workers: bool = False) -> None:
        with on_cpu():
            super().check(move, look_ahead, by_workers)

    def run(
        self,
        move: Move,
        seed: int,
        chains: Sequence[int],
        starts: Sequence[State],
        updates: int,
        look_ahead: int | None = None,
        warmup: int = 0,
        thin: int = 1,
        done: Sequence[int] | None = None,
    ) -> CompiledRun:
        with on_cpu():
            prior = self.posterior.prior
            together = on_one_device(self._likelihood)
            fits = on_a_cpu() and together and self.look.fits_one_function
            prepared = self.prepared(move)
            lots = move.lots(prior, prepared)
            longest = 1 if prior.size > LONG else block_length(prior.size * lots.draws)
            updater = None
            if isinstance(move, Search) and self.posterior.concave and look_ahead in (None, 1):
                updater = self._bounded_searches(fits, longest, move, starts[0])
            if updater is None:
                fits = fits and look_ahead in (None, 1) and (prepared is None or move.elementwise)
                on_device = jax.tree.map(jnp.asarray, prepared)
                updater = Steps(_way(fits), longest, move, look_ahead or 1, self._quick, on_device)
            return CompiledRun(
                [
                    _Chain(i, number, state, made, updates, prior.size, lots, updater, seed)
                    for i, (number, state, made) in enumerate(
                        zip(chains, starts, done or [0] * len(chains), strict=True)
                    )
                ],
                # Programs that devices run together must reach all of them in the same order.
                threads=self.look.threads if together else 1,
            )

    def _bounded_searches(self, fits: bool, longest: int, move: Search, start: State) -> BoundedSearches | None:
        """Searches with tangent planes; None if there are no derivatives, for the chain is the same without them."""
        updater = BoundedSearches(_way(fits), longest, move, self._quick, self._bend_rate)
        try:
            updater.begin(jax.tree.map(jnp.asarray, start))
        except Exception as error:  # noqa: BLE001  the log-likelihood has been compiled, only derivatives have not
            note("tangent planes", f"the log-likelihood could not be differentiated ({first_line(error)})")
            return None
        return updater

    @property
    def _bend_rate(self) -> float | None:
        function = self.posterior.log_likelihood.callable
        return function.bend_rate if isinstance(function, Likelihood) else None


def _way(fits: bool) -> int:
    """How a loop is compiled: into one function, if it fits."""
    return WIDE if fits and possible() else PLAIN


class CompiledRun:
    """Chains under way, as many at a time as there are cores. If cores are left, threads draw noise for them.

    The next turn sets out as soon as one has ended: chains run while their draws are taken and stored.
    """

    def __init__(self, chains: list[_Chain], threads: int):
        self._chains = chains
        threads = min(len(chains), threads)
        self._pool = ThreadPoolExecutor(threads, "ellipslice-run")
        drawers = min(AHEAD * threads, cores())
        self._drawers = ThreadPoolExecutor(drawers, "ellipslice-draw") if threads < cores() else None
        self._under_way: list[Future[None]] = []
        self._limits = contextlib.ExitStack()

    @property
    def finished(self) -> bool:
        return not self._under_way and all(chain.finished for chain in self._chains)

    def advance(self) -> None:
        if not self._under_way:
            self._set_out()
        under_way, self._under_way = self._under_way, []
        for future in under_way:
            future.result()
        self._set_out()

    def extend(self, updates: int) -> None:
        for chain in self._chains:
            chain.updates = updates

    def take(self) -> list[Piece]:
        return [piece for chain in self._chains for piece in chain.take()]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        if self._drawers is not None:
            self._drawers.shutdown(cancel_futures=True)
        self._limits.close()

    def _set_out(self) -> None:
        """On a turn of the chains that are behind, if any is not finished."""
        active = [chain for chain in self._chains if not chain.finished]
        behind = sorted(active, key=lambda chain: chain.done)[: TURNS * cores()]
        self._limits.close()
        self._limits.enter_context(blas_beside(len(behind)))
        pause = len(active) > len(behind)
        self._under_way = [self._pool.submit(chain.advance, self._drawers, pause) for chain in behind]


class _Stretch(NamedTuple):
    """Updates under way."""

    trace: Any
    chain: Any
    """Where they lead to."""
    count: int
    began: float


class _Chain:
    """One chain: its state on the device, its noise, and what it has drawn but not handed over.

    Updates are sent to the device before the last ones have come back, so that it never waits for us.
    """

    def __init__(
        self,
        position: int,
        number: int,
        state: State,
        done: int,
        updates: int,
        size: int,
        lots: Lots,
        updater: Any,
        seed: int,
    ):
        self._position, self._number, self._lots, self._updater, self._seed = position, number, lots, updater, seed
        self._length = block_length(size * lots.draws)
        self.updates, self._done, self._sent = updates, done, done
        self._chain = updater.begin(jax.tree.map(jnp.asarray, state))
        self._block, self._noise = -1, None
        """Number and noise of the block in use."""
        self._coming: dict[int, Future[Any]] = {}
        self._under_way: deque[_Stretch] = deque()
        self._drawn: deque[Piece] = deque()

    @property
    def finished(self) -> bool:
        return self._done >= self.updates

    @property
    def done(self) -> int:
        return self._done

    def advance(self, drawers: Executor | None, pause: bool) -> None:
        """A turn. Before a pause everything comes back, so that a chain that waits holds no traces."""
        end = time.perf_counter() + TURN
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
            self._block, self._noise = -1, None

    def take(self) -> list[Piece]:
        """All that has been drawn; more may be added meanwhile."""
        return [self._drawn.popleft() for _ in range(len(self._drawn))]

    def _send(self, drawers: Executor | None) -> None:
        """A block of updates, or as many as fit into a turn; drawers make the next blocks' noise while they run."""
        block, first = divmod(self._sent, self._length)
        if block != self._block:
            coming = self._coming.pop(block, None)
            self._block, self._noise = block, coming.result() if coming else self._draw(block)
        if drawers:
            self._draw_ahead(block, drawers)
        count = min(self._length - first, self._updater.stretch, self.updates - self._sent)
        began = time.perf_counter()
        trace, self._chain = self._updater.run(self._chain, self._noise, first, first + count)
        self._under_way.append(_Stretch(trace, self._chain, count, began))
        self._sent += count

    def _receive(self) -> None:
        """What the first stretch under way has brought."""
        trace, chain, count, began = self._under_way.popleft()
        self._updater.check(chain)
        self._drawn.append(Piece(self._position, self._done, *self._updater.read(trace, count)))
        self._done += count
        room = min(8, int(CALL / (time.perf_counter() - began)))
        self._updater.stretch = min(max(self._updater.stretch, room * count), self._updater.longest)

    def _draw_ahead(self, block: int, drawers: Executor) -> None:
        for following in range(block + 1, block + 1 + AHEAD):
            if following not in self._coming and following * self._length < self.updates:
                self._coming[following] = drawers.submit(self._draw, following)

    def _draw(self, block: int) -> Any:
        source, draws, parts = self._lots
        with on_cpu():
            return draw_block(source, self._seed, self._number, block, self._length, parts, draws)
