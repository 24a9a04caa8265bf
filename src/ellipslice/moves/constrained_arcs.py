"""The arcs of an ellipse on which linear inequalities hold, with the gaps between them left out."""

from __future__ import annotations

from math import pi
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.moves.array_ops import where

FULL_TURN = 2 * pi

MAX_GAPS_WITHOUT_SORT = 8
"""Largest number of gaps that compiled code finds one by one. If there are more, it sorts the intervals."""


class Arcs(NamedTuple):
    """The angles theta at which f cos(theta) + nu sin(theta) keeps all constraints, put end to end.

    A position on them, tau, is the length of allowed arc between the current state and a point: tau is 0 at the current
    state, runs to `length`, and there is at the current state again. So the allowed arcs are a circle, only shorter.
    """

    at: Any
    """The position of each gap; shape (gaps,). Gaps that are none have width 0."""
    width: Any
    """The angle that each gap spans."""
    length: Any
    """Of all allowed arcs together: 2 pi, if no constraint is met."""

    def angle(self, tau: Any) -> Any:
        """The angle at a position, from -length to length: a position below 0 has an angle below 0.

        The gaps between the current state and the position are added, on whichever side it is. Next to the current
        state an angle is its position to the last bit, however small.
        """
        ahead = self.at <= where(tau < 0, tau + self.length, tau)
        gaps = where(ahead == (tau >= 0), self.width, 0.0).sum()
        return tau + where(tau < 0, -gaps, gaps)


def allowed_arcs(product: Any, nu_product: Any, bounds: Any) -> Arcs:
    """Where on the ellipse every constraint p cos(theta) + q sin(theta) <= c holds.

    Parameters
    ----------
    product : array, shape (constraints,)
        p = A f, at most c but for rounding: the current state keeps the constraints.
    nu_product : array, shape (constraints,)
        q = A nu.
    bounds : array, shape (constraints,)
        c, for the centred f.
    """
    return _without_gaps(*forbidden_intervals(product, nu_product, bounds))


def forbidden_intervals(product: Any, nu_product: Any, bounds: Any) -> tuple[Any, Any]:
    """The open interval of angles in [0, 2 pi] that each constraint excludes; from 2 pi to 0 if it excludes none.

    With u = tan(theta / 2), p cos(theta) + q sin(theta) = c is the quadratic (p + c) u^2 - 2 q u + (c - p) = 0. One of
    its roots is taken from a sum of terms with the same sign, the other from the product of the roots, so neither loses
    digits. The slack c - p is never taken to be negative. Then no interval has 0 inside it, whatever rounding did: a
    constraint that is met at the current state excludes an interval that begins or ends there.
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


def _without_gaps(low: Any, high: Any) -> Arcs:
    """Return the arcs between intervals, which may overlap."""
    if isinstance(low, np.ndarray):
        order = np.argsort(low)
        return _between_sorted(np, np.maximum.accumulate, low[order], high[order])
    if not len(low):
        return Arcs(low, low, jnp.asarray(FULL_TURN, low.dtype))
    # Usually there are few gaps, even with many constraints. Finding them one by one is much faster than sorting.
    swept, end = _few_gaps(low, high)
    return jax.lax.cond(end >= high.max(), lambda *_: swept, _sorted, low, high)


class _Gaps(NamedTuple):
    """The first gaps, as they are found one after the other."""

    count: Any
    end: Any
    """The angle at which the last of them ends."""
    position: Any
    """Length of allowed arc before the last of them."""
    at: Any
    width: Any


def _few_gaps(low: Any, high: Any) -> tuple[Arcs, Any]:
    """Return the arcs between the first gaps, at most `MAX_GAPS_WITHOUT_SORT`, and where the last of them ends.

    A gap begins at the next interval, and is extended by all intervals that begin inside it, until it is not extended
    any more.
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

    before_all = jnp.where(last > 0, -1.0, 0.0)  # below 0, because a gap may begin at 0
    start = _Gaps(0, before_all, jnp.zeros_like(last), none, none)
    gaps = jax.lax.while_loop(lambda gaps: (gaps.end < last) & (gaps.count < most), next_gap, start)
    return Arcs(gaps.at, gaps.width, jnp.maximum(FULL_TURN - gaps.width.sum(), 0.0)), gaps.end


def _sorted(low: Any, high: Any) -> Arcs:
    return _between_sorted(jnp, jax.lax.cummax, *jax.lax.sort((low, high), num_keys=1))


def _between_sorted(xp: Any, largest_so_far: Any, low: Any, high: Any) -> Arcs:
    """The arcs between intervals sorted by their ends below: each adds to the gaps what is beyond those before it.

    Gaps that touch have one position between them, to the bit. With one each, a position could be beyond one and before
    the other by rounding, and its angle somewhere inside.
    """
    before = xp.concatenate([xp.zeros(1), largest_so_far(high)])[:-1]
    begin = xp.maximum(low, before)
    width = xp.maximum(high - begin, 0.0)
    apart = xp.where(low > before, begin - (xp.cumsum(width) - width), 0.0)
    return Arcs(largest_so_far(apart), width, xp.maximum(FULL_TURN - width.sum(), 0.0))
