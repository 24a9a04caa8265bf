"""Particle runs of `evidence`: their first draws, and the three runs of the tempered method."""

from __future__ import annotations

import numpy as np

from ellipslice.marginal.annealing import (
    Cost,
    Schedule,
    SequentialResult,
    annealed_importance_sampling,
    find_schedule,
    sequential_monte_carlo,
)
from ellipslice.marginal.arguments import PathSettings
from ellipslice.marginal.particle_moves import ParticleMove, Particles, refuse_infinite
from ellipslice.marginal.target import AnnealedTarget
from ellipslice.noise import generator

MAX_CORRELATION = 0.1
"""The pilot run ends at an inverse temperature if log-likelihoods before and after correlate by at most this."""

MAX_UPDATES = 400
"""Largest number of updates that the pilot run makes at one inverse temperature."""


class ParticleRuns:
    """The particle runs of one estimate: each has its own random numbers, and `cost` is their total.

    A CPU moves `group` particles in one call.
    """

    def __init__(self, target: AnnealedTarget, seed: int, group: int):
        self.target, self._seed, self._group = target, seed, group
        self.cost = Cost()

    def generator(self, number: int, purpose: int) -> np.random.Generator:
        """Return a generator of run `number`. Purpose 0 is its first draws."""
        return generator(self._seed, number, purpose)

    def begin(self, number: int, count: int, draws: int | None = None) -> tuple[ParticleMove, Particles]:
        """Return the move of run `number` for `count` particles, and evaluated draws from the target's Gaussian.

        There are `draws` of them. Default: `count`.
        """
        own_seed = int(np.random.SeedSequence(self._seed, spawn_key=(number,)).generate_state(1, np.uint64)[0])
        move = self.target.make_move(own_seed, count, self._group)
        f = self.target.draw(self.generator(number, 0), draws or count)
        values = move.evaluate(f)
        self.cost.evaluations += len(values)
        self.cost.nan_evaluations += int(np.isnan(values).sum())
        refuse_infinite(values)
        if not np.isfinite(values).any():
            raise ValueError(
                f"the likelihood is zero (its logarithm is -inf or NaN) at all {len(values):,} draws from the prior, "
                "so Z cannot be estimated. Increase particles. If the region of positive likelihood is far from the "
                "prior mean, use a log-likelihood that decreases gradually outside it instead of -inf."
            )
        return move, Particles(f, values)


class TemperedRuns(ParticleRuns):
    """The pilot run, sequential Monte Carlo and annealed importance sampling."""

    def pilot(self, count: int, draws: int, settings: PathSettings) -> Schedule:
        """Find the schedule with `count` particles, chosen among draws with a positive likelihood."""
        move, (f, values) = self.begin(0, count, max(count, draws))
        alive = np.flatnonzero(np.isfinite(values))
        rows = np.resize(alive, count)
        return find_schedule(
            move,
            Particles(f[rows], values[rows]),
            self.generator(0, 1),
            settings.target_effective_fraction,
            MAX_CORRELATION if settings.updates_per_temperature is None else -np.inf,
            int(settings.updates_per_temperature or MAX_UPDATES),
            self.cost,
        )

    def sequential(self, particles: int, replicates: int, schedule: Schedule) -> SequentialResult:
        """Run sequential Monte Carlo in independent replicates. Return their estimates of log Z and the particles."""
        begun = self.begin(1, particles)
        return sequential_monte_carlo(*begun, replicates, schedule, self.generator(1, 1), self.cost)

    def annealed(self, particles: int, schedule: Schedule) -> np.ndarray:
        """Run annealed importance sampling, and return the log weights of the particles."""
        return annealed_importance_sampling(*self.begin(2, particles), schedule.per_update(), self.cost)
