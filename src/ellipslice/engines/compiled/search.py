"""The compiled loop of a slice search over its angles, and the target of moves in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ellipslice.engines.compiled.curve import Curve, LoopCounters, evaluate_point
from ellipslice.engines.compiled.scouts import NoScout, Scout
from ellipslice.moves import Info, Path, State
from ellipslice.moves.search import MAX_EVALUATIONS
from ellipslice.noise import Noise
from ellipslice.programs.traced import over_many


class Found(NamedTuple):
    """The result of a search."""

    state: State
    """The accepted state, or the previous one if nothing was accepted."""
    info: Info
    proposals: Any
    """Number of angles tried. It exceeds the evaluations if the scout skipped some."""
    scout_state: Any
    """State of the scout for the next search, which begins at `state`."""


class SearchState(NamedTuple):
    """The carry of the search loop, from one evaluation to the next."""

    last: State
    """The last point that was evaluated."""
    packed: Any
    """The `LoopCounters` as one array."""
    memory: Any
    """Memory of the scout in this search."""

    @property
    def counters(self) -> LoopCounters:
        """The counters, unpacked."""
        return LoopCounters(*self.packed)


def search(
    path: Path, noise: Noise, state: State, log_likelihood: Callable[[Any], Any], scout: Scout, scout_state: Any = None
) -> Found:
    """Run a slice search as a compiled loop: `moves.search.search`, with a scout.

    The scout skips angles that cannot be on the slice. It never accepts one, so the draws do not depend on it.

    Parameters
    ----------
    path : Path
    noise : Noise
        Random numbers of the search.
    state : State
        The current state.
    log_likelihood : callable
        Function of a centred flat vector.
    scout : Scout
    scout_state : pytree, optional
        `Found.scout_state` of the previous search, or `scout.first_state` of the current state. Default: None.
    """
    curve = Curve(path, noise, state)
    search_scout = scout.for_search(curve, log_likelihood, state, scout_state)

    def is_found(now: SearchState) -> Any:
        # The comparison is false for NaN, which is therefore never accepted.
        return now.last.log_likelihood > curve.level(now.counters.last_theta)

    def is_open(now: SearchState) -> Any:
        return ~is_found(now) & (now.counters.tried < MAX_EVALUATIONS)

    def one_try(now: SearchState) -> SearchState:
        counters, memory = search_scout.skip(now.counters, now.memory)
        new, memory = search_scout.evaluate(counters, memory)
        within = counters.tried < MAX_EVALUATIONS  # else the scout skipped all remaining angles
        counters = counters.evaluated(curve, within, jnp.isnan(new.log_likelihood))
        new = new._replace(log_likelihood=jnp.where(within, new.log_likelihood, -jnp.inf))
        return SearchState(new, counters.packed(), memory)

    nothing = state._replace(log_likelihood=jnp.full_like(state.log_likelihood, -jnp.inf))
    end = lax.while_loop(is_open, one_try, SearchState(nothing, curve.begin().packed(), search_scout.memory))
    found, counters = is_found(end), end.counters
    info = Info(
        counters.evaluations.astype(jnp.int32),
        counters.nan_evaluations.astype(jnp.int32),
        search_failed=~found,
        angle=curve.angle_moved(found, counters.last_theta),
    )
    new = jax.tree.map(lambda new, old: jnp.where(found, new, old), end.last, state)
    return Found(new, info, counters.tried.astype(jnp.int32), search_scout.next_state(found, end.memory))


class CompiledTarget:
    """The posterior as moves use it in compiled code; see `moves.base.Target`.

    Parameters
    ----------
    log_likelihood : callable
        Function of a centred flat vector.
    prepared : pytree, optional
        Result of the move's `prepare`.
    scout : Scout, optional
        Scout of the move's searches. It must not need a state from the previous search. Default: no scout.
    """

    def __init__(self, log_likelihood: Any, prepared: Any = None, scout: Scout | None = None):
        self.log_likelihood, self.prepared, self._scout = log_likelihood, prepared, scout or NoScout()

    def with_likelihood(self, log_likelihood: Callable[[Any], Any], prepared: Any) -> CompiledTarget:
        """Return a target with another log-likelihood, for a move that is part of another move."""
        return CompiledTarget(log_likelihood, prepared)

    def at(self, f: Any) -> State:
        """Return the state at `f`, with its log-likelihood. Each is computed once."""
        return evaluate_point(self.log_likelihood, f)

    def search(self, path: Path, noise: Noise, state: State) -> tuple[State, Info]:
        """Run a slice search along a path. Return the new state and its statistics."""
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
