"""Upper bounds of a log-concave likelihood on the plane of an ellipse.

On that plane g(c, s) = log L(c a + s b) is a concave function. Each evaluation gives the value and the gradient of g at
one point, and thereby a tangent plane, which is an upper bound of g everywhere. An angle whose bound is not above the
slice level cannot be on the slice. The first tangent plane, at the current state, is available before the search.

The quadratic bound is much closer. It replaces the first plane if the third derivative of every term of log L is at
most `Likelihood.curvature_rate_bound` times its second derivative. A term with curvature h then has a curvature of at
least h exp(-rate |d|) at a distance d, so it falls below its tangent by at least h d^2 / (2 + rate |d|). (These are
called self-concordant functions: Bach 2010.) For Gaussian observations the rate is 0, and the bound is log L itself.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ellipslice.programs.vector_sums import dot, largest

ROUNDING = 1e-11
"""Relative rounding error of a bound. An angle is skipped only if its bound is below the slice level by more."""


class Derivatives(NamedTuple):
    """Derivatives of the log-likelihood at a point, shape (size,) each."""

    gradient: Any
    curvatures: Any
    """Minus the second derivatives. None without a quadratic bound."""


class TangentPoint(NamedTuple):
    """Point at which a plane touches g: value and derivatives of log L there, and the weights (c, s)."""

    value: Any
    derivatives: Derivatives
    c: Any
    s: Any


class Planes(NamedTuple):
    """Tangent planes, which are upper bounds of g: height + c x + s z. The first one touches g at the current state.

    The fields have shape (slots,).
    """

    height: Any
    x: Any
    z: Any

    @staticmethod
    def none(slots: int, dtype: Any) -> Planes:
        """Return `slots` empty slots: planes at height infinity."""
        return Planes(*(jnp.full(slots, fill, dtype) for fill in (jnp.inf, 0.0, 0.0)))

    def with_plane(self, slot: Any, point: TangentPoint, a: Any, b: Any) -> Planes:
        """Return the planes with the tangent plane at `point` in slot `slot`. It stays empty if that is not finite."""
        x, z = dot(point.derivatives.gradient, a), dot(point.derivatives.gradient, b)
        height = point.value - point.c * x - point.s * z
        usable = jnp.isfinite(height)
        new = Planes(jnp.where(usable, height, jnp.inf), jnp.where(usable, x, 0.0), jnp.where(usable, z, 0.0))
        return Planes(*(old.at[slot].set(part) for old, part in zip(self, new, strict=True)))


class QuadraticBound(NamedTuple):
    """Lower bound of the distance of g below the first plane.

    It is a quadratic form in the distance from the current state, divided by 2 + reach times that distance.
    """

    c: Any
    """First weight at the current state."""
    s: Any
    """Second weight at the current state."""
    aa: Any
    """Coefficients of the quadratic form (aa, ab, bb): sums of curvatures times a^2, a b and b^2."""
    ab: Any
    bb: Any
    reach: Any
    """The rate, times the largest change of any element of f if the weights change by 1. None if the rate is 0."""

    @staticmethod
    def at(point: TangentPoint, rate: float, a: Any, b: Any) -> QuadraticBound:
        """Return the bound from the curvatures at `point`, or a bound of zero if they are not finite."""
        curvatures = point.derivatives.curvatures
        aa, ab, bb = dot(curvatures, a, a), dot(curvatures, a, b), dot(curvatures, b, b)
        usable = jnp.isfinite(aa + bb)
        aa, ab, bb = (jnp.where(usable, part, 0.0) for part in (aa, ab, bb))
        reach = rate * jnp.sqrt(largest(a * a + b * b)) if rate else None
        return QuadraticBound(point.c, point.s, aa, ab, bb, reach)

    def fall(self, c: Any, s: Any) -> Any:
        """Return a lower bound of the distance of g(c, s) below the first plane."""
        dc, ds = c - self.c, s - self.s
        form = dc * dc * self.aa + 2 * dc * ds * self.ab + ds * ds * self.bb
        moved = 0.0 if self.reach is None else self.reach * jnp.sqrt(dc * dc + ds * ds)
        return form / (2 + moved)


def upper_bound(planes: Planes, quadratic: QuadraticBound | None, c: Any, s: Any) -> tuple[Any, Any]:
    """Return the smallest upper bound at (c, s), and the size of its terms, to which rounding errors are relative."""
    heights = planes.height + c * planes.x + s * planes.z
    sizes = jnp.abs(planes.height) + jnp.abs(planes.x) + jnp.abs(planes.z)
    size = jnp.max(jnp.where(jnp.isfinite(planes.height), sizes, 0.0))
    if quadratic is not None:
        heights = heights.at[0].add(-quadratic.fall(c, s))
        size += quadratic.aa + quadratic.bb
    return jnp.min(heights), size


@partial(jax.jit, static_argnums=0)
def value_and_derivatives(
    curvature_rate_bound: float | None, log_likelihood: Any, point: Any
) -> tuple[Any, Derivatives]:
    """Return the log-likelihood at `point` and its derivatives. Curvatures are None if `curvature_rate_bound` is."""

    def value(f: Any) -> Any:
        return jnp.asarray(log_likelihood(f), f.dtype)

    if curvature_rate_bound is None:
        at_point, gradient = jax.value_and_grad(value)(point)
        return at_point, Derivatives(gradient, None)
    # Each term depends on one element of f, so the derivative of the gradient along (1, ..., 1) is the diagonal.
    (at_point, gradient), (_, seconds) = jax.jvp(jax.value_and_grad(value), (point,), (jnp.ones_like(point),))
    return at_point, Derivatives(gradient, -seconds)
