"""Draw latent functions at new inputs given those at the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.gp.structure import MAX_DENSE
from ellipslice.gp.time_series import draw_series, is_long_series
from ellipslice.jax_settings import on_cpu
from ellipslice.parameters.factor import ROUNDING
from ellipslice.parameters.named_arguments import ParameterFunction
from ellipslice.parameters.pivots import find_pivots
from ellipslice.priors.parts.kernels import comes_from, functions

if TYPE_CHECKING:
    from ellipslice.gp.model import LatentGP

RANK_PROBE_DRAWS = 20
"""Number of posterior draws of the hyperparameters at which the numerical rank of the covariance is computed."""


POINTS_PER_GROUP = 200
"""Number of points that are drawn jointly if `joint` is False."""


class DataPoints(NamedTuple):
    """The inputs of the data of a model, at which the latent functions are known in each posterior draw."""

    model: LatentGP
    inputs: np.ndarray
    compiled: Callable[..., Any]
    """The result of `compiled_draws` for the model."""

    def draw_latents(
        self, inputs: np.ndarray, parameters: Mapping[str, np.ndarray], f: np.ndarray, rng: Any, joint: bool
    ) -> np.ndarray:
        """Return the latent functions at new inputs, shape (draws, latents, m). At an input of the data they are f."""
        known = self._index(inputs, parameters)
        series = is_long_series(self.model, self.inputs)
        drawn = f[..., np.maximum(known, 0)]
        unknown = np.flatnonzero(known < 0)
        ends = range(POINTS_PER_GROUP, len(unknown), POINTS_PER_GROUP)
        for where in [unknown] if joint or series else np.split(unknown, ends):
            if len(where) and series:
                drawn[:, 0, where] = draw_series(self.model, self.inputs, inputs[where], parameters, f[:, 0], rng)
            elif len(where):
                conditional = PredictiveConditional(self.model, self.inputs, inputs[where], self.compiled)
                drawn[..., where] = conditional.draw(parameters, f, rng)
        return drawn

    def _index(self, inputs: np.ndarray, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the index of each new input in the data; -1 if it is not there, or if the kernel may add noise."""
        found = np.full(len(inputs), -1)
        first = {name: value[0] for name, value in parameters.items()}
        if all(comes_from(kernel(first), "tinygp") for kernel in self.model.kernels.values()):
            # + 0.0 turns -0.0 into 0.0, so that their bytes are equal.
            number = {point.tobytes(): i for i, point in reversed(list(enumerate(self.inputs + 0.0)))}
            found[:] = [number.get(point.tobytes(), -1) for point in inputs + 0.0]
        return found


class PredictiveConditional:
    """The conditional distribution of a model's latent functions at new inputs, given their values at old ones.

    It costs O(n^3 + m^3) for n old and m new inputs, once if all hyperparameters are known and otherwise for each draw.
    If the covariance has a low numerical rank r (see pivots.py), r pivots replace the n old inputs.

    Parameters
    ----------
    model : LatentGP
    old : array, shape (n,) or (n, axes)
        Inputs of the data. At most 5,000.
    new : array, shape (m,) or (m, axes)
        New inputs. At most 5,000.
    compiled : function, optional
        The result of `compiled_draws` for this model, so that it is compiled once for several sets of inputs.
    """

    def __init__(self, model: LatentGP, old: Any, new: Any, compiled: Callable[..., Any] | None = None):
        for count, subject in ((len(old), "the data have"), (len(new), "X has")):
            if count > MAX_DENSE:
                raise ValueError(
                    f"{subject} {count} inputs, but predictions at inputs that are not in the data need dense "
                    f"matrices, for at most {MAX_DENSE} inputs. Predict for fewer points at a time, or add the new "
                    "inputs to the fit with a likelihood that leaves them out."
                )
        self._model, self._old, self._new = model, old, new
        self._compiled = compiled

    def draw(self, parameters: Mapping[str, np.ndarray], f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw the latent functions at the new inputs, shape (draws, latents, m).

        Parameters
        ----------
        parameters : mapping of str to array
            Hyperparameters, with a leading axis of draws. Empty if all are known.
        f : array, shape (draws, latents, n)
            The latent functions at the old inputs.
        rng : Generator
        """
        normals = rng.standard_normal((*f.shape[:2], len(self._new)))
        if not parameters:
            return self._apply(*self._maps({}, np), f, normals, np)
        values = [{name: value[i] for name, value in parameters.items()} for i in range(len(f))]
        traceable = not any(comes_from(kernel(values[0]), "sklearn") for kernel in self._model.kernels.values())
        compiled = self._compiled or compiled_draws(self._model)
        drawn = []
        pivots_of_draws = self._pivots_of_draws(parameters, len(f))
        for own, one, normal, pivots in zip(values, f, normals, pivots_of_draws, strict=True):
            old = one if pivots is None else np.take_along_axis(one, pivots, axis=1)
            if traceable:
                with on_cpu():
                    drawn.append(np.asarray(compiled(self._old, self._new, own, old, normal, pivots)))
            else:
                drawn.append(self._apply(*self._maps(own, np, pivots), old, normal, np))
        return np.stack(drawn)

    def _pivots_of_draws(self, parameters: Mapping[str, np.ndarray], count: int) -> list[np.ndarray | None]:
        """Return the indices of the old inputs that suffice for each draw, shape (latents, r); None for all."""
        joint = self._model.joint
        u = joint.parameters.unconstrain(parameters)
        pivots = find_pivots(joint.factors, self._old, u[:: max(1, count // RANK_PROBE_DRAWS)])
        if pivots is None:
            return [None] * count
        return [joint.factors.sufficient_pivots(one, self._old, pivots) for one in u]

    def traced(self, values: Mapping[str, Any], f: Any, normals: Any, pivots: Any) -> Any:
        """Return one draw, in JAX, from f at the pivots, or at all old inputs if `pivots` is None."""
        return self._apply(*self._maps(values, jnp, pivots), f, normals, jnp)

    def _apply(self, mean: Any, weights: Any, root: Any, mean_old: Any, f: Any, normals: Any, xp: Any) -> Any:
        """Return mean + weights' (f - mean_old) + root normals, for each latent function."""
        centred = f - mean_old
        return mean + xp.einsum("lnm,...ln->...lm", weights, centred) + xp.einsum("lij,...lj->...li", root, normals)

    def _maps(self, values: Mapping[str, Any], xp: Any, pivots: Any = None) -> tuple[Any, Any, Any, Any]:
        """Return the first four arguments of `_apply`, stacked over the latent functions.

        These are the mean at the new inputs, the weights of the old values, a factor of the conditional covariance, and
        the mean at the old inputs.
        """
        new, parts = self._new, []
        for i, (name, kernel) in enumerate(self._model.kernels.items()):
            old = self._old if pivots is None else xp.asarray(self._old)[pivots[i]]
            between, variance = functions(kernel(values), xp)
            variance_new = variance(new)
            lower = _factor(_covariance(between, variance, old, xp), variance(old), xp)
            across = between(old, new)
            if xp is np:
                half = np.linalg.solve(lower, across)
                weights = np.linalg.solve(lower.T, half)
            else:
                half = jax.scipy.linalg.solve_triangular(lower, across, lower=True)
                weights = jax.scipy.linalg.solve_triangular(lower, half, lower=True, trans=1)
            remaining = _covariance(between, variance, new, xp) - half.T @ half
            means = [self._mean(name, values, inputs) for inputs in (new, old)]
            parts.append((means[0], weights, _factor(remaining, variance_new, xp), means[1]))
        return tuple(xp.stack(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]

    def _mean(self, name: str, values: Mapping[str, Any], inputs: Any) -> Any:
        mean = self._model.means[name]
        return (mean(values, X=inputs) if isinstance(mean, ParameterFunction) else mean) + np.zeros(len(inputs))


def compiled_draws(model: LatentGP) -> Callable[..., Any]:
    """Return a compiled function of the old inputs, the new inputs and the arguments of `traced`."""
    return jax.jit(lambda old, new, *arguments: PredictiveConditional(model, old, new).traced(*arguments))


def _covariance(between: Any, variance: Any, inputs: Any, xp: Any) -> Any:
    """Return the covariance matrix at inputs. On the host it includes noise that a kernel of scikit-learn may have."""
    matrix = between(inputs, inputs)
    if xp is np:
        matrix = np.array(matrix)
        np.fill_diagonal(matrix, variance(inputs))
    return matrix


def _factor(matrix: Any, variance: Any, xp: Any) -> Any:
    """Return a factor of a covariance that may be singular. A bound of its rounding error is added to the diagonal."""
    matrix = (matrix + matrix.T) / 2 + xp.diag(10 * len(matrix) * ROUNDING * variance)
    if xp is np:
        values, vectors = np.linalg.eigh(matrix)
        return np.linalg.cholesky(matrix) if values[0] > 0 else vectors * np.sqrt(np.maximum(values, 0))
    return jnp.linalg.cholesky(matrix)
