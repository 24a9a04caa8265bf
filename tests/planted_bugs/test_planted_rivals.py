"""Injected bugs in the moves that the paper compares with: each is detected."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from catalogue import SEEDS
from ellipslice.engines.host.engine import HostTarget
from ellipslice.moves import LineSlice, NealMetropolis, RandomWalk, State
from ellipslice.moves import line as line_module
from ellipslice.moves import metropolis as metropolis_module
from ellipslice.moves.line import Line, LineDraws, PriorOnLine
from ellipslice.priors import Diagonal
from ellipslice.testing import check_move, check_reversible
from ellipslice.testing.search import noise_of_an_update
from exact.test_rivals import gaussian
from judged import check_ratio, check_slice

EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)

# --- Neal's proposal: the densities of the proposal and of its reverse must be those that are used in the ratio -----


class Lengthened(NealMetropolis):
    """f + step nu, with the ratio of likelihoods that equation (4) has for another proposal."""

    def propose(self, f, nu):
        return f + self.step_size * nu


class Shortened(NealMetropolis):
    """(1 - step) f + step nu, a weighted average."""

    def propose(self, f, nu):
        return (1 - self.step_size) * f + self.step_size * nu


class WithoutTheSquare(NealMetropolis):
    """sqrt(1 - step) f + step nu."""

    def propose(self, f, nu):
        return math.sqrt(1 - self.step_size) * f + self.step_size * nu


class WithTheVariance(NealMetropolis):
    """sqrt(1 - step^2) f + step^2 nu."""

    def propose(self, f, nu):
        return math.sqrt(1 - self.step_size**2) * f + self.step_size**2 * nu


PROPOSALS = [
    (Lengthened(0.3), gaussian(1.0, 0.09)),
    (Shortened(0.3), gaussian(0.7, 0.09)),
    (WithoutTheSquare(0.3), gaussian(math.sqrt(0.7), 0.09)),
    (WithTheVariance(0.3), gaussian(math.sqrt(0.91), 0.0081)),
]


@EVERY_SEED
@pytest.mark.parametrize(("move", "log_q"), PROPOSALS, ids=lambda part: type(part).__name__)
def test_a_proposal_that_does_not_keep_the_prior_is_caught(move, log_q, seed):
    with pytest.raises(AssertionError, match="right probability"):
        check_ratio(move, log_q, seed)


# --- acceptance -----------------------------------------------------------------------------------------------------


def judge(accepts=lambda value, log_y: value > log_y, stale=False, evaluations=1):
    """A copy of `metropolis` whose options inject bugs. By default it is right, but it runs on the host only."""

    def copy(proposal, log_y, distance, state, target):
        new = target.at(proposal)
        accepted = accepts(new.log_likelihood, log_y)
        info = metropolis_module.Info(evaluations, int(np.isnan(new.log_likelihood)), False, distance * accepted)
        return (State(new.f, state.log_likelihood) if stale else new) if accepted else state, info

    return copy


JUDGES = {
    "NaN accepted": (judge(accepts=lambda value, log_y: not value <= log_y), "reached a state where .* nan"),
    "stale log-likelihood": (judge(stale=True), "not that of its state"),
    "the first evaluation not counted": (judge(evaluations=0), "evaluations and reports"),
    "always accepts": (judge(accepts=lambda value, log_y: value == value), "reached a state where|posterior"),
}


@EVERY_SEED
@pytest.mark.parametrize("name", JUDGES)
def test_a_wrong_judgement_is_caught(name, seed, monkeypatch):
    wrong, says = JUDGES[name]
    monkeypatch.setattr(metropolis_module, "metropolis", wrong)
    with pytest.raises(AssertionError, match=says):
        check_move(RandomWalk(0.8), seed=seed)


def test_the_copy_is_right_as_it_stands(monkeypatch):
    monkeypatch.setattr(metropolis_module, "metropolis", judge())
    check_ratio(RandomWalk(0.8), gaussian(1.0, 0.64), seed=0)


# --- the prior on a line --------------------------------------------------------------------------------------------

ON_LINES = {
    "forgotten": lambda slope, square: PriorOnLine(0.0, 0.0),
    "of the wrong sign": lambda slope, square: PriorOnLine(-slope, square),
    "without its square": lambda slope, square: PriorOnLine(slope, 0.0),
    "without the half": lambda slope, square: PriorOnLine(slope, 2 * square),
}


@EVERY_SEED
@pytest.mark.parametrize("name", ON_LINES)
def test_a_wrong_prior_on_a_line_is_caught(name, seed, monkeypatch):
    right = metropolis_module.prior_on_line
    for module in (metropolis_module, line_module):
        monkeypatch.setattr(module, "prior_on_line", lambda f, nu: ON_LINES[name](*right(f, nu)))
    with pytest.raises(AssertionError, match="right probability"):
        check_ratio(RandomWalk(0.3), gaussian(1.0, 0.09), seed)
    with pytest.raises(AssertionError, match="level was"):
        check_slice(LineSlice(), seed)


# --- brackets on a line ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InTheMiddle(Line):
    """The current state is always in the middle of the bracket."""

    def begin(self, here, place, u):
        return self.width * (u - 0.5), -self.width / 2, self.width / 2


@dataclass(frozen=True)
class OneSided(Line):
    """The bracket begins at the current state."""

    def begin(self, here, place, u):
        return self.width * u, 0.0, self.width


@dataclass(frozen=True)
class FromItsEnd(Line):
    """The end of the bracket is tried first, as in Figure 2 for the whole ellipse."""

    def begin(self, here, place, u):
        w_min = -self.width * place
        return w_min + self.width, w_min, w_min + self.width


@EVERY_SEED
@pytest.mark.parametrize("wrong", [InTheMiddle, OneSided, FromItsEnd])
def test_a_wrong_bracket_on_a_line_is_not_reversible(wrong, seed):
    with pytest.raises(AssertionError, match="not reversible"):
        check_reversible(wrong(1.0, PriorOnLine(0.0, 1.0)), turn=None, seed=seed)


# --- random numbers -------------------------------------------------------------------------------------------------


@EVERY_SEED
def test_products_with_another_draw_are_caught(seed, monkeypatch):
    """S nu of the previous update: the right distribution, but the wrong value."""

    class Shifted(LineSlice):
        def noise_spec(self, prior, prepared):
            right = super().noise_spec(prior, prepared)

            def draw(rng, updates):
                nu, precision_nu = right.draw(rng, updates + 1)
                return LineDraws(nu[:-1], precision_nu[1:])

            return right._replace(draw=draw)

    with pytest.raises(AssertionError, match="level was"):
        check_slice(Shifted(), seed)


def test_a_likelihood_that_is_nan_everywhere_else_keeps_the_state():
    start = State(np.zeros(2), 0.0)
    target = HostTarget(lambda f: math.nan)
    for move in (NealMetropolis(0.5), RandomWalk(0.5)):
        noise = noise_of_an_update(move, Diagonal(np.ones(2)), np.random.default_rng(0))
        state, info = move.step(noise, start, target)
        assert state is start or np.array_equal(state.f, start.f)
        assert (state.log_likelihood, info.nan_evaluations, info.angle, info.search_failed) == (0.0, 1, 0.0, False)
