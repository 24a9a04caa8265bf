"""The host engine: any Python callable, in the caller's own thread, debugger and Ctrl-C included."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.angles import AngleTable, UniformTable
from ellipslice.engines.base import Piece
from ellipslice.moves import Info, Move, Search, State
from ellipslice.moves.search import MAX_EVALUATIONS, search
from ellipslice.noise import Noise, block_length, draw_block
from ellipslice.posterior import CentredLikelihood, Posterior
from ellipslice.priors import Prior

TURN = 0.05
"""Seconds a chain runs before the next one's turn."""

Evaluate = Callable[[np.ndarray], float]
EvaluateBatch = Callable[[np.ndarray], Any]


class HostTarget:
    """The posterior as moves see it on the host. Here a noise's `key` is a function that gives its uniforms."""

    def __init__(self, log_likelihood: Evaluate):
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
        with jax.enable_x64(True):
            prior = jax.tree.map(jnp.asarray, posterior.prior)
        self._chains = [
            _Chain(i, number, state, updates, prior, move, seed)
            for i, (number, state) in enumerate(zip(chains, starts, strict=True))
        ]
        centred = posterior.log_likelihood
        call, evaluate = quickest(centred), one_by_one(posterior)
        if posterior.vectorized and isinstance(move, Search):
            batch = all_at_once(posterior)
            alone = None if _rows_keep_their_bits(batch, prior, len(chains) * look_ahead) else evaluate
            searches = [_LookAhead(move, chain, look_ahead, alone) for chain in self._chains]
            self._advance = lambda: _advance_together(searches, batch)
        elif isinstance(move, Search):
            self._advance = lambda: self._take_turns(lambda chain: _search(move, chain, call, centred))
        else:
            target = HostTarget(evaluate)
            self._advance = lambda: self._take_turns(lambda chain: move.step(chain.noise(), chain.state, target))

    @property
    def finished(self) -> bool:
        return not any(chain.remaining for chain in self._chains)

    def advance(self) -> None:
        self._advance()

    def take(self) -> list[Piece]:
        return [piece for chain in self._chains if (piece := chain.take()) is not None]

    def close(self) -> None:
        """Nothing is held."""

    def _take_turns(self, update: Callable[[_Chain], tuple[State, Info]]) -> None:
        for chain in self._chains:
            end = time.perf_counter() + TURN
            for _ in range(chain.remaining):
                chain.record(*update(chain))
                if time.perf_counter() > end:
                    break


class _Chain:
    """One chain: its state, its noise, and what it has drawn but not handed over."""

    def __init__(self, position: int, number: int, state: State, updates: int, prior: Prior, move: Move, seed: int):
        self.state = state
        self._position, self._number, self._seed = position, number, seed
        self._prior, self._move = prior, move
        self._length = block_length(prior.size)
        self.buffer = np.empty(prior.size)
        self._updates, self._done, self._taken = updates, 0, 0
        self._f: list[np.ndarray] = []
        self._log_likelihood: list[float] = []
        self._info: list[Any] = []
        self._block = -1

    @property
    def remaining(self) -> int:
        return self._updates - self._done

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
        return Piece(self._position, first, f, log_likelihood, info)

    def noise(self) -> Noise:
        """The noise of the next update; its keys are functions that give the uniforms."""
        row = self._enter_block()
        keys = [self._uniforms.row(row, part) for part in range(self._move.parts)]
        return Noise(self._noise.nu[row], self._level[row], keys)

    def angles(self) -> tuple[np.ndarray, float, AngleTable, int]:
        """The draw and the level of the next update, and a table of angles with its row."""
        row = self._enter_block()
        return self._noise.nu[row, 0], self._level[row][0], self._angles, row

    def _enter_block(self) -> int:
        block, row = divmod(self._done, self._length)
        if block != self._block:
            noise = draw_block(self._prior, self._seed, self._number, block, self._length, self._move.parts)
            self._noise = Noise(np.asarray(noise.nu), noise.level, noise.key)
            self._level = noise.level.tolist()
            if isinstance(self._move, Search):
                self._angles = AngleTable(self._move, UniformTable(noise.key[:, 0]))
            else:
                self._uniforms = UniformTable(noise.key)
            self._block = block
        return row


def _search(move: Search, chain: _Chain, call: Callable[..., Any], centred: CentredLikelihood) -> tuple[State, Info]:
    """`moves.search.search` with the angles read from a table, and no more calls than a loop written by hand."""
    nu, level, angles, update = chain.angles()
    state, here, part = chain.state, angles.here[update], chain.buffer
    a, b = move.curve(state.f, nu, here)
    log_y = state.log_likelihood - level
    nans = tried = 0
    while tried < MAX_EVALUATIONS:
        for w_a, w_b in zip(*angles.weights(update, tried), strict=True):
            f = a * w_a
            f += np.multiply(b, w_b, part)
            try:
                value = float(call(f))
            except Exception as error:
                explain(error, centred.unpack(f))
                raise
            tried += 1
            if value > log_y:
                return State(f, value), Info(tried, nans, False, angles.angle(update, tried - 1) - here)
            nans += value != value
    return state, Info(tried, nans, True, 0.0)


def _advance_together(searches: list[_LookAhead], batch: EvaluateBatch) -> None:
    """All chains in one call, each several angles ahead; none waits for another."""
    end = time.perf_counter() + TURN
    active = [s for s in searches if s.chain.remaining]
    while active and time.perf_counter() < end:
        points = [s.points() for s in active]
        values = batch(points[0] if len(points) == 1 else np.concatenate(points)).tolist()
        start = 0
        for s, own in zip(active, points, strict=True):
            s.judge(own, values[start : start + len(own)])
            start += len(own)
        active = [s for s in active if s.chain.remaining]


class _LookAhead:
    """A search that is asked for several points at a time and told their values.

    If values in a batch round differently from values alone (a matrix product may), a point that is, or could be, on
    the slice is evaluated once more by itself: the chain is then the same for any look-ahead and any company.
    """

    def __init__(self, move: Search, chain: _Chain, count: int, alone: Evaluate | None):
        self.chain, self._move, self._count, self._alone = chain, move, count, alone
        self._begun = False

    def points(self) -> np.ndarray:
        """The next points to try."""
        if not self._begun:
            nu, level, self._angles, self._update = self.chain.angles()
            self._here = self._angles.here[self._update]
            self._a, self._b = self._move.curve(self.chain.state.f, nu, self._here)
            self._log_y = self.chain.state.log_likelihood - level
            self._tried = self._nans = 0
            self._begun = True
        w_a, w_b = self._angles.weights(self._update, self._tried)
        count = min(self._count, MAX_EVALUATIONS - self._tried)
        return self._a * np.array(w_a[:count])[:, None] + self._b * np.array(w_b[:count])[:, None]

    def judge(self, points: np.ndarray, values: list[float]) -> None:
        """Take the first point on the slice, if there is one."""
        for i, value in enumerate(values):
            self._tried += 1
            if self._alone is not None and value > self._log_y - 1e-8 * (1 + abs(self._log_y)):
                value = self._alone(points[i])
            if value > self._log_y:
                angle = self._angles.angle(self._update, self._tried - 1) - self._here
                self._end(State(points[i].copy(), value), Info(self._tried, self._nans, False, angle))
                return
            self._nans += value != value
        if self._tried >= MAX_EVALUATIONS:
            self._end(self.chain.state, Info(self._tried, self._nans, True, 0.0))

    def _end(self, state: State, info: Info) -> None:
        self._begun = False
        self.chain.record(state, info)


def quickest(centred: CentredLikelihood) -> Callable[[np.ndarray], Any]:
    """The user's own function where the flat vector is what it takes; else with the shift and the reshaping."""
    return centred.callable if _is_plain(centred) and not centred.batches_only else centred


def one_by_one(posterior: Posterior) -> Evaluate:
    """The log-likelihood of one centred flat vector, as a float; an exception carries the latents that caused it."""
    centred = posterior.log_likelihood
    call = quickest(centred)

    def evaluate(f: np.ndarray) -> float:
        try:
            return float(call(f))
        except Exception as error:
            explain(error, centred.unpack(f))
            raise

    return evaluate


def all_at_once(posterior: Posterior) -> EvaluateBatch:
    """The log-likelihoods of a batch of centred flat vectors, as an array."""
    centred = posterior.log_likelihood
    call = centred.callable if _is_plain(centred) else centred.batch

    def evaluate(points: np.ndarray) -> np.ndarray:
        try:
            values = np.asarray(call(points), dtype=np.float64)
        except Exception as error:
            explain(error, centred.unpack(points))
            raise
        if values.shape != (len(points),):
            raise ValueError(
                f"log_likelihood was given a batch of {len(points)} latents and returned shape {values.shape}; with "
                f"vectorized=True it must return one value for each, shape ({len(points)},)."
            )
        return values

    return evaluate


def _is_plain(centred: CentredLikelihood) -> bool:
    """Whether the user's function can be called with the flat vector itself, sparing the shift and the reshaping."""
    return centred.single and centred.mean is None and len(centred.layout[0][1]) == 1


def _rows_keep_their_bits(batch: EvaluateBatch, prior: Prior, largest: int) -> bool:
    """Whether a point has the same bits alone as in batches of every size, as far as 64 points can tell."""
    points = np.asarray(prior.draw(np.random.default_rng(0), max(64, largest)))

    def in_batches_of(size: int) -> np.ndarray:
        return np.concatenate([batch(points[i : i + size]) for i in range(0, len(points), size)])

    alone = in_batches_of(1)
    sizes = {*range(2, min(largest, 32) + 1), largest}
    return all(np.array_equal(in_batches_of(size), alone, equal_nan=True) for size in sizes)


def explain(error: Exception, latents: dict[str, np.ndarray]) -> None:
    """Attach to an exception the latents at which the likelihood raised it."""
    with np.printoptions(threshold=8, edgeitems=3, precision=6):
        shown = ", ".join(f"{name} = {value}" for name, value in latents.items())
    error.add_note(f"raised by the log-likelihood at {shown}\n(the whole of it is in this exception's `latents`)")
    with contextlib.suppress(AttributeError, TypeError):  # an exception may have no room for it
        error.latents = latents  # type: ignore[attr-defined]
