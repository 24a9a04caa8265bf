"""Nested sampling with elliptical slice updates, in independent replicates that move together.

Live points are draws from the prior. An iteration removes a quarter of them: all with a log-likelihood at or below a
level. Copies of other live points replace them, after updates that stay strictly above the level. A plateau of the
log-likelihood is therefore removed as a whole, and its prior mass is estimated by its share of the live points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ellipslice.marginal.annealing import Cost
from ellipslice.marginal.insertion_ranks import InsertionRanks, insertion_ranks, join_ranks
from ellipslice.marginal.nested_sum import NestedPoints
from ellipslice.marginal.particle_moves import ParticleMove, Particles, refuse_infinite

REMOVED_FRACTION = 0.25
"""Fraction of the live points that an iteration replaces.

The product of variance and cost is within 1 % of that for one point at a time, and a quarter of 1,000 points is two
groups of particles for a CPU."""

REMAINING = 1e-3
"""A replicate is finished if its remaining prior mass times the largest likelihood is below this fraction of Z."""

MAX_ITERATIONS = 50_000
"""Largest number of iterations. Each reduces the prior mass by a quarter, so only an infinite Z gets here."""

KEPT_LOG_WEIGHT = 25.0
"""Points are kept as draws if their weight is at least exp(-25) times the largest in their replicate."""


class NestedResult(NamedTuple):
    """Result of nested sampling."""

    points: NestedPoints
    """All points, of which the last `len(f)` in `rows` have a state."""
    rows: np.ndarray
    """Indices of the points that are kept, because their weight is not negligible."""
    f: np.ndarray
    """States of the kept points, shape (kept, size)."""
    ranks: InsertionRanks


class _LivePoints:
    """Live points of all replicates, arrays of shape (replicates, live), with what is known of each replicate's Z."""

    def __init__(self, particles: Particles, replicates: int):
        values = np.where(np.isnan(particles.log_likelihood), -np.inf, particles.log_likelihood)
        self.log_likelihood = values.reshape(replicates, -1)
        self.f = np.array(particles.f).reshape(*self.log_likelihood.shape, -1)
        self.birth = np.full(self.log_likelihood.shape, np.nan)
        self.log_mass, self.log_z = np.zeros(replicates), np.full(replicates, -np.inf)

    def lowest(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the level of each replicate, and which points are at or below it: at least `count`, or none.

        None are removed if all live points of a replicate are equal, because no live point is above the level.
        """
        level = np.partition(self.log_likelihood, count - 1, axis=1)[:, count - 1]
        gone = self.log_likelihood <= level[:, None]
        gone[gone.all(axis=1)] = False
        return level, gone

    def finished(self) -> np.ndarray:
        """Return, for each replicate, whether its live points contribute a negligible part of Z."""
        return self.log_mass + self.log_likelihood.max(axis=1) < self.log_z + np.log(REMAINING)

    def remove(self, gone: np.ndarray) -> np.ndarray:
        """Update the masses and the estimates of Z for the removal of points. Return the log weights of these."""
        live = gone.shape[1]
        weights = (self.log_mass - np.log(live))[:, None] + self.log_likelihood
        for replicate, own in enumerate(gone):
            self.log_z[replicate] = np.logaddexp.reduce(weights[replicate][own], initial=self.log_z[replicate])
            self.log_mass[replicate] -= np.sum(1.0 / (live - np.arange(own.sum())))
        return weights[gone]


class _History:
    """Points that were removed, in order. Only states whose weight is not negligible are kept."""

    def __init__(self) -> None:
        self._points: list[NestedPoints] = []
        self._states: list[tuple[np.ndarray, np.ndarray, float]] = []
        self._count = 0

    def add(self, live: _LivePoints, gone: np.ndarray, log_weights: np.ndarray) -> None:
        """Add some of the live points, with their log weights."""
        values = live.log_likelihood[gone]
        self._points.append(NestedPoints(values, live.birth[gone], np.nonzero(gone)[0]))
        self._states.append((self._count + np.arange(len(values)), live.f[gone], float(log_weights.max())))
        self._count += len(values)
        least = max(highest for _, _, highest in self._states) - KEPT_LOG_WEIGHT
        self._states = [own for own in self._states if own[2] >= least]

    def result(self, ranks: list[InsertionRanks]) -> NestedResult:
        """Return all points and the kept states."""
        points = NestedPoints(*(np.concatenate(parts) for parts in zip(*self._points, strict=True)))
        rows, states = (np.concatenate([own[part] for own in self._states]) for part in (0, 1))
        return NestedResult(points, rows, states, join_ranks(ranks))


def batch_of(live: int) -> int:
    """Return the number of points that an iteration replaces in a replicate with `live` points."""
    return max(1, int(live * REMOVED_FRACTION))


def nested_sampling(
    move: ParticleMove, particles: Particles, replicates: int, updates: int, rng: np.random.Generator, cost: Cost
) -> NestedResult:
    """Run nested sampling in independent replicates until each has a negligible rest.

    Parameters
    ----------
    move : ParticleMove
        Move of ``replicates * batch_of(live points of a replicate)`` particles.
    particles : Particles
        Draws from the prior with their log-likelihoods, in equal parts for the replicates.
    replicates : int
    updates : int
        Number of updates of each replacement.
    rng : numpy.random.Generator
        Chooses the points that replacements are moved from, and breaks ties of ranks.
    cost : Cost
        Totals, to which the cost of the run is added.
    """
    live, history, ranks = _LivePoints(particles, replicates), _History(), []
    batch = batch_of(live.log_likelihood.shape[1])
    for _ in range(MAX_ITERATIONS):
        level, gone = live.lowest(batch)
        if (live.finished() | ~gone.any(axis=1)).all():
            break
        history.add(live, gone, live.remove(gone))
        ranks += _replace(live, level, gone, _Replacements(move, updates, batch, rng, cost))
    else:
        raise RuntimeError(
            f"nested sampling has not ended after {MAX_ITERATIONS:,} iterations, because the likelihood still "
            "increases faster than the prior mass decreases. Check whether it is unbounded: then Z may be infinite."
        )
    everything = np.ones(live.log_likelihood.shape, bool)
    history.add(live, everything, live.remove(everything))
    return history.result(ranks)


class _Replacements(NamedTuple):
    """Move of the replacements, and its settings."""

    move: ParticleMove
    updates: int
    batch: int
    rng: np.random.Generator
    cost: Cost


def _replace(live: _LivePoints, level: np.ndarray, gone: np.ndarray, by: _Replacements) -> list[InsertionRanks]:
    """Replace the points that are `gone` by moved copies of the others. Return their insertion ranks.

    The points to copy are chosen at random, each about equally often. A call of the move has room for `batch`
    replacements in each replicate. Larger plateaus take several calls, and empty places move a copy that is not used.
    """
    parent = np.tile(np.arange(gone.shape[1]), (len(gone), 1))
    for replicate, own in enumerate(gone):
        survivors = by.rng.permutation(np.flatnonzero(~own))
        parent[replicate, own] = by.rng.permutation(np.resize(survivors, own.sum()))
    before, waiting = live.log_likelihood.copy(), gone.copy()
    best = np.unravel_index(before.argmax(), before.shape)
    while waiting.any():
        place = np.argsort(~waiting, axis=1, kind="stable")[:, : by.batch]
        used = np.take_along_axis(waiting, place, axis=1).ravel()
        replicate, place = np.repeat(np.arange(len(gone)), by.batch), place.ravel()
        source = np.where(used, replicate, best[0]), np.where(used, parent[replicate, place], best[1])
        floor = np.where(used, level[replicate], -np.inf)
        start = Particles(live.f[source], before[source])
        moved = by.cost.add(by.move.move(start, np.zeros(by.updates), floor))
        refuse_infinite(moved.log_likelihood)
        target = replicate[used], place[used]
        live.f[target], live.log_likelihood[target] = moved.f[used], moved.log_likelihood[used]
        live.birth[target], waiting[target] = floor[used], False
    return [
        insertion_ranks(
            before[own][~gone[own]], before[own, parent[own, gone[own]]], live.log_likelihood[own, gone[own]], by.rng
        )
        for own in np.flatnonzero(gone.any(axis=1))
    ]
