"""Moves around a reference Gaussian on a device: all chains make each update in parallel.

An update of `SplitHamiltonian` has the same cost for all chains, so none waits, and the products of all chains are one
matrix product. Searches along ellipses of a good reference end after one or two passes. Plain updates, on ellipses of
the prior, have the same numbers in all chains, and are outside of the loop over the other updates.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.engines.compiled.search import CompiledTarget
from ellipslice.engines.device.draws import DrawBuffer, DrawSchedule
from ellipslice.engines.device.loop import run_searches
from ellipslice.engines.device.noise import (
    DeviceNoise,
    first_angles,
    keys_of,
    levels,
    place_uniform,
    update_numbers,
)
from ellipslice.engines.device.reference_draws import ReferenceSources
from ellipslice.jax_settings import computes_on_cpu
from ellipslice.moves import Move, ReferenceSlice, SplitHamiltonian, State
from ellipslice.moves.reference_slice import LogRatio, ReferenceEllipse
from ellipslice.moves.split_hamiltonian import accept
from ellipslice.noise import Noise
from ellipslice.programs.traced import over_many, safe_in_batches


def runs_in_lock_step(move: Move) -> bool:
    """Return True if the class of a move is in `UPDATES`. Subclasses are excluded, because they may override `step`."""
    return type(move) in UPDATES


def constant_kicks(move: Move) -> int | None:
    """Return the number of kicks if it is a constant of the compiled program, or None if it is data.

    A GPU waits for the host before each pass of a loop whose length is data, which takes longer than a kick.
    """
    return move.kicks if type(move) is SplitHamiltonian and not computes_on_cpu() else None


@dataclass(frozen=True, kw_only=True)
class EndingEllipse(ReferenceEllipse):
    """A `ReferenceEllipse` on which a search ends at angles that are zero up to rounding error.

    Such a point is the current state. Rounding can put the state itself below the slice level if the level is very
    close to it. The search would then try up to 1,000 angles, while all other chains wait.
    """

    def log_factor(self, theta: Any) -> Any:
        factor = 0.0 if self.ratio is None else super().log_factor(theta)
        return jnp.where(jnp.abs(theta) <= jnp.finfo(theta.dtype).eps, jnp.inf, factor)


PRIOR_ELLIPSE = EndingEllipse(ratio=None)  # type: ignore[arg-type]
"""The path of plain updates."""


class ReferenceUpdates(abc.ABC):
    """The updates of a block of all chains, with their random numbers, which are drawn here before the first update.

    Parameters
    ----------
    move : ReferenceSlice or SplitHamiltonian
    look_ahead : int
        Number of angles of each chain that are evaluated in parallel in a search.
    likelihood : callable
        Log-likelihood of a centred flat vector.
    sources : ReferenceSources
        Sources of draws from the reference and from the prior, and the data of the updates.
    keys : array, shape (2, chains)
        Threefry keys of the chains.
    first : uint32
        Number of the first update of the block.
    length : int
        Number of updates in the block.
    dtype : dtype
    """

    statistics: int = 0
    """Number of statistics that only this move has."""

    def __init__(
        self,
        move: Any,
        look_ahead: int,
        likelihood: Any,
        sources: ReferenceSources,
        keys: Any,
        first: Any,
        length: int,
        dtype: Any,
    ):
        self.move, self.look_ahead, self.likelihood, self.sources = move, look_ahead, likelihood, sources
        self.first, self.dtype, self.every = first, dtype, np.uint32(move.plain_every)
        self.evaluate = over_many(likelihood, 2)
        self.numbers = update_numbers(first, length)
        self.keys = keys_of(keys, self.numbers)
        self.nu = self._draw(sources.reference, self.keys)
        # The block may contain one plain update fewer than this.
        plain = first // self.every * self.every + self.every - 1
        self.plain_keys = keys_of(
            keys, plain + self.every * update_numbers(np.uint32(0), -(-length // int(self.every)))
        )
        self.nu_of_prior = None if sources.prior is None else self._draw(sources.prior, self.plain_keys)
        self.draw()

    @staticmethod
    def _draw(source: Any, keys: Any) -> Any:
        """Return a draw for each key: shape (updates, chains, padded size), for keys of shape (2, updates, chains)."""
        return source.draw(keys.reshape(2, -1)).reshape(*keys.shape[1:], -1)

    @abc.abstractmethod
    def draw(self) -> None:
        """Draw the random numbers other than nu."""

    @abc.abstractmethod
    def around(self, t: Any, state: State) -> tuple[State, DrawBuffer]:
        """Make update t of the block around the reference. Return the states and a row of a `DrawBuffer`."""

    @abc.abstractmethod
    def plain(self, t: Any, state: State) -> tuple[State, DrawBuffer]:
        """Make update t of the block on ellipses of the prior. Return the states and a row of a `DrawBuffer`."""

    @property
    def most_before_plain(self) -> int:
        """The largest number of updates of the block before a plain one."""
        return min(int(self.every) - 1, len(self.numbers))

    def until_plain(self, t: Any) -> Any:
        """Return the number of updates from update t of the block to the next plain one."""
        return (self.every - 1 - (self.first + t.astype(np.uint32)) % self.every).astype(jnp.int32)

    def plain_row(self, t: Any) -> Any:
        """Return the number of update t of the block among the plain updates of the block."""
        return (self.numbers[t] // self.every - self.first // self.every).astype(jnp.int32)

    def plain_nu(self, t: Any, size: int) -> Any:
        """Return nu of update t from the prior, shape (chains, size)."""
        nu = self.nu[t] if self.nu_of_prior is None else self.nu_of_prior[self.plain_row(t)]
        return nu[:, :size]

    def search(
        self, path: EndingEllipse, noise: DeviceNoise, row: Any, nu: Any, state: State, centre: Any
    ) -> tuple[State, DrawBuffer]:
        """Make one search of all chains on ellipses around `centre`, with the random numbers `noise` of index `row`."""
        own = noise._replace(nu=nu[None], level=noise.level[row][None], here=noise.here[row][None])
        own = own._replace(**{name: getattr(noise, name)[:, row][:, None] for name in ("theta", "brackets", "keys")})
        start = State(state.f - centre, state.log_likelihood)
        one = DrawSchedule(1, 0, 1), 1
        found, rows, _ = run_searches(path, self.look_ahead, 1, lambda x: self.evaluate(centre + x), start, own, *one)
        made: DrawBuffer = jax.tree.map(lambda part: part[0], rows)
        f = jnp.where(made.search_failed[:, None], state.f, centre + found.f)
        return State(f, found.log_likelihood), made._replace(f=f)

    def search_noise(self, path: Any, keys: Any) -> DeviceNoise:
        """Return the random numbers of searches, without nu, from keys of shape (2, searches, chains)."""
        here, theta, brackets = first_angles(path, keys, self.dtype)
        return DeviceNoise(None, None, levels(keys, self.dtype), here, theta, brackets, keys)


class EllipseUpdates(ReferenceUpdates):
    """Updates of `ReferenceSlice`; see its `step` for a single chain."""

    move: ReferenceSlice

    def draw(self) -> None:
        independent = self._is_independent(self.numbers)[:, None]
        self.noise = self.search_noise(replace(PRIOR_ELLIPSE, independent=independent), self.keys)

    def _is_independent(self, number: Any) -> Any:
        """Return whether the updates with these numbers are independent proposals."""
        place = number % self.every
        return self.move.independence & (place != self.every - 1) & (place != (self.every - 1) // 2)

    def around(self, t: Any, state: State) -> tuple[State, DrawBuffer]:
        size, reference = state.f.shape[1], self.sources.prepared
        nu = self.nu[t][:, :size]
        parts = jax.vmap(reference.log_ratio_on_ellipse)(state.f - reference.centre, nu)
        ratio = LogRatio(*(part[:, None] for part in parts))
        path = EndingEllipse(ratio=ratio, independent=self._is_independent(self.numbers[t]))
        return self.search(path, self.noise, t, nu, state, reference.centre)

    def plain(self, t: Any, state: State) -> tuple[State, DrawBuffer]:
        size = state.f.shape[1]
        return self.search(PRIOR_ELLIPSE, self.noise, t, self.plain_nu(t, size), state, jnp.zeros(size, self.dtype))


class TrajectoryUpdates(ReferenceUpdates):
    """Updates of `SplitHamiltonian`; see its `step` for a single chain."""

    move: SplitHamiltonian
    statistics = 1

    def draw(self) -> None:
        self.noise = self.search_noise(PRIOR_ELLIPSE, self.plain_keys)
        self.level, self.angle = levels(self.keys, self.dtype), place_uniform(self.keys, self.dtype)

    def plain(self, t: Any, state: State) -> tuple[State, DrawBuffer]:
        size = state.f.shape[1]
        nu, centre = self.plain_nu(t, size), jnp.zeros(size, self.dtype)
        state, made = self.search(PRIOR_ELLIPSE, self.noise, self.plain_row(t), nu, state, centre)
        return state, made._replace(more=(jnp.ones_like(made.angle),))

    def around(self, t: Any, state: State) -> tuple[State, DrawBuffer]:
        """Make a trajectory of every chain."""
        target = CompiledTarget(self.likelihood, self.sources.prepared)

        def trajectory(nu: Any, level: Any, angle: Any, state: State) -> tuple[State, Any]:
            return accept(Noise(nu, level, lambda _: angle), state, target)

        nu = self.nu[t][:, : state.f.shape[1]]
        gradient = jax.grad(lambda f: jnp.asarray(self.likelihood(f), f.dtype))
        state, info = over_chains(trajectory, gradient)(nu, self.level[t], self.angle[t], state)
        made = DrawBuffer(
            f=state.f,
            log_likelihood=state.log_likelihood,
            proposals=info.evaluations,
            nan_evaluations=info.nan_evaluations,
            search_failed=info.search_failed,
            angle=info.angle,
            more=info.more,
        )
        return state, made


UPDATES: dict[type[Move], type[ReferenceUpdates]] = {
    ReferenceSlice: EllipseUpdates,
    SplitHamiltonian: TrajectoryUpdates,
}
"""The class that makes the updates of each move."""


def over_chains(update: Callable[..., Any], gradient: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return an update of one chain as an update of all chains, along the leading axis of its arguments.

    On a CPU the chains run one after the other if `gradient` is not known to be safe in a batch.
    """

    def of_all(nu: Any, *arguments: Any) -> Any:
        point = jax.ShapeDtypeStruct(nu.shape[1:], nu.dtype)
        if computes_on_cpu() and not safe_in_batches(gradient, point):
            return lax.map(lambda own: update(*own), (nu, *arguments))
        return jax.vmap(update)(nu, *arguments)

    return of_all
