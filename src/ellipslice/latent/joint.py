"""Points of the joint posterior of hyperparameters and latents, and what `sample` needs from a model.

A point is the flat vector [u, z, x]: unconstrained hyperparameters u, white noise z, and latents x. Given u, x follows
from z. Both are kept, so that results need no factorisation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ellipslice.latent.posterior import LatentPosterior
from ellipslice.priors.parts.only_draws import OnlyDraws


class Point(NamedTuple):
    """One point of the posterior."""

    u: np.ndarray
    z: np.ndarray
    x: np.ndarray

    @property
    def flat(self) -> np.ndarray:
        """The point as one vector."""
        return np.concatenate(self)

    @classmethod
    def split(cls, flat: np.ndarray, hyperparameters: int) -> Point:
        """Return a flat vector (..., size) as a point."""
        middle = hyperparameters + (flat.shape[-1] - hyperparameters) // 2
        return cls(flat[..., :hyperparameters], flat[..., hyperparameters:middle], flat[..., middle:])


class LatentPrior(OnlyDraws):
    """The joint prior of hyperparameters and latents, for `sample`. It is not Gaussian, so it has its own move."""

    move_uses_jax = True
    instead = "it is the joint prior of hyperparameters and latents, which has its own move. Leave move out."

    def __init__(self, posterior: LatentPosterior, description: str):
        self._posterior, self._description = posterior, description
        self.mean, self.shape = None, (posterior.hyperparameters.size + 2 * posterior.assembly.size,)

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        raise TypeError("chains of a latent Gaussian model start from points of its pilot run. Give initial.")

    def stored(self) -> list[Any]:
        """Return what a store keeps to recognise another model: priors, sparse matrices, constraints and the solver."""
        posterior, assembly = self._posterior, self._posterior.assembly
        A, parameters = assembly.A, posterior.hyperparameters.parameters
        priors = parameters.stored() if parameters.size else []
        return [*priors, posterior.analysis.solver, A.data, A.indices, A.indptr, assembly.offset, *self._of_terms]

    @functools.cached_property
    def _of_terms(self) -> list[Any]:
        """The pattern, the values of bases and constraints, and a prior density: six digits, equal on every machine.

        The bases of a Gaussian process do not depend on its kernel and inputs, but its determinant does.
        """
        assembly = self._posterior.assembly
        found = [assembly.rows, assembly.cols]
        for values in (assembly.basis_values, assembly.constraints):
            largest = np.float64(f"{np.abs(values).max(initial=0.0):.6g}")
            found += [largest, np.round(values / (largest or 1.0), 6) + 0.0]  # + 0.0 turns -0.0 into 0.0
        at = self._posterior.at(np.zeros(self._posterior.hyperparameters.size))
        return [*found, np.float64("0" if at is None else f"{at.log_prior:.6g}")]

    def __repr__(self) -> str:
        return f"LatentPrior({self._description})"


jax.tree_util.register_static(LatentPrior)


class PointLikelihood:
    """The log-likelihood at a flat point."""

    def __init__(self, posterior: LatentPosterior):
        self._posterior = posterior

    def __call__(self, flat: np.ndarray) -> float:
        u, _, x = Point.split(np.asarray(flat), self._posterior.hyperparameters.size)
        at = self._posterior.at(u)
        return -np.inf if at is None else float(at.likelihood(self._posterior.assembly.predictor(x)))

    def __repr__(self) -> str:
        return f"PointLikelihood({len(self._posterior.assembly.offset)} responses)"


class KeepPoint:
    """The argument `keep` of `sample`: hyperparameters, and the effects of terms, by name.

    Parameters
    ----------
    posterior : LatentPosterior
    effects : callable
        From latents x, shape (draws, size), to arrays by name, shape (draws, ...).
    """

    def __init__(self, posterior: LatentPosterior, effects: Callable[[np.ndarray], dict[str, np.ndarray]]):
        self._posterior, self._effects = posterior, effects

    def __call__(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Return what is stored of one point, by name."""
        return {name: values[0] for name, values in self.of_rows(flat[None]).items()}

    def of_rows(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Return what is stored of several points, shape (draws, size)."""
        u, _, x = Point.split(flat, self._posterior.hyperparameters.size)
        parameters = self._posterior.hyperparameters.parameters
        values = parameters.constrained_rows(u) if parameters.size else {}
        return {**values, **self._effects(x)}
