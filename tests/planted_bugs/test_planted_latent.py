"""Injected bugs in latent Gaussian models: each is found by the check that is meant for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ellipslice.engines.host.engine import HostTarget
from ellipslice.latent import posterior as posterior_module
from ellipslice.latent.hyperparameters import Hyperparameters
from ellipslice.latent.joint import Point, PointLikelihood
from ellipslice.latent.newton import expand
from ellipslice.latent.posterior import LatentPosterior, WhitePosterior
from ellipslice.latent.reference import Reference
from ellipslice.latent.scales import Scales
from ellipslice.latent.student import StudentT
from ellipslice.latent.update import LatentUpdate, UpdateSettings
from ellipslice.moves import State
from ellipslice.noise import draw_block
from latent_joint import P_LIMIT, constant_sites, replicates
from latent_models import MODELS, Dense, log_ratio, some_u, wrong_sites

# --- the density: found by the dense formula --------------------------------------------------------------------------


class WholeDeterminant(Reference):
    """log |H| instead of half of it."""

    def __init__(self, assembly, analysis, factor, *rest):
        super().__init__(assembly, analysis, factor, *rest)
        self._log_normaliser += 0.5 * factor.log_determinant


class NoDeterminantOfConstraints(Reference):
    """Without log |C H^-1 C'| / 2."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        if self._gain is not None:
            self._log_normaliser -= 0.5 * np.linalg.slogdet(self._small)[1]


class WhiteNoiseOutside(Reference):
    """z'z instead of the quadratic form of x, from which the part outside {C x = 0} is missing."""

    def place(self, z):
        return super().place(z)[0], float(z @ z)


class NotConditioned(Reference):
    """The mean is not conditioned on the constraints."""

    def __init__(self, assembly, analysis, factor, prior_entries, precision, linear):
        super().__init__(assembly, analysis, factor, prior_entries, precision, linear)
        self.mean = factor.solve(assembly.transposed @ linear)


REFERENCES = [WholeDeterminant, NoDeterminantOfConstraints, WhiteNoiseOutside, NotConditioned]


def without_jacobian(monkeypatch):
    """The density of the hyperparameters instead of that of their logarithms."""
    original = Hyperparameters.at

    def at(self, u):
        values = original(self, u)
        return values._replace(log_density=values.log_density - float(np.sum(u)))

    monkeypatch.setattr(Hyperparameters, "at", at)


def without_prior_determinant(monkeypatch):
    """Without log |Q| / 2."""
    original = LatentPosterior.at

    def at(self, u):
        found = original(self, u)
        return found and found._replace(log_prior=self.hyperparameters.at(u).log_density)

    monkeypatch.setattr(LatentPosterior, "at", at)


def with_reference(wrong):
    return lambda monkeypatch: monkeypatch.setattr(posterior_module, "Reference", wrong)


DENSITIES = {
    **{each.__name__: with_reference(each) for each in REFERENCES},
    "without Jacobian": without_jacobian,
    "without the prior's determinant": without_prior_determinant,
}


def error_of_density():
    """Return the difference between the density in white coordinates and the dense one."""
    definition = MODELS["constraints and a trend"].definition
    posterior = definition.posterior
    dense = Dense(posterior, some_u(posterior), wrong_sites(posterior))
    white = WhitePosterior(posterior, lambda at: dense.sites)
    point = white.point(dense.u, np.random.default_rng(0).standard_normal(posterior.assembly.size))
    return abs(point.log_ratio - log_ratio(definition, dense, point.x))


def test_the_density_is_right_without_a_bug():
    assert error_of_density() < 1e-6


@pytest.mark.parametrize("name", DENSITIES)
def test_a_wrong_density_is_found(name, monkeypatch):
    DENSITIES[name](monkeypatch)
    assert error_of_density() > 1e-2


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["WholeDeterminant", "without Jacobian", "without the prior's determinant"])
def test_a_wrong_density_moves_exact_draws(name, monkeypatch):
    """The other wrong densities change the posterior of this model too little for this test."""
    DENSITIES[name](monkeypatch)
    assert smallest_p_value() < P_LIMIT


def smallest_p_value(sites=constant_sites, move=LatentUpdate, count=400):
    return min(replicates(count, updates=6, seed=21, sites=sites, move=move).p_values().values())


# --- trajectories: found by reversing them ----------------------------------------------------------------------------


class LastKick(LatentUpdate):
    """The last kick has another factor than 1/2."""

    factor = -1.0

    def _trajectory(self, now, momentum, turn):
        point, p, kicks = super()._trajectory(now, momentum, turn)
        step = np.pi / 2 * (0.6 + 0.8 * turn) / self.settings.kicks
        around = now.around
        force = around.reference.force(point.eta, around.at.likelihood.slope(point.eta))
        return point, p + (self.factor - 1) * (step / 2) * force, kicks


class WholeLastKick(LastKick):
    """The last kick is a whole one."""

    factor = 2.0


class ForceOfMomentum(LatentUpdate):
    """The force depends on the momentum: it is that of a point further on."""

    def _trajectory(self, now, momentum, turn):
        further = self.white.point_around(now.around, now.z + 0.3 * momentum)
        moved = now._replace(eta=further.eta)
        return super()._trajectory(moved, momentum, turn)


TRAJECTORIES = [LastKick, WholeLastKick, ForceOfMomentum]


def start_of(make):
    """Return a move with sites that do not fit, a point and a momentum."""
    posterior = MODELS["constraints and a trend"].definition.posterior
    sites, size = wrong_sites(posterior), posterior.hyperparameters.size
    scales = Scales.of(posterior.hyperparameters.parameters.priors.values(), own=False)
    settings = UpdateSettings((StudentT(scales, np.zeros(size), np.eye(size)),), np.eye(size))
    move = make(WhitePosterior(posterior, lambda at: sites), settings)
    z, momentum = np.random.default_rng(0).standard_normal((2, posterior.assembly.size))
    return move, move.white.point(some_u(posterior), z), momentum


def error_of_reversal(make):
    move, now, momentum = start_of(make)
    end, last, _ = move._trajectory(now, momentum, 0.5)
    back, _, _ = move._trajectory(end, -last, 0.5)
    return np.abs(back.z - now.z).max()


def test_a_trajectory_is_reversible_without_a_bug():
    assert error_of_reversal(LatentUpdate) < 1e-7


@pytest.mark.parametrize("wrong", TRAJECTORIES)
def test_a_wrong_trajectory_is_not_reversible(wrong):
    assert error_of_reversal(wrong) > 1e-2


# --- acceptance -------------------------------------------------------------------------------------------------------


class WithoutEnergy(LatentUpdate):
    """Trajectories are accepted by the density alone, without the kinetic energy and the density of z."""

    def _move_latents(self, now, momentum, turn, level):
        point, _, _ = self._trajectory(now, momentum, turn)
        change = point.log_ratio - now.log_ratio
        accepted = change > -level
        return point if accepted else now, None, np.exp(min(change, 0.0))


class AlwaysAccepts(LatentUpdate):
    """Trajectories are always accepted."""

    def _move_latents(self, now, momentum, turn, level):
        return super()._move_latents(now, momentum, turn, np.inf)


class AcceptsTheLess(LatentUpdate):
    """The energy has the wrong sign."""

    def _move_latents(self, now, momentum, turn, level):
        _, info, probability = super()._move_latents(now, momentum, turn, 0.0)
        point, _, _ = self._trajectory(now, momentum, turn)
        return point if -np.log(probability) >= level else now, info, 1 - probability


def acceptance_is_wrong(make):
    """Return whether a trajectory with an acceptance probability below 1 is accepted for wrong slice levels."""
    move, now, momentum = start_of(make)
    point, last, _ = move._trajectory(now, momentum, 0.9)
    energy = 0.5 * float(now.z @ now.z + momentum @ momentum - point.z @ point.z - last @ last)
    change = point.log_ratio - now.log_ratio + energy
    assert change < -0.1
    accepted = [move._move_latents(now, momentum, 0.9, -change * factor)[0] is not now for factor in (0.99, 1.01)]
    return accepted != [False, True]


@pytest.mark.parametrize("wrong", [WithoutEnergy, AlwaysAccepts, AcceptsTheLess])
def test_a_wrong_acceptance_is_found(wrong):
    assert not acceptance_is_wrong(LatentUpdate)
    assert acceptance_is_wrong(wrong)


# --- moves: found by exact draws that do not stay exact ---------------------------------------------------------------


class WithoutStudentFactor(LatentUpdate):
    """The slice does not divide by the density that ellipses leave invariant."""

    def _move_on_ellipse(self, target, noise, now):
        flat = tuple(Flat(own.scales, own.centre, own.factor) for own in self.settings.students)
        other = LatentUpdate(self.white, replace(self.settings, students=flat))
        return other._move_on_ellipse(target, noise, now)


class Flat(StudentT):
    def log_density(self, away):
        return 0.0


@pytest.mark.long
@pytest.mark.statistical
def test_a_slice_without_the_students_density_moves_exact_draws():
    assert smallest_p_value(move=WithoutStudentFactor) < P_LIMIT


# --- sites that change: found by states that are no longer consistent -------------------------------------------------


class SitesOfTheState:
    """Sites that change during the run: those of the last linear predictor."""

    def __init__(self, sites):
        self.sites, self.eta = sites, None

    def __call__(self, at):
        return self.sites if self.eta is None else expand(at.likelihood, self.eta, np.zeros(len(self.eta)))


class FollowsTheState(LatentUpdate):
    """The sites of the next update are those of this state."""

    def _current(self, state):
        found = super()._current(state)
        self.white.sites = SitesOfTheState(self.white.sites)
        self.white.sites.eta = found.eta
        self.white._kept.clear()
        return found


def is_consistent(make):
    """Return whether the latents of a state follow from its white noise, also after an update."""
    move, now, _ = start_of(make)
    likelihood = PointLikelihood(move.white.posterior)
    state = State(Point(now.around.at.u, now.z, now.x).flat, now.log_likelihood)
    noise = draw_block(move.noise_spec(None, None), 0, 0, 0, 2)
    for update in range(2):
        state, _ = move.step(noise.at(update), state, HostTarget(likelihood))
        if any(not np.array_equal(move._current(state).x, Point.split(state.f, now.around.at.u.size).x) for _ in "ab"):
            return False
    return True


def test_sites_that_change_during_the_run_are_found():
    assert is_consistent(LatentUpdate)
    assert not is_consistent(FollowsTheState)
