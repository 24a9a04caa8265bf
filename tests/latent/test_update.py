"""The move: reversible trajectories, acceptance probabilities, and moves of hyperparameters that are exact."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

from ellipslice.engines.host.engine import HostTarget
from ellipslice.latent.joint import Point, PointLikelihood
from ellipslice.latent.newton import expand
from ellipslice.latent.posterior import Around, Conditional, WhitePoint, WhitePosterior
from ellipslice.latent.scales import Scales
from ellipslice.latent.student import StudentT
from ellipslice.latent.update import LINE_PROBABILITY, LatentUpdate, Segment, UpdateSettings
from ellipslice.moves import State
from ellipslice.noise import draw_block
from ellipslice.testing import check_reversible
from latent_joint import P_LIMIT, replicates
from latent_models import MODELS, some_u, wrong_sites

EVERY = pytest.mark.parametrize("name", MODELS)


BOUNDS = np.array([0.0, -1.0, -np.inf, 0.0, 0.5]), np.array([np.inf, 1.0, np.inf, 1.0, np.inf])
"""Lower and upper bounds of up to five hyperparameters."""


def student(size, seed=0, kind=StudentT, own=False):
    """Return t distributions with some factor, on the unconstrained scale or on the hyperparameters' own."""
    rng = np.random.default_rng(seed)
    scales = Scales(own, *(bound[:size] for bound in BOUNDS))
    centre = scales.coordinates(0.3 * rng.standard_normal(size))
    return kind(scales, centre, np.tril(0.2 * rng.standard_normal((size, size)), -1) + np.eye(size))


def move_of(posterior, kicks=2, sites=None):
    """Return the move of a posterior with sites that do not fit."""
    wrong = wrong_sites(posterior)
    size = posterior.hyperparameters.size
    students = student(size), student(size, own=True)
    settings = UpdateSettings(students, students[0].factor, kicks=kicks)
    return LatentUpdate(WhitePosterior(posterior, sites or (lambda at: wrong)), settings)


def start(move, seed=0):
    """Return a point, and a momentum."""
    posterior = move.white.posterior
    z, p = np.random.default_rng(seed).standard_normal((2, posterior.assembly.size))
    return move.white.point(some_u(posterior, seed), z), p


def energy(point, p):
    return float(point.z @ point.z + p @ p) / 2 - point.log_ratio


# --- trajectories -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kicks", [1, 2, 5])
@EVERY
def test_the_reversed_momentum_returns_to_the_start(name, kicks):
    move = move_of(MODELS[name].definition.posterior, kicks)
    now, momentum = start(move)
    end, last, _ = move._trajectory(now, momentum, 0.3)
    assert np.abs(end.z - now.z).max() > 0.1
    back, first, _ = move._trajectory(end, -last, 0.3)
    np.testing.assert_allclose(back.z, now.z, atol=1e-6)
    np.testing.assert_allclose(-first, momentum, atol=1e-6)


def test_a_trajectory_keeps_the_volume():
    move = move_of(MODELS["no hyperparameters"].definition.posterior, kicks=3)
    now, momentum = start(move)

    def end(state):
        point, p, _ = move._trajectory(move.white.point(now.around.at.u, state[:2]), state[2:], 0.6)
        return np.concatenate([point.z, p])

    at, step = np.concatenate([now.z, momentum]), 1e-5
    jacobian = np.array([(end(at + one) - end(at - one)) / (2 * step) for one in step * np.eye(4)])
    assert abs(jacobian[0, 0] - 1) > 0.1  # it is not the identity
    assert np.linalg.det(jacobian) == pytest.approx(1.0, abs=1e-6)


@EVERY
def test_acceptance_is_by_the_change_of_the_energy(name):
    move = move_of(MODELS[name].definition.posterior, kicks=1)
    for seed in range(4):
        now, momentum = start(move, seed)
        end, last, _ = move._trajectory(now, momentum, 0.9)
        expected = math.exp(min(0.0, energy(now, momentum) - energy(end, last)))
        for uniform in (0.5 * expected, expected * (1 - 1e-9), expected * (1 + 1e-9)):
            if 1e-300 < uniform < 1:
                found, info, probability = move._move_latents(now, momentum, 0.9, -math.log(uniform))
                assert probability == pytest.approx(expected, rel=1e-9)
                assert (found is now) == (uniform > expected)
                assert (info.angle == 0.0) == (uniform > expected)


@EVERY
def test_the_error_of_the_energy_is_of_second_order(name):
    errors = []
    for kicks in (8, 16, 32):
        move = move_of(MODELS[name].definition.posterior, kicks)
        now, momentum = start(move)
        end, last, _ = move._trajectory(now, momentum, 0.5)
        errors.append(abs(energy(end, last) - energy(now, momentum)))
    assert errors[1] < errors[0] / 3.3
    assert errors[2] < errors[1] / 3.3


def test_rotations_are_exact_if_the_sites_are():
    """With Gaussian noise, sites of the second-order expansion are exact, and every trajectory is accepted."""
    posterior = MODELS["two components"].definition.posterior
    move = move_of(
        posterior, kicks=2, sites=lambda at: expand(at.likelihood, posterior.assembly.offset, posterior.assembly.offset)
    )
    for seed in range(3):
        now, momentum = start(move, seed)
        _, info, probability = move._move_latents(now, momentum, 0.5, 1e-3)
        assert probability == pytest.approx(1.0, abs=1e-5)
        assert info.angle == pytest.approx(math.pi / 2)


def test_a_trajectory_through_density_zero_is_rejected(monkeypatch):
    move = move_of(MODELS["no hyperparameters"].definition.posterior, kicks=3)
    now, momentum = start(move)
    points, original = [], WhitePosterior.point_around

    def point_around(self, around, z):
        points.append(z)
        return None if len(points) == 2 else original(self, around, z)

    monkeypatch.setattr(WhitePosterior, "point_around", point_around)
    found, info, probability = move._move_latents(now, momentum, 0.5, np.inf)
    assert found is now
    assert (info.evaluations, info.angle, probability) == (2, 0.0, 0.0)


# --- the Student t distribution ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4])
def test_density_of_the_student_t_distribution(size):
    own, away = student(size), np.random.default_rng(1).standard_normal((5, size))
    expected = stats.t(own.degrees_of_freedom).logpdf(np.linalg.solve(own.factor, away.T)).sum(axis=0)
    found = np.array([own.log_density(each) for each in away])
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-9)


def test_the_scales_given_a_point():
    """Each scale given the point is inverse gamma distributed, with (degrees + 1) / 2 and (degrees + square) / 2."""
    own, away = student(3), np.array([0.4, -1.0, 2.0])
    chi_square = stats.chi2(own.degrees_of_freedom + 1).rvs((4000, 3), random_state=0)
    drawn = np.array([np.linalg.solve(own.factor, own.direction(away, np.ones(3), each)) for each in chi_square]) ** 2
    squares = np.linalg.solve(own.factor, away) ** 2
    for scales, square in zip(drawn.T, squares, strict=True):
        expected = stats.invgamma((own.degrees_of_freedom + 1) / 2, scale=(own.degrees_of_freedom + square) / 2)
        assert stats.kstest(scales, expected.cdf).pvalue > P_LIMIT


def test_scales():
    """The map of NumPyro, its inverse and its slope."""
    supports = [dist.LogNormal(), dist.Uniform(-1, 1), dist.Normal(), dist.Beta(2, 2), dist.Pareto(0.5, 2.0)]
    scales = Scales.of(supports, own=True)
    np.testing.assert_array_equal((scales.lower, scales.upper), BOUNDS)
    u = np.random.default_rng(0).standard_normal(5)
    transforms = [dist.biject_to(each.support) for each in supports]
    expected = [float(transform(each)) for transform, each in zip(transforms, u, strict=True)]
    found = scales.coordinates(u)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(scales.unconstrained(found), u, rtol=1e-12)
    slope = (scales.coordinates(u + 1e-6) - scales.coordinates(u - 1e-6)) / 2e-6
    np.testing.assert_allclose(np.exp(scales.log_slope(u)), slope, rtol=1e-8)
    outside = found.copy()
    outside[1] = -1.5
    assert scales.unconstrained(outside) is None
    plain = Scales.of(supports, own=False)
    np.testing.assert_array_equal(plain.coordinates(u), u)
    np.testing.assert_array_equal(plain.log_slope(u), np.zeros(5))


class KnownDensity:
    """What `LatentUpdate` uses of `WhitePosterior`, for hyperparameters with a known density and no latents."""

    def __init__(self, log_density):
        self._log_density = log_density

    def point(self, u, z):
        at: Any = Conditional(u, z, 0.0, None)  # pyright: ignore[reportArgumentType]
        return WhitePoint(Around(at, None), z, z, z, 0.0, float(self._log_density(u)))  # pyright: ignore[reportArgumentType]


COVARIANCE = np.array([[1.0, 0.6], [0.6, 0.5]])
GAUSSIAN = stats.multivariate_normal([0.5, -0.5], COVARIANCE)
TAILED = stats.multivariate_t([0.3, 0.1], COVARIANCE, 2.5)
WIDE = stats.multivariate_normal([0.5, -0.5], 9 * COVARIANCE)


class Cauchy(StudentT):
    """With tails so heavy that wrong scales are found soon."""

    degrees_of_freedom = 1.0


TARGETS = {"Gaussian": GAUSSIAN, "heavier tails": TAILED, "wider": WIDE}
COUNT = 3000


def moved(target, kind, own):
    """Return exact draws of a distribution after one move of the hyperparameters each."""
    move: Any = LatentUpdate(KnownDensity(target.logpdf), UpdateSettings((own,), own.factor))  # pyright: ignore[reportArgumentType]
    first = target.rvs(COUNT, random_state=np.random.default_rng(2))
    spec = SimpleNamespace(draw=lambda rng, updates: None, searches=2)
    found, rng = [], np.random.default_rng(3)
    noise: Any = draw_block(spec, 4, 0, 0, COUNT)  # pyright: ignore[reportArgumentType]
    for number, u in enumerate(first):
        drawn = SimpleNamespace(
            normals=rng.standard_normal(2),
            chi_square=rng.chisquare(own.degrees_of_freedom + 1, 2),
            direction=rng.standard_normal(2),
            turn_of=0,
        )
        now = move.white.point(u, np.zeros(0))
        update = SimpleNamespace(drawn=drawn, search=noise.at(number).search)
        new, _ = getattr(move, kind)(HostTarget(None), update, now)  # pyright: ignore[reportArgumentType]
        found.append(new.around.at.u)
    return first, np.array(found)


def is_invariant(target, found):
    """Return whether draws after a move have the distribution of the target, by ranks among many other draws."""
    other = target.rvs(40 * COUNT, random_state=np.random.default_rng(9))
    functions = (
        lambda u: u[:, 0],
        lambda u: u[:, 1],
        lambda u: u[:, 0] - 1.1 * u[:, 1],
        lambda u: np.log((u**2).sum(1)),
    )
    return all(stats.ks_2samp(each(found), each(other)).pvalue > P_LIMIT for each in functions)


@pytest.mark.parametrize(
    ("kind", "own"), [("_move_on_ellipse", False), ("_move_on_ellipse", True), ("_move_on_line", False)]
)
@pytest.mark.parametrize("name", TARGETS)
def test_a_move_of_hyperparameters_leaves_the_target_invariant(name, kind, own):
    target = TARGETS[name]
    first, found = moved(target, kind, student(2, kind=Cauchy, own=own))
    assert (first != found).any(axis=1).mean() > 0.99
    assert is_invariant(target, found)


def test_an_ellipse_alone_leaves_the_student_t_distribution_invariant():
    own = student(2)

    class Target:
        def logpdf(self, u):
            return own.log_density(u - own.centre)

        def rvs(self, count, random_state):
            return np.array([own.draw(random_state) for _ in range(count)])

    _, found = moved(Target(), "_move_on_ellipse", own)
    assert is_invariant(Target(), found)


class Gaussian(Cauchy):
    """Without the mixture: the density is that of the t distributions, but the curve that of a Gaussian."""

    def direction(self, away, normals, chi_square):
        return self.factor @ normals


class WithoutFactor(Cauchy):
    """Without the factor of the density that the ellipse leaves invariant."""

    def log_density(self, away):
        return 0.0


class OtherDegrees(Cauchy):
    """The scales are not drawn given the point."""

    def direction(self, away, normals, chi_square):
        return super().direction(0.0 * away, normals, chi_square)


class WithoutSlope(Scales):
    """Without the Jacobian of the scale."""

    def log_slope(self, u):
        return np.zeros_like(u)


@pytest.mark.parametrize("wrong", [Gaussian, WithoutFactor, OtherDegrees])
def test_a_wrong_ellipse_is_found(wrong):
    _, found = moved(WIDE, "_move_on_ellipse", student(2, kind=wrong))
    assert not is_invariant(WIDE, found)


def test_a_missing_jacobian_is_found():
    own = student(2, kind=Cauchy, own=True)
    wrong = WithoutSlope(True, own.scales.lower, own.scales.upper)
    _, found = moved(WIDE, "_move_on_ellipse", Cauchy(wrong, own.centre, own.factor))
    assert not is_invariant(WIDE, found)


class FixedSegment(Segment):
    """The bracket is always in the middle around the current state."""

    def begin(self, here, place, u):
        return super().begin(here, 0.5, u)


def test_a_segment_is_reversible():
    check_reversible(Segment(10.0), turn=None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(AssertionError, match="not reversible"):
        check_reversible(FixedSegment(10.0), turn=None)  # pyright: ignore[reportArgumentType]


# --- whole updates ----------------------------------------------------------------------------------------------------


def updates(move, count, seed=0):
    """Return the states and the statistics of some updates."""
    posterior = move.white.posterior
    likelihood = PointLikelihood(posterior)
    point, _ = start(move)
    flat = Point(point.around.at.u, point.z, point.x).flat
    state, found = State(flat, likelihood(flat)), []
    noise = draw_block(move.noise_spec(None, None), seed, 0, 0, count)
    for number in range(count):
        found.append(move.step(noise.at(number), state, HostTarget(likelihood)))
        state = found[-1][0]
    return found


@EVERY
def test_a_state_is_consistent(name):
    """x follows from u and z, satisfies the constraints, and has the log-likelihood of the state."""
    move = move_of(MODELS[name].definition.posterior)
    posterior = move.white.posterior
    for state, info in updates(move, 12):
        u, z, x = Point.split(state.f, posterior.hyperparameters.size)
        np.testing.assert_array_equal(move.white.point(u, z).x, x)
        np.testing.assert_allclose(posterior.assembly.constraints @ x, 0.0, atol=1e-8)
        assert PointLikelihood(posterior)(state.f) == state.log_likelihood
        acceptance, factorisations = info.more
        assert 0.0 <= acceptance <= 1.0
        assert info.evaluations == factorisations + move.settings.kicks
        assert (factorisations > 0) == (len(u) > 0)


def test_an_update_does_not_depend_on_what_was_computed_before():
    posterior = MODELS["five hyperparameters"].definition.posterior
    one, other = move_of(posterior), move_of(posterior)
    for seed in range(20):
        other.white.point(some_u(posterior, seed), np.zeros(posterior.assembly.size))
    for (state, info), (again, more) in zip(updates(one, 10), updates(other, 10), strict=True):
        np.testing.assert_array_equal(state.f, again.f)
        assert info == more


def test_lines_are_in_one_update_of_six():
    move = move_of(MODELS["two components"].definition.posterior)
    on_line = draw_block(move.noise_spec(None, None), 0, 0, 0, 4000).drawn.on_line
    assert abs(on_line.mean() - LINE_PROBABILITY) < 5 * math.sqrt(LINE_PROBABILITY * (1 - LINE_PROBABILITY) / 4000)


def test_a_start_with_density_zero_raises():
    posterior = MODELS["two components"].definition.posterior
    move = move_of(posterior)
    flat = Point(np.full(3, 50.0), np.zeros(posterior.assembly.size), np.zeros(posterior.assembly.size)).flat
    noise = draw_block(move.noise_spec(None, None), 0, 0, 0, 1).at(0)
    with pytest.raises(ValueError, match="the current state has posterior density 0"):
        move.step(noise, State(flat, 0.0), HostTarget(PointLikelihood(posterior)))


def test_exact_draws_stay_exact():
    """Joint draws of hyperparameters, latents and responses keep their distribution; see `latent_joint`."""
    found = replicates(250, updates=4, seed=11).p_values()
    assert {name: p for name, p in found.items() if p < P_LIMIT} == {}


@pytest.mark.long
@pytest.mark.statistical
def test_many_exact_draws_stay_exact():
    found = replicates(4000, updates=6, seed=12).p_values()
    assert {name: p for name, p in found.items() if p < P_LIMIT} == {}
