"""Elliptical slice updates of many particles, each update at an inverse temperature beta and above a fixed level.

The condition beta log L(f') > beta log L(f) - level is the same as log L(f') > log L(f) - level / beta. An update for
L^beta is therefore the update of Figure 2 with its level divided by beta, and evaluates the same log-likelihood. Draws
from the prior with log L > floor have a slice of the fixed level `floor`: beta is 0, so log L(f) - level / beta is
-inf, and log y is the larger of it and `floor`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.compiled.search import evaluate_together
from ellipslice.engines.device.draws import DrawSchedule
from ellipslice.engines.device.loop import run_block_on_device
from ellipslice.engines.device.noise import chain_keys, draw_noise, first_angles
from ellipslice.engines.device.prior_draws import Source
from ellipslice.engines.host.angles import AngleTable
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import EllipticalSlice, State
from ellipslice.moves.search import MAX_EVALUATIONS, WIDTH
from ellipslice.noise import NoiseSpec, draw_block
from ellipslice.priors import Prior
from ellipslice.programs.traced import ProgramProperties, program_properties

UPDATES_PER_CALL = 4
"""Updates in one call of the compiled loop, inside which no particle waits for another."""

PARTICLES_PER_GROUP = 250
"""Particles that a CPU moves in one call: few enough for its cache, and a divisor of usual numbers of particles."""

MOVE = EllipticalSlice()


class Particles(NamedTuple):
    """States of all particles."""

    f: np.ndarray
    """Centred flat vectors, shape (particles, size)."""
    log_likelihood: np.ndarray
    """Log-likelihoods, shape (particles,)."""


class MovedParticles(NamedTuple):
    """Particles after some updates, with the cost of these updates."""

    particles: Particles
    trace: np.ndarray
    """Log-likelihoods after each update, shape (updates, particles)."""
    evaluations: int
    """Number of evaluations of the log-likelihood."""
    nan_evaluations: int
    """Number of evaluations that returned NaN."""
    failed_searches: int
    """Number of searches that found no acceptable point."""


def refuse_infinite(log_likelihood: np.ndarray) -> None:
    """Raise if the log-likelihood is +inf at a point."""
    if (log_likelihood == np.inf).any():
        raise ValueError(
            "the log-likelihood is +inf at a draw from the prior, so Z would be infinite. Check it for overflow and "
            "division by zero."
        )


class ParticleMove(abc.ABC):
    """Elliptical slice updates of a fixed number of particles.

    The random numbers depend only on the seed, the particle and the number of the update, which the object counts.
    """

    @abc.abstractmethod
    def evaluate(self, f: np.ndarray) -> np.ndarray:
        """Return the log-likelihoods of points, (points, size) to (points,)."""

    @abc.abstractmethod
    def move(self, particles: Particles, betas: np.ndarray, floor: np.ndarray | None = None) -> MovedParticles:
        """Make one update of every particle for each inverse temperature.

        Update t leaves N(f; 0, Sigma) L(f)^betas[t], restricted to log L(f) > floor, invariant. An inverse temperature
        of 0 needs a floor.

        Parameters
        ----------
        particles : Particles
            Log-likelihoods must be finite, and above `floor`.
        betas : array, shape (updates,)
            Inverse temperatures.
        floor : array, shape (particles,), optional
            Level above which the log-likelihood of each particle stays. Default: no such level.
        """


class DeviceParticleMove(ParticleMove):
    """Particles moved by the loop of the batched engine, for likelihoods and priors that JAX can trace.

    A GPU moves all particles in one call. A CPU moves them in groups of a fixed size on its cores, so one compiled
    program serves any number of particles.

    Parameters
    ----------
    likelihood : pytree
        Function of a centred flat vector.
    source : Source
        Source of draws from the prior.
    seed : int
    count : int
        Number of particles.
    group : int
        Number of particles that a CPU moves in one call.
    """

    def __init__(self, likelihood: Any, source: Source, seed: int, count: int, group: int):
        self.count, self.done = count, 0
        self._likelihood, self._source = likelihood, source
        self._properties: ProgramProperties | None = None
        gpu = jax.default_backend() == "gpu"
        self._ahead, group = (8, count) if gpu else (2, group)
        self._groups = [np.arange(start, start + group) % count for start in range(0, count, group)]
        self._keys = [chain_keys(seed, group.tolist()) for group in self._groups]

    def evaluate(self, f: np.ndarray) -> np.ndarray:
        with jax_settings():
            return np.asarray(evaluate_together(self._likelihood, f))

    def move(self, particles: Particles, betas: np.ndarray, floor: np.ndarray | None = None) -> MovedParticles:
        f, log_likelihood = np.array(particles.f), np.array(particles.log_likelihood)
        trace, totals = np.empty((len(betas), self.count)), np.zeros(3, np.int64)
        if self._properties is None:
            with jax_settings():
                self._properties = program_properties(self._likelihood, f.shape[1])
        with ThreadPoolExecutor(min(len(self._groups), self._properties.threads), "ellipslice-move") as pool:
            one = partial(self._move_group, particles, betas, floor)
            for group, (state, rows, counts) in zip(self._groups, pool.map(one, range(len(self._groups))), strict=True):
                f[group], log_likelihood[group], trace[:, group] = state.f, state.log_likelihood, rows
                own = len(np.unique(group)) if group is self._groups[-1] else len(group)  # the last group may be padded
                totals += counts[:, :own].sum(axis=1)
        self.done += len(betas)
        return MovedParticles(Particles(f, log_likelihood), trace, *(int(total) for total in totals))

    def _move_group(
        self, particles: Particles, betas: np.ndarray, floor: np.ndarray | None, number: int
    ) -> tuple[State, np.ndarray, np.ndarray]:
        group, rows, counts = self._groups[number], [], np.zeros((3, len(self._groups[number])), np.int64)
        state = State(particles.f[group], particles.log_likelihood[group])
        floor = None if floor is None else floor[group]
        with jax_settings():  # in each thread, because JAX's settings are local to a thread
            fixed = self._ahead, self._likelihood, self._source, self._keys[number]
            for start in range(0, len(betas), UPDATES_PER_CALL):
                some = betas[start : start + UPDATES_PER_CALL]
                padded = np.concatenate([some, np.ones(UPDATES_PER_CALL - len(some))])
                first, stop = np.uint32(self.done + start), np.int32(len(some))
                state, trace, counted = _updates(*fixed, first, state, (padded, floor), stop)
                rows.append(np.asarray(trace)[: len(some)])
                counts += np.asarray(counted)
            return State(*(np.asarray(part) for part in state)), np.concatenate(rows), counts


@partial(jax.jit, static_argnums=0)
def _updates(
    ahead: int, likelihood: Any, source: Source, keys: Any, first: Any, state: State, levels: Any, stop: Any
) -> tuple[State, Any, Any]:
    """Run a block of updates. `levels` has the inverse temperature of each update, and the floor of each particle."""
    betas, floor = levels
    noise = draw_noise(MOVE, source, keys, first, UPDATES_PER_CALL, np.dtype(np.float64), first_angles)
    noise = noise._replace(level=noise.level / betas[:, None], floor=floor)
    every = DrawSchedule(stop, jnp.int32(0), jnp.int32(1))
    state, draws, counts = run_block_on_device(MOVE, ahead, 4, likelihood, state, noise, every, UPDATES_PER_CALL)
    return state, draws.log_likelihood, jnp.stack(counts[:3])


class HostParticleMove(ParticleMove):
    """Particles moved on the host, for any Python callable and for priors that only the host can draw from.

    Parameters
    ----------
    values : callable
        Log-likelihoods of points, (points, size) to (points,).
    prior : Prior
    seed : int
    count : int
        Number of particles.
    """

    def __init__(self, values: Callable[[np.ndarray], np.ndarray], prior: Prior, seed: int, count: int):
        self.count, self.done = count, 0
        self._values, self._prior, self._seed = values, prior, seed

    def evaluate(self, f: np.ndarray) -> np.ndarray:
        return self._values(f)

    def move(self, particles: Particles, betas: np.ndarray, floor: np.ndarray | None = None) -> MovedParticles:
        trace, evaluations, nans, failed = [], 0, 0, 0
        for beta in betas:
            particles, *counts = self._update(particles, beta, floor)
            trace.append(particles.log_likelihood)
            evaluations, nans, failed = (a + b for a, b in zip((evaluations, nans, failed), counts, strict=True))
            self.done += 1
        return MovedParticles(particles, np.array(trace), evaluations, nans, failed)

    def _update(self, particles: Particles, beta: float, floor: np.ndarray | None) -> tuple[Particles, int, int, int]:
        """Update every particle once. Each pass evaluates the next proposal of every unfinished search in one batch."""
        spec = NoiseSpec.from_prior(self._prior, self._prior.size)
        noise = draw_block(spec, self._seed, 0, self.done, self.count)
        table, nu = AngleTable(MOVE, noise.uniforms[:, 0]), noise.nu[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):  # beta is 0 for draws from the prior above a floor
            log_y = particles.log_likelihood - noise.level[:, 0] / beta
        if floor is not None:
            log_y = np.fmax(log_y, floor)
        f, log_likelihood = np.array(particles.f), np.array(particles.log_likelihood)
        searching, evaluations, nans = np.arange(self.count), 0, 0
        for tried in range(MAX_EVALUATIONS):
            if tried < WIDTH:
                theta = table.theta[searching, tried]
            else:
                theta = np.array([table.angle(int(number), tried) for number in searching])
            w_a, w_b = (weight[:, None] for weight in MOVE.weights(theta))
            points = w_a * particles.f[searching] + w_b * nu[searching]
            values = self._values(points)
            evaluations, nans = evaluations + len(values), nans + int(np.isnan(values).sum())
            accepted = values > log_y[searching]
            f[searching[accepted]], log_likelihood[searching[accepted]] = points[accepted], values[accepted]
            searching = searching[~accepted]
            if not len(searching):
                break
        return Particles(f, log_likelihood), evaluations, nans, len(searching)
