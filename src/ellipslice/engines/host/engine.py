"""The host engine: any Python callable, in the caller's own thread, debugger and Ctrl-C included."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ellipslice.engines.base import Engine, Piece
from ellipslice.engines.host.angles import WIDTH, AngleTable
from ellipslice.engines.host.call import Call
from ellipslice.engines.threads import blas_beside
from ellipslice.moves import Info, Move, Search, State
from ellipslice.moves.base import Lots
from ellipslice.moves.search import MAX_EVALUATIONS, search
from ellipslice.noise import Noise, block_length, draw_block
from ellipslice.posterior import Posterior

TURN = 0.05
"""Seconds between two looks at the clock, about, for all chains together."""

AHEAD = 16
"""Angles evaluated at once, of all chains together, by a likelihood that takes batches."""


class HostEngine(Engine):
    """Chains in plain Python. A likelihood that takes batches is called for all chains and several angles at once."""

    name = "host"

    def __init__(self, posterior: Posterior):
        super().__init__(posterior)
        self.call = Call(posterior)
        self._largest = 0  # batch that is known to leave the bits of its rows alone

    def evaluate(self, f: np.ndarray) -> float:
        return self.call.one(f)

    def evaluate_all(self, points: Sequence[np.ndarray]) -> list[float]:
        if not self.posterior.vectorized or len(points) == 1 or not self._rows_keep_their_bits(len(points)):
            return super().evaluate_all(points)
        return self.call.batch(np.stack(points)).tolist()

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
    ) -> HostRun:
        under_way, call = self.chains(move, seed, chains, starts, updates, done or [0] * len(chains)), self.call
        if not isinstance(move, Search):
            target = HostTarget(call.one, self.prepared(move))
            return _InTurns(under_way, lambda chain: move.step(chain.noise(), chain.state, target))
        if not self.posterior.vectorized:
            return _InTurns(under_way, lambda chain: _search(chain, call))
        ahead = look_ahead or max(1, AHEAD // len(chains))
        alone = None if self._rows_keep_their_bits(len(chains) * ahead) else call.one
        return _Together(under_way, call, ahead, alone)

    def chains(
        self,
        move: Move,
        seed: int,
        numbers: Sequence[int],
        starts: Sequence[State],
        updates: int,
        done: Sequence[int],
    ) -> list[HostChain]:
        """The chains of a run, before their first update."""
        prior = self.posterior.prior
        lots = move.lots(prior, self.prepared(move))
        return [
            HostChain(i, number, state, made, updates, prior.size, move, lots, seed)
            for i, (number, state, made) in enumerate(zip(numbers, starts, done, strict=True))
        ]

    def check_look_ahead(self, move: Move, look_ahead: int | None) -> None:
        super().check_look_ahead(move, look_ahead)
        if look_ahead is not None and look_ahead > 1 and not self.posterior.vectorized:
            raise ValueError(
                f"look_ahead={look_ahead} was asked for, but on the host engine the log-likelihood is called for one "
                "latent at a time. If it takes a batch, (batch, *shape) -> (batch,), say vectorized=True; if there are "
                "processes to share the work, give executor=; else leave look_ahead out."
            )

    def _rows_keep_their_bits(self, batch: int) -> bool:
        if batch > self._largest >= 0:
            self._largest = batch if self.call.rows_keep_their_bits(batch) else -1
        return self._largest >= batch


class HostTarget:
    """The posterior as moves see it on the host."""

    def __init__(self, log_likelihood: Callable[[np.ndarray], float], prepared: Any = None):
        self.log_likelihood, self.prepared = log_likelihood, prepared

    def within(self, log_likelihood: Callable[[np.ndarray], float], prepared: Any) -> HostTarget:
        """The same engine with another log-likelihood, for a move inside another."""
        return HostTarget(log_likelihood, prepared)

    def at(self, f: np.ndarray) -> State:
        """A proposal and its log-likelihood."""
        return State(f, self.log_likelihood(f))

    def search(self, move: Search, noise: Noise, state: State) -> tuple[State, Info]:
        """Run a slice search along the move's curve."""
        return search(move, noise.nu, noise.level, noise.uniforms, state, self.log_likelihood)


class HostRun:
    """Chains on the host, under way."""

    def __init__(self, chains: list[HostChain]):
        self._chains = chains

    @property
    def finished(self) -> bool:
        return not any(chain.remaining for chain in self._chains)

    def advance(self) -> None:
        raise NotImplementedError

    def extend(self, updates: int) -> None:
        for chain in self._chains:
            chain.updates = updates

    def take(self) -> list[Piece]:
        return [piece for chain in self._chains if (piece := chain.take()) is not None]

    def close(self) -> None:
        """Nothing is held."""


class _InTurns(HostRun):
    """One chain after the other; as many updates for one as for the next, so that all have draws if Ctrl-C comes."""

    def __init__(self, chains: list[HostChain], update: Callable[[HostChain], tuple[State, Info]]):
        super().__init__(chains)
        self._update, self._stretch = update, 1

    def advance(self) -> None:
        began = time.perf_counter()
        for chain in self._chains:
            for _ in range(min(self._stretch, chain.remaining)):
                chain.record(*self._update(chain))
        turns = (time.perf_counter() - began) / TURN
        if turns < 0.5:
            self._stretch *= 2
        elif turns > 2:
            self._stretch = max(1, self._stretch // 2)


class _Together(HostRun):
    """All chains in one call of the likelihood, each several angles ahead; none waits for another."""

    def __init__(self, chains: list[HostChain], call: Call, ahead: int, alone: Callable[[np.ndarray], float] | None):
        super().__init__(chains)
        self._call = call
        self._searches = [_LookAhead(chain, ahead, alone) for chain in chains]

    def advance(self) -> None:
        end = time.perf_counter() + TURN
        active = [s for s in self._searches if s.chain.remaining]
        while active:
            points = [s.points() for s in active]
            batch = points[0] if len(points) == 1 else np.concatenate(points)
            if self._call.read_only:
                batch.flags.writeable = False
            values = self._call.batch(batch).tolist()
            start = 0
            for s, own in zip(active, points, strict=True):
                s.judge(own, values[start : start + len(own)])
                start += len(own)
            if time.perf_counter() > end:
                break
            active = [s for s in active if s.chain.remaining]


class HostChain:
    """One chain: its state, its noise, and what it has drawn but not handed over."""

    def __init__(
        self,
        position: int,
        number: int,
        state: State,
        done: int,
        updates: int,
        size: int,
        move: Any,
        lots: Lots,
        seed: int,
    ):
        self.state = state
        self._position, self._number, self._seed = position, number, seed
        self._move, self._lots = move, lots
        self._length = block_length(size * lots.draws)
        self.group, self._vectors = group_size(size), np.empty((2, size))
        self.updates, self._done, self._taken = updates, done, done
        self._f: list[np.ndarray] = []
        self._log_likelihood: list[float] = []
        self._info: list[Any] = []
        self._block = -1

    @property
    def remaining(self) -> int:
        return self.updates - self._done

    def record(self, state: State, info: Info) -> None:
        # One list a field rather than one of tuples, which Python's garbage collector would visit again and again.
        self._f.append(state.f)
        self._log_likelihood.append(state.log_likelihood)
        self._info.extend(info)
        self.state = state
        self._done += 1

    def take(self) -> Piece | None:
        count = self._done - self._taken  # Ctrl-C may have come in the middle of `record`
        if not count:
            return None
        fields = len(Info._fields)
        info = Info(*(np.array(self._info[i : count * fields : fields]) for i in range(fields)))
        f, log_likelihood = np.array(self._f[:count]), np.array(self._log_likelihood[:count])
        first, self._taken = self._taken, self._done
        self._f, self._log_likelihood, self._info = [], [], []
        return Piece(self._position, first, f, log_likelihood, info, info.evaluations)

    def noise(self) -> Noise:
        """The noise of the next update."""
        row = self._enter_block()
        return Noise(self._noise.nu[row], self._level[row], self._noise.uniforms[row])

    def begin(self) -> _Curve:
        """The curve of the next update, if the move is a search."""
        row = self._enter_block()
        self._vectors[0], self._vectors[1] = self._move.curve(self.state.f, self._noise.nu[row, 0], self._here[row])
        log_y = self.state.log_likelihood - self._level[row][0]
        return _Curve(self._move, self._vectors, self._angles, row, self._weights[row], self.group, log_y)

    def _enter_block(self) -> int:
        block, row = divmod(self._done, self._length)
        if block != self._block:
            source, draws, parts = self._lots
            with blas_beside(1):
                noise = draw_block(source, self._seed, self._number, block, self._length, parts, draws)
            self._noise = noise._replace(nu=np.asarray(noise.nu))
            self._level = noise.level.tolist()
            if isinstance(self._move, Search):
                self._angles = AngleTable(self._move, noise.uniforms[:, 0])
                self._weights = np.stack(self._move.weights(self._angles.theta), axis=-1)
                self._here = self._angles.here.tolist()
            self._block = block
        return row


def group_size(size: int) -> int:
    """Points worked out at once: many if they are short, one if they are long.

    A function of the latent's size alone, for the rounding of a matrix product depends on its shape.
    """
    group = 16
    while group > 1 and group * size > 2**13:
        group //= 2
    return group


class _Curve:
    """The points that one update would try, in groups: a matrix product makes sixteen short ones as fast as one."""

    def __init__(
        self,
        move: Search,
        vectors: np.ndarray,
        angles: AngleTable,
        update: int,
        weights: np.ndarray,
        group: int,
        log_y: float,
    ):
        self._move, self._vectors, self._angles, self._update = move, vectors, angles, update
        self._weights, self._group, self.log_y = weights, group, log_y

    def points(self, number: int) -> np.ndarray:
        """Group number `number`, counted from 0, shape (points, size)."""
        sheet, start = divmod(number * self._group, WIDTH)
        weights = self._weights
        if sheet:
            weights = np.stack(self._move.weights(self._angles.sheet(self._update, sheet)), axis=-1)
        if self._group > 1:
            return np.dot(weights[start : start + self._group], self._vectors)
        return self._vectors[:1] * weights[start, 0] + self._vectors[1:] * weights[start, 1]

    def angle(self, tried: int) -> float:
        """How far the point tried last is from the current state."""
        return self._angles.angle(self._update, tried - 1)


def _search(chain: HostChain, call: Call) -> tuple[State, Info]:
    """`moves.search.search`, with the points made in groups, and no more calls than a loop written by hand."""
    curve, function = chain.begin(), call.function
    log_y, nans, tried, group = curve.log_y, 0, 0, 0
    while tried < MAX_EVALUATIONS:
        points = curve.points(group)[: MAX_EVALUATIONS - tried]
        if call.read_only:
            points.flags.writeable = False
        for f in points:
            try:
                value = float(function(f))
            except Exception as error:
                call.explain(error, f)
                raise
            tried += 1
            if value > log_y:
                return State(f.copy(), value), Info(tried, nans, False, curve.angle(tried))
            nans += value != value
        group += 1
    return chain.state, Info(tried, nans, True, 0.0)


class _LookAhead:
    """A search that is asked for several points at a time and told their values.

    If values in a batch round differently from values alone (a matrix product may), a point that is, or could be, on
    the slice is evaluated once more by itself: the chain is then the same for any look-ahead and any company.
    """

    def __init__(self, chain: HostChain, count: int, alone: Callable[[np.ndarray], float] | None):
        self.chain, self._count, self._alone = chain, count, alone
        self._groups = -(-count // chain.group)
        self._curve: _Curve | None = None
        self._ready: Any = ()

    def points(self) -> np.ndarray:
        """The next points to try."""
        if self._curve is None:
            self._curve, self._ready = self.chain.begin(), ()
            self._group = self._tried = self._nans = 0
        if not len(self._ready):
            groups = [self._curve.points(self._group + i) for i in range(self._groups)]
            self._ready = groups[0] if len(groups) == 1 else np.concatenate(groups)
            self._group += self._groups
        return self._ready[: min(self._count, MAX_EVALUATIONS - self._tried)]

    def judge(self, points: np.ndarray, values: list[float]) -> None:
        """Take the first point on the slice, if there is one."""
        curve, alone, nans = self._curve, self._alone, self._nans
        assert curve is not None  # noqa: S101  these points are its
        log_y = curve.log_y
        hopeful = log_y if alone is None else log_y - 1e-8 * (1 + abs(log_y))
        for i, value in enumerate(values):
            if value > hopeful:
                if alone is not None:
                    value = alone(points[i])
                if value > log_y:
                    tried = self._tried + i + 1
                    return self._end(State(points[i].copy(), value), Info(tried, nans, False, curve.angle(tried)))
            nans += value != value
        self._tried, self._nans, self._ready = self._tried + len(values), nans, self._ready[len(values) :]
        if self._tried >= MAX_EVALUATIONS:
            self._end(self.chain.state, Info(self._tried, nans, True, 0.0))
        return None

    def _end(self, state: State, info: Info) -> None:
        self._curve = None
        self.chain.record(state, info)
