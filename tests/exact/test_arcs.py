"""The allowed arcs of an ellipse, compared with a grid of its points."""

from __future__ import annotations

import functools
import itertools
from math import cos, pi, sin

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ellipslice.jax_settings import jax_settings
from ellipslice.moves import constrained_arcs as arcs_module
from ellipslice.moves.constrained import AlongArcs
from ellipslice.moves.constrained_arcs import Arcs, allowed_arcs, forbidden_intervals
from ellipslice.testing import check_reversible

GRID = 20_000
ANGLES = (np.arange(GRID) + 0.5) * (2 * pi / GRID)


def by_numpy(p, q, c):
    return allowed_arcs(np.asarray(p, float), np.asarray(q, float), np.asarray(c, float))


@functools.cache
def compiled_arcs(few):
    """Return `allowed_arcs` as compiled code.

    `few` is the number of gaps that it finds one by one; it is part of the key.
    """
    return jax.jit(lambda *constraints: allowed_arcs(*constraints))


def by_jax(p, q, c):
    with jax_settings():
        found = compiled_arcs(arcs_module.MAX_GAPS_WITHOUT_SORT)(*(jnp.asarray(part, float) for part in (p, q, c)))
        return Arcs(*map(np.asarray, found))


def constraints(seed, count, bias):
    """Return random p, q and c with p <= c. With a large bias few constraints are active, with a negative one many."""
    rng = np.random.default_rng(seed)
    p, q = rng.standard_normal((2, count))
    return p, q, p + np.abs(rng.standard_normal(count)) * np.exp(rng.normal(bias, 1.0, count))


def values(p, q, theta):
    """Return A f at each angle, shape (angles, constraints)."""
    return np.cos(theta)[:, None] * p + np.sin(theta)[:, None] * q


def check_arcs(arcs, p, q, c):
    """Check that the arcs are exactly the allowed angles: they have the length of the allowed grid points, in order."""
    allowed = (values(p, q, ANGLES) <= c).all(1)
    step = 2 * pi / GRID
    assert abs(arcs.length - allowed.sum() * step) <= 2 * (len(c) + 1) * step
    tau = np.linspace(0, float(arcs.length), 500)
    theta = np.array([arcs.angle(t) for t in tau])
    assert (np.diff(theta) >= np.diff(tau) - 1e-12).all()
    assert (values(p, q, theta) <= c + 1e-12 * (1 + np.hypot(p, q) + np.abs(c))).all()
    assert theta[0] >= 0
    assert theta[-1] <= 2 * pi + 1e-12
    if arcs.length > 1e-6:
        # Odd numbers, because at a gap both of its ends would be right.
        tau = (np.arange(50) + 0.123456) / 50 * arcs.length
        turn_later = [arcs.angle(t) - arcs.angle(t - arcs.length) for t in tau]
        np.testing.assert_allclose(turn_later, 2 * pi, atol=1e-9)


@pytest.mark.parametrize("make", [by_numpy, by_jax])
@pytest.mark.parametrize("bias", [-3.0, 0.0, 1.5])
@pytest.mark.parametrize("count", [1, 2, 7, 60])
def test_arcs_are_where_the_constraints_hold(count, bias, make):
    for seed in range(5):
        p, q, c = constraints(seed, count, bias)
        check_arcs(make(p, q, c), p, q, c)


numbers = st.floats(-100, 100).map(lambda x: round(x, 3))
slacks = st.floats(0, 100).map(lambda x: round(x, 3))


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@example([(0.0, -1.0, 0.0), (-89.0, 0.0, 1.0)])  # two adjacent gaps, whose positions once differed in the last bit
@given(st.lists(st.tuples(numbers, numbers, slacks), min_size=1, max_size=8))
def test_any_constraints(given_rows):
    p, q, slack = np.array(given_rows).T
    check_arcs(by_numpy(p, q, p + slack), p, q, p + slack)


@pytest.mark.parametrize("few", [1, 3, 8])
def test_few_gaps_and_many_by_both(few, monkeypatch):
    """Compiled code finds few gaps one by one, and sorts many. Both give the result of NumPy."""
    monkeypatch.setattr("ellipslice.moves.constrained_arcs.MAX_GAPS_WITHOUT_SORT", few)
    gaps = set()
    for seed in range(24):
        rng = np.random.default_rng(seed)
        middle, half = rng.uniform(0.8, 2 * pi - 0.8, 12), rng.uniform(0, (0.05, 0.2, 0.8)[seed % 3], 12)
        p, q, c = np.cos(middle), np.sin(middle), np.cos(half)
        host, compiled = by_numpy(p, q, c), by_jax(p, q, c)
        gaps.add(len(np.unique(host.at[host.width > 0])))
        tau = np.linspace(-float(host.length) * 0.999, float(host.length) * 0.999, 101)
        np.testing.assert_allclose([compiled.angle(t) for t in tau], [host.angle(t) for t in tau], atol=1e-12)
    assert {1, 2, 6, 9} <= gaps


def test_ends_of_an_interval_meet_the_bound():
    p, q, c = constraints(3, 500, 0.0)
    low, high = forbidden_intervals(p, q, c)
    met = high > low
    assert met.sum() > 100
    for ends in (low, high):
        at = np.cos(ends) * p + np.sin(ends) * q
        np.testing.assert_allclose(at[met], c[met], atol=1e-12)
    outside = np.hypot(p, q) <= c
    np.testing.assert_array_equal(outside, ~met)


@pytest.mark.parametrize("make", [by_numpy, by_jax])
def test_nothing_met_is_the_whole_circle(make):
    arcs = make([0.5, -1.0, 0.0], [1.0, 0.3, 0.0], [2.0, np.inf, 0.0])
    assert arcs.length == 2 * pi
    for tau in (-6.28, -1e-300, 0.0, 1e-300, 3.0, 6.28):
        assert arcs.angle(tau) == tau


@pytest.mark.parametrize("make", [by_numpy, by_jax])
@pytest.mark.parametrize("beyond", [0.0, 1e-16])
@pytest.mark.parametrize("c", [2.0, 1e-3, 0.0, -2.0])
@pytest.mark.parametrize("q", [0.7, -0.7])
def test_a_constraint_met_at_the_current_state(q, c, beyond, make):
    """An active constraint excludes one side: the current state is the end of an arc, even if rounded beyond it."""
    arcs = make([c + beyond], [q], [c])
    gap = 2 * np.arctan2(abs(q), c)
    assert arcs.length == pytest.approx(2 * pi - gap, abs=1e-12)
    forward, backward = arcs.angle(1e-9), arcs.angle(-1e-9)
    if q > 0:
        assert forward == pytest.approx(gap + 1e-9, abs=1e-12)
        assert backward == -1e-9
    else:
        assert forward == 1e-9
        assert backward == pytest.approx(-gap - 1e-9, abs=1e-12)


@pytest.mark.parametrize("make", [by_numpy, by_jax])
def test_a_corner_from_which_no_arc_leads(make):
    arcs = make([0.0, 0.0], [1.0, -1.0], [0.0, 0.0])  # f = 0 between f <= 0 and -f <= 0
    assert arcs.length == pytest.approx(0.0, abs=1e-12)
    assert abs(sin(arcs.angle(0.0))) < 1e-12


@pytest.mark.parametrize("make", [by_numpy, by_jax])
def test_the_same_constraint_twice_is_the_constraint(make):
    p, q, c = constraints(5, 6, 0.0)
    once, twice = make(p, q, c), make(*(np.concatenate([part, part]) for part in (p, q, c)))
    assert twice.length == pytest.approx(once.length, abs=1e-14)
    for u in np.linspace(0.01, 0.99, 25):
        assert twice.angle(u * once.length) == pytest.approx(once.angle(u * once.length), abs=1e-13)


def test_small_angles_keep_their_digits():
    arcs = by_numpy([0.1, -0.4], [3.0, 2.0], [0.5, 0.2])
    assert (arcs.width > 0).any()
    for tau in (1e-20, -1e-20, 3e-9, -3e-9):
        assert arcs.angle(tau) == tau


@pytest.mark.parametrize("seed", range(6))
def test_every_point_of_the_arcs_sees_the_same_arcs(seed):
    """First half of reversibility: from f' the same points are allowed, so that positions are only shifted."""
    p, q, c = constraints(seed, 9, 0.5)
    arcs = by_numpy(p, q, c)
    for u in (0.2, 0.55, 0.9):
        tau = u * arcs.length
        theta = arcs.angle(tau)
        turned = by_numpy(cos(theta) * p + sin(theta) * q, cos(theta) * q - sin(theta) * p, c)
        assert turned.length == pytest.approx(arcs.length, abs=1e-9)
        for v in (0.1, 0.4, 0.8):
            there = arcs.angle(v * arcs.length)
            seen = theta + turned.angle((v - u) * arcs.length)
            assert (seen - there + pi) % (2 * pi) - pi == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))])
def test_the_search_is_reversible(seed):
    """Second half of reversibility, in exact arithmetic: equation (12) on a circle as long as the arcs."""
    arcs = by_numpy(*constraints(seed, 5, 0.5))
    check_reversible(AlongArcs(arcs), turn=float(arcs.length), seed=seed)


class StartsInTheMiddle(AlongArcs):
    """An injected bug that hardly changes moments: a bracket that is symmetric about the current state."""

    def begin(self, here, place, u):
        half = self.arcs.length / 2
        return -half + 2 * half * u, -half, half


class EndsAtAFullTurn(AlongArcs):
    """An injected bug: the bracket has the length of the whole ellipse, although the circle is shorter."""

    def begin(self, here, place, u):
        tau = self.arcs.length * u
        return tau, tau - 2 * pi, tau


@pytest.mark.parametrize("planted", [StartsInTheMiddle, EndsAtAFullTurn])
def test_a_wrong_bracket_is_caught(planted):
    arcs = by_numpy(*constraints(1, 5, 0.5))
    with pytest.raises(AssertionError, match="not reversible"):
        check_reversible(planted(arcs), turn=float(arcs.length))


def clips(p, q, c):
    """An injected bug: arcs from arc cosines, without care for rounding at an active constraint."""
    radius = np.hypot(p, q)
    middle, half = np.arctan2(q, p), np.arccos(np.clip(c / radius, -1, 1))
    return np.sort(np.stack([(middle - half) % (2 * pi), (middle + half) % (2 * pi)]), 0)


def test_careless_ends_are_caught(monkeypatch):
    monkeypatch.setattr("ellipslice.moves.constrained_arcs.forbidden_intervals", clips)
    caught = 0
    for q, c, beyond in itertools.product((0.7, -0.7), (2.0, 1e-3, -2.0), (0.0, 1e-16)):
        try:
            test_a_constraint_met_at_the_current_state(q, c, beyond, by_numpy)
        except AssertionError:
            caught += 1
    assert caught >= 3
