"""The host engine: any Python function, called in the caller's thread, so that debuggers and Ctrl-C work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ellipslice.engines.base import Checkpoint, Engine, RunSpec
from ellipslice.engines.host.call import Call
from ellipslice.engines.host.search import (
    BatchedSearch,
    ChainNoise,
    ConfirmedSearch,
    HostChain,
    SliceSearch,
    search_one_by_one,
)
from ellipslice.engines.rows import ChainRows, Rows
from ellipslice.moves import Info, Path, State
from ellipslice.moves.search import search
from ellipslice.noise import Noise
from ellipslice.posterior import Posterior

TURN_SECONDS = 0.05
"""Approximate duration of one call of `advance`, summed over all chains."""

ANGLES_AHEAD = 16
"""Default number of angles in one call of a log-likelihood that takes batches, summed over all chains."""


class HostEngine(Engine):
    """Engine that runs chains in plain Python.

    A log-likelihood that takes batches is called once for several angles of all chains.
    """

    name = "host"
    traced = False

    def __init__(self, posterior: Posterior, *, read_only: bool = False):
        super().__init__(posterior)
        self.call = Call(posterior, read_only=read_only)
        self._largest_identical_batch = 0  # -1 if a batch is not bit-identical to single calls

    def evaluate(self, f: np.ndarray) -> float:
        return self.call.one(f)

    def evaluate_all(self, points: Sequence[np.ndarray]) -> list[float]:
        if not self.posterior.vectorized or len(points) == 1 or not self._batch_is_bit_identical(len(points)):
            return super().evaluate_all(points)
        return self.call.batch(np.stack(points)).tolist()

    def evaluate_together(self, points: np.ndarray) -> np.ndarray:
        if self.call.read_only:
            points = points.view()  # the caller's array stays writable
            points.flags.writeable = False
        return self.call.batch(points) if self.posterior.vectorized else np.array([self.call.one(f) for f in points])

    def check(self, spec: RunSpec, by_workers: bool = False) -> None:
        one_by_one = not self.posterior.vectorized and not by_workers
        if spec.look_ahead is not None and spec.look_ahead > 1 and one_by_one and spec.move.path is not None:
            raise ValueError(
                f"look_ahead={spec.look_ahead} was given, but the host engine calls the log-likelihood for one latent "
                "vector at a time. If it takes batches, (batch, *shape) -> (batch,), set vectorized=True. To evaluate "
                "proposals in several processes, set executor=. Otherwise leave look_ahead out."
            )
        super().check(spec, by_workers)

    def run(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> HostRun:
        move, chains, call = spec.move, self._chains(spec, starts, updates), self.call
        if move.path is None:
            target = HostTarget(call.one, self.prepared(move))
            return _SequentialChains(
                chains, lambda chain: move.step(chain.noise.of_update(chain.done), chain.state, target)
            )
        if not self.posterior.vectorized:
            return _SequentialChains(chains, lambda chain: search_one_by_one(chain, call))
        ahead = spec.look_ahead or max(1, ANGLES_AHEAD // len(chains))
        identical = self._batch_is_bit_identical(len(chains) * ahead)
        make_search = SliceSearch if identical else partial(ConfirmedSearch, alone=call.one)
        return _BatchedChains(chains, call, ahead, make_search)

    def divisible_chains(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> list[HostChain] | None:
        return None if spec.move.path is None else self._chains(spec, starts, updates)

    @property
    def read_only(self) -> bool:
        return self.call.read_only

    def recipe(self) -> Callable[[], HostEngine]:
        return partial(HostEngine, self.posterior, read_only=self.read_only)

    def _chains(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> list[HostChain]:
        """Return the chains of a run at their starts."""
        move, prior = spec.move, self.posterior.prior
        noise_spec = move.noise_spec(prior, self.prepared(move))
        return [
            HostChain(
                ChainNoise(move.path, noise_spec, prior.size, spec.seed, number),
                ChainRows(position, spec, start),
                start.state,
                updates,
            )
            for position, (number, start) in enumerate(zip(spec.chains, starts, strict=True))
        ]

    def _batch_is_bit_identical(self, batch: int) -> bool:
        """Return True if batches of up to `batch` points are bit-identical to single calls. The result is cached."""
        if batch > self._largest_identical_batch >= 0:
            self._largest_identical_batch = batch if self.call.batch_is_bit_identical(batch) else -1
        return self._largest_identical_batch >= batch


class HostTarget:
    """The posterior as moves use it on the host; see `moves.base.Target`."""

    def __init__(self, log_likelihood: Callable[[np.ndarray], float], prepared: Any = None):
        self.log_likelihood, self.prepared = log_likelihood, prepared

    def with_likelihood(self, log_likelihood: Callable[[np.ndarray], float], prepared: Any) -> HostTarget:
        """Return a target with another log-likelihood, for a move that is part of another move."""
        return HostTarget(log_likelihood, prepared)

    def at(self, f: np.ndarray) -> State:
        """Return the state at `f`, with its log-likelihood."""
        return State(f, self.log_likelihood(f))

    def search(self, path: Path, noise: Noise, state: State) -> tuple[State, Info]:
        """Run a slice search along a path. Return the new state and its statistics."""
        return search(path, noise.nu, noise.level, noise.uniforms, state, self.log_likelihood)


class HostRun:
    """Chains in progress on the host; see `base.Run`. Subclasses define `advance`."""

    def __init__(self, chains: Sequence[HostChain]):
        self._chains = chains

    @property
    def finished(self) -> bool:
        return not any(chain.remaining for chain in self._chains)

    def advance(self) -> None:
        raise NotImplementedError

    def extend(self, updates: int) -> None:
        for chain in self._chains:
            chain.updates = updates

    def take(self) -> list[Rows]:
        return [rows for chain in self._chains if (rows := chain.take()) is not None]

    def close(self) -> None:
        """Do nothing, because a run on the host holds no resources."""


class _SequentialChains(HostRun):
    """A run that advances one chain after the other.

    In each call of `advance` every chain makes the same number of updates, so that all have draws after an interrupt.
    """

    def __init__(self, chains: list[HostChain], update: Callable[[HostChain], tuple[State, Info]]):
        super().__init__(chains)
        self._update, self._updates_per_turn = update, 1

    def advance(self) -> None:
        began = time.perf_counter()
        for chain in self._chains:
            for _ in range(min(self._updates_per_turn, chain.remaining)):
                chain.record(*self._update(chain))
        turns = (time.perf_counter() - began) / TURN_SECONDS
        if turns < 0.5:
            self._updates_per_turn *= 2
        elif turns > 2:
            self._updates_per_turn = max(1, self._updates_per_turn // 2)


class _BatchedChains(HostRun):
    """A run that evaluates up to `ahead` points of every chain in one call of the log-likelihood.

    A chain whose search has ended begins its next update in the next call, so no chain waits for another.
    """

    def __init__(
        self,
        chains: list[HostChain],
        call: Call,
        ahead: int,
        make_search: Callable[[HostChain], SliceSearch] = SliceSearch,
    ):
        super().__init__(chains)
        self._call = call
        self._searches = [BatchedSearch(chain, ahead, make_search) for chain in chains]

    def advance(self) -> None:
        end = time.perf_counter() + TURN_SECONDS
        while active := [each for each in self._searches if each.chain.remaining]:
            points = [each.points() for each in active]
            batch = points[0] if len(points) == 1 else np.concatenate(points)
            if self._call.read_only:
                batch.flags.writeable = False
            values = self._call.batch(batch).tolist()
            first = 0
            for each, own in zip(active, points, strict=True):
                each.process(own, values[first : first + len(own)])
                first += len(own)
            if time.perf_counter() > end:
                break
