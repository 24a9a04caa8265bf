"""Build the prior for a kernel without unknown hyperparameters, with the structure that kernel and inputs allow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ellipslice.likelihoods import LinearPredictor
from ellipslice.parameters.named_arguments import call_with_latents, check_latents
from ellipslice.priors import Dense, Markov, Prior, Stack, Stationary
from ellipslice.priors.parts.kernels import DISTANCE_HINT, comes_from, covariance_matrix, inputs_for, is_markov

MAX_DENSE_BY_CHOICE = 1000
"""Largest number of inputs on a grid for which a dense prior is used. Up to this number it is faster."""

MAX_DENSE = 5000
"""Largest number of inputs of a dense prior."""


class Structured(NamedTuple):
    """A prior, and which of its elements belong to the inputs."""

    prior: Prior
    where: np.ndarray | None
    """Index of each input's element in the flattened prior. None: the elements are in the order of the inputs."""
    description: str
    """Description of the structure, for example "dense, 12 values"."""

    def pick(self, f: Any) -> Any:
        """Return the elements at the inputs, in the order of the inputs."""
        flat = f.reshape(-1)
        return flat if self.where is None else flat[self.where]


def prior_from_kernel(kernel: Any, inputs: np.ndarray, mean: Any) -> Structured:
    """Return the prior for a kernel at inputs of shape (n,) or (n, axes): Markov in time, on a grid, or dense."""
    if (times := _times(kernel, inputs)) is not None:
        unique, where = times
        prior_mean = mean if np.ndim(mean) == 0 else _in_prior_order(mean, where, len(unique))
        return Structured(Markov(kernel, unique, prior_mean), where, f"Markov in time, {len(unique)} times")
    if len(inputs) > MAX_DENSE_BY_CHOICE and (grid := _grid(inputs)) is not None:
        shape, spacing, where = grid
        size = int(np.prod(shape))
        prior_mean = mean if np.ndim(mean) == 0 else _in_prior_order(mean, where, size).reshape(shape)
        try:
            prior = Stationary(kernel, shape, spacing, prior_mean)
        except ValueError:
            if len(inputs) > MAX_DENSE:
                raise
        else:
            return Structured(prior, where, f"stationary on a grid of {' x '.join(map(str, shape))}")
    if len(inputs) > MAX_DENSE:
        raise ValueError(
            f"there are {len(inputs)} inputs, but a dense prior takes at most {MAX_DENSE}. For time series, use a "
            "kernel of tinygp.kernels.quasisep. For a grid, use a stationary kernel and all points of the grid. "
            "Otherwise make a prior with es.LowRank.inducing_points and use es.sample."
        )
    matrix = covariance_matrix(kernel, inputs)
    try:
        prior = Dense(matrix, mean)
    except ValueError as error:
        if comes_from(kernel, "tinygp") and inputs.ndim == 2 and inputs.shape[1] > 1:
            error.add_note(DISTANCE_HINT)
        raise
    return Structured(prior, None, f"dense, {len(inputs)} values")


def _times(kernel: Any, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Return the unique times and the index of each input among them; None if the kernel is not Markov in time.

    The index is None if the inputs are already sorted and unique.
    """
    if not is_markov(kernel):
        return None
    times = inputs_for(kernel, inputs)
    unique, where = np.unique(times, return_inverse=True)
    return unique, None if np.array_equal(unique, times) else where


def is_grid(inputs: np.ndarray) -> bool:
    """Return whether the points are those of a complete regular grid."""
    return _grid(inputs) is not None


def _grid(inputs: np.ndarray) -> tuple[tuple[int, ...], list[float], np.ndarray | None] | None:
    """Return shape and spacing of a complete regular grid, and the index of each point on it; None if it is not one.

    The index is None if the points are already in the order of the grid.
    """
    points = inputs.reshape(len(inputs), -1)
    if points.shape[1] > 3:
        return None
    shape, spacing, index = [], [], []
    for column in points.T:
        values = np.unique(column)
        steps = np.diff(values)
        if len(values) < 2 or not np.allclose(steps, steps.mean(), rtol=1e-6, atol=0):
            return None
        shape.append(len(values))
        spacing.append(float(steps.mean()))
        index.append(np.searchsorted(values, column))
    if np.prod(shape) != len(points):
        return None
    where = np.asarray(np.ravel_multi_index(tuple(index), tuple(shape)))
    if len(np.unique(where)) < len(where):
        return None
    return tuple(shape), spacing, None if np.array_equal(where, np.arange(len(where))) else where


def _in_prior_order(values: Any, where: np.ndarray | None, count: int) -> np.ndarray:
    """Return values at the inputs in the order of the prior, shape (count,)."""
    if where is None:
        return np.asarray(values)
    placed = np.zeros(count)
    placed[where] = values
    return placed


class _LikelihoodAtInputs:
    """A log-likelihood of the values at the inputs, as a function of the latent vectors of the priors."""

    def __init__(self, parts: dict[str, Structured], log_likelihood: Any):
        self._parts, self._log_likelihood = parts, log_likelihood

    def __call__(self, *f: Any, **latents: Any) -> Any:
        given = {"f": f[0]} if f else latents
        return call_with_latents(
            self._log_likelihood, {name: self._parts[name].pick(value) for name, value in given.items()}
        )

    def __repr__(self) -> str:
        return getattr(self._log_likelihood, "__qualname__", None) or repr(self._log_likelihood)


def of_latents(parts: dict[str, Structured], log_likelihood: Any) -> tuple[Any, Any]:
    """Return the log-likelihood and the prior of all latent functions, as `sample` takes them."""
    check_latents(log_likelihood, list(parts))
    if list(parts) == ["f"]:
        part = parts["f"]
        if part.where is None and part.prior.shape == (part.prior.size,):
            return log_likelihood, part.prior
        return _LikelihoodAtInputs(parts, log_likelihood), part.prior
    prior = Stack({name: part.prior for name, part in parts.items()})
    if isinstance(log_likelihood, LinearPredictor) and all(part.where is None for part in parts.values()):
        return log_likelihood, prior  # `sample` updates the products A f without recomputing them
    return _LikelihoodAtInputs(parts, log_likelihood), prior
