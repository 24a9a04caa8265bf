"""Draw latent functions at new inputs given those at the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.gp.structure import MAX_DENSE
from ellipslice.jax_settings import on_cpu
from ellipslice.parameters.factor import ROUNDING
from ellipslice.parameters.named_arguments import ParameterFunction
from ellipslice.parameters.pivots import find_pivots
from ellipslice.priors.parts.kernels import comes_from, functions

if TYPE_CHECKING:
    from ellipslice.gp.model import LatentGP

RANK_PROBE_DRAWS = 20
"""Number of posterior draws of the hyperparameters at which the rank of the covariance is found."""


class PredictiveConditional:
    """The latent functions of a model at `new` inputs given those at `old` ones.

    It costs O(n^3 + m^3) for n old and m new inputs, for each draw whose parameters differ. Where a kernel is so smooth
    that its values at some of the old inputs say what all of them do (see pivots.py), n is the number of these.

    Parameters
    ----------
    model : LatentGP
    old, new : array
        Inputs.
    compiled : function, optional
        What `compiled_draws` gave for this model, to compile once for many.
    """

    def __init__(self, model: LatentGP, old: Any, new: Any, compiled: Callable[..., Any] | None = None):
        for count, what in ((len(old), "the data have"), (len(new), "X has")):
            if count > MAX_DENSE:
                raise ValueError(
                    f"{what} {count} inputs; predictions at inputs that are not in the data make dense matrices of at "
                    f"most {MAX_DENSE}. Predict for fewer points at a time, or add the new inputs to the fit with a "
                    "likelihood that leaves them out."
                )
        self._model, self._old, self._new = model, old, new
        self._compiled = compiled

    def draw(self, parameters: Mapping[str, np.ndarray], f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """For each of f (draws, latents, n), with its parameters: values at the new inputs, (draws, latents, m)."""
        normals = rng.standard_normal((*f.shape[:2], len(self._new)))
        if not parameters:
            return self._given(*self._maps({}, np), f, normals, np)
        values = [{name: value[i] for name, value in parameters.items()} for i in range(len(f))]
        traceable = not any(comes_from(kernel(values[0]), "sklearn") for kernel in self._model.kernels.values())
        compiled = self._compiled or compiled_draws(self._model)
        drawn = []
        for mine, one, normal, some in zip(values, f, normals, self._needed(parameters, len(f)), strict=True):
            old = one if some is None else np.take_along_axis(one, some, axis=1)
            if traceable:
                with on_cpu():
                    drawn.append(np.asarray(compiled(self._old, self._new, mine, old, normal, some)))
            else:
                drawn.append(self._given(*self._maps(mine, np, some), old, normal, np))
        return np.stack(drawn)

    def _needed(self, parameters: Mapping[str, np.ndarray], count: int) -> list[np.ndarray | None]:
        """Which of the old inputs are needed for each draw, (latents, r); None for all."""
        joint = self._model.joint
        u = joint.parameters.unconstrain(parameters)
        pivots = find_pivots(joint.factors, self._old, u[:: max(1, count // RANK_PROBE_DRAWS)])
        if pivots is None:
            return [None] * count
        return [joint.factors.sufficient_pivots(one, self._old, pivots) for one in u]

    def traced(self, values: Mapping[str, Any], f: Any, normals: Any, some: Any) -> Any:
        """One draw, in JAX, from f at the old inputs that are needed."""
        return self._given(*self._maps(values, jnp, some), f, normals, jnp)

    def _given(self, mean: Any, weights: Any, root: Any, mean_old: Any, f: Any, normals: Any, xp: Any) -> Any:
        centred = f - mean_old
        return mean + xp.einsum("lnm,...ln->...lm", weights, centred) + xp.einsum("lij,...lj->...li", root, normals)

    def _maps(self, values: Mapping[str, Any], xp: Any, some: Any = None) -> tuple[Any, Any, Any, Any]:
        """Of each latent function: its mean, weights of the old values, the factor of what is left, the old mean."""
        new, parts = self._new, []
        for i, (name, called) in enumerate(self._model.kernels.items()):
            old = self._old if some is None else xp.asarray(self._old)[some[i]]
            between, variance = functions(called(values), xp)
            variance_new = variance(new)
            lower = _root(_whole(between, variance, old, xp), variance(old), xp)
            across = between(old, new)
            if xp is np:
                half = np.linalg.solve(lower, across)
                weights = np.linalg.solve(lower.T, half)
            else:
                half = jax.scipy.linalg.solve_triangular(lower, across, lower=True)
                weights = jax.scipy.linalg.solve_triangular(lower, half, lower=True, trans=1)
            left = _whole(between, variance, new, xp) - half.T @ half
            means = [self._mean(name, values, inputs) for inputs in (new, old)]
            parts.append((means[0], weights, _root(left, variance_new, xp), means[1]))
        return tuple(xp.stack(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]

    def _mean(self, name: str, values: Mapping[str, Any], inputs: Any) -> Any:
        mean = self._model.means[name]
        return (mean(values, X=inputs) if isinstance(mean, ParameterFunction) else mean) + np.zeros(len(inputs))


def compiled_draws(model: LatentGP) -> Callable[..., Any]:
    """A function of the old and the new inputs and of what `traced` takes, compiled for as many of them."""
    return jax.jit(lambda old, new, *given: PredictiveConditional(model, old, new).traced(*given))


def _whole(between: Any, variance: Any, inputs: Any, xp: Any) -> Any:
    """The covariance at some inputs: with the noise that a kernel of scikit-learn may have at each."""
    matrix = between(inputs, inputs)
    if xp is np:
        matrix = np.array(matrix)
        np.fill_diagonal(matrix, variance(inputs))
    return matrix


def _root(matrix: Any, variance: Any, xp: Any) -> Any:
    """A factor of a covariance that may be singular: what rounding may have taken away is put back."""
    matrix = (matrix + matrix.T) / 2 + xp.diag(10 * len(matrix) * ROUNDING * variance)
    if xp is np:
        values, vectors = np.linalg.eigh(matrix)
        return np.linalg.cholesky(matrix) if values[0] > 0 else vectors * np.sqrt(np.maximum(values, 0))
    return jnp.linalg.cholesky(matrix)
