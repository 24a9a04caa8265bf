"""The loops that compiled chains run: `moves.search.search`, and any other move, for every update of a block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata

from ellipslice.engines.angles import WIDTH, Sheet, next_sheet, traced_sheets
from ellipslice.engines.tracing import over_many
from ellipslice.moves import Info, Move, Search, State
from ellipslice.moves.search import MAX_EVALUATIONS
from ellipslice.noise import Noise

KNOWN = (0, 10) <= jax.__version_info__[:2] < (0, 12)
"""Whether this JAX is known to make one function of a marked loop. (0.9 does, with slow exponentials; one to come might
break down over it, and so is not asked. To move the bound, run the tests and `ellipslice bench` on a new one.)"""


WIDE_VECTORS = {"xla_cpu_prefer_vector_width": 512}
"""XLA takes half of that as a rule, also where there is more."""


class Progress(NamedTuple):
    """Where a chain is inside a block: update `t` is next, and has tried `tried` angles in vain."""

    t: Any
    tried: Any
    nans: Any
    sheet: Sheet
    """Angles that it tries next."""
    state: State


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


def as_one_function(loop: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> Any:
    """A loop that XLA compiles into one function, as part of a program.

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


_as_one_function = jax.jit(as_one_function, static_argnums=(0, 1), compiler_options=WIDE_VECTORS)


def search_block(
    rows: int, move: Search, look_ahead: int, likelihood: Any, start: State, noise: Noise, span: Any
) -> tuple[Trace, State]:
    """Updates of a block, `span` says from where to where.

    The trace has `rows` rows, at least as many as there are updates to make; those left over are empty.
    """
    first, stop = span
    angles = Angles(move, noise)

    def one_update(carry: tuple[Trace, Progress]) -> tuple[Trace, Progress]:
        """Or as much of it as there are angles on a sheet, which is all but for one update in thousands."""
        trace, (t, before, nans, sheet, (f, log_l)) = carry
        a, b = move.curve(f, noise.nu[t], angles.here[t])
        log_y = log_l - noise.level[t]
        last = jnp.minimum(before + WIDTH, MAX_EVALUATIONS)

        def point_at(theta: Any) -> Any:
            w_a, w_b = lax.optimization_barrier(move.weights(theta))  # once, not for each value
            return a * w_a + b * w_b

        def one_try(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            tried, nans, _, _ = carry
            if look_ahead > 1:
                tried, nans = _look_ahead(
                    look_ahead, point_at, likelihood, sheet.theta, log_y, before, last, tried, nans
                )
            point, value = judged(likelihood, point_at(sheet.theta[tried - before]))
            return tried + 1, nans + jnp.isnan(value), point, value

        tried, nans, point, value = lax.while_loop(
            lambda carry: ~(carry[3] > log_y) & (carry[0] < last),
            one_try,
            (before, nans, f, jnp.full_like(log_l, -jnp.inf)),
        )
        accepted = value > log_y
        state = State(jnp.where(accepted, point, f), jnp.where(accepted, value, log_l))
        angle = jnp.where(accepted, sheet.theta[tried - 1 - before] - angles.here[t], 0.0)
        trace = write(trace, t - first, state, Info(tried, nans, ~accepted, angle))
        return trace, angles.go_on(t, tried, nans, sheet, accepted, state)

    begin = empty_trace(rows, start.f), angles.begin(first, start)
    trace, end = lax.while_loop(lambda carry: carry[1].t < stop, one_update, begin)
    return trace, end.state


class Angles:
    """The angles of a block's searches: a sheet for each update, and more on demand."""

    def __init__(self, move: Search, noise: Noise):
        self._move, self._uniforms = move, noise.uniforms
        self.here, self._sheets = traced_sheets(move, noise.uniforms.first)

    def begin(self, t: Any, state: State) -> Progress:
        """At the start of update `t`."""
        return Progress(t, jnp.int32(0), jnp.int32(0), self._first(t), state)

    def go_on(self, t: Any, tried: Any, nans: Any, sheet: Sheet, accepted: Any, state: State) -> Progress:
        """After a sheet of update `t`: at the next update, or at the next sheet."""
        ended = accepted | (tried >= MAX_EVALUATIONS)
        following = lax.cond(
            ended,
            lambda: self._first(t + 1),
            lambda: next_sheet(self._move, self.here[t], self._uniforms[t], sheet, tried),
        )
        return Progress(t + ended, jnp.where(ended, 0, tried), jnp.where(ended, 0, nans), following, state)

    def _first(self, t: Any) -> Sheet:
        return Sheet(*(part[jnp.minimum(t, len(self.here) - 1)] for part in self._sheets))


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
    rows: int, move: Move, likelihood: Any, prepared: Any, start: State, noise: Noise, span: Any
) -> tuple[Trace, State]:
    """Updates of a block, by a move that is not a search."""
    first, stop = span
    target = CompiledTarget(likelihood, prepared)

    def one(t: Any, carry: tuple[State, Trace]) -> tuple[State, Trace]:
        state, trace = carry
        state, info = move.step(Noise(*(part[t] for part in noise)), state, target)
        return state, write(trace, t - first, state, info)

    state, trace = lax.fori_loop(first, stop, one, (start, empty_trace(rows, start.f)))
    return trace, state


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
