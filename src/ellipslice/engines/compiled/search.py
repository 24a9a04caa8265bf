"""The loops that compiled chains run: `moves.search.search`, and any other move, for every update of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ellipslice.engines.angles import next_angle
from ellipslice.engines.tracing import over_many
from ellipslice.moves import Info, Move, Search, State
from ellipslice.moves.search import MAX_EVALUATIONS
from ellipslice.noise import Noise


class Trace(NamedTuple):
    """The rows of a block: what each update left behind. Few arrays, for each takes time."""

    f: Any
    real: Any
    """Log-likelihoods and angles, shape (rows, 2)."""
    whole: Any
    """Evaluations, NaNs, whether it was stuck, and proposals, shape (rows, 4)."""


@jax.jit
def evaluate(likelihood: Any, f: Any) -> Any:
    """The log-likelihood of one centred flat vector."""
    return jnp.asarray(likelihood(f), f.dtype)


@jax.jit
def evaluate_together(likelihood: Any, f: Any) -> Any:
    """Those of many, shape (count, size)."""
    return over_many(likelihood)(f)


def step_block(
    rows: int, move: Move, look_ahead: int, likelihood: Any, prepared: Any, start: State, noise: Noise, span: Any
) -> tuple[Trace, State]:
    """Updates of a block by any move; searches look so far ahead."""
    target = CompiledTarget(likelihood, prepared, look_ahead)

    def one(noise: Noise, state: State) -> tuple[State, State, Info, Any]:
        state, info = move.step(noise, state, target)
        return state, state, info, info.evaluations

    return run_block(rows, one, start, start.f, noise, span)


def run_block(
    rows: int, one: Callable[[Noise, Any], tuple[Any, State, Info, Any]], start: Any, f: Any, noise: Noise, span: Any
) -> tuple[Trace, Any]:
    """Updates of a block, `span` says from where to where: their trace, and where they lead to from `start`.

    `one` takes the noise of an update and where it begins, and returns where it ends, its state, info and proposals.
    The trace has `rows` rows, at least as many as there are updates to make; those left over are empty.
    """
    first, stop = span

    def write(t: Any, carry: tuple[Any, Trace]) -> tuple[Any, Trace]:
        chain, trace = carry
        chain, state, info, proposals = one(noise.at(t), chain)
        real = jnp.stack([state.log_likelihood, info.angle])
        whole = jnp.stack([jnp.asarray(part, jnp.int32) for part in (*info[:3], proposals)])
        row = Trace(state.f, real, whole)
        return chain, jax.tree.map(lambda column, value: column.at[t - first].set(value), trace, row)

    chain, trace = lax.fori_loop(first, stop, write, (start, _empty_trace(rows, f)))
    return trace, chain


def _empty_trace(rows: int, f: Any) -> Trace:
    """Rows that no update has written to yet, for states like f."""
    return Trace(jnp.zeros((rows, len(f)), f.dtype), jnp.zeros((rows, 2), f.dtype), jnp.zeros((rows, 4), jnp.int32))


def judged(likelihood: Any, point: Any) -> tuple[Any, Any]:
    """A point and its value. The barriers make XLA compute each once: twice, and two roundings would be about."""
    point = lax.optimization_barrier(point)
    return point, lax.optimization_barrier(jnp.asarray(likelihood(point), point.dtype))


class CompiledTarget:
    """The posterior as moves see it inside compiled code; their searches evaluate `look_ahead` angles at a time."""

    def __init__(self, likelihood: Any, prepared: Any = None, look_ahead: int = 1):
        self.log_likelihood, self.prepared, self._look_ahead = likelihood, prepared, look_ahead

    def within(self, log_likelihood: Callable[[Any], Any], prepared: Any) -> CompiledTarget:
        """The same engine with another log-likelihood, for a move inside another."""
        return CompiledTarget(log_likelihood, prepared)

    def at(self, f: Any) -> State:
        """A proposal and its log-likelihood, each computed once."""
        return State(*judged(self.log_likelihood, f))

    def search(self, move: Search, noise: Noise, state: State) -> tuple[State, Info]:
        """`moves.search.search` as a compiled loop."""
        curve = Curve(move, noise, state)

        def is_found(new: State, now: Any) -> Any:
            return new.log_likelihood > curve.level(Numbers(*now).theta_of_new)

        def one_try(carry: tuple[State, Any]) -> tuple[State, Any]:
            _, now = carry
            if self._look_ahead > 1:
                now = self._skip(curve, now)
            *angle, tried, nans, _ = Numbers(*now)
            new = self.at(curve.point(*curve.weights(angle[0])))
            following = curve.after(angle, tried)  # found or not, for then it need not wait for the value
            return new, jnp.stack(Numbers(*following, tried + 1, nans + jnp.isnan(new.log_likelihood), angle[0]))

        nowhere = State(state.f, jnp.full_like(state.log_likelihood, -jnp.inf))
        begin = jnp.stack(Numbers(*curve.begin, *jnp.zeros(3, state.f.dtype)))
        new, now = lax.while_loop(
            lambda carry: ~is_found(*carry) & (Numbers(*carry[1]).tried < MAX_EVALUATIONS), one_try, (nowhere, begin)
        )
        found, end = is_found(new, now), Numbers(*now)
        counts = end.tried.astype(jnp.int32), end.nans.astype(jnp.int32)
        return either(found, new, state), Info(*counts, ~found, curve.turned(found, end.theta_of_new))

    def _skip(self, curve: Curve, now: Any) -> Any:
        """On to the next angle that could be on the slice, or to the last of some, by evaluating these at once.

        A batch may round differently from a single evaluation, so it only picks the angle that is judged. The chain is
        then the same for any look-ahead.
        """

        def following(now: Any, _: None) -> tuple[Any, Any]:
            *angle, tried, nans, last = Numbers(*now)
            return jnp.stack(Numbers(*curve.after(angle, tried), tried + 1, nans, last)), now

        _, rows = lax.scan(following, now, length=self._look_ahead)
        ahead = Numbers(*rows.T)
        values = over_many(self.log_likelihood)(jax.vmap(lambda t: curve.point(*curve.weights(t)))(ahead.theta))
        level, within = curve.level(ahead.theta), ahead.tried < MAX_EVALUATIONS
        hopeful = (values > level - 1e-8 * (1 + jnp.abs(level))) & within
        pick = jnp.where(hopeful.any(), jnp.argmax(hopeful), jnp.sum(within) - 1)
        nans = jnp.sum(jnp.isnan(values) & (jnp.arange(self._look_ahead) < pick))
        return jnp.stack(Numbers(*rows[pick])._replace(nans=ahead.nans[0] + nans))


class Numbers(NamedTuple):
    """A search under way. They go through its loop as one array: if that is not one function, each array takes time."""

    theta: Any
    """What is tried next."""
    theta_min: Any
    theta_max: Any
    tried: Any
    """How many angles were tried."""
    nans: Any
    theta_of_new: Any
    """The last that was."""


class Curve:
    """What an update's search runs along, in compiled code.

    Attributes
    ----------
    here : scalar
        Position of the current state.
    a, b : arrays
        The two vectors that span the curve.
    log_y : scalar
        The level of the slice, for an ellipse.
    begin : tuple
        The first angle: theta, theta_min, theta_max.
    """

    def __init__(self, move: Search, noise: Noise, state: State):
        nu, level, self._uniforms = noise
        place = self._uniforms(0)
        self._move, self.here = move, jnp.asarray(move.here(place), nu.dtype)
        self.a, self.b = move.curve(state.f, nu, self.here)
        self.log_y = state.log_likelihood - level
        begin = move.begin(self.here, place, self._uniforms(1))
        self.begin = tuple(jnp.asarray(part, nu.dtype) for part in begin)

    def after(self, angle: Sequence[Any], tried: Any) -> tuple[Any, Any, Any]:
        """The angle to try if one is rejected before which `tried` were."""
        return next_angle(self._move, self.here, angle, self._uniforms(tried.astype(jnp.int32) + 2))

    def weights(self, theta: Any) -> tuple[Any, Any]:
        """How much of each of the two vectors there is."""
        return lax.optimization_barrier(self._move.weights(theta))  # once, not for each value

    def point(self, w_a: Any, w_b: Any) -> Any:
        """The state with these weights."""
        return self.a * w_a + self.b * w_b

    def level(self, theta: Any) -> Any:
        """What a log-likelihood must exceed there."""
        return self.log_y - self._move.log_factor(theta)

    def turned(self, found: Any, theta: Any) -> Any:
        """How far an update went."""
        return jnp.where(found, theta - self.here, 0.0)


def either(condition: Any, one: Any, other: Any) -> Any:
    """One tree or the other."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)
