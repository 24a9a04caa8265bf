"""The compiled engine: likelihoods that JAX can trace, one compiled loop per chain, a thread per core."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.engines.base import Piece
from ellipslice.moves import Info, Move, Search, State
from ellipslice.moves.search import MAX_EVALUATIONS
from ellipslice.noise import Noise, block_length, draw_block, uniform
from ellipslice.posterior import CentredLikelihood, Posterior
from ellipslice.priors import Prior

TURN = 0.1
"""Seconds of work between two looks at the clock: how fast progress and Ctrl-C are answered."""


class CompiledRun:
    """Chains in compiled code. Each has its own loop, so none waits for another, and the same bits in any company.

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
        Angles evaluated at once; changes the speed, never the chain.
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
            prior, centred = jax.tree.map(jnp.asarray, (posterior.prior, posterior.log_likelihood))
        run_block = partial(compile_for(centred, _run_block, static=(0, 1)), move, look_ahead, centred)
        self._chains = [
            _Chain(i, number, state, updates, prior, run_block, move.parts, seed)
            for i, (number, state) in enumerate(zip(chains, starts, strict=True))
        ]
        self._pool = ThreadPoolExecutor(min(len(self._chains), os.cpu_count() or 1), "ellipslice")

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
        run_block: Callable[..., _Trace],
        parts: int,
        seed: int,
    ):
        self._position, self._number, self._state, self._prior = position, number, state, prior
        self._run_block, self._parts, self._seed = run_block, parts, seed
        self._length = block_length(prior.size)
        self._updates, self._done = updates, 0
        self._stretch = min(16, self._length)
        self._block, self._noise, self._next = -1, None, None
        self._drawn: list[Piece] = []

    @property
    def finished(self) -> bool:
        return self._done >= self._updates

    def advance(self) -> None:
        end = time.perf_counter() + TURN
        with jax.enable_x64(True):
            while not self.finished and time.perf_counter() < end:
                self._advance_stretch()

    def take(self) -> list[Piece]:
        drawn, self._drawn = self._drawn, []
        return drawn

    def _advance_stretch(self) -> None:
        """A block of updates, or as many as fit into a turn; the next block's noise is drawn while they run."""
        block, first = divmod(self._done, self._length)
        if block != self._block:
            self._noise, self._next = (self._next or self._draw(block)), None
            self._block = block
        stop = min(self._length, first + self._stretch, first + self._updates - self._done)
        began = time.perf_counter()
        trace = self._run_block(self._state, self._noise, first, stop)
        if self._next is None and (block + 1) * self._length < self._updates:
            self._next = self._draw(block + 1)
        f, log_likelihood, info = jax.tree.map(lambda rows: np.asarray(rows)[first:stop], (trace.f, *trace[1:]))
        self._state = State(trace.f[stop - 1], trace.log_likelihood[stop - 1])
        self._drawn.append(Piece(self._position, self._done, f, log_likelihood, info))
        self._done += stop - first
        if time.perf_counter() - began < TURN / 2:
            self._stretch = min(2 * self._stretch, self._length)

    def _draw(self, block: int) -> Noise:
        noise = draw_block(self._prior, self._seed, self._number, block, self._length, self._parts)
        return Noise(*(jnp.asarray(part) for part in noise))


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


def compiled_evaluate(centred: CentredLikelihood) -> Callable[[np.ndarray], float]:
    """The log-likelihood of one centred flat vector, by compiled code."""
    on_device = jax.tree.map(jnp.asarray, centred)
    value = compile_for(centred, _value)
    return lambda f: float(value(on_device, f))


def _value(centred: CentredLikelihood, f: Any) -> Any:
    return jnp.asarray(centred(f), f.dtype)


def _run_block(
    move: Move, look_ahead: int, centred: CentredLikelihood, state: State, noise: Noise, first: Any, stop: Any
) -> _Trace:
    """Updates `first` to `stop` of a block of noise; the other rows of the trace are empty."""
    if isinstance(move, Search):
        return _search_block(move, look_ahead, centred, state, noise, first, stop)
    target = _Target(centred)

    def one(t: Any, carry: tuple[State, _Trace]) -> tuple[State, _Trace]:
        state, trace = carry
        state, info = move.step(Noise(*(part[t] for part in noise)), state, target)
        return state, _write(trace, t, state, info)

    return lax.fori_loop(first, stop, one, (state, _empty(noise)))[1]


def _empty(noise: Noise) -> _Trace:
    length, _, size = noise.nu.shape
    whole, real = jnp.zeros(length, jnp.int32), jnp.zeros(length, noise.nu.dtype)
    return _Trace(jnp.zeros((length, size), noise.nu.dtype), real, Info(whole, whole, whole.astype(bool), real))


def _write(trace: _Trace, t: Any, state: State, info: Info) -> _Trace:
    return jax.tree.map(lambda rows, value: rows.at[t].set(value), trace, _Trace(*state, info))


class _Target:
    """The posterior as moves see it inside compiled code."""

    def __init__(self, centred: CentredLikelihood):
        self.log_likelihood = centred

    def search(self, move: Search, noise: Noise, state: State) -> tuple[State, Info]:
        """`moves.search.search` as a compiled loop."""
        block = Noise(*(part[None, None] for part in noise))
        trace = _search_block(move, 1, self.log_likelihood, state, block, 0, 1)
        f, log_likelihood, info = jax.tree.map(lambda rows: rows[0], (trace.f, *trace[1:]))
        return State(f, log_likelihood), info


class _Searching(NamedTuple):
    """A block under way: update `t` has tried `tried` angles and is about to try theta."""

    t: Any
    tried: Any
    nans: Any
    here: Any
    theta: Any
    theta_min: Any
    theta_max: Any
    state: State
    trace: _Trace


def _search_block(
    move: Search, look_ahead: int, centred: CentredLikelihood, state: State, noise: Noise, first: Any, stop: Any
) -> _Trace:
    """`moves.search.search` for every update of a block, as one flat loop: a pass tries the next `look_ahead` angles.

    One loop rather than a loop in a loop: no update waits for the longest of its neighbours under `vmap`, and XLA pays
    for one loop's dispatch.
    """
    nu, level, key = (part[:, 0] for part in noise)
    last = len(nu) - 1

    def begin(t: Any) -> tuple[Any, ...]:
        place, u = uniform(key[t], jnp.uint32(0)), uniform(key[t], jnp.uint32(1))
        here = move.here(place)
        return tuple(jnp.asarray(part, nu.dtype) for part in (here, *move.begin(here, place, u)))

    def one_pass(s: _Searching) -> _Searching:
        a, b = move.curve(s.state.f, nu[s.t], s.here)
        log_y = s.state.log_likelihood - level[s.t]

        def point(theta: Any) -> Any:
            w_a, w_b = move.weights(theta)
            return a * w_a + b * w_b

        def evaluate(theta: Any) -> Any:
            return jnp.asarray(centred(point(theta)), nu.dtype)

        # The angles to try, each with the bracket it was drawn from, and the one after them.
        angles = [(s.theta, s.theta_min, s.theta_max)]
        numbers = (s.tried + 2 + jnp.arange(look_ahead)).astype(jnp.uint32)
        for u in uniform(key[s.t], numbers):
            bracket = move.shrink(*angles[-1], s.here)
            angles.append((move.propose(*bracket, u), *bracket))

        if look_ahead == 1:
            value, theta, used, nans = evaluate(s.theta), s.theta, 1, 0
            following = angles[1]
        else:
            # A batch may round differently from a single evaluation, so it only picks the angle that is judged: the
            # first that could be on the slice. The chain is then the same for any look-ahead.
            thetas, theta_mins, theta_maxs = (jnp.stack(part) for part in zip(*angles, strict=True))
            values = jax.vmap(evaluate)(thetas[:-1])
            hopeful = values > log_y - 1e-8 * (1 + jnp.abs(log_y))
            pick = jnp.where(hopeful.any(), jnp.argmax(hopeful), look_ahead - 1)
            pick = jnp.minimum(pick, MAX_EVALUATIONS - s.tried - 1)
            theta, used = thetas[pick], pick + 1
            value = evaluate(theta)
            nans = jnp.sum(jnp.isnan(values) & (jnp.arange(look_ahead) < pick))
            following = thetas[used], theta_mins[used], theta_maxs[used]

        accepted = value > log_y
        tried = jnp.asarray(s.tried + used, jnp.int32)
        nans = jnp.asarray(s.nans + nans + jnp.isnan(value), jnp.int32)
        ended = accepted | (tried >= MAX_EVALUATIONS)
        f = jnp.where(accepted, point(theta), s.state.f)
        state = State(f, jnp.where(accepted, value, s.state.log_likelihood))
        info = Info(tried, nans, ended & ~accepted, jnp.where(accepted, theta - s.here, 0.0))
        trace = _write(s.trace, s.t, state, info)
        t = s.t + ended
        fresh = begin(jnp.minimum(t, last))
        here, theta, theta_min, theta_max = (
            jnp.where(ended, new, old) for new, old in zip(fresh, (s.here, *following), strict=True)
        )
        tried, nans = jnp.where(ended, 0, tried), jnp.where(ended, 0, nans)
        return _Searching(t, tried, nans, here, theta, theta_min, theta_max, state, trace)

    first = jnp.asarray(first, jnp.int32)
    zero = jnp.zeros((), jnp.int32)
    here, theta, theta_min, theta_max = begin(first)
    start = _Searching(first, zero, zero, here, theta, theta_min, theta_max, state, _empty(noise))
    return lax.while_loop(lambda s: s.t < stop, one_pass, start).trace
