"""The move of latent Gaussian models: hyperparameters and latents in white coordinates of a reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ellipslice.latent.joint import Point
from ellipslice.latent.posterior import Around, WhitePoint, WhitePosterior
from ellipslice.latent.student import StudentT
from ellipslice.moves import EllipticalSlice, Info, Move, Path, State
from ellipslice.moves.base import Target
from ellipslice.noise import DRAWN_UNIFORMS, Noise, NoiseSpec, UpdateNoise
from ellipslice.priors import Prior

ELLIPSE = EllipticalSlice()

LINE_PROBABILITY = 1 / 6
"""Probability that an update also moves the hyperparameters on a line, without using the t distributions."""

LINE_WIDTH = 10.0
"""Width of the bracket on a line, in standard deviations of the pilot run."""

TURN = math.pi / 2
"""Mean angle of a trajectory of the latents, in radians; it varies between 0.6 and 1.4 times this angle."""


class LatentDraws(NamedTuple):
    """The random numbers of one update."""

    normals: Any
    """Standard normals for the ellipse of the hyperparameters, shape (hyperparameters,)."""
    chi_square: Any
    """Chi-square variables, with one degree of freedom more than the t distribution, shape (hyperparameters,)."""
    direction: Any
    """Standard normals for the direction of the line, shape (hyperparameters,)."""
    momentum: Any
    """Standard normals for the latents, shape (size,)."""
    turn: Any
    """A uniform for the angle of the trajectory."""
    on_line: Any
    """True if this update moves the hyperparameters along a line, too."""
    turn_of: Any
    """Index of the update's t distributions in `UpdateSettings.students`."""


@dataclass(frozen=True)
class Segment(Path):
    """A line segment of length `width`, placed at random around the current state."""

    width: float

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        first = -self.width * place
        return first + self.width * u, first, first + self.width

    def weights(self, theta: Any) -> tuple[Any, Any]:
        return 1.0, theta


@dataclass(frozen=True)
class UpdateSettings:
    """Settings of `LatentUpdate`, which pilot runs choose. The posterior is sampled exactly with any settings."""

    students: tuple[StudentT, ...]
    """Approximations of the posterior of the hyperparameters, which updates use in turn."""
    spread: np.ndarray
    """Matrix from a unit vector to the unit of a line, for unconstrained hyperparameters."""
    kicks: int = 2
    """Number of rotations of a trajectory, with a kick by the gradient between them."""

    @property
    def student(self) -> StudentT:
        """Product of t distributions that approximates the posterior of the unconstrained hyperparameters."""
        return self.students[0]


@dataclass(frozen=True, repr=False)
class LatentUpdate(Move):
    """Updates of the hyperparameters u and of the white noise z of the latents, each with the other fixed.

    1. u moves on an ellipse of a scale mixture of Gaussians, Student t distributions (Nishihara, Murray & Adams 2014).
    2. In one update of six, at random, u also moves on a line, by slice sampling that does not use those distributions.
       It reaches tails that they miss.
    3. (z, momentum) rotates, which is exact for the reference, with kicks by the gradient of the log-likelihood minus
       the sites. The trajectory is accepted or rejected by the change of the energy.

    Each value of u that is tried costs one factorisation of a sparse matrix, and each kick costs four triangular
    solves. The statistic `factorisations` counts the values of u that were tried, and `acceptance` is the
    acceptance probability of the trajectory.

    Parameters
    ----------
    white : WhitePosterior
    settings : UpdateSettings
    """

    stored_as = "LatentUpdate"
    statistics: ClassVar[Mapping[str, type]] = MappingProxyType({"acceptance": float, "factorisations": int})

    white: WhitePosterior = field(compare=False, repr=False)
    settings: UpdateSettings

    def __repr__(self) -> str:
        settings = self.settings
        return f"LatentUpdate({settings.student.size} hyperparameters, {settings.kicks} kicks)"

    def stored(self) -> list[Any]:
        """Return the settings as numbers, which a store contains. `stored.restored_move` is the inverse."""
        from ellipslice.latent.stored import StoredSettings

        return StoredSettings.of(self).leaves

    def noise_spec(self, prior: Prior, prepared: Any) -> NoiseSpec:
        count, size = self.white.posterior.hyperparameters.size, self.white.posterior.assembly.size
        degrees = StudentT.degrees_of_freedom + 1

        def draw(rng: np.random.Generator, updates: int) -> LatentDraws:
            return LatentDraws(
                rng.standard_normal((updates, count)),
                rng.chisquare(degrees, (updates, count)),
                rng.standard_normal((updates, count)),
                rng.standard_normal((updates, size)),
                rng.random(updates),
                rng.random(updates) < LINE_PROBABILITY,
                np.arange(updates) % len(self.settings.students),
            )

        # An update takes much longer than its random numbers, so blocks are short: none is drawn in vain.
        return NoiseSpec(draw, searches=3, numbers=32 * (size + DRAWN_UNIFORMS + 3 * count))

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Update the hyperparameters, then the latents."""
        draws: LatentDraws = noise.drawn
        now, total = self._current(state), Info(0, 0, False, 0.0)
        if self.settings.student.size:
            now, total = self._move_on_ellipse(target, noise, now)
            if draws.on_line:
                now, info = self._move_on_line(target, noise, now)
                total = total.combine(info)
        now, info, acceptance = self._move_latents(now, draws.momentum, draws.turn, noise.level[2])
        flat = Point(now.around.at.u, now.z, now.x).flat
        more = (acceptance, total.evaluations)
        return State(flat, now.log_likelihood), total.combine(info)._replace(more=more)

    def _current(self, state: State) -> WhitePoint:
        """Return the state as a point in white coordinates."""
        u, z, _ = Point.split(state.f, self.settings.student.size)
        point = self.white.point(u, z)
        if point is None:
            raise ValueError("the current state has posterior density 0. Start the chain from another point.")
        return point

    def _move_on_ellipse(self, target: Target, noise: UpdateNoise, now: WhitePoint) -> tuple[WhitePoint, Info]:
        """Update u on an ellipse of the Student t distribution, given its scale."""
        draws: LatentDraws = noise.drawn
        student = self.settings.students[draws.turn_of]
        scales, centre = student.scales, student.centre
        here = scales.coordinates(now.around.at.u) - centre
        nu = student.direction(here, draws.normals, draws.chi_square)

        def log_factor(u: np.ndarray, away: np.ndarray) -> float:
            return -float(scales.log_slope(u).sum()) - student.log_density(away)

        search = _Search(self.white, now, lambda away: scales.unconstrained(centre + away), log_factor)
        return search.run(target, ELLIPSE, noise.search(nu, 0), here)

    def _move_on_line(self, target: Target, noise: UpdateNoise, now: WhitePoint) -> tuple[WhitePoint, Info]:
        """Update u on a line in a random direction."""
        direction = noise.drawn.direction
        nu = self.settings.spread @ (direction / math.sqrt(float(direction @ direction)))
        search = _Search(self.white, now, lambda u: u, lambda u, _: 0.0)
        return search.run(target, Segment(LINE_WIDTH), noise.search(nu, 1), now.around.at.u)

    def _move_latents(
        self, now: WhitePoint, momentum: np.ndarray, turn: float, level: float
    ) -> tuple[WhitePoint, Info, float]:
        """Update z by a trajectory. Return the new point, the statistics, and the acceptance probability."""
        point, last, kicks = self._trajectory(now, momentum, turn)
        if point is None:
            return now, Info(kicks, 0, False, 0.0), 0.0
        energy = float(now.z @ now.z) + float(momentum @ momentum) - float(point.z @ point.z) - float(last @ last)
        change = point.log_ratio - now.log_ratio + 0.5 * energy
        accepted = change > -level  # False for NaN
        probability = math.exp(min(change, 0.0)) if change == change else 0.0
        angle = TURN * (0.6 + 0.8 * turn) if accepted else 0.0
        return point if accepted else now, Info(kicks, 0, False, angle), probability

    def _trajectory(
        self, now: WhitePoint, momentum: np.ndarray, turn: float
    ) -> tuple[WhitePoint | None, np.ndarray, int]:
        """Return the end of a trajectory, its momentum there, and the number of points that were evaluated.

        The end is None if the density is 0 at one of the points, from which the reverse trajectory cannot return.
        """
        step = TURN * (0.6 + 0.8 * turn) / self.settings.kicks
        cos, sin = math.cos(step), math.sin(step)
        around, point = now.around, now
        p = momentum + (step / 2) * _force(around, now.eta)
        for number in range(1, self.settings.kicks + 1):
            z, p = cos * point.z + sin * p, cos * p - sin * point.z
            found = self.white.point_around(around, z)
            if found is None:
                return None, p, number
            point = found
            p = p + (step / 2 if number == self.settings.kicks else step) * _force(around, point.eta)
        return point, p, self.settings.kicks


def _force(around: Around, eta: np.ndarray) -> np.ndarray:
    return around.reference.force(eta, around.at.likelihood.slope(eta))


class _Search:
    """A slice search for a vector that determines u, with z fixed.

    Parameters
    ----------
    white : WhitePosterior
    now : WhitePoint
        The current point.
    unconstrained : callable
        From the vector to u; None where the density is 0.
    log_factor : callable
        Function of u and of the vector: log |du / dvector|, less the log density that the curve leaves invariant.
    """

    def __init__(
        self,
        white: WhitePosterior,
        now: WhitePoint,
        unconstrained: Callable[[np.ndarray], np.ndarray | None],
        log_factor: Callable[[np.ndarray, np.ndarray], float],
    ):
        self._white, self._now, self._unconstrained, self._log_factor = white, now, unconstrained, log_factor
        self._last: WhitePoint | None = None

    def run(self, target: Target, path: Path, noise: Noise, here: np.ndarray) -> tuple[WhitePoint, Info]:
        """Search from the vector `here` of the current point. Return the new point and the statistics."""
        known = self._now.log_ratio + self._log_factor(self._now.around.at.u, here)
        _, info = target.with_likelihood(self._value, None).search(path, noise, State(here, known))
        found = self._now if info.search_failed or self._last is None else self._last
        return found, info

    def _value(self, away: np.ndarray) -> float:
        u = self._unconstrained(away)
        self._last = None if u is None else self._white.point(u, self._now.z)
        return -math.inf if u is None or self._last is None else self._last.log_ratio + self._log_factor(u, away)
