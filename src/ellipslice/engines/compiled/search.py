"""The loop of a slice search over its angles, and the posterior as moves see it in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ellipslice.engines.compiled.curve import Curve, LoopCounters, judged
from ellipslice.engines.compiled.scouts import NoScout, Scout
from ellipslice.moves import Info, Path, State
from ellipslice.moves.search import MAX_EVALUATIONS
from ellipslice.noise import Noise
from ellipslice.programs.traced import over_many


class Found(NamedTuple):
    """The result of a search."""

    state: State
    """The accepted state, or the one before if nothing was accepted."""
    info: Info
    proposals: Any
    """Number of angles tried: more than the evaluations if the scout skipped some."""
    known: Any
    """What the scout needs for the search that begins at `state`."""


class SearchState(NamedTuple):
    """What a search carries from one evaluation to the next."""

    last: State
    """The last point that was evaluated."""
    packed: Any
    """The `LoopCounters`."""
    memory: Any
    """Of the scout."""

    @property
    def counters(self) -> LoopCounters:
        """The counters by name."""
        return LoopCounters(*self.packed)


def search(
    path: Path, noise: Noise, state: State, log_likelihood: Callable[[Any], Any], scout: Scout, known: Any = None
) -> Found:
    """Run `moves.search.search` as a compiled loop.

    The scout skips angles that cannot be on the slice. It never accepts one, so the draws do not depend on it.

    Parameters
    ----------
    path : Path
    noise : Noise
        Of one search.
    state : State
        The current state.
    log_likelihood : callable
    scout : Scout
    known : pytree, optional
        What the scout learned in the search before, or `scout.first` of the current state.
    """
    curve = Curve(path, noise, state)
    watch = scout.watch(curve, log_likelihood, state, known)

    def is_found(now: SearchState) -> Any:
        # Written this way round, NaN is never accepted.
        return now.last.log_likelihood > curve.level(now.counters.last_theta)

    def is_open(now: SearchState) -> Any:
        return ~is_found(now) & (now.counters.tried < MAX_EVALUATIONS)

    def one_try(now: SearchState) -> SearchState:
        counters, memory = watch.skip(now.counters, now.memory)
        new, memory = watch.evaluate(counters, memory)
        within = counters.tried < MAX_EVALUATIONS  # or the scout skipped all angles that were left
        counters = counters.evaluated(curve, within, jnp.isnan(new.log_likelihood))
        new = new._replace(log_likelihood=jnp.where(within, new.log_likelihood, -jnp.inf))
        return SearchState(new, counters.packed(), memory)

    nothing = state._replace(log_likelihood=jnp.full_like(state.log_likelihood, -jnp.inf))
    end = lax.while_loop(is_open, one_try, SearchState(nothing, curve.begin().packed(), watch.memory))
    found, counters = is_found(end), end.counters
    info = Info(
        counters.evaluations.astype(jnp.int32),
        counters.nan_evaluations.astype(jnp.int32),
        search_failed=~found,
        angle=curve.turned(found, counters.last_theta),
    )
    new = jax.tree.map(lambda new, old: jnp.where(found, new, old), end.last, state)
    return Found(new, info, counters.tried.astype(jnp.int32), watch.learned(found, end.memory))


class CompiledTarget:
    """The posterior as moves see it inside compiled code.

    Parameters
    ----------
    log_likelihood : callable
        Of a centred flat vector.
    prepared : pytree, optional
        What the move's `prepare` returned.
    scout : Scout, optional
        Of the move's searches, one that learns nothing from one search for the next. Default: none.
    """

    def __init__(self, log_likelihood: Any, prepared: Any = None, scout: Scout | None = None):
        self.log_likelihood, self.prepared, self._scout = log_likelihood, prepared, scout or NoScout()

    def with_likelihood(self, log_likelihood: Callable[[Any], Any], prepared: Any) -> CompiledTarget:
        """Return the target of a move inside another, with another log-likelihood."""
        return CompiledTarget(log_likelihood, prepared)

    def at(self, f: Any) -> State:
        """Return a proposal with its log-likelihood, each computed once."""
        return judged(self.log_likelihood, f)

    def search(self, path: Path, noise: Noise, state: State) -> tuple[State, Info]:
        """Run a slice search along a path."""
        found = search(path, noise, state, self.log_likelihood, self._scout)
        return found.state, found.info


@jax.jit
def evaluate(likelihood: Any, f: Any) -> Any:
    """Return the log-likelihood of one centred flat vector."""
    return jnp.asarray(likelihood(f), f.dtype)


@jax.jit
def evaluate_together(likelihood: Any, f: Any) -> Any:
    """Return the log-likelihoods of several centred flat vectors, shape (count, size)."""
    return over_many(likelihood)(f)
