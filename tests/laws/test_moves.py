"""Property tests of every move in the catalogue."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import ellipslice.moves as moves
from catalogue import MOVES, SEEDS
from ellipslice.engines.host import search as host_search
from ellipslice.engines.host.angles import AngleTable
from ellipslice.engines.host.engine import HostTarget
from ellipslice.moves import Cycle, Search, State
from ellipslice.moves.search import WIDTH
from ellipslice.noise import NoiseSpec, UpdateNoise, draw_block
from ellipslice.priors import Diagonal
from ellipslice.testing import check_move
from ellipslice.testing.search import check_curve, check_level, noise_of_an_update

EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)
EVERY = pytest.mark.parametrize("name", MOVES)
ON_THE_HOST = pytest.mark.parametrize("name", [name for name, make in MOVES.items() if not make().gradients])
SEARCHES = pytest.mark.parametrize("name", [name for name, make in MOVES.items() if isinstance(make(), Search)])

NORMALS = Diagonal(np.ones(2))


def test_the_catalogue_has_every_move():
    assert {type(make()) for make in MOVES.values()} == set(moves.REGISTERED)


@pytest.mark.short_cases("EllipticalSlice-0", "NealMetropolis-0", "ReferenceSlice-0")
@EVERY_SEED
@EVERY
def test_the_laws_of_moves(name, seed):
    check_move(MOVES[name](), seed=seed)


@EVERY
def test_moves_are_values(name):
    # Compiled code is used again for an equal move, so moves with equal settings must be equal and hashable.
    one, two = MOVES[name](), MOVES[name]()
    assert one == two
    assert hash(one) == hash(two)
    assert repr(one) == repr(two)
    others = [make() for other, make in MOVES.items() if other != name]
    assert all(one != other for other in others)


@ON_THE_HOST
def test_nans_are_counted_one_by_one(name):
    move, rng = MOVES[name](), np.random.default_rng(0)
    values: list[float] = []

    def log_likelihood(f):
        values.append(math.nan if f[0] < 0.2 else -math.inf if f[1] > 1 else -float(f @ f))
        return values[-1]

    prepared = move.prepare(NORMALS)
    target = HostTarget(log_likelihood, prepared)
    state, seen = State(np.array([0.5, 0.5]), -0.5), 0
    for _ in range(500):
        values.clear()
        state, info = move.step(noise_of_an_update(move, NORMALS, rng, prepared), state, target)
        assert info.nan_evaluations == sum(value != value for value in values)
        assert info.evaluations == len(values)
        assert not info.search_failed
        assert state.log_likelihood == -float(state.f @ state.f)
        seen += info.nan_evaluations
    assert seen > 40


@EVERY_SEED
@SEARCHES
def test_a_search_stops_at_the_first_point_above_its_level(name, seed):
    check_level(MOVES[name](), seed)


@EVERY_SEED
@SEARCHES
def test_the_curve_is_an_ellipse_through_the_current_state(name, seed):
    check_curve(MOVES[name](), seed)


@SEARCHES
def test_the_bracket_always_holds_the_current_state(name):
    # The arithmetic is exact, and the sequence of angles is random.
    move = MOVES[name]()
    rng = np.random.default_rng(1)
    for _ in range(100):
        place, first, *rest = (Fraction(int(n), 2**16) for n in rng.integers(0, 2**16, 30))
        here = Fraction(move.here(float(place)))
        theta, low, high = (Fraction(part) for part in move.begin(float(here), float(place), float(first)))
        for u in rest:
            assert low <= here <= high
            assert low <= theta <= high
            low_before, high_before = low, high
            low, high = move.shrink(theta, low, high, here)
            assert low_before <= low <= high <= high_before
            assert high - low < high_before - low_before or theta in (low_before, high_before)
            theta = move.propose(low, high, u)


def test_a_cycle_makes_its_moves_in_turn():
    # Each move uses its own part of the random numbers, and starts where the previous one ended.
    rng = np.random.default_rng(0)
    one, two = MOVES["EllipticalSlice, narrow"](), MOVES["AuxiliaryEllipse"]()
    cycle = Cycle(one, Cycle(two, one))
    assert cycle.searches == 3
    prepared = cycle.prepare(NORMALS)
    target = HostTarget(lambda f: -8 * float((f - 1) @ (f - 1)), prepared)
    state = State(np.zeros(2), -16.0)
    for _ in range(20):
        noise = noise_of_an_update(cycle, NORMALS, rng, prepared)
        expected, evaluations, info = state, 0, None
        for i, move in enumerate((one, two, one)):
            expected, info = move.step(UpdateNoise(*(field[i : i + 1] for field in noise)), expected, target)
            evaluations += info.evaluations
        state, together = cycle.step(noise, state, target)
        np.testing.assert_array_equal(state.f, expected.f)
        assert state.log_likelihood == expected.log_likelihood
        assert (together.evaluations, together.angle, together.search_failed) == (evaluations, info.angle, False)


def test_a_cycle_is_stuck_if_one_of_its_moves_is():
    # The first move finds no point, because the first thousand evaluations fail. The second finds one immediately.
    calls = iter(range(10**6))
    cycle = Cycle(MOVES["EllipticalSlice"](), MOVES["EllipticalSlice"]())
    prepared = cycle.prepare(NORMALS)
    target = HostTarget(lambda f: -math.inf if next(calls) < 1000 else 0.0, prepared)
    noise = noise_of_an_update(cycle, NORMALS, np.random.default_rng(0), prepared)
    state, info = cycle.step(noise, State(np.ones(2), 0.0), target)
    assert (info.search_failed, info.evaluations, info.nan_evaluations) == (True, 1001, 0)
    assert info.angle != 0
    assert state.log_likelihood == 0.0


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Cycle(), ValueError, "at least one move"),
        (lambda: Cycle("EllipticalSlice"), TypeError, "str"),
        (lambda: Cycle(moves.EllipticalSlice), TypeError, "EllipticalSlice"),
        *[
            (lambda width=width: moves.EllipticalSlice(bracket_width=width), ValueError, "bracket_width")
            for width in (0.0, -1.0, 6.3, math.inf, math.nan)
        ],
        (lambda: moves.EllipticalSlice(shrinking="third"), ValueError, "shrinking"),
    ],
)
def test_settings_that_make_no_move_are_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()


@pytest.mark.parametrize("name", [name for name in MOVES if isinstance(MOVES[name](), Search)])
def test_tabled_angles_are_those_of_the_loop_however_many(name):
    """The angles are bit-identical over several sheets, because each sheet continues the bracket of the last one."""
    move = MOVES[name]()
    uniforms = draw_block(NoiseSpec.from_prior(NORMALS, 2), 3, 0, 0, 16).uniforms[:, 0]
    table = AngleTable(move, uniforms)
    for update in range(16):
        u = uniforms[update]
        here = move.here(u(0))
        theta, theta_min, theta_max = move.begin(here, u(0), u(1))
        for number in range(150):
            assert table.angle(update, number) == move.angle(here, theta)
            sheet, column = divmod(number, WIDTH)
            assert table.sheet(update, sheet)[column] == theta
            theta_min, theta_max = move.shrink(theta, theta_min, theta_max, here)
            theta = move.propose(theta_min, theta_max, u(number + 2))


def test_a_sheet_of_angles_is_a_whole_number_of_groups(monkeypatch):
    """A group of points takes all its angles from one sheet."""
    assert {WIDTH % host_search.group_size(size) for size in range(1, 10_000, 7)} == {0}
    monkeypatch.setattr(host_search, "WIDTH", 31)
    with pytest.raises(ValueError, match="31 angles cannot be divided into groups of 16 points"):
        host_search.group_size(7)
