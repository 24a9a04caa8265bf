"""Injected bugs in estimates of the evidence: replicates of a problem with a closed form detect each of them."""

from __future__ import annotations

import numpy as np
import pytest

import ellipslice as es
from ellipslice.marginal import annealing, particle_moves, tempered
from statistical.calibrated_evidence import SIGMA, check_calibrated, log_likelihood

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.filterwarnings(
        "ignore:the particles mix slowly", "ignore:annealed importance", "ignore:the replicates"
    ),
    pytest.mark.filterwarnings("ignore:.*found no acceptable point"),
]


def caught(match, **options):
    with pytest.raises(AssertionError, match=match):
        check_calibrated(**options)


@pytest.mark.long
def test_weights_for_more_than_the_step_between_powers(monkeypatch):
    right = annealing.incremental_log_weights
    monkeypatch.setattr(
        annealing, "incremental_log_weights", lambda log_likelihood, step: right(log_likelihood, 1.5 * step)
    )
    caught("Z is off")


@pytest.mark.long
def test_moves_at_the_posterior_instead_of_the_power(monkeypatch):
    update = particle_moves.HostParticleMove._update
    monkeypatch.setattr(
        particle_moves.HostParticleMove, "_update", lambda self, old, beta, floor: update(self, old, 1.0, floor)
    )
    caught("Z is off")


@pytest.mark.long
def test_a_level_multiplied_by_the_power(monkeypatch):
    update = particle_moves.HostParticleMove._update
    monkeypatch.setattr(
        particle_moves.HostParticleMove, "_update", lambda self, old, beta, floor: update(self, old, 1 / beta, floor)
    )
    caught("Z is off")


@pytest.mark.long
def test_log_likelihoods_left_behind_when_particles_are_resampled(monkeypatch):
    def only_points(particles, rows):
        return particle_moves.Particles(particles.f[rows], particles.log_likelihood)

    monkeypatch.setattr(annealing, "resample", only_points)
    monkeypatch.setattr(particle_moves, "MAX_EVALUATIONS", 30)  # many searches are in vain, and would take long
    caught("Z is off")


@pytest.mark.long
def test_resampling_whatever_the_weights(monkeypatch):
    monkeypatch.setattr(
        annealing, "systematic_rows", lambda log_weights, rng: rng.integers(0, len(log_weights), len(log_weights))
    )
    caught("Z is off")


@pytest.mark.long
def test_errors_that_forget_that_replicates_are_few(monkeypatch):
    def too_sure(log_values):
        log_mean = float(np.logaddexp.reduce(log_values)) - float(np.log(len(log_values)))
        return log_mean, float(np.exp(log_values - log_mean).std(ddof=1) / len(log_values))

    monkeypatch.setattr(tempered, "log_mean", too_sure)
    caught("errors are wrong")


def test_no_moves_between_powers_are_noticed(monkeypatch):
    """The estimate would still be unbiased, but with a large error. A warning reports the cause."""

    def stay(self, particles, betas, floor=None):
        return particle_moves.MovedParticles(particles, np.tile(particles.log_likelihood, (len(betas), 1)), 0, 0, 0)

    monkeypatch.setattr(particle_moves.HostParticleMove, "move", stay)
    with pytest.warns(UserWarning, match="the particles mix slowly"):
        es.evidence(
            log_likelihood,
            es.Dense(SIGMA),
            method="tempered",
            particles=100,
            seed=1,
            engine="host",
            vectorized=True,
            updates_per_temperature=4,
            target_effective_fraction=0.5,
        )
