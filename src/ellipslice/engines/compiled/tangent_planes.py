"""The search loop for log-concave likelihoods, which rejects most angles without evaluating them.

Over the plane of an ellipse, g(c, s) = log L(c a + s b) is a concave function. Each evaluation gives its value and its
gradient at one point, and so a plane that lies above it everywhere; an angle whose point on some plane is not above the
level cannot be on the slice. The first plane, at the current state, is known before the search begins. The chain is
the same to the bit as without planes: what they let pass is judged by an evaluation.

Where third derivatives of the terms of log L are at most a number times their second ones (`Likelihood.bend_rate`), the
plane at the current state becomes a bowl, which lies much closer: a term that bends by h bends by h exp(-rate |d|) or
more at a distance d, so it falls below its tangent by h d^2 / (2 + rate |d|) or more. (Functions like that are called
self-concordant: Bach 2010.) For Gaussian observations, whose rate is 0, the bowl is the function itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ellipslice.engines.compiled.search import Curve, Trace, either, run_block
from ellipslice.engines.lanes import dot, largest
from ellipslice.moves import Info, Search, State
from ellipslice.moves.search import MAX_EVALUATIONS
from ellipslice.noise import Noise

PLANES = 6
"""Planes remembered during a search; if there are more, the last is replaced."""

ROUNDING = 1e-11
"""An angle is rejected only if its bound is below the level by more than this, relative to the numbers in it."""


class Known(NamedTuple):
    """Where a chain is, and what it has learned."""

    state: State
    here: Slopes
    above: Any
    """How often a value was above a bound, which a concave function never is."""


class Slopes(NamedTuple):
    """Derivatives of the log-likelihood at the current state."""

    gradient: Any
    bends: Any
    """Minus the second derivatives, if these are of use."""


class Planes(NamedTuple):
    """Upper bounds of g: height + c x + s z for weights (c, s). The first touches g at the current state."""

    height: Any
    x: Any
    z: Any


class Bowl(NamedTuple):
    """How far g falls below the first plane at least: a quadratic form, less so the farther a value can move."""

    c: Any
    s: Any
    aa: Any
    ab: Any
    bb: Any
    reach: Any
    """The rate, times how far any value moves if the weights move by 1."""


class Touch(NamedTuple):
    """Where a plane touches g: value and derivatives of log L there, and the weights (c, s)."""

    value: Any
    slopes: Slopes
    c: Any
    s: Any


class Try(NamedTuple):
    """A search under way, after its last evaluation."""

    tried: Any
    evaluations: Any
    nans: Any
    above: Any
    planes: Planes
    point: Any
    touch: Touch
    found: Any
    theta: Any
    following: Any
    """The angle to try next."""


def bounded_block(
    rows: int, move: Search, bend_rate: float | None, likelihood: Any, start: Known, noise: Noise, span: Any
) -> tuple[Trace, Known]:
    """Updates of a block, as `loops.step_block` makes them."""

    def one(noise: Noise, known: Known) -> tuple[Known, State, Info, Any]:
        known, info, proposals = bounded_search(move, bend_rate, likelihood, noise.at(0), known)
        return known, known.state, info, proposals

    return run_block(rows, one, start, start.state.f, noise, span)


def bounded_search(
    move: Search, bend_rate: float | None, likelihood: Any, noise: Noise, known: Known
) -> tuple[Known, Info, Any]:
    """One update. Returns the number of angles tried, evaluated or not, beside its info."""
    state, here, above = known
    curve = Curve(move, noise, state)
    log_y, a, b = curve.log_y, curve.a, curve.b
    slots = 2 if bend_rate == 0 else PLANES  # where there is all to know in the first, one for good measure
    planes = Planes(*(jnp.full(slots, fill, a.dtype) for fill in (jnp.inf, 0.0, 0.0)))
    c, s = (jnp.asarray(weight, a.dtype) for weight in move.weights(curve.here))
    bowl = None if bend_rate is None else _bowl(bend_rate, here.bends, a, b, c, s)

    def is_hopeless(planes: Planes, theta: Any) -> Any:
        bound, size = _bound(planes, bowl, *move.weights(theta))
        return bound < log_y - ROUNDING * (size + jnp.abs(log_y))

    def one_try(last: Try) -> Try:
        tried, evaluations, nans, above, planes = last[:5]
        planes = _add(planes, jnp.minimum(evaluations, slots - 1), last.touch, a, b)
        tried, angle = lax.while_loop(
            lambda at: (at[0] < MAX_EVALUATIONS) & is_hopeless(planes, at[1][0]),
            lambda at: (at[0] + 1, curve.after(at[1], at[0])),
            (tried, last.following),
        )
        ran_out = tried >= MAX_EVALUATIONS
        c, s = curve.weights(angle[0])
        point = lax.optimization_barrier(curve.point(c, s))
        value, slopes = expand(bend_rate, likelihood, point)
        if bend_rate == 0:
            slopes = Slopes(slopes.gradient, here.bends)  # the same everywhere
        value = lax.optimization_barrier(value)
        bound, size = _bound(planes, bowl, c, s)
        above = above + (~ran_out & (value > bound + 100 * ROUNDING * (size + jnp.abs(value))))
        nans = nans + (~ran_out & jnp.isnan(value))
        found = ~ran_out & (value > log_y)
        touch = Touch(value, slopes, c, s)
        following = curve.after(angle, tried)
        return Try(
            tried + ~ran_out, evaluations + ~ran_out, nans, above, planes, point, touch, found, angle[0], following
        )

    nothing, at_here = jnp.int32(0), Touch(state.log_likelihood, here, c, s)
    end = lax.while_loop(
        lambda last: ~last.found & (last.tried < MAX_EVALUATIONS),
        one_try,
        Try(nothing, nothing, nothing, above, planes, state.f, at_here, jnp.asarray(False), curve.here, curve.begin),
    )
    new = State(end.point, end.touch.value), end.touch.slopes
    state, here = either(end.found, new, (state, here))
    info = Info(end.evaluations, end.nans, ~end.found, curve.turned(end.found, end.theta))
    return Known(state, here, end.above), info, end.tried


@partial(jax.jit, static_argnums=0)
def expand(bend_rate: float | None, likelihood: Any, point: Any) -> tuple[Any, Slopes]:
    """The log-likelihood at a point, and its derivatives."""

    def value(f: Any) -> Any:
        return jnp.asarray(likelihood(f), f.dtype)

    if bend_rate is None:
        at_point, gradient = jax.value_and_grad(value)(point)
        return at_point, Slopes(gradient, None)
    # Each term has a value of its own, so the derivative in all directions at once is the matrix's diagonal.
    (at_point, gradient), (_, seconds) = jax.jvp(jax.value_and_grad(value), (point,), (jnp.ones_like(point),))
    return at_point, Slopes(gradient, -seconds)


def _bowl(rate: float, bends: Any, a: Any, b: Any, c: Any, s: Any) -> Bowl:
    aa, ab, bb = dot(bends, a, a), dot(bends, a, b), dot(bends, b, b)
    usable = jnp.isfinite(aa + bb)
    aa, ab, bb = (jnp.where(usable, part, 0.0) for part in (aa, ab, bb))
    return Bowl(c, s, aa, ab, bb, reach=rate * jnp.sqrt(largest(a * a + b * b)) if rate else None)


def _add(planes: Planes, slot: Any, touch: Touch, a: Any, b: Any) -> Planes:
    """The plane that touches g there, put into a slot; none if the gradient is not finite."""
    value, (gradient, _), c, s = touch
    x, z = dot(gradient, a), dot(gradient, b)
    height = value - c * x - s * z
    usable = jnp.isfinite(height)
    new = Planes(jnp.where(usable, height, jnp.inf), jnp.where(usable, x, 0.0), jnp.where(usable, z, 0.0))
    return Planes(*(old.at[slot].set(part) for old, part in zip(planes, new, strict=True)))


def _bound(planes: Planes, bowl: Bowl | None, c: Any, s: Any) -> tuple[Any, Any]:
    """The least upper bound at (c, s), and the size of the numbers it was computed from."""
    heights = planes.height + c * planes.x + s * planes.z
    sizes = jnp.where(jnp.isfinite(planes.height), jnp.abs(planes.height) + jnp.abs(planes.x) + jnp.abs(planes.z), 0.0)
    size = jnp.max(sizes)
    if bowl is not None:
        dc, ds = c - bowl.c, s - bowl.s
        fall = dc * dc * bowl.aa + 2 * dc * ds * bowl.ab + ds * ds * bowl.bb
        moved = 0.0 if bowl.reach is None else bowl.reach * jnp.sqrt(dc * dc + ds * ds)
        heights = heights.at[0].add(-fall / (2 + moved))
        size += bowl.aa + bowl.bb
    return jnp.min(heights), size
