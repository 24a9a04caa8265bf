"""Anneal particles from the prior to the posterior: the schedule of inverse temperatures, and two estimates of Z.

At the inverse temperature beta the particles are distributed as N(f; 0, Sigma) L(f)^beta: the prior for beta = 0, the
posterior for beta = 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ellipslice.marginal.particle_moves import UPDATES_PER_CALL, MovedParticles, ParticleMove, Particles


class Schedule(NamedTuple):
    """Inverse temperatures, and the number of updates of every particle at each of them."""

    betas: np.ndarray
    """Inverse temperatures in increasing order, without 0; the last is 1."""
    updates: np.ndarray
    """Number of updates of every particle at each inverse temperature."""
    correlations: np.ndarray
    """Correlation of the particles' log-likelihoods before and after these updates, in the pilot run."""

    def per_update(self) -> np.ndarray:
        """Return one inverse temperature per update, in equal steps between those of the schedule.

        0 is left out, and the last is 1.
        """
        starts = np.concatenate([[0.0], self.betas[:-1]])
        steps = [
            start + (stop - start) * np.arange(1, count + 1) / count
            for start, stop, count in zip(starts, self.betas, self.updates, strict=True)
        ]
        return np.concatenate(steps)


class Cost:
    """Totals over all moves so far: updates, evaluations, NaN and failed searches."""

    def __init__(self) -> None:
        self.updates = self.evaluations = self.nan_evaluations = self.failed_searches = 0

    def add(self, moved: MovedParticles) -> Particles:
        """Add the counts of one move, and return the particles that it moved."""
        self.updates += moved.trace.size
        self.evaluations += moved.evaluations
        self.nan_evaluations += moved.nan_evaluations
        self.failed_searches += moved.failed_searches
        return moved.particles


def find_schedule(
    move: ParticleMove,
    particles: Particles,
    rng: np.random.Generator,
    effective_fraction: float,
    max_correlation: float,
    max_updates: int,
    cost: Cost,
) -> Schedule:
    """Choose inverse temperatures and numbers of updates by a pilot run.

    Parameters
    ----------
    move : ParticleMove
    particles : Particles
        Draws from the prior with finite log-likelihoods.
    rng : numpy.random.Generator
        Used for resampling.
    effective_fraction : float
        Each inverse temperature is as large as possible such that this fraction of the particles stays effective.
        Between 0 and 1.
    max_correlation : float
        Updates at one inverse temperature continue until the log-likelihoods before and after them correlate by at most
        this.
    max_updates : int
        Largest number of updates at one inverse temperature.
    cost : Cost
        Totals, to which the cost of the pilot run is added.
    """
    betas, updates, correlations, beta = [], [], [], 0.0
    while beta < 1:
        following = next_beta(particles.log_likelihood, beta, effective_fraction)
        log_weights = incremental_log_weights(particles.log_likelihood, following - beta)
        particles = resample(particles, systematic_rows(log_weights, rng))
        start, count, found = particles, 0, np.inf
        while count < max_updates and found > max_correlation:
            more = min(UPDATES_PER_CALL, max_updates - count)
            particles = cost.add(move.move(particles, np.full(more, following)))
            count, found = count + more, correlation(start, particles)
        beta = following
        betas.append(beta)
        updates.append(count)
        correlations.append(found)
    return Schedule(np.array(betas), np.array(updates), np.array(correlations))


def next_beta(log_likelihood: np.ndarray, beta: float, effective_fraction: float) -> float:
    """Return the next inverse temperature, at most 1, for equally weighted particles at `beta`.

    It is the largest at which their conditional effective sample size, (mean w)^2 / mean w^2 (Zhou, Johansen & Aston
    2016), is at least `effective_fraction`.
    """
    values = log_likelihood[np.isfinite(log_likelihood)]
    spread = float(np.ptp(values))

    def kept(step: float) -> float:
        scaled = step * (values - values.max())
        return float(np.exp(2 * np.logaddexp.reduce(scaled) - np.logaddexp.reduce(2 * scaled)) / len(values))

    high = 1.0 - beta
    if kept(high) >= effective_fraction:
        return 1.0
    low = min(high, 1e-3 / spread)
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if kept(middle) >= effective_fraction else (low, middle)
    return beta + low


def correlation(before: Particles, after: Particles) -> float:
    """Return the correlation of the particles' log-likelihoods before and after some updates; 0 if one is constant."""
    a, b = before.log_likelihood, after.log_likelihood
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def incremental_log_weights(log_likelihood: np.ndarray, step: float) -> np.ndarray:
    """Return the log weights step * log L of a step in the inverse temperature; NaN counts as a likelihood of zero."""
    return step * np.where(np.isnan(log_likelihood), -np.inf, log_likelihood)


def resample(particles: Particles, rows: np.ndarray) -> Particles:
    """Return the particles with these indices, which may repeat."""
    return Particles(particles.f[rows], particles.log_likelihood[rows])


@np.errstate(under="ignore")  # a weight that underflows is 0
def systematic_rows(log_weights: np.ndarray, rng: np.random.Generator, count: int | None = None) -> np.ndarray:
    """Return `count` indices drawn in proportion to the weights by systematic resampling. Default: one per weight."""
    count = count or len(log_weights)
    edges = np.cumsum(np.exp(log_weights - np.logaddexp.reduce(log_weights)))
    rows = np.searchsorted(edges / edges[-1], (np.arange(count) + rng.random()) / count, side="right")
    return np.minimum(rows, len(log_weights) - 1)


class SequentialResult(NamedTuple):
    """Result of sequential Monte Carlo."""

    log_z: np.ndarray
    """Estimate of log Z of each replicate, shape (replicates,)."""
    particles: Particles
    """Particles at the end, equally weighted within each replicate."""
    surviving_fraction: float
    """Fraction of the first draws that have descendants at the end."""


def sequential_monte_carlo(
    move: ParticleMove, particles: Particles, replicates: int, schedule: Schedule, rng: np.random.Generator, cost: Cost
) -> SequentialResult:
    """Estimate Z by weighting, resampling and moving particles, in independent replicates.

    A replicate is resampled if its effective sample size is below half its particles, and at the first and last inverse
    temperature. Its estimate of Z is unbiased, because the schedule is fixed.
    """
    count = len(particles.f) // replicates
    log_z, log_weights = np.zeros(replicates), np.zeros((replicates, count))
    ancestor, beta = np.arange(len(particles.f)), 0.0
    for following, updates in zip(schedule.betas, schedule.updates, strict=True):
        step_weights = incremental_log_weights(particles.log_likelihood, following - beta)
        log_weights = log_weights + step_weights.reshape(replicates, count)
        first, beta = beta == 0, following
        rows = np.arange(len(particles.f)).reshape(replicates, count)
        for replicate, own in enumerate(log_weights):
            total = np.logaddexp.reduce(own)
            if total == -np.inf:  # the likelihood is zero at all draws of this replicate, so its estimate of Z is zero
                rows[replicate] = rng.choice(np.flatnonzero(np.isfinite(particles.log_likelihood)), count)
                log_z[replicate] = -np.inf
            elif first or beta == 1 or 2 * total - np.logaddexp.reduce(2 * own) < np.log(count / 2):
                rows[replicate] = rows[replicate][systematic_rows(own, rng)]
                log_z[replicate] += total - np.log(count)
            else:
                continue
            log_weights[replicate] = 0.0
        particles, ancestor = resample(particles, rows.ravel()), ancestor[rows.ravel()]
        particles = cost.add(move.move(particles, np.full(updates, beta)))
    return SequentialResult(log_z, particles, len(np.unique(ancestor)) / len(ancestor))


def annealed_importance_sampling(move: ParticleMove, particles: Particles, betas: np.ndarray, cost: Cost) -> np.ndarray:
    """Return the log weight of each particle by annealed importance sampling, with one update per inverse temperature.

    Particles are never resampled or compared with each other.
    """
    log_weights = incremental_log_weights(particles.log_likelihood, betas[0])
    alive = np.flatnonzero(np.isfinite(log_weights))
    # A move has a fixed number of particles, so those of zero likelihood are replaced by copies, which are not used.
    particles = resample(particles, np.resize(alive, len(log_weights)))
    moved = move.move(particles, betas)
    cost.add(moved)
    steps = np.diff(betas)
    log_weights[alive] += steps @ moved.trace[:-1, : len(alive)]
    return log_weights
