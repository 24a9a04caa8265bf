"""The search loop for log-concave likelihoods, which rejects most angles without evaluating them.

Over the plane of an ellipse, g(c, s) = log L(c a + s b) is a concave function. Each evaluation gives its value and its
gradient at one point, and so a plane that lies above it everywhere; an angle whose point on some plane is not above the
level cannot be on the slice. The first plane, at the current state, is known before the search begins. The chain is
the same to the bit as without planes: what they let pass is judged by an evaluation.

Where the second derivatives of log L have an upper bound below zero, as those of Gaussian observations, planes become
paraboloids that lie closer; for Gaussian observations they are the function itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ellipslice.engines.angles import WIDTH
from ellipslice.engines.lanes import dot
from ellipslice.engines.loops import Block, Progress, Span, Trace, empty_trace, write
from ellipslice.moves import Info, Search, State
from ellipslice.moves.search import MAX_EVALUATIONS

PLANES = 6
"""Planes remembered during a search; if there are more, the last is replaced."""

ROUNDING = 1e-11
"""An angle is rejected only if its bound is below the level by more than this, relative to the numbers in it."""


class BoundedProgress(NamedTuple):
    """Where a chain is inside a block, and what its search has learned."""

    search: Progress
    evaluations: Any
    """Evaluations made for update `t` so far."""
    gradient: Any
    """Of the log-likelihood, at the current state."""
    above: Any
    """How often a value was above a plane, which a concave function never is."""


class Planes(NamedTuple):
    """Upper bounds of g: height + c x + s z for weights (c, s), less the curvature from where they touch g."""

    height: Any
    x: Any
    z: Any
    c: Any
    s: Any


class Touch(NamedTuple):
    """Where a plane touches g: value and gradient of log L there, and the weights (c, s)."""

    value: Any
    gradient: Any
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


def bounded_block(
    rows: int, move: Search, likelihood: Any, curvature: Any, start: BoundedProgress, block: Block, span: Span
) -> tuple[tuple[Trace, Any], BoundedProgress]:
    """As `loops.search_block`; the trace comes with the number of angles tried, evaluated or not.

    `curvature`, shape (size,) or None, is minus an upper bound of the second derivatives.
    """
    search, stop = span.set_out(start.search)
    start = start._replace(search=search)
    value_and_gradient = jax.value_and_grad(lambda f: jnp.asarray(likelihood(f), f.dtype))
    slots = PLANES if curvature is None else 1  # one paraboloid is all there is to know

    def one_update(carry: Any) -> Any:
        (trace, proposals), progress = carry
        (t, tried, nans, (f, log_l)), evaluations, gradient, above = progress
        a, b = move.curve(f, block.nu[t], block.here[t])
        log_y = log_l - block.level[t]
        theta, before = block.theta[t], block.tried[t]
        last = jnp.minimum(before + WIDTH, MAX_EVALUATIONS)
        bend = None if curvature is None else _bend(curvature, a, b)
        planes = Planes(*(jnp.full(slots, fill, f.dtype) for fill in (jnp.inf, 0.0, 0.0, 0.0, 0.0)))

        def is_hopeless(planes: Planes, tried: Any) -> Any:
            bound, size = _bound(planes, bend, *move.weights(theta[jnp.minimum(tried, last - 1) - before]))
            return bound < log_y - ROUNDING * (size + jnp.abs(log_y))

        def one_try(last_try: Try) -> Try:
            tried, evaluations, nans, above, planes = last_try[:5]
            planes = _add(planes, jnp.minimum(evaluations - made_before, slots - 1), last_try.touch, a, b)
            tried = lax.while_loop(
                lambda tried: (tried < last) & is_hopeless(planes, tried), lambda tried: tried + 1, tried
            )
            ran_out = tried >= last
            c, s = lax.optimization_barrier(move.weights(theta[jnp.minimum(tried, last - 1) - before]))
            point = lax.optimization_barrier(a * c + b * s)
            value, slope = value_and_gradient(point)
            value = lax.optimization_barrier(value)
            bound, size = _bound(planes, bend, c, s)
            above = above + (~ran_out & (value > bound + 100 * ROUNDING * (size + jnp.abs(value))))
            nans = nans + (~ran_out & jnp.isnan(value))
            touch = Touch(jnp.where(ran_out, -jnp.inf, value), slope, c, s)
            return Try(tried + ~ran_out, evaluations + ~ran_out, nans, above, planes, point, touch)

        def goes_on(one: Try) -> Any:
            return (~(one.touch.value > log_y) | (one.evaluations == made_before)) & (one.tried < last)

        made_before = evaluations
        c, s = (jnp.asarray(weight, f.dtype) for weight in move.weights(block.here[t]))
        at_here = Try(tried, evaluations, nans, above, planes, f, Touch(log_l, gradient, c, s))
        tried, evaluations, nans, above, _, point, (value, slope, _, _) = lax.while_loop(goes_on, one_try, at_here)
        accepted = (value > log_y) & (evaluations > made_before)
        ended = accepted | (tried >= MAX_EVALUATIONS)
        state = State(jnp.where(accepted, point, f), jnp.where(accepted, value, log_l))
        row = t - start.search.t
        trace = write(trace, row, state, Info(evaluations, nans, ended & ~accepted, 0.0))
        proposals = proposals.at[row].set(tried)
        progress = Progress(t + ended, jnp.where(ended, 0, tried), jnp.where(ended, 0, nans), state)
        gradient = jnp.where(accepted, slope, gradient)
        return (trace, proposals), BoundedProgress(progress, jnp.where(ended, 0, evaluations), gradient, above)

    def can_go_on(carry: Any) -> Any:
        t, tried, *_ = carry[1].search
        return (t < stop) & (tried - block.tried[t] < WIDTH)

    nothing = empty_trace(rows, start.search.state.f), jnp.zeros(rows, jnp.int32)
    return lax.while_loop(can_go_on, one_update, (nothing, start))


def _bend(curvature: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    return dot(curvature * a, a), dot(curvature * a, b), dot(curvature * b, b)


def _add(planes: Planes, slot: Any, touch: Touch, a: Any, b: Any) -> Planes:
    """The plane that touches g there, put into a slot; none if the gradient is not finite."""
    value, gradient, c, s = touch
    x, z = dot(gradient, a), dot(gradient, b)
    height = value - c * x - s * z
    usable = jnp.isfinite(height)
    new = Planes(jnp.where(usable, height, jnp.inf), jnp.where(usable, x, 0.0), jnp.where(usable, z, 0.0), c, s)
    return Planes(*(old.at[slot].set(part) for old, part in zip(planes, new, strict=True)))


def _bound(planes: Planes, bend: tuple[Any, Any, Any] | None, c: Any, s: Any) -> tuple[Any, Any]:
    """The least upper bound at (c, s), and the size of the numbers it was computed from."""
    heights = planes.height + c * planes.x + s * planes.z
    sizes = jnp.where(jnp.isfinite(planes.height), jnp.abs(planes.height) + jnp.abs(planes.x) + jnp.abs(planes.z), 0.0)
    if bend is not None:
        aa, ab, bb = bend
        dc, ds = c - planes.c, s - planes.s
        heights = heights - 0.5 * (dc * dc * aa + 2 * dc * ds * ab + ds * ds * bb)
        sizes = sizes + aa + bb
    return jnp.min(heights), jnp.max(sizes)
