"""The loops that compiled chains run: `moves.search.search`, and any other move, for every update of a block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata

from ellipslice.engines.angles import WIDTH
from ellipslice.engines.tracing import over_many
from ellipslice.moves import Info, Move, Search, State
from ellipslice.moves.search import MAX_EVALUATIONS
from ellipslice.noise import Noise

KNOWN = (0, 10) <= jax.__version_info__[:2] < (0, 12)
"""Whether this JAX is known to make one function of a marked loop. (0.9 does, with slow exponentials; one to come might
break down over it, and so is not asked. To move the bound, run the tests and `ellipslice bench` on a new one.)"""


WIDE_VECTORS = {"xla_cpu_prefer_vector_width": 512}
"""XLA takes half of that as a rule, also where there is more."""


class Block(NamedTuple):
    """The noise of a block of updates of a search, worked out as far as the likelihood does not matter."""

    nu: Any
    level: Any
    here: Any
    """Position of the current state on each update's curve."""
    theta: Any
    """A sheet of angles for each update, shape (updates, WIDTH)."""
    tried: Any
    """How many angles came before that sheet: 0, but for updates that needed more than one."""


class Progress(NamedTuple):
    """Where a chain is inside a block: update `t` is next, and has tried `tried` angles in vain."""

    t: Any
    tried: Any
    nans: Any
    state: State


class Span(NamedTuple):
    """Updates to make: `first` to `stop` of a block, if the chain is where it is expected. Else it stays there."""

    expected: Any
    first: Any
    stop: Any

    def set_out(self, progress: Progress) -> tuple[Progress, Any]:
        """The chain at its first update, and where to stop."""
        is_there = progress.t == self.expected
        t = jnp.where(is_there, self.first, progress.t)
        return progress._replace(t=t), jnp.where(is_there, self.stop, 0)


class Trace(NamedTuple):
    """The rows of a block: what each update left behind."""

    f: Any
    log_likelihood: Any
    info: Info


@jax.jit
def evaluate(likelihood: Any, f: Any) -> Any:
    """The log-likelihood of one centred flat vector."""
    return jnp.asarray(likelihood(f), f.dtype)


@jax.jit
def evaluate_together(likelihood: Any, f: Any) -> Any:
    """Those of many, shape (count, size)."""
    return over_many(likelihood)(f)


def run_loop(in_one: bool, loop: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> Any:
    """Run a compiled loop, in one function if asked for; `static` are its first arguments, which are not arrays."""
    return (_as_one_function if in_one else _as_it_comes)(loop, static, *arguments)[0]


@partial(jax.jit, static_argnums=(0, 1))
def _as_it_comes(loop: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> tuple[Any, None]:
    return loop(*static, *arguments), None


@partial(jax.jit, static_argnums=(0, 1), compiler_options=WIDE_VECTORS)
def _as_one_function(loop: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> Any:
    """A loop that XLA compiles into one function.

    As a rule XLA's CPU backend compiles each operation of a loop for itself and calls them one after the other, which
    takes longer than they do. For loops that it thinks small it does better, by these two marks; so we set them.
    """

    @jax.jit
    def call(*arguments: Any) -> tuple[Any, Any]:
        # The compiler breaks down over an argument that is not used, so each is looked at, and what was seen returned.
        looked_at = sum(jnp.ravel(leaf)[0].astype(float) for leaf in jax.tree.leaves(arguments))
        return loop(*static, *arguments), looked_at

    marks = {"xla_cpu_small_call": "true", "inlineable": "false"}
    result, looked_at = set_xla_metadata(call(*arguments), **marks)  # pyright: ignore[reportGeneralTypeIssues]
    return result, looked_at


def search_block(
    rows: int, move: Search, look_ahead: int, likelihood: Any, start: Progress, block: Block, span: Span
) -> tuple[Trace, Progress]:
    """Updates of a block, up to the first that runs out of angles.

    The trace has `rows` rows, at least as many as there are updates to make; those left over are empty.
    """
    start, stop = span.set_out(start)

    def one_update(carry: tuple[Trace, Progress]) -> tuple[Trace, Progress]:
        trace, (t, tried, nans, (f, log_l)) = carry
        a, b = move.curve(f, block.nu[t], block.here[t])
        log_y = log_l - block.level[t]
        theta, before = block.theta[t], block.tried[t]
        last = jnp.minimum(before + WIDTH, MAX_EVALUATIONS)

        def point_at(theta: Any) -> Any:
            w_a, w_b = lax.optimization_barrier(move.weights(theta))  # once, not for each value
            return a * w_a + b * w_b

        def one_try(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            tried, nans, _, _ = carry
            if look_ahead > 1:
                tried, nans = _look_ahead(look_ahead, point_at, likelihood, theta, log_y, before, last, tried, nans)
            point, value = judged(likelihood, point_at(theta[tried - before]))
            return tried + 1, nans + jnp.isnan(value), point, value

        tried, nans, point, value = lax.while_loop(
            lambda carry: ~(carry[3] > log_y) & (carry[0] < last),
            one_try,
            (tried, nans, f, jnp.full_like(log_l, -jnp.inf)),
        )
        accepted = value > log_y
        ended = accepted | (tried >= MAX_EVALUATIONS)
        state = State(jnp.where(accepted, point, f), jnp.where(accepted, value, log_l))
        info = Info(tried, nans, ended & ~accepted, 0.0)
        trace = write(trace, t - start.t, state, info)
        return trace, Progress(t + ended, jnp.where(ended, 0, tried), jnp.where(ended, 0, nans), state)

    def can_go_on(carry: tuple[Trace, Progress]) -> Any:
        progress = carry[1]
        return (progress.t < stop) & (progress.tried - block.tried[progress.t] < WIDTH)

    return lax.while_loop(can_go_on, one_update, (empty_trace(rows, start.state.f), start))


def _look_ahead(
    count: int,
    point_at: Callable[[Any], Any],
    likelihood: Any,
    theta: Any,
    log_y: Any,
    before: Any,
    last: Any,
    tried: Any,
    nans: Any,
) -> tuple[Any, Any]:
    """Skip to the next angle that could be on the slice, evaluating `count` at once.

    A batch may round differently from a single evaluation, so it only picks the angle that is judged. The chain is then
    the same for any look-ahead.
    """
    ahead = tried + jnp.arange(count)
    values = over_many(likelihood)(jax.vmap(point_at)(theta[jnp.minimum(ahead - before, WIDTH - 1)]))
    hopeful = (values > log_y - 1e-8 * (1 + jnp.abs(log_y))) & (ahead < last)
    pick = jnp.where(hopeful.any(), tried + jnp.argmax(hopeful), jnp.minimum(tried + count, last) - 1)
    return pick.astype(tried.dtype), nans + jnp.sum(jnp.isnan(values) & (ahead < pick), dtype=nans.dtype)


def judged(likelihood: Any, point: Any) -> tuple[Any, Any]:
    """A point and its value. The barriers make XLA compute each once: twice, and two roundings would be about."""
    point = lax.optimization_barrier(point)
    return point, lax.optimization_barrier(jnp.asarray(likelihood(point), point.dtype))


def step_block(
    rows: int, move: Move, likelihood: Any, prepared: Any, start: Progress, noise: Noise, span: Span
) -> tuple[Trace, Progress]:
    """Updates of a block, by a move that is not a search."""
    start, stop = span.set_out(start)
    target = CompiledTarget(likelihood, prepared)

    def one(t: Any, carry: tuple[State, Trace]) -> tuple[State, Trace]:
        state, trace = carry
        state, info = move.step(Noise(*(part[t] for part in noise)), state, target)
        return state, write(trace, t - start.t, state, info)

    state, trace = lax.fori_loop(start.t, stop, one, (start.state, empty_trace(rows, start.state.f)))
    return trace, start._replace(t=jnp.asarray(stop, jnp.int32), state=state)


def empty_trace(rows: int, f: Any) -> Trace:
    """Rows that no update has written to yet."""
    whole, real = jnp.zeros(rows, jnp.int32), jnp.zeros(rows, f.dtype)
    return Trace(jnp.zeros((rows, len(f)), f.dtype), real, Info(whole, whole, whole.astype(bool), real))


def write(trace: Trace, row: Any, state: State, info: Info) -> Trace:
    """The trace with one row written."""
    return jax.tree.map(lambda rows, value: rows.at[row].set(value), trace, Trace(*state, info))


class CompiledTarget:
    """The posterior as moves see it inside compiled code."""

    def __init__(self, likelihood: Any, prepared: Any = None):
        self.log_likelihood, self.prepared = likelihood, prepared

    def within(self, log_likelihood: Callable[[Any], Any], prepared: Any) -> CompiledTarget:
        """The same engine with another log-likelihood, for a move inside another."""
        return CompiledTarget(log_likelihood, prepared)

    def at(self, f: Any) -> State:
        """A proposal and its log-likelihood, each computed once."""
        return State(*judged(self.log_likelihood, f))

    def search(self, move: Search, noise: Noise, state: State) -> tuple[State, Info]:
        """`moves.search.search` as a compiled loop."""
        nu, level, uniforms = noise
        place = uniforms(0)
        here = move.here(place)
        a, b = move.curve(state.f, nu, here)
        log_y = state.log_likelihood - level
        start = (jnp.asarray(part, nu.dtype) for part in move.begin(here, place, uniforms(1)))

        def one_try(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            tried, nans, _, _, _, theta, theta_min, theta_max = carry
            w_a, w_b = lax.optimization_barrier(move.weights(theta))  # once, not for each value
            f, value = judged(self.log_likelihood, a * w_a + b * w_b)
            bracket = move.shrink(theta, theta_min, theta_max, here)
            accepted = value > log_y - move.log_factor(theta)
            following = (move.propose(*bracket, uniforms(tried + 2)), *bracket)
            angle = (
                jnp.where(accepted, old, new) for new, old in zip(following, (theta, theta_min, theta_max), strict=True)
            )
            return tried + 1, nans + jnp.isnan(value), f, value, accepted, *angle

        tried, nans, f, value, accepted, theta, *_ = lax.while_loop(
            lambda carry: ~carry[4] & (carry[0] < MAX_EVALUATIONS),
            one_try,
            (jnp.int32(0), jnp.int32(0), state.f, jnp.asarray(-jnp.inf, nu.dtype), jnp.asarray(False), *start),
        )
        info = Info(tried, nans, ~accepted, jnp.where(accepted, theta - here, 0.0))
        return State(jnp.where(accepted, f, state.f), jnp.where(accepted, value, state.log_likelihood)), info
