"""Injected bugs in moves and in their search: each is detected by the check that is meant for it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, pi

import jax
import numpy as np
import pytest
from jax.core import Tracer
from jax.tree_util import Partial
from scipy import stats

from catalogue import MOVES, SEEDS
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.moves import AuxiliaryEllipse, EllipticalSlice, Info, Move, State
from ellipslice.moves.elliptical import EllipticalPath
from ellipslice.moves.search import search
from ellipslice.posterior import Posterior
from ellipslice.priors import Diagonal
from ellipslice.testing import check_move, check_reversible
from ellipslice.testing import move as testing_move
from ellipslice.testing.search import check_curve, check_level
from engine_rows import begin, columns, finish
from seams import replace_host_search

EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)

# --- brackets: detected by `check_reversible` -----------------------------------------------------------------------


class FixedBracket(EllipticalSlice):
    """The bracket is always [-pi, pi]: "not valid" (Section 2.4 of the paper), although no moment shows it."""

    def begin(self, here, place, u):
        return 2 * pi * u - pi, -pi, pi


class FixedBracketStartingAtItsEnd(EllipticalSlice):
    """Figure 2 with the bracket [-pi, pi] and a first proposal at its end."""

    def begin(self, here, place, u):
        return pi + 0 * u, -pi + 0 * u, pi + 0 * u


class WrongSide(EllipticalSlice):
    """Removes the side of the bracket that contains the current state."""

    def shrink(self, theta, theta_min, theta_max, here):
        return super().shrink(-theta, theta_min, theta_max, here)


class CutsTheOther(EllipticalSlice):
    """Step 8 with its two branches exchanged."""

    def shrink(self, theta, theta_min, theta_max, here):
        below = theta < here
        return (theta_min, theta) if below else (theta, theta_max)


class NarrowFromItsEdge(EllipticalSlice):
    """A narrow bracket used as Figure 2 uses the whole ellipse: its end is the first proposal."""

    def begin(self, here, place, u):
        theta_min = -self.bracket_width * place
        return theta_min + self.bracket_width, theta_min, theta_min + self.bracket_width


class NarrowAlwaysInTheMiddle(EllipticalSlice):
    """A narrow bracket with the current state always in its middle instead of at a random position."""

    def begin(self, here, place, u):
        width = self.bracket_width
        return width * (u - 0.5), -width / 2, width / 2


class HalvesBothEnds(EllipticalSlice):
    """Halves the distance to both ends, independently of the rejected angle."""

    def shrink(self, theta, theta_min, theta_max, here):
        return (theta_min + here) / 2, (theta_max + here) / 2


class HalvesToTheLeft(EllipticalSlice):
    """Keeps the left half even if it does not contain the current state."""

    def shrink(self, theta, theta_min, theta_max, here):
        return theta_min, (theta_min + theta_max) / 2


class ShrinksTooLittle(EllipticalSlice):
    """Leaves a margin beyond the rejected angle, measured from the current state."""

    def shrink(self, theta, theta_min, theta_max, here):
        return super().shrink(here + (theta - here) * 1.1, theta_min, theta_max, here)


class OtherHalfCut(EllipticalSlice):
    """Proposes in the half without the current state, but ends the bracket at the rejected angle as Figure 2 does."""

    def shrink(self, theta, theta_min, theta_max, here):
        return super(EllipticalPath, self).shrink(theta, theta_min, theta_max, here)


class OtherHalfOfAFixedBracket(EllipticalSlice):
    """The current state is always at the same place in the first bracket."""

    def begin(self, here, place, u):
        return super().begin(here, 0.25 + 0 * place, u)


class AlwaysTheUpperHalf(EllipticalSlice):
    """Proposes in the upper half of the bracket even if the current state is in it. That half is then kept."""

    def propose(self, theta_min, theta_max, u):
        return theta_min + (1 + u) * ((theta_max - theta_min) / 2)


class NotUniform(EllipticalSlice):
    """Prefers one end of the bracket."""

    def propose(self, theta_min, theta_max, u):
        return theta_min + u * u * (theta_max - theta_min)


class PrefersSmallAngles(EllipticalSlice):
    """Prefers angles near the current state, which would save evaluations."""

    def propose(self, theta_min, theta_max, u):
        return (theta_min + u * (theta_max - theta_min)) / 2


class ForgetsWhereItIs(AuxiliaryEllipse):
    """Figure 1, but the bracket shrinks towards 0 instead of the current angle."""

    def shrink(self, theta, theta_min, theta_max, here):
        return super().shrink(theta, theta_min, theta_max, pi)


class DensityLeftOut(AuxiliaryEllipse):
    """Figure 1 with a density p(theta) in step 1, uniform on half of the range, whose factor step 2 leaves out."""

    def here(self, place):
        return 2 * pi * (0.25 + 0.5 * place)


BRACKETS = [
    FixedBracket(),
    FixedBracketStartingAtItsEnd(),
    WrongSide(),
    CutsTheOther(),
    NarrowFromItsEdge(1.0),
    NarrowAlwaysInTheMiddle(1.0),
    HalvesBothEnds(),
    HalvesBothEnds(1.0),
    HalvesToTheLeft(),
    ShrinksTooLittle(),
    OtherHalfCut(shrinking="other_half"),
    OtherHalfOfAFixedBracket(shrinking="other_half"),
    AlwaysTheUpperHalf(shrinking="other_half"),
    NotUniform(),
    NotUniform(1.0),
    PrefersSmallAngles(),
    ForgetsWhereItIs(),
    DensityLeftOut(),
]


@EVERY_SEED
@pytest.mark.parametrize(
    "move", BRACKETS, ids=lambda move: f"{type(move).__name__} {getattr(move, 'bracket_width', 0):.3g}"
)
def test_a_wrong_bracket_is_not_reversible(move, seed):
    with pytest.raises(AssertionError, match=r"not reversible|away from the current state|length zero|not affine"):
        check_reversible(move, seed=seed)
    with pytest.raises(AssertionError):  # `check_move` detects it by another check first
        check_move(move, seed=seed)


@pytest.mark.long
def test_moments_do_not_see_a_bracket_fixed_at_pi():
    # The reason for an exact test: the invalid algorithm passes every check of moments, with a hundred thousand draws
    # ...
    assert long_run(FixedBracket(), seed=0) > 1e-3
    # ... and the test that exact posterior draws have the same distribution after an update.
    testing_move._check_stationary(FixedBracket(), seed=0)


# --- curves ---------------------------------------------------------------------------------------------------------


class Shortened(EllipticalSlice):
    """The draw is too small by a tenth: the curve passes through the current state, but changes the prior."""

    def weights(self, theta):
        cos, sin = super().weights(theta)
        return cos, 0.9 * sin


class Turned(AuxiliaryEllipse):
    """Figure 1 with a wrong sign: nu_1 = f cos + nu sin."""

    def curve(self, f, nu, here):
        sin, cos = self.weights(here)
        return f * sin + nu * cos, f * cos + nu * sin


class DensityOnlyOfProposals(AuxiliaryEllipse):
    """The current angle is uniform, and proposals are drawn from a concentrated density."""

    def curve(self, f, nu, here):
        return AuxiliaryEllipse().curve(f, nu, here)


class DensityOfTheCosineOnly(AuxiliaryEllipse):
    """The cosine belongs to the quantile of theta, and the sine to the position."""

    def weights(self, theta):
        return AuxiliaryEllipse().weights(theta)[0], super().weights(theta)[1]


class PositionAsAngle(AuxiliaryEllipse):
    """The statistic `angle` is the difference of positions, although these are not angles."""

    def angle(self, here, theta):
        return theta - here


class Straight(EllipticalSlice):
    """The line of a random walk, f + theta nu."""

    def weights(self, theta):
        return 1.0 + 0 * theta, theta


class Neal(EllipticalSlice):
    """Neal's (1999) proposal written in epsilon, sqrt(1 - epsilon^2) f + epsilon nu: half of the ellipse."""

    def weights(self, theta):
        cos, sin = super().weights(theta)
        return abs(cos), sin


CURVES = [
    *(Shortened(), Turned(), DensityOnlyOfProposals(0.5), DensityOfTheCosineOnly(0.5), PositionAsAngle(0.5)),
    *(Straight(), Neal()),
]


@EVERY_SEED
@pytest.mark.parametrize("move", CURVES, ids=lambda move: type(move).__name__)
def test_a_wrong_curve_is_caught(move, seed):
    with pytest.raises(AssertionError, match="the curve"):
        check_curve(move, seed)


# --- the search itself: copies with small bugs ----------------------------------------------------------------------


def planted_search(
    accepts=lambda value, log_y: value > log_y, factor=1.0, count=lambda tried: tried, finish=State, misses=1000
):
    """Run a copy of `moves.search.search` whose options inject bugs. By default it is right."""

    def copy(move, nu, level, uniform, state, log_likelihood):
        place = uniform(0)
        here = move.here(place)
        a, b = move.curve(state.f, nu, here)
        log_y = state.log_likelihood - factor * level
        theta, theta_min, theta_max = move.begin(here, place, uniform(1))
        nans = 0
        for tried in range(1, 1001):
            w_a, w_b = move.weights(theta)
            f = a * w_a + b * w_b
            value = log_likelihood(f)
            if accepts(value, log_y) or tried > misses:
                return finish(f, value), Info(count(tried), nans, False, theta - here)
            nans += value != value
            theta_min, theta_max = move.shrink(theta, theta_min, theta_max, here)
            theta = move.propose(theta_min, theta_max, uniform(tried + 1))
        return state, Info(1000, nans, True, 0.0)

    return copy


def in_place(move, nu, level, uniform, state, log_likelihood):
    new, info = search(move, nu, level, uniform, state, log_likelihood)
    state.f[:] = new.f  # saves an array
    return State(state.f, new.log_likelihood), info


def stale(move, nu, level, uniform, state, log_likelihood):
    new, info = search(move, nu, level, uniform, state, log_likelihood)
    return State(new.f, state.log_likelihood), info


def forgets_to_count_the_first(move, nu, level, uniform, state, log_likelihood):
    new, info = search(move, nu, level, uniform, state, log_likelihood)
    return new, info._replace(evaluations=info.evaluations - 1)


def evaluates_twice(move, nu, level, uniform, state, log_likelihood):
    """The likelihood of the new state is computed once more, and not counted."""
    new, info = search(move, nu, level, uniform, state, log_likelihood)
    return State(new.f, log_likelihood(new.f)), info


def draws_of_its_own(move, nu, level, uniform, state, log_likelihood):
    rng = np.random.default_rng()
    return search(move, nu, level, lambda number: rng.random(), state, log_likelihood)


SEARCHES = {
    "NaN accepted": (planted_search(accepts=lambda value, log_y: not (value <= log_y)), "reached a state where .* nan"),
    "NaN accepted, other spelling": (
        planted_search(accepts=lambda value, log_y: not value < log_y),
        "reached a state where .* nan",
    ),
    "stale log-likelihood": (stale, "not that of its state"),
    "state changed in place": (in_place, "in place"),
    "evaluations miscounted": (forgets_to_count_the_first, "evaluations and reports"),
    "an evaluation not counted": (evaluates_twice, "evaluations and reports"),
    "randomness of its own": (draws_of_its_own, "function of its random numbers"),
    "gives in after two misses": (planted_search(misses=2), "."),
    "always accepts": (planted_search(misses=0), "."),
}


@EVERY_SEED
@pytest.mark.parametrize("name", SEARCHES)
def test_a_wrong_search_is_caught(name, seed, monkeypatch):
    wrong, says = SEARCHES[name]
    replace_host_search(monkeypatch, wrong)
    with pytest.raises(AssertionError, match=says):
        check_move(EllipticalSlice(), seed=seed)


@pytest.mark.long
def test_the_copy_is_right_as_it_stands(monkeypatch):
    replace_host_search(monkeypatch, planted_search())
    check_move(EllipticalSlice())


# --- the level, exactly ---------------------------------------------------------------------------------------------

LEVELS = {
    "10 % too far down": (planted_search(factor=1.1), "below the level was accepted"),
    "10 % too far up": (planted_search(factor=0.9), "above the level was rejected"),
    "3 % too far down": (planted_search(factor=1.03), "below the level was accepted"),
    "3 % too far up": (planted_search(factor=0.97), "above the level was rejected"),
    "the seventh point is taken (GPML: the 22nd)": (planted_search(misses=6), "below the level was accepted"),
    "tested against the state": (planted_search(factor=0.0), "above the level was rejected"),
}


@EVERY_SEED
@pytest.mark.parametrize("name", LEVELS)
def test_a_wrong_level_is_caught_by_what_is_accepted(name, seed, monkeypatch):
    wrong, says = LEVELS[name]
    check_level(EllipticalSlice(), seed)
    replace_host_search(monkeypatch, wrong)
    with pytest.raises(AssertionError, match=says):
        check_level(EllipticalSlice(), seed)


# --- the level and everything else, by a long run -------------------------------------------------------------------


@dataclass(frozen=True)
class WrongLevel(Move):
    """Elliptical slice sampling with its level too low or too high, in both engines, by its own `step`.

    It leaves N(f; 0, Sigma) L(f)^(1/factor) invariant.
    """

    factor: float

    def step(self, noise, state, target):
        return EllipticalSlice().step(
            noise._replace(level=[self.factor * level for level in noise.level]), state, target
        )


def sharp(f):
    return -5.0 * (f * f).sum()


def long_run(move, seed, updates=100_000, batches=100):
    """Return the p-value of the mean square of a long compiled run, for the known posterior N(0, 1/11), by batch means.

    The likelihood is much narrower than the prior, so a wrong level gives a wrong variance: 10 % give a difference of
    12 to 16 standard errors. (In the few thousand single draws of `check_move` it is about 3.)
    """
    posterior = Posterior(Diagonal(np.ones(2)), Partial(sharp))
    start = np.random.default_rng(seed).standard_normal(2) / np.sqrt(11)
    with jax.enable_x64(True):
        run = begin(CompiledEngine(posterior), move, seed, [0], [State(start, float(sharp(start)))], updates)
        f = columns(finish(run))["f"]
        run.close()
    means = (11 * (f**2).mean(axis=1)).reshape(batches, -1).mean(axis=1)
    return float(stats.ttest_1samp(means, 1.0).pvalue)


@EVERY_SEED
@pytest.mark.statistical
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_level_off_by_ten_percent_is_caught_by_a_long_run(factor, seed):
    assert long_run(WrongLevel(factor), seed) < 1e-6


@pytest.mark.short_cases("copy-0", "EllipticalSlice-0", "NealMetropolis-0", "RandomWalk-0", "ReferenceSlice-0")
@EVERY_SEED
@pytest.mark.statistical
@pytest.mark.parametrize(
    "name", [name for name, make in MOVES.items() if "Cycle" not in name and not make().gradients] + ["copy"]
)
def test_a_right_move_passes_a_long_run(name, seed):
    move = WrongLevel(1.0) if name == "copy" else MOVES[name]()
    assert long_run(move, seed) > 1e-6


@EVERY_SEED
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_grossly_wrong_level_is_caught_by_check_move(factor, seed):
    with pytest.raises(AssertionError, match="posterior"):
        check_move(WrongLevel(factor), seed=seed)


# --- engines that disagree ------------------------------------------------------------------------------------------


class OtherwiseCompiled(EllipticalSlice):
    """A move that behaves differently when JAX traces it."""

    def curve(self, f, nu, here):
        return f, nu * (1 + 1e-6) if isinstance(nu, Tracer) else nu


@EVERY_SEED
def test_engines_that_disagree_are_caught(seed, monkeypatch):
    monkeypatch.setattr(testing_move, "_check_stationary", lambda move, seed: None)  # slow, and it passes
    with pytest.raises(AssertionError, match="compiled"):
        check_move(OtherwiseCompiled(), seed=seed)


# --- whole moves ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole(Move):
    """A move that makes the step of another one and then spoils the result."""

    spoil: str

    def step(self, noise, state, target):
        move = EllipticalSlice()
        new, info = move.step(noise, state, target)
        if self.spoil == "stale log-likelihood":
            new = State(new.f, state.log_likelihood)
        if self.spoil == "miscounted":
            info = info._replace(evaluations=info.evaluations + 1)
        if self.spoil == "shifted":
            new = State(new.f + 0.3, target.log_likelihood(new.f + 0.3))
            info = info._replace(evaluations=info.evaluations + 1)
        if self.spoil == "always to the highest of two":
            again, more = move.step(noise, new, target)
            new = again if again.log_likelihood > new.log_likelihood else new
            info = info._replace(evaluations=info.evaluations + more.evaluations)
        return new, info


@EVERY_SEED
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ("stale log-likelihood", "not that of its state"),
        ("miscounted", "evaluations and reports"),
        ("shifted", r"reached a state where|posterior"),
        ("always to the highest of two", "posterior"),
    ],
)
def test_a_spoilt_move_is_caught(spoil, says, seed):
    with pytest.raises(AssertionError, match=says):
        check_move(Whole(spoil), seed=seed)


@pytest.mark.long
def test_an_unspoilt_move_passes():
    check_move(Whole("nothing"))


def test_planted_values_are_what_they_seem():
    # The comparisons that accept NaN, and the one that does not.
    assert not nan > 0.0
    assert not (nan <= 0.0)
    assert not nan < 0.0
    assert not -inf > -inf
