"""Scouts, which choose the angles of a slice search that are evaluated.

A scout skips angles that cannot be on the slice. It never accepts one: `search` evaluates the angles that are left, and
accepts or rejects them. So a scout changes the speed of a chain, and the draws stay bit-identical.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ellipslice.engines.compiled.curve import Curve, LoopCounters, evaluate_point
from ellipslice.engines.compiled.tangent_planes import (
    ROUNDING,
    Derivatives,
    Planes,
    QuadraticBound,
    TangentPoint,
    upper_bound,
    value_and_derivatives,
)
from ellipslice.moves import State
from ellipslice.moves.search import MAX_EVALUATIONS
from ellipslice.programs.traced import over_many

MAX_PLANES = 6
"""Largest number of tangent planes kept in a search. Further planes replace the last one."""

BATCH_ROUNDING = 1e-8
"""Relative margin below the slice level for values of a batch, which may round differently from single evaluations."""


@dataclass(frozen=True)
class Scout:
    """Settings of a scout. They are a static argument of compiled code, so they are hashable and contain no arrays."""

    def first_state(self, log_likelihood: Any, state: State) -> Any:
        """Return the scout state with which a chain begins at `state`: a pytree, or None."""
        return None

    def for_search(self, curve: Curve, log_likelihood: Any, state: State, scout_state: Any) -> SearchScout:
        """Return the scout for one search along `curve`, which begins at `state`."""
        return SearchScout(curve, log_likelihood)

    def check(self, scout_state: Any) -> None:
        """Raise if a search found that the scout's assumptions about the log-likelihood do not hold."""


class SearchScout:
    """A scout in one search. This base class skips nothing.

    Attributes
    ----------
    memory : pytree
        Initial value of the memory that the loop passes to `skip` and `evaluate`.
    """

    memory: Any = None

    def __init__(self, curve: Curve, log_likelihood: Any):
        self.curve, self.log_likelihood = curve, log_likelihood

    def skip(self, counters: LoopCounters, memory: Any) -> tuple[LoopCounters, Any]:
        """Return the counters at the next angle that could be on the slice, and the new memory.

        If no angle is left, `tried` is at least MAX_EVALUATIONS, and `search` ignores the evaluation that follows.
        """
        return counters, memory

    def evaluate(self, counters: LoopCounters, memory: Any) -> tuple[State, Any]:
        """Return the point at the next angle with its log-likelihood, each computed once, and the new memory."""
        return evaluate_point(self.log_likelihood, self.curve.point(*self.curve.weights(counters.theta))), memory

    def next_state(self, found: Any, memory: Any) -> Any:
        """Return the scout state for the chain's next search. `found` is true if this search accepted a point."""
        return None


class NoScout(Scout):
    """No scout: every angle is evaluated."""


@dataclass(frozen=True)
class LookAhead(Scout):
    """Look-ahead: evaluates the next `count` angles as a batch.

    The first of them that could be on the slice is then evaluated again by itself.
    """

    count: int

    def for_search(self, curve: Curve, log_likelihood: Any, state: State, scout_state: None) -> _LookAheadSearch:
        """Return the scout for one search along `curve`."""
        return _LookAheadSearch(curve, log_likelihood, self.count)


class _LookAheadSearch(SearchScout):
    """The look-ahead scout in one search."""

    def __init__(self, curve: Curve, log_likelihood: Any, count: int):
        super().__init__(curve, log_likelihood)
        self.count = count

    def skip(self, counters: LoopCounters, memory: None) -> tuple[LoopCounters, None]:
        """Return the counters at the first of the next `count` angles that could be on the slice, or at the last one.

        A batch may round differently from a single evaluation. So it only selects the angle, and a single evaluation
        decides whether the angle is accepted.
        """
        curve = self.curve
        ahead = self._coming(counters)
        points = jax.vmap(lambda theta: curve.point(*curve.weights(theta)))(ahead.theta)
        values, level = over_many(self.log_likelihood)(points), curve.level(ahead.theta)
        within = ahead.tried < MAX_EVALUATIONS
        possible = (values > level - BATCH_ROUNDING * (1 + jnp.abs(level))) & within
        pick = jnp.where(possible.any(), jnp.argmax(possible), jnp.sum(within) - 1)
        nans = jnp.sum(jnp.isnan(values) & (jnp.arange(self.count) < pick))
        picked = LoopCounters(*(column[pick] for column in ahead))
        # The angles before it were evaluated in the batch, so they count as evaluations.
        return picked._replace(evaluations=picked.tried, nan_evaluations=counters.nan_evaluations + nans), None

    def _coming(self, counters: LoopCounters) -> LoopCounters:
        """Return the counters at each of the next angles, as if those before it were skipped: shape (count,)."""

        def following(packed: Any, _: None) -> tuple[Any, Any]:
            return LoopCounters(*packed).skipped(self.curve).packed(), packed

        _, rows = lax.scan(following, counters.packed(), length=self.count)
        return LoopCounters(*rows.T)


@dataclass(frozen=True)
class TangentPlanes(Scout):
    """Skips angles at which an upper bound of a log-concave likelihood is below the slice level.

    See `tangent_planes.py` for the bounds.

    Attributes
    ----------
    curvature_rate_bound : float or None
        `Likelihood.curvature_rate_bound` of the likelihood. None: use planes, but no quadratic bound.
    """

    curvature_rate_bound: float | None

    def first_state(self, log_likelihood: Any, state: State) -> TangentState:
        """Return the derivatives at `state`."""
        _, derivatives = value_and_derivatives(self.curvature_rate_bound, log_likelihood, state.f)
        return TangentState(derivatives, jnp.int32(0))

    def for_search(
        self, curve: Curve, log_likelihood: Any, state: State, scout_state: TangentState
    ) -> _TangentPlaneSearch:
        """Return the scout for one search along `curve`, which begins at `state`."""
        return _TangentPlaneSearch(self.curvature_rate_bound, curve, log_likelihood, state, scout_state)

    def check(self, scout_state: TangentState) -> None:
        """Raise if a value of the log-likelihood was above a bound."""
        if int(scout_state.above):
            raise ValueError(
                "the log-likelihood is not concave: a value was above a tangent plane. Leave out log_concave=True."
                if self.curvature_rate_bound is None
                else "a value of the log-likelihood was above a bound computed from curvature_rate_bound = "
                f"{self.curvature_rate_bound:g} of its class. Set curvature_rate_bound to a larger number, or to None "
                "if there is no such bound."
            )


class TangentState(NamedTuple):
    """State that a chain with tangent planes carries from one search to the next."""

    derivatives: Derivatives
    """Derivatives at the current state."""
    above: Any
    """Number of values above a bound so far: 0 for a concave function."""


class PlanesMemory(NamedTuple):
    """State that a search with tangent planes carries from one evaluation to the next."""

    planes: Planes
    last: TangentPoint
    """The last evaluation, whose plane is not among `planes` yet."""
    above: Any
    """Number of values above a bound so far, including earlier searches."""


class _TangentPlaneSearch(SearchScout):
    """The scout with tangent planes in one search."""

    def __init__(
        self,
        curvature_rate_bound: float | None,
        curve: Curve,
        log_likelihood: Any,
        state: State,
        scout_state: TangentState,
    ):
        super().__init__(curve, log_likelihood)
        self.curvature_rate_bound, self.start_derivatives = curvature_rate_bound, scout_state.derivatives
        c, s = (jnp.asarray(weight, curve.a.dtype) for weight in curve.path.weights(curve.here))
        here = TangentPoint(state.log_likelihood, scout_state.derivatives, c, s)
        self.quadratic = (
            None if curvature_rate_bound is None else QuadraticBound.at(here, curvature_rate_bound, curve.a, curve.b)
        )
        # With rate 0 the quadratic bound is the function itself. A second plane is kept because of rounding errors.
        self.slots = 2 if curvature_rate_bound == 0 else MAX_PLANES
        self.memory = PlanesMemory(Planes.none(self.slots, curve.a.dtype), here, scout_state.above)

    def skip(self, counters: LoopCounters, memory: PlanesMemory) -> tuple[LoopCounters, PlanesMemory]:
        """Add the plane of the last evaluation, and skip the angles whose bound is below the slice level."""
        # The plane is added here and not in `evaluate`, because it is not needed if the point was accepted.
        slot = jnp.minimum(counters.evaluations.astype(jnp.int32), self.slots - 1)
        planes = memory.planes.with_plane(slot, memory.last, self.curve.a, self.curve.b)
        counters = lax.while_loop(
            lambda now: (now.tried < MAX_EVALUATIONS) & self._is_below(planes, now.theta),
            lambda now: now.skipped(self.curve),
            counters,
        )
        return counters, memory._replace(planes=planes)

    def evaluate(self, counters: LoopCounters, memory: PlanesMemory) -> tuple[State, PlanesMemory]:
        """Return the point with its log-likelihood, and the memory with its derivatives and the check of the bounds."""
        c, s = self.curve.weights(counters.theta)
        point = lax.optimization_barrier(self.curve.point(c, s))
        value, derivatives = value_and_derivatives(self.curvature_rate_bound, self.log_likelihood, point)
        value = lax.optimization_barrier(value)
        if self.curvature_rate_bound == 0:
            # With rate 0 the curvatures are constant, so XLA does not need to compute them again.
            derivatives = derivatives._replace(curvatures=self.start_derivatives.curvatures)
        bound, size = upper_bound(memory.planes, self.quadratic, c, s)
        is_above = value > bound + 100 * ROUNDING * (size + jnp.abs(value))
        above = memory.above + ((counters.tried < MAX_EVALUATIONS) & is_above)
        return State(point, value), PlanesMemory(memory.planes, TangentPoint(value, derivatives, c, s), above)

    def next_state(self, found: Any, memory: PlanesMemory) -> TangentState:
        """Return the derivatives at the state where the search ended."""
        there, here = memory.last.derivatives, self.start_derivatives
        return TangentState(jax.tree.map(lambda new, old: jnp.where(found, new, old), there, here), memory.above)

    def _is_below(self, planes: Planes, theta: Any) -> Any:
        """Return True if the bound at theta is below the slice level by more than rounding errors can explain."""
        bound, size = upper_bound(planes, self.quadratic, *self.curve.path.weights(theta))
        level = self.curve.level(theta)
        return bound < level - ROUNDING * (size + jnp.abs(level))
