"""Elliptical slice updates of many particles at once, each update at a power of the likelihood.

A power needs no other likelihood. beta log L(f') > beta log L(f) - level is log L(f') > log L(f) - level / beta: the
slice of L^beta is Figure 2's with its level divided by beta.
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
from ellipslice.engines.device.loop import DrawSchedule, run_block_on_device
from ellipslice.engines.device.noise import chain_keys, draw_noise, first_angles
from ellipslice.engines.device.prior_draws import Source
from ellipslice.engines.host.angles import AngleTable
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import EllipticalSlice, State
from ellipslice.moves.search import MAX_EVALUATIONS, WIDTH
from ellipslice.noise import NoiseSpec, draw_block
from ellipslice.priors import Prior
from ellipslice.programs.traced import Look, look

TOGETHER = 4
"""Updates that the device makes in one go, without a particle waiting for another."""

GROUP = 250
"""Particles that a CPU moves in one go: small enough for its cache, and a number of which users take multiples."""

MOVE = EllipticalSlice()


class Particles(NamedTuple):
    """Where particles are: centred flat vectors (particles, size), and their log-likelihoods."""

    f: np.ndarray
    log_likelihood: np.ndarray


class Moved(NamedTuple):
    """Particles after some updates."""

    particles: Particles
    trace: np.ndarray
    """Their log-likelihoods after each update, shape (updates, particles)."""
    evaluations: int
    nan_evaluations: int
    failed_searches: int


class Mover(abc.ABC):
    """Moves so many particles. Its noise is a function of the seed, the particle and the update, counted by itself."""

    @abc.abstractmethod
    def evaluate(self, f: np.ndarray) -> np.ndarray:
        """The log-likelihoods of points (points, size)."""

    @abc.abstractmethod
    def move(self, particles: Particles, powers: np.ndarray) -> Moved:
        """Updates of every particle, as many as there are powers: number t leaves N(f; 0, Sigma) L(f)^powers[t] as is.

        All log-likelihoods must be finite.
        """


class DeviceMover(Mover):
    """Particles in the loop of the batched engine, with its noise: for likelihoods and priors that JAX can trace.

    On a GPU all together; on a CPU in groups, which share the cores, and whose size does not depend on how many there
    are: one program for all.

    Parameters
    ----------
    likelihood : pytree
        A function of a centred flat vector.
    source : Source
        Of draws from the prior.
    seed, count : int
    """

    def __init__(self, likelihood: Any, source: Source, seed: int, count: int):
        self.count, self.done = count, 0
        self._likelihood, self._source = likelihood, source
        self._look: Look | None = None
        gpu = jax.default_backend() == "gpu"
        self._ahead, group = (8, count) if gpu else (2, GROUP)
        self._groups = [np.arange(start, start + group) % count for start in range(0, count, group)]
        self._keys = [chain_keys(seed, group.tolist()) for group in self._groups]

    def evaluate(self, f: np.ndarray) -> np.ndarray:
        with jax_settings():
            return np.asarray(evaluate_together(self._likelihood, f))

    def move(self, particles: Particles, powers: np.ndarray) -> Moved:
        f, log_likelihood = np.array(particles.f), np.array(particles.log_likelihood)
        trace, totals = np.empty((len(powers), self.count)), np.zeros(3, np.int64)
        if self._look is None:
            with jax_settings():
                self._look = look(self._likelihood, f.shape[1])
        with ThreadPoolExecutor(min(len(self._groups), self._look.threads), "ellipslice-move") as pool:
            one = partial(self._move_group, particles, powers)
            for group, (state, rows, counts) in zip(self._groups, pool.map(one, range(len(self._groups))), strict=True):
                f[group], log_likelihood[group], trace[:, group] = state.f, state.log_likelihood, rows
                own = len(np.unique(group)) if group is self._groups[-1] else len(group)  # the last may be padded
                totals += counts[:, :own].sum(axis=1)
        self.done += len(powers)
        return Moved(Particles(f, log_likelihood), trace, *(int(total) for total in totals))

    def _move_group(
        self, particles: Particles, powers: np.ndarray, number: int
    ) -> tuple[State, np.ndarray, np.ndarray]:
        group, rows, counts = self._groups[number], [], np.zeros((3, len(self._groups[number])), np.int64)
        state = State(particles.f[group], particles.log_likelihood[group])
        with jax_settings():  # in each thread: they are of a thread
            fixed = self._ahead, self._likelihood, self._source, self._keys[number]
            for start in range(0, len(powers), TOGETHER):
                some = powers[start : start + TOGETHER]
                padded = np.concatenate([some, np.ones(TOGETHER - len(some))])
                first, stop = np.uint32(self.done + start), np.int32(len(some))
                state, trace, counted = _updates(*fixed, first, state, padded, stop)
                rows.append(np.asarray(trace)[: len(some)])
                counts += np.asarray(counted)
            return State(*(np.asarray(part) for part in state)), np.concatenate(rows), counts


@partial(jax.jit, static_argnums=0)
def _updates(
    ahead: int, likelihood: Any, source: Source, keys: Any, first: Any, state: State, powers: Any, stop: Any
) -> tuple[State, Any, Any]:
    noise = draw_noise(MOVE, source, keys, first, TOGETHER, np.dtype(np.float64), first_angles)
    noise = noise._replace(level=noise.level / powers[:, None])
    every = DrawSchedule(stop, jnp.int32(0), jnp.int32(1))
    state, draws, counts = run_block_on_device(MOVE, ahead, 4, likelihood, state, noise, every, TOGETHER)
    return state, draws.log_likelihood, jnp.stack(counts[:3])


class HostMover(Mover):
    """Particles side by side on the host: for any Python callable, and for priors that draw by themselves.

    Parameters
    ----------
    values : callable
        Points (points, size) to their log-likelihoods.
    prior : Prior
    seed, count : int
    """

    def __init__(self, values: Callable[[np.ndarray], np.ndarray], prior: Prior, seed: int, count: int):
        self.count, self.done = count, 0
        self._values, self._prior, self._seed = values, prior, seed

    def evaluate(self, f: np.ndarray) -> np.ndarray:
        return self._values(f)

    def move(self, particles: Particles, powers: np.ndarray) -> Moved:
        trace, evaluations, nans, stuck = [], 0, 0, 0
        for power in powers:
            particles, *counts = self._update(particles, power)
            trace.append(particles.log_likelihood)
            evaluations, nans, stuck = (a + b for a, b in zip((evaluations, nans, stuck), counts, strict=True))
            self.done += 1
        return Moved(particles, np.array(trace), evaluations, nans, stuck)

    def _update(self, particles: Particles, power: float) -> tuple[Particles, int, int, int]:
        """One update of every particle. All that are still searching try their next angle together."""
        spec = NoiseSpec.from_prior(self._prior, self._prior.size)
        noise = draw_block(spec, self._seed, 0, self.done, self.count)
        table, nu = AngleTable(MOVE, noise.uniforms[:, 0]), noise.nu[:, 0]
        log_y = particles.log_likelihood - noise.level[:, 0] / power
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
