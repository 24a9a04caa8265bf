"""Scouts: which of the coming angles of a search are worth an evaluation of their own.

A scout skips angles that cannot be on the slice, and never accepts one: what it does not skip is evaluated and judged
by `search`. So it changes the speed of a chain and no bit of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ellipslice.engines.compiled.curve import Curve, LoopCounters, judged
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
"""Planes remembered during a search; if there are more, the last is replaced."""

BATCH_ROUNDING = 1e-8
"""Relative margin of the slice level for values of a batch, which may round differently from single evaluations."""


@dataclass(frozen=True)
class Scout:
    """How the angles of a search are scouted: a static argument of compiled code, hashable and without arrays."""

    def first(self, log_likelihood: Any, state: State) -> Any:
        """Return what must be known at the state where a chain begins: a pytree."""
        return None

    def watch(self, curve: Curve, log_likelihood: Any, state: State, known: Any) -> Watch:
        """Return the scout's part in one search."""
        return Watch(curve, log_likelihood)

    def check(self, known: Any) -> None:
        """Raise if a search found that the scout's assumptions do not hold."""


class Watch:
    """A scout's part in one search. Without more it skips nothing.

    Attributes
    ----------
    memory : pytree
        The memory before the first angle.
    """

    memory: Any = None

    def __init__(self, curve: Curve, log_likelihood: Any):
        self.curve, self.log_likelihood = curve, log_likelihood

    def skip(self, counters: LoopCounters, memory: Any) -> tuple[LoopCounters, Any]:
        """Move on to an angle that could be on the slice.

        If none is left `tried` is MAX_EVALUATIONS or more, and what is evaluated then does not count.
        """
        return counters, memory

    def evaluate(self, counters: LoopCounters, memory: Any) -> tuple[State, Any]:
        """Return the point at the angle with its log-likelihood, each computed once."""
        return judged(self.log_likelihood, self.curve.point(*self.curve.weights(counters.theta))), memory

    def learned(self, found: Any, memory: Any) -> Any:
        """Return what the next search of the chain needs to know."""
        return None


class NoScout(Scout):
    """No scout: every angle is evaluated."""


@dataclass(frozen=True)
class LookAhead(Scout):
    """Evaluates `count` angles together, and then once more, alone, the first of them that could be on the slice."""

    count: int

    def watch(self, curve: Curve, log_likelihood: Any, state: State, known: None) -> _AnglesAhead:
        """Return its part in one search."""
        return _AnglesAhead(curve, log_likelihood, self.count)


class _AnglesAhead(Watch):
    """One search that looks ahead."""

    def __init__(self, curve: Curve, log_likelihood: Any, count: int):
        super().__init__(curve, log_likelihood)
        self.count = count

    def skip(self, counters: LoopCounters, memory: None) -> tuple[LoopCounters, None]:
        """Move on to the first of the coming angles that could be on the slice, or to the last of them.

        A batch may round differently from a single evaluation, so it only picks the angle that is judged.
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
        # Angles before it were evaluated, if only in the batch, so they count.
        return picked._replace(evaluations=picked.tried, nan_evaluations=counters.nan_evaluations + nans), None

    def _coming(self, counters: LoopCounters) -> LoopCounters:
        """Return the counters at each of the coming angles, as if those before it were skipped: shape (count,)."""

        def following(packed: Any, _: None) -> tuple[Any, Any]:
            return LoopCounters(*packed).skipped(self.curve).packed(), packed

        _, rows = lax.scan(following, counters.packed(), length=self.count)
        return LoopCounters(*rows.T)


@dataclass(frozen=True)
class TangentPlanes(Scout):
    """Skips angles that lie below an upper bound of a log-concave likelihood; see `tangent_planes.py`.

    Attributes
    ----------
    curvature_rate_bound : float or None
        That of the likelihood (`Likelihood.curvature_rate_bound`). None: there are planes, but no quadratic bound.
    """

    curvature_rate_bound: float | None

    def first(self, log_likelihood: Any, state: State) -> Known:
        """Return the derivatives at the state."""
        _, derivatives = value_and_derivatives(self.curvature_rate_bound, log_likelihood, state.f)
        return Known(derivatives, jnp.int32(0))

    def watch(self, curve: Curve, log_likelihood: Any, state: State, known: Known) -> _BelowPlanes:
        """Return its part in one search."""
        return _BelowPlanes(self.curvature_rate_bound, curve, log_likelihood, state, known)

    def check(self, known: Known) -> None:
        """Raise if a value was above a bound."""
        if int(known.above):
            raise ValueError(
                "the log-likelihood is not concave: a value was above a tangent plane. Leave out log_concave=True."
                if self.curvature_rate_bound is None
                else "a value of the log-likelihood was above a bound that follows from its class's "
                f"curvature_rate_bound, {self.curvature_rate_bound:g}. That is too small, or there is no such number: "
                "None."
            )


class Known(NamedTuple):
    """What a chain with tangent planes carries from one search to the next."""

    here: Derivatives
    """At the current state."""
    above: Any
    """Number of values above a bound so far. For a concave function there are none."""


class PlanesMemory(NamedTuple):
    """What a search with tangent planes carries from one evaluation to the next."""

    planes: Planes
    last: TangentPoint
    """The last evaluation, whose plane is not among `planes` yet."""
    above: Any
    """As in `Known`."""


class _BelowPlanes(Watch):
    """One search with tangent planes."""

    def __init__(
        self, curvature_rate_bound: float | None, curve: Curve, log_likelihood: Any, state: State, known: Known
    ):
        super().__init__(curve, log_likelihood)
        self.curvature_rate_bound, self.known = curvature_rate_bound, known
        c, s = (jnp.asarray(weight, curve.a.dtype) for weight in curve.path.weights(curve.here))
        here = TangentPoint(state.log_likelihood, known.here, c, s)
        self.quadratic = (
            None if curvature_rate_bound is None else QuadraticBound.at(here, curvature_rate_bound, curve.a, curve.b)
        )
        # A quadratic bound of rate 0 is the function itself; the second plane is there because of rounding.
        self.slots = 2 if curvature_rate_bound == 0 else MAX_PLANES
        self.memory = PlanesMemory(Planes.none(self.slots, curve.a.dtype), here, known.above)

    def skip(self, counters: LoopCounters, memory: PlanesMemory) -> tuple[LoopCounters, PlanesMemory]:
        """Add the plane of the last evaluation, and move on to an angle that is not below a bound."""
        # The plane is added here and not in `evaluate`, because an accepted point needs none.
        slot = jnp.minimum(counters.evaluations.astype(jnp.int32), self.slots - 1)
        planes = memory.planes.with_plane(slot, memory.last, self.curve.a, self.curve.b)
        counters = lax.while_loop(
            lambda now: (now.tried < MAX_EVALUATIONS) & self._is_below(planes, now.theta),
            lambda now: now.skipped(self.curve),
            counters,
        )
        return counters, memory._replace(planes=planes)

    def evaluate(self, counters: LoopCounters, memory: PlanesMemory) -> tuple[State, PlanesMemory]:
        """Return the point with its log-likelihood; remember the derivatives, and whether a bound was too low."""
        c, s = self.curve.weights(counters.theta)
        point = lax.optimization_barrier(self.curve.point(c, s))
        value, derivatives = value_and_derivatives(self.curvature_rate_bound, self.log_likelihood, point)
        value = lax.optimization_barrier(value)
        if self.curvature_rate_bound == 0:
            derivatives = derivatives._replace(curvatures=self.known.here.curvatures)  # equal everywhere
        bound, size = upper_bound(memory.planes, self.quadratic, c, s)
        is_above = value > bound + 100 * ROUNDING * (size + jnp.abs(value))
        above = memory.above + ((counters.tried < MAX_EVALUATIONS) & is_above)
        return State(point, value), PlanesMemory(memory.planes, TangentPoint(value, derivatives, c, s), above)

    def learned(self, found: Any, memory: PlanesMemory) -> Known:
        """Return the derivatives at the state where the search ended."""
        there, here = memory.last.derivatives, self.known.here
        return Known(jax.tree.map(lambda new, old: jnp.where(found, new, old), there, here), memory.above)

    def _is_below(self, planes: Planes, theta: Any) -> Any:
        """Return whether an angle is below a bound by more than rounding errors can explain."""
        bound, size = upper_bound(planes, self.quadratic, *self.curve.path.weights(theta))
        level = self.curve.level(theta)
        return bound < level - ROUNDING * (size + jnp.abs(level))
