"""The host engine: any Python callable, in the caller's own thread, debugger and Ctrl-C included."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ellipslice.engines.angles import WIDTH, AngleTable
from ellipslice.engines.base import Piece
from ellipslice.moves import Info, Move, Search, State
from ellipslice.moves.search import MAX_EVALUATIONS, search
from ellipslice.noise import Noise, block_length, draw_block, uniform
from ellipslice.posterior import Posterior

TURN = 0.05
"""Seconds a chain runs before the next one's turn."""


class HostTarget:
    """The posterior as moves see it on the host. Here a noise's `key` is a function that gives its uniforms."""

    def __init__(self, log_likelihood: Callable[[np.ndarray], float]):
        self.log_likelihood = log_likelihood

    def search(self, move: Search, noise: Noise, state: State) -> tuple[State, Info]:
        """Run a slice search along the move's curve."""
        return search(move, noise.nu, noise.level, noise.key, state, self.log_likelihood)


class HostRun:
    """Chains on the host.

    Parameters
    ----------
    posterior : Posterior
    move : Move
    seed : int
    chains : sequence of int
        Numbers of the chains, which with the seed decide their noise.
    starts : sequence of State
    updates : int
        How many each chain makes.
    look_ahead : int
        If the likelihood takes batches, all chains are evaluated together, each this many angles ahead, and none waits
        for another. Changes the speed, never the chain.
    """

    def __init__(
        self,
        posterior: Posterior,
        move: Move,
        seed: int,
        chains: Sequence[int],
        starts: Sequence[State],
        updates: int,
        *,
        look_ahead: int = 1,
    ):
        self._target = HostTarget(one_by_one(posterior))
        self._batch = posterior.log_likelihood.batch if posterior.vectorized and isinstance(move, Search) else None
        self._look_ahead = look_ahead
        self._judge_alone = self._batch is not None and not _rows_are_independent(self._batch, starts)
        self._move = move
        self._chains = [
            _Chain(i, number, state, updates, posterior, move, seed)
            for i, (number, state) in enumerate(zip(chains, starts, strict=True))
        ]

    @property
    def finished(self) -> bool:
        return all(chain.finished for chain in self._chains)

    def advance(self) -> None:
        active = [chain for chain in self._chains if not chain.finished]
        if self._batch is not None and isinstance(self._move, Search):
            self._advance_together(active, self._move, self._batch)
            return
        for chain in active:
            end = time.perf_counter() + TURN
            while not chain.finished and time.perf_counter() < end:
                noise = chain.next_noise()
                chain.record(*self._move.step(noise, chain.state, self._target))

    def take(self) -> list[Piece]:
        return [piece for chain in self._chains if (piece := chain.take()) is not None]

    def close(self) -> None:
        """Nothing is held."""

    # Many chains, several angles each, one call.

    def _advance_together(self, active: list[_Chain], move: Search, batch: Callable[[np.ndarray], Any]) -> None:
        end = time.perf_counter() + TURN
        alone = self._target.log_likelihood if self._judge_alone else None
        searches = [_Lookahead(move, chain, alone) for chain in active]
        while searches and time.perf_counter() < end:
            points = np.concatenate([s.points(self._look_ahead) for s in searches])
            values = np.asarray(batch(points), dtype=np.float64)
            if values.shape != (len(points),):
                raise ValueError(
                    f"log_likelihood was given a batch of {len(points)} latents and returned shape {values.shape}; "
                    f"with vectorized=True it must return one value for each, shape ({len(points)},)."
                )
            rows = values.tolist()
            start = 0
            for s in searches:
                stop = start + s.width
                s.judge(rows[start:stop])
                start = stop
            searches = [s for s in searches if not s.chain.finished]


class _Chain:
    """One chain: its state, its noise, and what it has drawn but not handed over."""

    def __init__(
        self, position: int, number: int, state: State, updates: int, posterior: Posterior, move: Move, seed: int
    ):
        self.position, self.number, self.state = position, number, state
        self._prior, self._seed, self._move = posterior.prior, seed, move
        self._length = block_length(posterior.prior.size)
        self._updates, self._done, self._taken = updates, 0, 0
        self._drawn: list[tuple[State, Info]] = []
        self._block = -1

    @property
    def finished(self) -> bool:
        return self._done >= self._updates

    def record(self, state: State, info: Info) -> None:
        self._drawn.append((state, info))  # first, and in one piece: Ctrl-C may come at any moment
        self.state = state
        self._done += 1

    def take(self) -> Piece | None:
        if not self._drawn:
            return None
        drawn, self._drawn = self._drawn, []
        first, self._taken = self._taken, self._taken + len(drawn)
        states = [state for state, _ in drawn]
        return Piece(
            self.position,
            first,
            np.array([state.f for state in states]),
            np.array([state.log_likelihood for state in states]),
            Info(*(np.array(column) for column in zip(*(info for _, info in drawn), strict=True))),
        )

    def next_noise(self) -> Noise:
        """The noise of the next update, its keys replaced by functions that give the uniforms."""
        row = self._enter_block()
        keys = [Uniforms(self._noise.key[row, part], self._table[row, part]) for part in range(self._move.parts)]
        return Noise(self._noise.nu[row], self._level[row], keys)

    def next_angles(self) -> tuple[np.ndarray, float, AngleTable, int]:
        """The draw, the level and the angles of the next update, for look-ahead."""
        row = self._enter_block()
        return self._noise.nu[row, 0], self._level[row][0], self._angles, row

    def _enter_block(self) -> int:
        block, row = divmod(self._done, self._length)
        if block != self._block:
            noise = draw_block(self._prior, self._seed, self.number, block, self._length, self._move.parts)
            self._noise = Noise(np.asarray(noise.nu), noise.level, noise.key)
            self._level = noise.level.tolist()
            self._table = uniform(noise.key[:, :, None], np.arange(WIDTH, dtype=np.uint32))
            if isinstance(self._move, Search):
                self._angles = AngleTable(self._move, noise.key[:, 0])
            self._block = block
        return row


class Uniforms:
    """The uniforms of one update as Python floats: a few from a table, the rest made when asked for."""

    def __init__(self, key: np.ndarray, first: np.ndarray):
        self._key, self._first = key, first.tolist()

    def __call__(self, number: int) -> float:
        if number < len(self._first):
            return self._first[number]
        return float(uniform(self._key[None], np.array([number], np.uint32))[0])


class _Lookahead:
    """A search that is asked for several points at a time and told their values.

    If values in a batch round differently from values alone (a matrix product may), a point that is, or could be, on
    the slice is evaluated once more by itself: the chain is then the same for any look-ahead and any company.
    """

    def __init__(self, move: Search, chain: _Chain, alone: Callable[[np.ndarray], float] | None):
        self.chain, self._move, self._alone = chain, move, alone
        self._next()

    def _next(self) -> None:
        nu, level, self._angles, self._row = self.chain.next_angles()
        self._here = self._angles.here[self._row]
        self._a, self._b = self._move.curve(self.chain.state.f, nu, self._here)
        self._log_y = self.chain.state.log_likelihood - level
        self._tried, self._nans = 0, 0

    def points(self, count: int) -> np.ndarray:
        self.width = count = min(count, MAX_EVALUATIONS - self._tried)
        while len(self._angles.rows[self._row]) < self._tried + count:
            self._angles.extend(self._row)
        self._theta = self._angles.rows[self._row][self._tried : self._tried + count]
        self._points = self._move.point(self._a, self._b, np.array(self._theta)[:, None])
        return self._points

    def judge(self, values: list[float]) -> None:
        for i, value in enumerate(values):
            self._tried += 1
            if self._alone and value > self._log_y - 1e-8 * (1 + abs(self._log_y)):
                value = self._alone(self._points[i])
            if value > self._log_y:
                info = Info(self._tried, self._nans, False, self._theta[i] - self._here)
                self._end(State(self._points[i].copy(), value), info)
                return
            self._nans += value != value
        if self._tried >= MAX_EVALUATIONS:
            self._end(self.chain.state, Info(MAX_EVALUATIONS, self._nans, True, 0.0))

    def _end(self, state: State, info: Info) -> None:
        self.chain.record(state, info)
        if not self.chain.finished:
            self._next()


def _rows_are_independent(batch: Callable[[np.ndarray], Any], starts: Sequence[State]) -> bool:
    """Whether a point has the same bits alone and in batches of several sizes, as far as a quick look can tell."""
    points = starts[0].f * np.linspace(-1, 1, 17)[:, None]
    together = [np.asarray(batch(points[:count])) for count in (1, 2, 3, 8, 17)]
    return all(np.array_equal(values, together[-1][: len(values)], equal_nan=True) for values in together)


def one_by_one(posterior: Posterior) -> Callable[[np.ndarray], float]:
    """The log-likelihood of one centred flat vector, as a float; an exception carries the latents that caused it."""
    centred = posterior.log_likelihood
    plain = centred.single and centred.mean is None and len(centred.layout[0][1]) == 1 and not centred.batches_only
    call = centred.callable if plain else centred

    def evaluate(f: np.ndarray) -> float:
        try:
            return float(call(f))
        except Exception as error:
            explain(error, centred.unpack(f))
            raise

    return evaluate


def explain(error: Exception, latents: dict[str, np.ndarray]) -> None:
    """Attach to an exception the latents at which the likelihood raised it."""
    with np.printoptions(threshold=8, edgeitems=3, precision=6):
        shown = ", ".join(f"{name} = {value}" for name, value in latents.items())
    error.add_note(f"raised by the log-likelihood at {shown}\n(the whole of it is in this exception's `latents`)")
    error.latents = latents  # type: ignore[attr-defined]
