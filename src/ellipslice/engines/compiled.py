"""The compiled engine: likelihoods that JAX can trace, one compiled loop per chain, a thread per core."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.engines.base import Engine, Piece
from ellipslice.moves import Info, Move, Search, State
from ellipslice.moves.search import MAX_EVALUATIONS
from ellipslice.noise import Noise, block_length, draw_block, uniform
from ellipslice.posterior import CentredLikelihood, Posterior
from ellipslice.priors import Prior
from ellipslice.settings import jax_settings

TURN = 0.1
"""Seconds of work between two looks at the clock: how fast progress and Ctrl-C are answered."""


class CompiledEngine(Engine):
    """Chains in compiled code. Each has its own loop, so none waits for another, and the same bits in any company."""

    name: ClassVar[str] = "compiled"

    def __init__(self, posterior: Posterior):
        super().__init__(posterior)
        self._value = compile_for(posterior.log_likelihood, _value)

    @cached_property
    def _on_device(self) -> tuple[Prior, CentredLikelihood]:
        with jax_settings():
            return jax.tree.map(jnp.asarray, (self.posterior.prior, self.posterior.log_likelihood))

    def evaluate(self, f: np.ndarray) -> float:
        return float(self._value(self._on_device[1], f))

    def run(
        self,
        move: Move,
        seed: int,
        chains: Sequence[int],
        starts: Sequence[State],
        updates: int,
        look_ahead: int | None = None,
    ) -> CompiledRun:
        prior, centred = self._on_device
        run_block = partial(compile_for(centred, _run_block, static=(0, 1)), move, look_ahead or 1, centred)
        with jax_settings():
            return CompiledRun(
                [
                    _Chain(i, number, state, updates, prior, run_block, move, seed)
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
        self,
        position: int,
        number: int,
        state: State,
        updates: int,
        prior: Prior,
        run_block: Callable[..., tuple[_Trace, Progress]],
        move: Move,
        seed: int,
    ):
        self._position, self._number, self._prior = position, number, prior
        self._run_block, self._move, self._seed = run_block, move, seed
        self._length = block_length(prior.size)
        self._progress = Progress(jnp.int32(0), jnp.int32(0), jnp.int32(0), jax.tree.map(jnp.asarray, state))
        self._updates, self._done = updates, 0
        self._stretch = 1  # then twice as many as long as a turn has room for them
        self._block, self._noise, self._next = -1, None, None
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
        trace, self._progress = self._run_block(self._progress, self._noise, stop)
        if self._next is None and (block + 1) * self._length < self._updates:
            self._next = self._draw(block + 1)
        reached = int(self._progress.t)
        if reached < stop:
            self._noise = _more_angles(self._move, self._noise, reached, self._progress.tried)
        if reached > first:
            rows = jax.tree.map(lambda rows: np.asarray(rows)[first:reached], trace)
            self._drawn.append(Piece(self._position, self._done, *rows))
            self._done += reached - first
        if time.perf_counter() - began < TURN / 2:
            self._stretch = min(2 * self._stretch, self._length)

    def _draw(self, block: int) -> BlockNoise:
        noise = draw_block(self._prior, self._seed, self._number, block, self._length, self._move.parts)
        noise = Noise(*(jnp.asarray(part) for part in noise))
        return BlockNoise(noise, _first_angles(self._move, noise.key[:, 0]) if isinstance(self._move, Search) else None)


class Angles(NamedTuple):
    """The angles that each update of a block would try, worked out apart from the loop that tries them.

    Apart, because how a compiler rounds them could else depend on the loop around them, and so on the look-ahead.
    """

    here: Any
    """Position of the current state on the curve, shape (updates,)."""
    theta: Any
    """Shape (updates, ANGLES)."""
    theta_min: Any
    theta_max: Any
    """The bracket from which the last of them was drawn."""
    tried: Any
    """How many angles came before these: 0, but for updates that needed more than a row."""


class BlockNoise(NamedTuple):
    """The noise of a block of updates and, for a search, the angles that follow from it."""

    noise: Noise
    angles: Angles | None


ANGLES = 32


@partial(jax.jit, static_argnums=0)
def _first_angles(move: Search, key: Any) -> Angles:
    number = jnp.zeros(len(key), jnp.uint32)
    place = uniform(key, number)
    here = jnp.broadcast_to(move.here(place), place.shape)
    start = move.begin(here, place, uniform(key, number + 1))
    theta, theta_min, theta_max = (jnp.broadcast_to(part, place.shape) for part in start)
    return _follow(move, key, here, theta, theta_min, theta_max, number.astype(jnp.int32))


@partial(jax.jit, static_argnums=0)
def _more_angles(move: Search, block: BlockNoise, t: Any, tried: Any) -> BlockNoise:
    """The block with the angles of update `t`, which has tried them all, replaced by those that come next."""
    angles = block.angles
    row = jax.tree.map(lambda part: part[t][None], angles)
    key = block.noise.key[t]
    theta_min, theta_max = move.shrink(row.theta[:, -1], row.theta_min, row.theta_max, row.here)
    theta = move.propose(theta_min, theta_max, uniform(key, (tried + 1).astype(jnp.uint32)[None]))
    more = _follow(move, key, row.here, theta, theta_min, theta_max, tried[None])
    return block._replace(angles=jax.tree.map(lambda old, new: old.at[t].set(new[0]), angles, more))


def _follow(move: Search, key: Any, here: Any, theta: Any, theta_min: Any, theta_max: Any, tried: Any) -> Angles:
    """A row of angles for every update, given the first and the bracket it was drawn from."""

    def one(last: tuple[Any, Any, Any], k: Any) -> tuple[tuple[Any, Any, Any], Any]:
        theta, theta_min, theta_max = last
        theta_min, theta_max = move.shrink(theta, theta_min, theta_max, here)
        theta = move.propose(theta_min, theta_max, uniform(key, (tried + 1 + k).astype(jnp.uint32)))
        return (theta, theta_min, theta_max), theta

    (_, theta_min, theta_max), rest = lax.scan(one, (theta, theta_min, theta_max), jnp.arange(1, ANGLES))
    return Angles(here, jnp.concatenate([theta[None], rest]).T, theta_min, theta_max, tried)


class _Trace(NamedTuple):
    """The rows of a block: what each update left behind."""

    f: Any
    log_likelihood: Any
    info: Info


def compile_for(centred: CentredLikelihood, function: Callable[..., Any], static: tuple[int, ...] = ()) -> Any:
    """Compile a function of a likelihood.

    If the likelihood is a pytree, its data are arguments and the compiled code serves every run. If it is any other
    function, its data are inside the compiled code, which is made for this run and goes with it.
    """
    if centred.function is None:
        return _compile_once(function, static)
    return jax.jit(partial(function), static_argnums=static)


@cache
def _compile_once(function: Callable[..., Any], static: tuple[int, ...]) -> Any:
    return jax.jit(function, static_argnums=static)


def _value(centred: CentredLikelihood, f: Any) -> Any:
    return jnp.asarray(centred(f), f.dtype)


class Progress(NamedTuple):
    """Where a chain is inside a block: update `t` is next, and has tried `tried` angles in vain."""

    t: Any
    tried: Any
    nans: Any
    state: State


def _run_block(
    move: Move, look_ahead: int, centred: CentredLikelihood, start: Progress, block: BlockNoise, stop: Any
) -> tuple[_Trace, Progress]:
    """Updates of a block up to `stop`, or to the first that runs out of angles; other rows of the trace are empty."""
    noise = block.noise
    if block.angles is not None and isinstance(move, Search):
        return _search_block(move, look_ahead, centred, start, noise, block.angles, stop)
    target = _Target(centred)

    def one(t: Any, carry: tuple[State, _Trace]) -> tuple[State, _Trace]:
        state, trace = carry
        state, info = move.step(Noise(*(part[t] for part in noise)), state, target)
        return state, _write(trace, t, state, info)

    state, trace = lax.fori_loop(start.t, stop, one, (start.state, _empty(noise)))
    return trace, start._replace(t=jnp.asarray(stop, jnp.int32), state=state)


def _empty(noise: Noise) -> _Trace:
    length, _, size = noise.nu.shape
    whole, real = jnp.zeros(length, jnp.int32), jnp.zeros(length, noise.nu.dtype)
    return _Trace(jnp.zeros((length, size), noise.nu.dtype), real, Info(whole, whole, whole.astype(bool), real))


def _write(trace: _Trace, t: Any, state: State, info: Info) -> _Trace:
    return jax.tree.map(lambda rows, value: rows.at[t].set(value), trace, _Trace(*state, info))


def _point(move: Search, a: Any, b: Any, theta: Any) -> Any:
    w_a, w_b = move.weights(theta)
    return a * w_a + b * w_b


def _judged(centred: CentredLikelihood, point: Any) -> tuple[Any, Any]:
    """A point and its value. The barriers make XLA compute each once: twice, and two roundings would be about."""
    point = lax.optimization_barrier(point)
    return point, lax.optimization_barrier(_value(centred, point))


def _search_block(
    move: Search, look_ahead: int, centred: CentredLikelihood, start: Progress, noise: Noise, angles: Angles, stop: Any
) -> tuple[_Trace, Progress]:
    """`moves.search.search` for every update of a block, as one flat loop: a pass tries the next `look_ahead` angles.

    One loop rather than a loop in a loop, for XLA pays for the dispatch of each.
    """
    nu, level = noise.nu[:, 0], noise.level[:, 0]

    def one_pass(carry: tuple[_Trace, Progress]) -> tuple[_Trace, Progress]:
        trace, (t, tried, nans, (f, log_l)) = carry
        here, offset = angles.here[t], tried - angles.tried[t]
        a, b = move.curve(f, nu[t], here)
        log_y = log_l - level[t]
        if look_ahead == 1:
            pick = offset
        else:
            # A batch may round differently from a single evaluation, so it only picks the angle that is judged: the
            # first that could be on the slice. The chain is then the same for any look-ahead.
            ahead = offset + jnp.arange(look_ahead)
            values = jax.vmap(lambda i: _value(centred, _point(move, a, b, angles.theta[t, i])))(
                jnp.minimum(ahead, ANGLES - 1)
            )
            last = jnp.minimum(offset + look_ahead, jnp.minimum(ANGLES, MAX_EVALUATIONS - angles.tried[t])) - 1
            hopeful = (values > log_y - 1e-8 * (1 + jnp.abs(log_y))) & (ahead <= last)
            pick = jnp.where(hopeful.any(), offset + jnp.argmax(hopeful), last)
            nans = nans + jnp.sum(jnp.isnan(values) & (ahead < pick), dtype=jnp.int32)
        theta = angles.theta[t, pick]
        proposal, value = _judged(centred, _point(move, a, b, theta))
        accepted = value > log_y
        tried = (angles.tried[t] + pick + 1).astype(jnp.int32)
        nans = nans + jnp.isnan(value)
        ended = accepted | (tried >= MAX_EVALUATIONS)
        state = State(jnp.where(accepted, proposal, f), jnp.where(accepted, value, log_l))
        info = Info(tried, nans, ended & ~accepted, jnp.where(accepted, theta - here, 0.0))
        trace = _write(trace, t, state, info)
        return trace, Progress(t + ended, jnp.where(ended, 0, tried), jnp.where(ended, 0, nans), state)

    def can_go_on(carry: tuple[_Trace, Progress]) -> Any:
        progress = carry[1]
        return (progress.t < stop) & (progress.tried - angles.tried[progress.t] < ANGLES)

    return lax.while_loop(can_go_on, one_pass, (_empty(noise), start))


class _Target:
    """The posterior as moves see it inside compiled code."""

    def __init__(self, centred: CentredLikelihood):
        self.log_likelihood = centred

    def search(self, move: Search, noise: Noise, state: State) -> tuple[State, Info]:
        """`moves.search.search` as a compiled loop."""
        nu, level, key = noise
        place = uniform(key, jnp.uint32(0))
        here = move.here(place)
        a, b = move.curve(state.f, nu, here)
        log_y = state.log_likelihood - level
        start = (jnp.asarray(part, nu.dtype) for part in move.begin(here, place, uniform(key, jnp.uint32(1))))

        def one_try(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            tried, nans, _, _, theta, theta_min, theta_max = carry
            f, value = _judged(self.log_likelihood, _point(move, a, b, theta))
            bracket = move.shrink(theta, theta_min, theta_max, here)
            rejected = ~(value > log_y)
            u = uniform(key, (tried + 2).astype(jnp.uint32))
            following = (move.propose(*bracket, u), *bracket)
            angle = (
                jnp.where(rejected, new, old) for new, old in zip(following, (theta, theta_min, theta_max), strict=True)
            )
            return tried + 1, nans + jnp.isnan(value), f, value, *angle

        tried, nans, f, value, theta, *_ = lax.while_loop(
            lambda carry: ~(carry[3] > log_y) & (carry[0] < MAX_EVALUATIONS),
            one_try,
            (jnp.int32(0), jnp.int32(0), state.f, jnp.asarray(-jnp.inf, nu.dtype), *start),
        )
        accepted = value > log_y
        info = Info(tried, nans, ~accepted, jnp.where(accepted, theta - here, 0.0))
        return State(jnp.where(accepted, f, state.f), jnp.where(accepted, value, state.log_likelihood)), info
