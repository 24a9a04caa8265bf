"""The pilot run: settings of the move, and starting points, for one posterior. The settings are constant afterwards."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.choose import choose_engine
from ellipslice.engines.rows import collect
from ellipslice.latent.joint import LatentPrior, Point, PointLikelihood
from ellipslice.latent.mode import find_marginal_mode
from ellipslice.latent.newton import find_mode
from ellipslice.latent.posterior import Conditional, LatentPosterior, Sites, WhitePosterior
from ellipslice.latent.propagation import propagate
from ellipslice.latent.scales import Scales
from ellipslice.latent.sites import InterpolatedSites
from ellipslice.latent.student import StudentT
from ellipslice.latent.update import LatentUpdate, UpdateSettings
from ellipslice.moves import State
from ellipslice.posterior import Posterior

CYCLES = 40
"""Updates of each pilot chain with the sites of the mode."""

CHAINS = 2
"""Number of pilot chains."""

DISCARDED = 8
"""Updates at the start of each pilot chain that are not used."""

LARGEST_KICKS = 64
"""Largest number of kicks of a trajectory."""

ACCEPTANCE = (0.8, 0.97)
"""Mean acceptance probabilities between which the number of kicks is not changed."""

TUNED_AFTER = 5
"""Updates between two changes of the number of kicks."""

NEAREST = 0.95
"""Share of the pilot's hyperparameters, nearest to their centre, among which anchors are chosen."""

STARTS = 1000
"""Largest number of tries for a starting point of a chain."""


class Pilot(NamedTuple):
    """Result of the pilot run."""

    move: LatentUpdate

    def starts(self, seed: int, chains: tuple[int, ...]) -> np.ndarray:
        """Return a starting point for each chain, shape (chains, size).

        Hyperparameters are draws from the Student t distribution and white noise is standard normal, so the points vary
        more than the posterior.
        """
        return np.stack([_start(self.move, np.random.default_rng([seed, 1, chain])).flat for chain in chains])


def run_pilot(posterior: LatentPosterior, seed: int) -> Pilot:
    """Find the mode, run pilot chains around it, and return the move that they suggest.

    The chains begin with the sites of the mode. The anchors of the sites are chosen from the hyperparameters of these
    chains. Then the chains continue, and all their hyperparameters determine the t distributions.
    """
    offset, parameters = posterior.assembly.offset, posterior.hyperparameters.parameters
    scales = Scales.of(parameters.priors.values(), own=False)
    mode = find_marginal_mode(posterior)
    at = _at(posterior, mode.u)
    first = propagate(posterior, at, mode.latents.sites)
    eta = first.eta if posterior.hyperparameters.family else None
    student = StudentT.with_covariance(scales, mode.u, mode.covariance)
    sites = InterpolatedSites.between([(at, first.sites)], student, offset, eta)
    settings = UpdateSettings((student,), student.factor)
    run = _PilotRun(posterior, LatentUpdate(WhitePosterior(posterior, sites), settings), seed)
    draws = run.advance(CYCLES)[CHAINS * DISCARDED :]
    if not len(mode.u):
        return Pilot(run.move)
    settings = _with_draws(run.move.settings, draws)
    student = settings.student
    anchors = [_at(posterior, u) for u in _spread_out(draws, student)]
    found = [(at, _sites_at(posterior, at, first.sites, first.eta)) for at in anchors]
    sites = InterpolatedSites.between(found, student, offset, eta)
    run.use(LatentUpdate(WhitePosterior(posterior, sites), replace(settings, kicks=run.move.settings.kicks)))
    draws = np.concatenate([draws, run.advance(CYCLES // 2)])
    return Pilot(replace(run.move, settings=_with_draws(run.move.settings, draws)))


def _with_draws(settings: UpdateSettings, draws: np.ndarray) -> UpdateSettings:
    """Return settings with t distributions, on both scales, and lines for draws of the hyperparameters u."""
    scales = settings.student.scales
    both = [StudentT.fitted(replace(scales, own=own), draws) for own in (False, True)]
    students = both if np.isfinite(scales.lower).any() else both[:1]
    return replace(settings, students=tuple(students), spread=both[0].factor)


def _at(posterior: LatentPosterior, u: np.ndarray) -> Conditional:
    at = posterior.at(u)
    if at is None:
        raise ValueError(
            "the prior's precision is not finite at hyperparameters of the pilot run. Use narrower priors."
        )
    return at


def _sites_at(posterior: LatentPosterior, at: Conditional, sites: Sites, eta: np.ndarray) -> Sites:
    """Return the sites of expectation propagation for some hyperparameters, from those of a Laplace approximation."""
    mode = find_mode(posterior, at, eta)
    return propagate(posterior, at, sites if mode is None else mode.sites).sites


def _start(move: LatentUpdate, rng: np.random.Generator) -> Point:
    student, size = move.settings.student, move.white.posterior.assembly.size
    for _ in range(STARTS):
        u, z = student.draw(rng), rng.standard_normal(size)
        point = None if u is None else move.white.point(u, z)
        if u is not None and point is not None:
            return Point(u, point.z, point.x)
    raise ValueError("no starting point with a finite posterior density was found.")


class _PilotRun:
    """Pilot chains of a posterior, which continue when the move changes."""

    def __init__(self, posterior: LatentPosterior, move: LatentUpdate, seed: int):
        whole = Posterior(LatentPrior(posterior, "pilot"), PointLikelihood(posterior))
        self._seed, self._chains = seed, itertools.count()
        points = [_start(move, np.random.default_rng([seed, 0, number])) for number in range(CHAINS)]
        self._engine, _ = choose_engine(whole, "host", points[0].flat, move)
        self._checkpoints = [Checkpoint(0, State(point.flat, whole.log_likelihood(point.flat))) for point in points]
        self.move = move

    def advance(self, updates: int) -> np.ndarray:
        """Run the chains, and change the number of kicks. Return the hyperparameters, shape (draws, size)."""
        found = []
        for _ in range(0, updates, TUNED_AFTER):
            spec = RunSpec(self.move, self._seed, tuple(next(self._chains) for _ in range(CHAINS)))
            made = collect(self._engine.run(spec, self._checkpoints, TUNED_AFTER), CHAINS)
            self._checkpoints = [Checkpoint(0, rows[-1].last[0].state) for rows in made]
            size = self.move.settings.student.size
            found += [np.asarray(one.f)[0, :, :size] for rows in made for one in rows]
            acceptance = np.mean([one.statistics["acceptance"].mean() for rows in made for one in rows])
            self.move = _with_kicks(self.move, float(acceptance))
        return np.concatenate(found)

    def use(self, move: LatentUpdate) -> None:
        """Continue with another move, from the same hyperparameters and white noise."""
        self.move = move
        points = [Point.split(one.state.f, move.settings.student.size) for one in self._checkpoints]
        for number, point in enumerate(points):
            new = move.white.point(point.u, point.z)
            if new is None:  # the density is 0 there with the new reference
                point = _start(move, np.random.default_rng([self._seed, 2, number]))
                new = move.white.point(point.u, point.z)
            assert new is not None  # noqa: S101  `_start` returns points with a finite density
            flat = Point(point.u, point.z, new.x).flat
            self._checkpoints[number] = Checkpoint(0, State(flat, new.log_likelihood))


def _with_kicks(move: LatentUpdate, acceptance: float) -> LatentUpdate:
    """Return the move with more kicks if too few trajectories were accepted, with fewer if nearly all were."""
    kicks, (low, high) = move.settings.kicks, ACCEPTANCE
    if acceptance < low and kicks < LARGEST_KICKS:
        kicks += max(1, kicks // 3)
    elif acceptance > high and kicks > 2:
        kicks -= 1
    return replace(move, settings=replace(move.settings, kicks=kicks))


def _spread_out(draws: np.ndarray, student: StudentT) -> np.ndarray:
    """Return 2 d + 2 of the draws, far from each other, among those near the centre."""
    white = student.white(draws)
    size = (white**2).sum(1)
    near = np.flatnonzero(size <= np.quantile(size, NEAREST))
    chosen = [int(near[np.argmin(size[near])])]
    distance = ((white - white[chosen[0]]) ** 2).sum(1)
    for _ in range(min(len(near), 2 * draws.shape[1] + 2) - 1):
        chosen.append(int(near[np.argmax(distance[near])]))
        distance = np.minimum(distance, ((white - white[chosen[-1]]) ** 2).sum(1))
    return draws[chosen]
