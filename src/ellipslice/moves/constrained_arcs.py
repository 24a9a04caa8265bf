"""The arcs of an ellipse on which linear inequalities hold, joined end to end."""

from __future__ import annotations

from math import pi
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.moves.array_ops import where

FULL_TURN = 2 * pi

MAX_GAPS_WITHOUT_SORT = 8
"""Largest number of gaps that compiled code finds one after the other. If there are more, it sorts the intervals."""


class Arcs(NamedTuple):
    """The angles theta at which f cos(theta) + nu sin(theta) satisfies all constraints, joined end to end.

    A position tau on the arcs is the length of allowed arc between the current state and a point. It is 0 at the
    current state, and `length` after one turn, at the current state again. So the arcs form a circle that is shorter
    than 2 pi.
    """

    at: Any
    """Position of each gap, shape (gaps,). Unused entries have width 0."""
    width: Any
    """Angle that each gap spans, shape (gaps,)."""
    length: Any
    """Total length of the allowed arcs. 2 pi if no constraint excludes an angle."""

    def angle(self, tau: Any) -> Any:
        """Return the angle at a position between -length and length. Negative positions have negative angles.

        It is the position plus the gaps between it and the current state, on that side. Next to the current state the
        angle equals the position to the last bit, so that small angles are exact.
        """
        ahead = self.at <= where(tau < 0, tau + self.length, tau)
        gaps = where(ahead == (tau >= 0), self.width, 0.0).sum()
        return tau + where(tau < 0, -gaps, gaps)


def allowed_arcs(product: Any, nu_product: Any, bounds: Any) -> Arcs:
    """Return the arcs of the ellipse on which every constraint p cos(theta) + q sin(theta) <= c holds.

    Parameters
    ----------
    product : array, shape (constraints,)
        p = A f, at most c up to rounding error, because the current state satisfies the constraints.
    nu_product : array, shape (constraints,)
        q = A nu.
    bounds : array, shape (constraints,)
        c, for the centred f.
    """
    return _arcs_between(*forbidden_intervals(product, nu_product, bounds))


def forbidden_intervals(product: Any, nu_product: Any, bounds: Any) -> tuple[Any, Any]:
    """Return the ends of the open interval in [0, 2 pi] that each constraint excludes; 2 pi and 0 if it excludes none.

    With u = tan(theta / 2), p cos(theta) + q sin(theta) = c is the quadratic (p + c) u^2 - 2 q u + (c - p) = 0. One
    root is computed from a sum of terms of the same sign, and the other from the product of the roots, so neither loses
    digits. A slack c - p that is negative by rounding is set to 0. Then no interval contains 0: a constraint that is
    active at the current state excludes an interval that begins or ends there.
    """
    xp = np if isinstance(product, np.ndarray) else jnp
    slack = xp.maximum(bounds - product, 0.0)
    square = nu_product**2 - slack * (product + bounds)
    h = abs(nu_product) + xp.sqrt(xp.maximum(square, 0.0))
    near, far = 2 * xp.arctan2(slack, h), 2 * xp.arctan2(h, product + bounds)
    forward, none = nu_product >= 0, (bounds >= 0) & ~(square > 0)
    low = xp.where(none, FULL_TURN, xp.where(forward, near, FULL_TURN - far))
    high = xp.where(none, 0.0, xp.where(forward, far, FULL_TURN - near))
    return low, high


def _arcs_between(low: Any, high: Any) -> Arcs:
    """Return the arcs between forbidden intervals, which may overlap."""
    if isinstance(low, np.ndarray):
        order = np.argsort(low)
        return _between_sorted(np, np.maximum.accumulate, low[order], high[order])
    if not len(low):
        return Arcs(low, low, jnp.asarray(FULL_TURN, low.dtype))
    # Usually there are few gaps, even with many constraints. Finding them one after the other is faster than sorting.
    swept, end = _first_gaps(low, high)
    return jax.lax.cond(end >= high.max(), lambda *_: swept, _arcs_by_sorting, low, high)


class _Gaps(NamedTuple):
    """The gaps that have been found so far, in order of angle."""

    count: Any
    end: Any
    """Angle at which the last gap ends."""
    position: Any
    """Length of allowed arc before the last gap."""
    at: Any
    width: Any


def _first_gaps(low: Any, high: Any) -> tuple[Arcs, Any]:
    """Return the arcs between the first gaps, at most `MAX_GAPS_WITHOUT_SORT`, and the angle where the last one ends.

    A gap begins with the next interval. All intervals that begin inside the gap extend it, until none does.
    """
    last, none = high.max(), jnp.zeros_like(low)
    most = min(MAX_GAPS_WITHOUT_SORT, len(low))

    def extend(ends: tuple[Any, Any]) -> tuple[Any, Any]:
        _, end = ends
        return end, jnp.where(low <= end, high, end).max()

    def next_gap(gaps: _Gaps) -> _Gaps:
        begin = jnp.where(low > gaps.end, low, FULL_TURN).min()
        _, end = jax.lax.while_loop(lambda ends: ends[1] > ends[0], extend, extend((begin, begin)))
        position = gaps.position + (begin - jnp.maximum(gaps.end, 0.0))
        number = gaps.count
        at, width = gaps.at.at[number].set(position), gaps.width.at[number].set(end - begin)
        return _Gaps(number + 1, end, position, at, width)

    before_all = jnp.where(last > 0, -1.0, 0.0)  # negative, because the first gap may begin at 0
    start = _Gaps(0, before_all, jnp.zeros_like(last), none, none)
    gaps = jax.lax.while_loop(lambda gaps: (gaps.end < last) & (gaps.count < most), next_gap, start)
    return Arcs(gaps.at, gaps.width, jnp.maximum(FULL_TURN - gaps.width.sum(), 0.0)), gaps.end


def _arcs_by_sorting(low: Any, high: Any) -> Arcs:
    """Return the arcs between any number of intervals, in compiled code."""
    return _between_sorted(jnp, jax.lax.cummax, *jax.lax.sort((low, high), num_keys=1))


def _between_sorted(xp: Any, largest_so_far: Any, low: Any, high: Any) -> Arcs:
    """Return the arcs between intervals that are sorted by their lower ends.

    Each interval adds to the gaps its part beyond the earlier ones. Gaps that touch have the same position, to the last
    bit. Otherwise rounding could put a position after one and before the other, at an angle inside the gap.
    """
    before = xp.concatenate([xp.zeros(1), largest_so_far(high)])[:-1]
    begin = xp.maximum(low, before)
    width = xp.maximum(high - begin, 0.0)
    apart = xp.where(low > before, begin - (xp.cumsum(width) - width), 0.0)
    return Arcs(largest_so_far(apart), width, xp.maximum(FULL_TURN - width.sum(), 0.0))
