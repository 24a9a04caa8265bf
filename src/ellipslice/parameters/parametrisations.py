"""The four parametrisations in which all hyperparameters move.

Each changes u and f jointly so that one quantity is fixed. It returns the new point, and the statistics of the search
for u. `PARAMETRISATIONS` maps names to functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ellipslice.approximations.sites import Sites
from ellipslice.moves import EllipticalSlice, Info, State
from ellipslice.moves.base import Target
from ellipslice.noise import Noise
from ellipslice.parameters.conditioned_noise import ConditionedNoise
from ellipslice.parameters.factor import Factor
from ellipslice.parameters.joint import Point
from ellipslice.parameters.update_settings import ParameterGaussian

if TYPE_CHECKING:
    from ellipslice.parameters.joint_update import JointUpdate

ELLIPSE = EllipticalSlice()


class HyperparameterSearch:
    """The slice search for all hyperparameters, from the current state of a chain.

    Parameters
    ----------
    update : JointUpdate
    target : Target
    noise : Noise
        Random numbers of the search.
    normals : array, shape (latents, n)
        Standard normals for surrogate data.
    state : State

    Attributes
    ----------
    now : Point
        The current point.
    away : array, shape (size,)
        The current hyperparameters minus the centre of the Gaussian whose ellipses are used.
    """

    def __init__(self, update: JointUpdate, target: Target, noise: Noise, normals: Any, state: State):
        self.update, self.target, self.normals = update, target, normals
        self._noise = noise
        self._gaussian: ParameterGaussian = target.prepared.together
        self.now = update.split(state.f, target)
        self.away = self.now.u - self._gaussian.centre

    def apply(self, away: Any, then: Callable[..., Any]) -> Any:
        """Return then(u, factor, means) for the hyperparameters u = centre + away."""
        prepared = self.target.prepared
        u = self._gaussian.centre + self._kept(away)
        return self.update.joint.factors.apply(u, prepared.inputs, prepared.pivots, partial(then, u))

    def _kept(self, away: Any) -> Any:
        """Return `away`, with the current values of the elements that the step does not move."""
        xp = np if isinstance(away, np.ndarray) else jnp
        return xp.where(self.target.prepared.free, away, self.away)

    def run(self, moved: Callable[[Any, Factor, Any], tuple[Point, Any]]) -> tuple[Point, Info]:
        """Slice sample the hyperparameters, and return the new point and the statistics of the search.

        `moved` takes hyperparameters u, their factor and their means. It returns the point, and the logarithm of the
        factor by which the likelihood is multiplied there.
        """

        def value(away: Any) -> Any:
            point, log_factor = self.apply(away, moved)
            residual = self.update.residual(point.u, self._gaussian, self._kept(away))
            return self.target.log_likelihood(point.flat) + residual + log_factor

        start = State(self.away, value(self.away))
        found, info = self.target.with_likelihood(value, None).search(ELLIPSE, self._noise, start)
        return self.apply(found.f, moved)[0], info


def whitened(search: HyperparameterSearch) -> tuple[Point, Info]:
    """Fix the white noise z."""

    def moved(u: Any, factor: Factor, mean: Any) -> tuple[Point, Any]:
        return Point(u, search.now.z, mean + factor.unwhiten(search.now.z)), 0.0

    return search.run(moved)


def sites(search: HyperparameterSearch) -> tuple[Point, Info]:
    """Fix the white noise of f given the sites."""

    def conditioned(u: Any, factor: Factor, mean: Any) -> ConditionedNoise:
        return ConditionedNoise(factor, mean, search.update.sites(u, search.target))

    eta = search.apply(search.away, lambda *at: conditioned(*at).whiten(search.now.z))

    def moved(u: Any, factor: Factor, mean: Any) -> tuple[Point, Any]:
        noise = conditioned(u, factor, mean)
        z = noise.unwhiten(eta)
        f = mean + factor.unwhiten(z)
        return Point(u, z, f), noise.log_evidence - noise.log_sites(f)

    return search.run(moved)


def surrogate(search: HyperparameterSearch) -> tuple[Point, Info]:
    """Draw surrogate data g = f - m + noise. Fix them, and the white noise of f given them."""
    variance = search.target.prepared.surrogate_variance

    def begin(u: Any, factor: Factor, mean: Any) -> tuple[Sites, Any]:
        data = search.now.f - mean + variance**0.5 * search.normals
        of_data = Sites(data / variance, 1.0 / variance)  # sites of f - m
        return of_data, ConditionedNoise(factor, 0.0 * mean, of_data).whiten(search.now.z)

    of_data, eta = search.apply(search.away, begin)

    def moved(u: Any, factor: Factor, mean: Any) -> tuple[Point, Any]:
        noise = ConditionedNoise(factor, 0.0 * mean, of_data)
        z = noise.unwhiten(eta)
        return Point(u, z, mean + factor.unwhiten(z)), noise.log_evidence

    return search.run(moved)


def fixed_latent(search: HyperparameterSearch) -> tuple[Point, Info]:
    """Fix the latent functions f. The ratio includes their prior density, which depends on u."""

    def moved(u: Any, factor: Factor, mean: Any) -> tuple[Point, Any]:
        z = factor.whiten(search.now.f - mean)
        return Point(u, z, mean + factor.unwhiten(z)), -0.5 * (z * z).sum() - factor.log_determinant

    return search.run(moved)


PARAMETRISATIONS: dict[str, Callable[[HyperparameterSearch], tuple[Point, Info]]] = {
    "whitened": whitened,
    "sites": sites,
    "surrogate": surrogate,
    "fixed_latent": fixed_latent,
}
"""The parametrisations by the names that users give."""


def check_parametrisations(parameter_moves: Any) -> tuple[str, ...] | None:
    """Return the user's names as a tuple, or None. Raise unless each is one of `PARAMETRISATIONS`, without repeats."""
    if parameter_moves is None:
        return None
    names = (parameter_moves,) if isinstance(parameter_moves, str) else tuple(parameter_moves)
    if not names or any(name not in PARAMETRISATIONS for name in names) or len(set(names)) < len(names):
        raise ValueError(
            f"parameter_moves must be some of {', '.join(map(repr, PARAMETRISATIONS))}, each once, but it is "
            f"{parameter_moves!r}."
        )
    return names
