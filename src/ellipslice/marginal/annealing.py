"""From the prior to the posterior through powers of the likelihood: the schedule, and two estimates of Z along it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ellipslice.marginal.particle_moves import TOGETHER, Moved, Mover, Particles


class Schedule(NamedTuple):
    """The powers of the likelihood, from the first above 0 to 1, and how many updates follow each."""

    powers: np.ndarray
    updates: np.ndarray
    correlations: np.ndarray
    """Of the particles' log-likelihoods before and after these updates, in the pilot run."""

    def refined(self) -> np.ndarray:
        """A power for every update, in equal steps between those of the schedule: 0 is left out, 1 comes last."""
        starts = np.concatenate([[0.0], self.powers[:-1]])
        steps = [
            start + (stop - start) * np.arange(1, count + 1) / count
            for start, stop, count in zip(starts, self.powers, self.updates, strict=True)
        ]
        return np.concatenate(steps)


class Cost:
    """What moves have cost so far."""

    def __init__(self) -> None:
        self.updates = self.evaluations = self.nan_evaluations = self.failed_searches = 0

    def add(self, moved: Moved) -> Particles:
        """Count what a mover did; the particles it moved."""
        self.updates += moved.trace.size
        self.evaluations += moved.evaluations
        self.nan_evaluations += moved.nan_evaluations
        self.failed_searches += moved.failed_searches
        return moved.particles


def find_schedule(
    mover: Mover,
    particles: Particles,
    rng: np.random.Generator,
    overlap: float,
    correlation: float,
    most: int,
    cost: Cost,
) -> Schedule:
    """A pilot run: each power as far from the last as `overlap` allows, each time updates until particles forget.

    Parameters
    ----------
    overlap : float
        What is left of the effective number of particles after one step, as a fraction.
    correlation : float
        Of log-likelihoods before and after the updates at one power: these go on until it is no larger.
    most : int
        Updates at one power.
    """
    powers, updates, seen, power = [], [], [], 0.0
    while power < 1:
        following = next_power(particles.log_likelihood, power, overlap)
        log_weights = weigh(particles.log_likelihood, following - power)
        particles = take(particles, systematic(log_weights, rng))
        start, count, now = particles, 0, np.inf
        while count < most and now > correlation:
            together = min(TOGETHER, most - count)
            particles = cost.add(mover.move(particles, np.full(together, following)))
            count, now = count + together, alike(start, particles)
        power = following
        powers.append(power)
        updates.append(count)
        seen.append(now)
    return Schedule(np.array(powers), np.array(updates), np.array(seen))


def next_power(log_likelihood: np.ndarray, power: float, overlap: float) -> float:
    """The power, at most 1, at which equally weighted particles keep `overlap` of their effective number.

    That number is Zhou, Johansen & Aston's (2016) conditional one, (mean w)^2 / mean w^2.
    """
    values = log_likelihood[np.isfinite(log_likelihood)]
    spread = float(np.ptp(values))

    def kept(step: float) -> float:
        scaled = step * (values - values.max())
        return float(np.exp(2 * np.logaddexp.reduce(scaled) - np.logaddexp.reduce(2 * scaled)) / len(values))

    high = 1.0 - power
    if kept(high) >= overlap:
        return 1.0
    low = min(high, 1e-3 / spread)
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if kept(middle) >= overlap else (low, middle)
    return power + low


def alike(before: Particles, after: Particles) -> float:
    """How much particles still resemble where they were: the correlation of their log-likelihoods."""
    a, b = before.log_likelihood, after.log_likelihood
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def weigh(log_likelihood: np.ndarray, step: float) -> np.ndarray:
    """The logarithms of weights L^step; NaN counts as a likelihood of zero."""
    return step * np.where(np.isnan(log_likelihood), -np.inf, log_likelihood)


def take(particles: Particles, rows: np.ndarray) -> Particles:
    """Some of the particles, or some of them several times."""
    return Particles(particles.f[rows], particles.log_likelihood[rows])


@np.errstate(under="ignore")  # a weight that underflows is 0
def systematic(log_weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As many rows as there are weights, each taken in proportion to its own: systematic resampling."""
    count = len(log_weights)
    edges = np.cumsum(np.exp(log_weights - np.logaddexp.reduce(log_weights)))
    rows = np.searchsorted(edges / edges[-1], (np.arange(count) + rng.random()) / count, side="right")
    return np.minimum(rows, count - 1)


class Sequential(NamedTuple):
    """Estimates by sequential Monte Carlo."""

    log_z: np.ndarray
    """One for each island."""
    particles: Particles
    """At the end, equally weighted within each island."""
    ancestors: float
    """How many of the prior draws have descendants at the end, as a fraction."""


def sequential(
    mover: Mover, particles: Particles, replicates: int, schedule: Schedule, rng: np.random.Generator, cost: Cost
) -> Sequential:
    """Weigh, resample where weights have become unequal, move; in replicates that are independent of each other.

    The estimate of each island is without bias in Z, the schedule being fixed.
    """
    count = len(particles.f) // replicates
    log_z, log_weights = np.zeros(replicates), np.zeros((replicates, count))
    ancestor, power = np.arange(len(particles.f)), 0.0
    for following, updates in zip(schedule.powers, schedule.updates, strict=True):
        log_weights = log_weights + weigh(particles.log_likelihood, following - power).reshape(replicates, count)
        first, power = power == 0, following
        rows = np.arange(len(particles.f)).reshape(replicates, count)
        for island, own in enumerate(log_weights):
            total = np.logaddexp.reduce(own)
            if total == -np.inf:  # an island whose draws all have a likelihood of zero: so is its estimate
                rows[island] = rng.choice(np.flatnonzero(np.isfinite(particles.log_likelihood)), count)
                log_z[island] = -np.inf
            elif first or power == 1 or 2 * total - np.logaddexp.reduce(2 * own) < np.log(count / 2):
                rows[island] = rows[island][systematic(own, rng)]
                log_z[island] += total - np.log(count)
            else:
                continue
            log_weights[island] = 0.0
        particles, ancestor = take(particles, rows.ravel()), ancestor[rows.ravel()]
        particles = cost.add(mover.move(particles, np.full(updates, power)))
    return Sequential(log_z, particles, len(np.unique(ancestor)) / len(ancestor))


def annealed(mover: Mover, particles: Particles, powers: np.ndarray, cost: Cost) -> np.ndarray:
    """The logarithms of the weights of annealed importance sampling: each particle by itself, one update a power."""
    log_weights = weigh(particles.log_likelihood, powers[0])
    alive = np.flatnonzero(np.isfinite(log_weights))
    particles = take(particles, np.resize(alive, len(log_weights)))  # as many as the mover has; the rest are not used
    moved = mover.move(particles, powers)
    cost.add(moved)
    steps = np.diff(powers)
    log_weights[alive] += steps @ moved.trace[:-1, : len(alive)]
    return log_weights
