"""Figure 2 (and Figure 1) branch by branch, with given random numbers and without tolerance.

On the ellipse spanned by f = (1, 0) and nu = (0, 1) the state at theta is (cos theta, sin theta) without rounding. So
the points at which the likelihood is called show exactly which angles were tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import cos, exp, inf, nan, pi, sin

import numpy as np
import pytest

import ellipslice as es
from ellipslice.moves import AuxiliaryEllipse, EllipticalSlice, Info, State, auxiliary
from ellipslice.moves.search import MAX_EVALUATIONS, search

TURN = 2 * pi
F, NU = np.array([1.0, 0.0]), np.array([0.0, 1.0])
HIT, MISS = 0.0, -5.0  # log-likelihoods above and below the level, which is 1 below the log-likelihood 0 of the state


class Script:
    """Uniforms by number, as given. A number that was not given is an error."""

    def __init__(self, *uniforms):
        self.uniforms, self.asked = uniforms, []

    def __call__(self, number):
        self.asked.append(number)
        return self.uniforms[number]


class Likelihood:
    """A likelihood that returns the given values in order, and records the points at which it is called."""

    def __init__(self, *values):
        self.values, self.points = list(values), []

    def __call__(self, f):
        self.points.append(np.array(f))
        return self.values[len(self.points) - 1]

    @property
    def calls(self):
        return len(self.points)


@dataclass(frozen=True)
class Watched(EllipticalSlice):
    """Elliptical slice sampling that records its brackets."""

    brackets: list = field(default_factory=list, compare=False)

    def begin(self, here, place, u):
        theta, *bracket = super().begin(here, place, u)
        self.brackets.append(tuple(bracket))
        return theta, *bracket

    def shrink(self, theta, theta_min, theta_max, here):
        bracket = super().shrink(theta, theta_min, theta_max, here)
        self.brackets.append(bracket)
        return bracket


def run(move, uniforms, values, level=1.0, state=None):
    """Run one search. Return its results, the points that it tried and the numbers of the uniforms that it used."""
    script, likelihood = Script(*uniforms), Likelihood(*values)
    state = State(F, 0.0) if state is None else state
    new, info = search(move, NU, level, script, state, likelihood)
    return new, info, likelihood.points, script.asked


def on_circle(*angles):
    return [[cos(theta), sin(theta)] for theta in angles]


# --- Figure 2 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("u", [0.0, 0.1, 0.25, 0.5, 0.7, 1 - 2.0**-53])
def test_accepts_at_once(u):
    move = Watched()
    new, info, points, asked = run(move, [0.9, u], [HIT])
    theta = TURN * u
    np.testing.assert_array_equal(points, on_circle(theta))
    np.testing.assert_array_equal(new.f, [cos(theta), sin(theta)])
    assert new.log_likelihood == HIT
    assert info == Info(evaluations=1, nan_evaluations=0, search_failed=False, angle=theta)
    assert move.brackets == [(theta - TURN, theta)]  # step 3
    assert asked == [0, 1]


def test_shrinks_from_above():
    # Angles at or above 0 are rejected: theta_max decreases, theta_min stays.
    move = Watched()
    new, info, points, _ = run(move, [0.0, 0.25, 0.9, 0.95, 0.1], [MISS, MISS, MISS, HIT])
    first = TURN * 0.25
    low = first - TURN
    second = low + 0.9 * (first - low)
    third = low + 0.95 * (second - low)
    fourth = low + 0.1 * (third - low)
    assert second > third > 0 > fourth
    assert move.brackets == [(low, first), (low, first), (low, second), (low, third)]
    np.testing.assert_array_equal(points, on_circle(first, second, third, fourth))
    assert info == Info(4, 0, False, fourth)
    np.testing.assert_array_equal(new.f, [cos(fourth), sin(fourth)])


def test_shrinks_from_below():
    # Angles below 0 are rejected: theta_min increases, theta_max stays, except for the first, which is itself an end.
    move = Watched()
    new, info, points, _ = run(move, [0.0, 0.75, 0.1, 0.05, 0.5], [MISS, MISS, MISS, HIT])
    first = TURN * 0.75
    low = first - TURN
    second = low + 0.1 * (first - low)
    third = second + 0.05 * (first - second)
    fourth = third + 0.5 * (first - third)
    assert second < third < 0 < fourth
    assert move.brackets == [(low, first), (low, first), (second, first), (third, first)]
    np.testing.assert_array_equal(points, on_circle(first, second, third, fourth))
    assert info == Info(4, 0, False, fourth)
    np.testing.assert_array_equal(new.f, [cos(fourth), sin(fourth)])


def test_shrinks_from_both_sides_in_turn():
    move = Watched()
    uniforms = [0.0, 0.5, 0.2, 0.9, 0.05, 0.99, 0.5]
    _, info, points, asked = run(move, uniforms, [MISS] * 5 + [HIT])
    angles, low, high = [TURN * 0.5], TURN * 0.5 - TURN, TURN * 0.5
    brackets = [(low, high)]
    for u in uniforms[2:]:
        if angles[-1] < 0:
            low = angles[-1]
        else:
            high = angles[-1]
        brackets.append((low, high))
        angles.append(low + u * (high - low))
    assert [theta < 0 for theta in angles] == [False, True, False, True, False, False]
    assert move.brackets == brackets
    np.testing.assert_array_equal(points, on_circle(*angles))
    assert info == Info(6, 0, False, angles[-1])
    assert asked == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0, 700.0])
def test_the_threshold_is_strict(level):
    # log L(f') > log y: a value equal to the level is rejected, and the next larger float is accepted.
    log_y = 0.25 - level
    above = float(np.nextafter(log_y, inf))
    new, info, _, _ = run(EllipticalSlice(), [0.5] * 4, [log_y, log_y, above], level, State(F, 0.25))
    assert (new.log_likelihood, info.evaluations) == (above, 3)


def test_the_level_is_below_the_current_log_likelihood():
    # Step 2. With u = exp(-level), log y = log L + log u.
    for log_likelihood, level in [(-3.0, 0.7), (1e6, 1e-3), (-1e-300, 2.0)]:
        log_y = log_likelihood - level
        values = [float(np.nextafter(log_y, -inf)), log_y, float(np.nextafter(log_y, inf))]
        new, _, _, _ = run(EllipticalSlice(), [0.5] * 4, values, level, State(F, log_likelihood))
        assert new.log_likelihood == values[-1]
        assert exp(log_y - log_likelihood) == pytest.approx(exp(-level), rel=1e-6)


@pytest.mark.parametrize("shrinking", ["cut", "halve", "other_half"])
@pytest.mark.parametrize("width", [TURN, 1.0])
def test_nan_and_minus_infinity_are_rejected_and_nan_is_counted(width, shrinking):
    move = EllipticalSlice(width, shrinking)
    new, info, _, _ = run(move, [0.3] * 9, [nan, -inf, nan, float("-nan"), -inf, MISS, HIT])
    assert new.log_likelihood == HIT
    assert (info.evaluations, info.nan_evaluations, info.search_failed) == (7, 3, False)


def test_a_nan_shrinks_the_bracket_as_any_rejection_does():
    one, two = Watched(), Watched()
    uniforms = [0.1, 0.2, 0.3, 0.8, 0.6]
    _, first, points, _ = run(one, uniforms, [nan, nan, nan, HIT])
    _, second, same, _ = run(two, uniforms, [MISS, -inf, MISS, HIT])
    np.testing.assert_array_equal(points, same)
    assert one.brackets == two.brackets
    assert first == second._replace(nan_evaluations=3)


def test_an_angle_of_exactly_zero_is_the_current_state():
    state = State(np.array([0.3, -0.7]), 0.0)
    new, info, points, _ = run(EllipticalSlice(), [0.0, 0.0], [0.0], 1.0, state)
    np.testing.assert_array_equal(points, [state.f])
    np.testing.assert_array_equal(new.f, state.f)
    assert info == Info(1, 0, False, 0.0)


def test_an_angle_of_exactly_zero_that_is_rejected_ends_the_bracket_from_above():
    # Only a level of 0 can reject the current state. Then theta_max becomes 0, or the state would leave its bracket.
    move = Watched()
    _, info, _, _ = run(move, [0.0, 0.0, 0.5], [0.0, 1.0], level=0.0)
    assert move.brackets == [(-TURN, 0.0), (-TURN, 0.0)]
    assert info.angle == -pi


def test_the_search_gives_up_and_stays():
    state, likelihood = State(F, 0.0), Likelihood(*[-inf] * (MAX_EVALUATIONS + 1))
    new, info = search(EllipticalSlice(), NU, 1.0, lambda number: 0.4, state, likelihood)
    assert new is state
    assert info == Info(MAX_EVALUATIONS, 0, True, 0.0)
    assert likelihood.calls == MAX_EVALUATIONS


def test_the_search_gives_up_on_nan():
    state = State(F, 0.0)
    new, info = search(EllipticalSlice(), NU, 1.0, lambda number: 0.4, state, lambda f: nan)
    assert new is state
    assert info == Info(MAX_EVALUATIONS, MAX_EVALUATIONS, True, 0.0)


def test_the_last_evaluation_allowed_may_succeed():
    likelihood = Likelihood(*[-inf] * (MAX_EVALUATIONS - 1), HIT)
    new, info = search(EllipticalSlice(), NU, 1.0, lambda number: 0.4, State(F, 0.0), likelihood)
    assert new.log_likelihood == HIT
    assert (info.evaluations, info.search_failed) == (MAX_EVALUATIONS, False)


def test_the_old_state_and_the_draw_are_left_alone():
    f, nu = F.copy(), NU.copy()
    search(EllipticalSlice(), nu, 1.0, lambda number: 0.4, State(f, 0.0), Likelihood(MISS, MISS, HIT))
    np.testing.assert_array_equal(f, F)
    np.testing.assert_array_equal(nu, NU)


def test_figure_2_written_out():
    """The pseudo-code of the paper, written out, gives a thousand updates bit-identical to the library's."""
    rng = np.random.default_rng(0)

    def log_likelihood(f):
        return -12 * float((f[0] - 0.6) ** 2 + (f[1] + 0.2) ** 2)

    ours = theirs = State(np.array([0.1, 0.2]), log_likelihood(np.array([0.1, 0.2])))
    evaluations = 0
    for _ in range(1000):
        nu, level, uniforms = rng.standard_normal(2), rng.standard_exponential(), rng.random(80).tolist()
        ours, info = search(EllipticalSlice(), nu, level, uniforms.__getitem__, ours, log_likelihood)
        numbers = iter(uniforms[1:])
        log_y = theirs.log_likelihood - level
        theta = TURN * next(numbers)
        theta_min, theta_max = theta - TURN, theta
        count = 0
        while True:
            count += 1
            proposal = theirs.f * cos(theta) + nu * sin(theta)
            if log_likelihood(proposal) > log_y:
                theirs = State(proposal, log_likelihood(proposal))
                break
            if theta < 0:
                theta_min = theta
            else:
                theta_max = theta
            theta = theta_min + next(numbers) * (theta_max - theta_min)
        np.testing.assert_array_equal(ours.f, theirs.f)
        assert ours.log_likelihood == theirs.log_likelihood
        assert info == Info(count, 0, False, theta)
        evaluations += count
    assert evaluations > 3000


# --- Section 2.4: a narrower bracket --------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [0.25, 1.0, 3.0, 6.28])
def test_a_narrower_bracket_is_placed_at_random(width):
    move = Watched(width)
    place, u, again = 0.7, 0.2, 0.6
    _, info, points, asked = run(move, [place, u, again], [MISS, HIT])
    low = -width * place
    first = low + width * u
    second = first + again * (low + width - first)
    assert first < 0
    assert move.brackets == [(low, low + width), (first, low + width)]
    np.testing.assert_array_equal(points, on_circle(first, second))
    assert info.angle == second
    assert asked == [0, 1, 2]


def test_the_ends_of_a_narrower_bracket_are_not_tried():
    move = EllipticalSlice(1.0)
    for place in (0.0, 0.3, 1 - 2.0**-53):
        for u in (0.1, 0.5, 0.9):
            _, _, points, _ = run(move, [place, u], [HIT])
            np.testing.assert_array_equal(points, on_circle(-1.0 * place + 1.0 * u))


# --- Skilling & MacKay: halving -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "halves",
    [
        [(-0.5, 0.5), (-0.5, 0.0), (-0.25, 0.0), (-0.125, 0.0)],
        [(-0.75, 0.25), (-0.25, 0.25), (-0.25, 0.0), (-0.125, 0.0)],
        [(-1.25, 0.75), (-0.25, 0.75), (-0.25, 0.25), (-0.25, 0.0)],
        [(-0.25, 1.75), (-0.25, 0.75), (-0.25, 0.25), (-0.25, 0.0)],
        [(0.0, 2.0), (0.0, 1.0), (0.0, 0.5), (0.0, 0.25)],
    ],
)
def test_halving_keeps_the_half_with_the_current_state(halves):
    # The numbers have short binary expansions, so that nothing is rounded. The current state is at 0, which counts as
    # left.
    width = halves[0][1] - halves[0][0]
    place = -halves[0][0] / width
    for u in (0.0, 0.25, 0.75):  # for any angle that is rejected
        move = Watched(width, "halve")
        run(move, [place, u, u, 0.5, u], [MISS, nan, -inf, HIT])
        assert move.brackets == halves


def test_halving_tries_angles_in_the_half_that_is_kept():
    move = Watched(2.0, "halve")
    _, info, points, _ = run(move, [0.625, 0.0, 0.25, 0.75], [MISS, MISS, HIT])
    np.testing.assert_array_equal(points, on_circle(-1.25, -0.25 + 0.25 * 1.0, -0.25 + 0.75 * 0.5))
    assert info == Info(3, 0, False, 0.125)


def test_halving_from_a_full_turn_begins_as_figure_2_does():
    move = Watched(shrinking="halve")
    _, _, points, _ = run(move, [0.0, 0.25, 0.5], [MISS, HIT])
    theta = TURN * 0.25
    low = theta - TURN
    middle = (low + theta) / 2
    assert middle < 0
    assert move.brackets == [(low, theta), (middle, theta)]
    np.testing.assert_array_equal(points, on_circle(theta, middle + 0.5 * (theta - middle)))


# --- Proposals in the other half of the bracket ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("halves", "proposals"),
    [
        ([(-0.5, 0.5), (-0.5, 0.0), (-0.25, 0.0)], [0.125, -0.4375, -0.21875]),
        ([(-0.75, 0.25), (-0.25, 0.25), (-0.25, 0.0)], [-0.625, 0.0625, -0.21875]),
        ([(-0.25, 1.75), (-0.25, 0.75), (-0.25, 0.25)], [1.0, 0.375, 0.0625]),
    ],
)
def test_proposals_are_in_the_half_without_the_current_state(halves, proposals):
    # Each proposal is at a quarter of that half. A current state in the middle counts as left.
    width = halves[0][1] - halves[0][0]
    move = Watched(width, "other_half")
    _, info, points, _ = run(move, [-halves[0][0] / width, 0.25, 0.25, 0.25], [MISS, nan, HIT])
    np.testing.assert_array_equal(points, on_circle(*proposals))
    assert move.brackets == halves
    assert info == Info(3, 1, False, proposals[-1])


# --- Figure 1: the auxiliary-variable algorithm ---------------------------------------------------------------------


def test_figure_1_written_out():
    """The pseudo-code of the paper's Figure 1, written out, gives the library's updates."""
    rng = np.random.default_rng(0)

    def log_likelihood(f):
        return -12 * float((f[0] - 0.6) ** 2 + (f[1] + 0.2) ** 2)

    ours = theirs = State(np.array([0.1, 0.2]), log_likelihood(np.array([0.1, 0.2])))
    for _ in range(500):
        nu, level, uniforms = rng.standard_normal(2), rng.standard_exponential(), rng.random(80).tolist()
        ours, info = search(AuxiliaryEllipse(), nu, level, uniforms.__getitem__, ours, log_likelihood)
        numbers = iter(uniforms)
        here = TURN * next(numbers)
        nu_0 = theirs.f * sin(here) + nu * cos(here)
        nu_1 = theirs.f * cos(here) - nu * sin(here)
        log_y = theirs.log_likelihood - level
        theta_min, theta_max, count = 0.0, TURN, 0
        theta = TURN * next(numbers)
        while True:
            count += 1
            proposal = nu_0 * sin(theta) + nu_1 * cos(theta)
            if log_likelihood(proposal) > log_y:
                theirs = State(proposal, log_likelihood(proposal))
                break
            if theta < here:
                theta_min = theta
            else:
                theta_max = theta
            theta = theta_min + next(numbers) * (theta_max - theta_min)
        np.testing.assert_array_equal(ours.f, theirs.f)
        assert ours.log_likelihood == theirs.log_likelihood
        assert info == Info(count, 0, False, theta - here)


def test_the_auxiliary_draws_at_angle_zero():
    nu_0, nu_1 = AuxiliaryEllipse().curve(F, NU, 0.0)
    np.testing.assert_array_equal(nu_0, NU)
    np.testing.assert_array_equal(nu_1, F)


def rotation(tangent):
    """Return the cosine and sine of an angle, given the tangent of its half. They are rational for rational numbers."""
    square = tangent * tangent
    return (1 - square) / (1 + square), 2 * tangent / (1 + square)


def test_the_auxiliary_draws_stand_for_the_current_state(monkeypatch):
    # Equation (6) in rational arithmetic: f = nu_0 sin(theta) + nu_1 cos(theta), with nu_0, nu_1 a rotation of f, nu.
    monkeypatch.setattr(auxiliary, "cos_sin", rotation)
    move = AuxiliaryEllipse()
    for tangent in (Fraction(0), Fraction(1, 2), Fraction(-7, 3), Fraction(22, 9)):
        for f, nu in ((Fraction(3, 7), Fraction(-5, 2)), (Fraction(0), Fraction(1)), (Fraction(-1), Fraction(9, 4))):
            nu_0, nu_1 = move.curve(f, nu, tangent)
            w_0, w_1 = move.weights(tangent)
            assert nu_0 * w_0 + nu_1 * w_1 == f
            assert nu_0**2 + nu_1**2 == f**2 + nu**2


@pytest.mark.parametrize("place", [0.0, 0.3, 0.75])
def test_the_bracket_of_figure_1_is_the_whole_range(place):
    assert AuxiliaryEllipse().begin(TURN * place, place, 0.25) == (TURN * 0.25, 0.0, TURN)


# --- step(): Figure 2 by itself -------------------------------------------------------------------------------------


def steps(shape, count=30, cached=False, **options):
    """Return a chain that was made with `step`, and the number of likelihood calls in each update."""
    rng, calls = np.random.default_rng(3), [0]

    def log_likelihood(f):
        calls[-1] += 1
        assert np.shape(f) == shape
        return -4 * float(np.sum((np.asarray(f) - 1) ** 2))

    f, value, out = np.zeros(shape), None, []
    for _ in range(count):
        calls.append(0)
        known = value if cached else None
        f, value, info = es.step(
            f, rng.standard_normal(shape), log_likelihood, rng=rng, log_likelihood_f=known, **options
        )
        out.append((np.array(f), value, info))
        assert np.shape(f) == shape
        assert isinstance(value, float)
    return out, calls[1:]


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1, 2), (1, 1, 1, 1)])
@pytest.mark.parametrize("width", [TURN, 0.5])
def test_step_takes_any_shape_and_a_cached_value_saves_one_evaluation(shape, width):
    plain, calls = steps(shape, bracket_width=width)
    cached, fewer = steps(shape, cached=True, bracket_width=width)
    assert calls == [info.evaluations + 1 for _, _, info in plain]
    assert fewer == [calls[0]] + [count - 1 for count in calls[1:]]
    for (f, value, info), (same, again, too) in zip(plain, cached, strict=True):
        np.testing.assert_array_equal(f, same)
        assert (value, info) == (again, too)
        assert value == -4 * float(np.sum((f - 1) ** 2))


def test_step_returns_an_array_of_the_same_shape_even_for_one_number():
    f, _, _ = es.step(0.5, -0.3, lambda f: -(float(f) ** 2), rng=np.random.default_rng(0))
    assert isinstance(f, np.ndarray)
    assert f.shape == ()


def test_step_is_a_search_with_the_generator_s_numbers():
    for width in (TURN, 1.5):
        f, nu = np.array([0.5, -1.0]), np.array([0.2, 1.4])

        def log_likelihood(f):
            return -9 * float(f @ f)

        got = es.step(f, nu, log_likelihood, rng=np.random.default_rng(7), bracket_width=width)
        rng = np.random.default_rng(7)
        level = rng.standard_exponential()
        numbers = rng.random(50).tolist()
        move, state = EllipticalSlice(width), State(f, log_likelihood(f))
        new, info = search(move, nu, level, numbers.__getitem__, state, log_likelihood)
        np.testing.assert_array_equal(got[0], new.f)
        assert got[1:] == (new.log_likelihood, info)
        assert info.evaluations > 1


def test_step_takes_lists_and_leaves_its_arguments_alone():
    f, nu = [0.5, -1.0], [1, 2]
    new, _, _ = es.step(f, nu, lambda f: -float(f @ f), rng=np.random.default_rng(0))
    assert (f, nu) == ([0.5, -1.0], [1, 2])
    array = np.array(f)
    same, _, _ = es.step(array, np.array(nu), lambda f: -float(f @ f), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(new, same)
    np.testing.assert_array_equal(array, f)


def test_step_can_get_stuck_and_says_so():
    f = np.ones(2)
    with pytest.warns(UserWarning, match="kept the state"):
        new, value, info = es.step(f, NU, lambda f: -inf, rng=np.random.default_rng(0), log_likelihood_f=-1.0)
    np.testing.assert_array_equal(new, f)
    assert (value, info) == (-1.0, Info(MAX_EVALUATIONS, 0, True, 0.0))


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        ((F, np.zeros(3), lambda f: 0.0), {}, ValueError, r"\(2,\).*\(3,\)"),
        ((F, np.zeros((2, 1)), lambda f: 0.0), {}, ValueError, "shape"),
        ((F, NU, lambda f: -inf), {}, ValueError, "-inf"),
        ((F, NU, lambda f: nan), {}, ValueError, "nan"),
        ((F, NU, lambda f: inf), {}, ValueError, "inf"),
        ((F, NU, lambda f: 0.0), {"log_likelihood_f": nan}, ValueError, "nan"),
        ((F, NU, lambda f: 0.0), {"log_likelihood_f": -inf}, ValueError, "-inf"),
        ((F, NU, lambda f: 0.0 if f is F else inf), {"log_likelihood_f": 0.0}, ValueError, r"\+inf"),
        ((F, NU, lambda f: 0.0), {"rng": np.random}, TypeError, "Generator"),
        ((F, NU, lambda f: 0.0), {"rng": 1}, TypeError, "Generator"),
        ((F, NU, lambda f: 0.0), {"rng": np.random.RandomState(0)}, TypeError, "Generator"),
        ((F, NU, lambda f: 0.0), {"bracket_width": 0.0}, ValueError, "bracket_width"),
        ((F, NU, lambda f: 0.0), {"bracket_width": 7.0}, ValueError, "bracket_width"),
        ((F, NU, lambda f: f), {}, (TypeError, ValueError), "one real number|one number"),
        ((F, NU, lambda f: "-1.0"), {}, (TypeError, ValueError), "one real number|one number"),
    ],
)
def test_step_refuses(arguments, options, error, says):
    with pytest.raises(error, match=says):
        es.step(*arguments, **{"rng": RNG, **options})


def test_step_needs_a_generator_by_name():
    with pytest.raises(TypeError, match="rng"):
        es.step(F, NU, lambda f: 0.0)  # type: ignore[call-arg]
