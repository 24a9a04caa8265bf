"""Choose the inputs of control variables: minimise the variance of f given the control variables."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ellipslice.jax_settings import jax_settings
from ellipslice.priors.parts.features import as_inputs
from ellipslice.priors.parts.kernels import covariance_function, variance_function

NUGGET = 1e-7
"""Variance of the independent noise of control variables, as a fraction of the variance of the kernel.

With it, matrices are not singular if inputs come close to each other."""

MAX_LINE_SEARCHES = 200
"""Largest number of line searches in one minimisation."""

INITIAL_INPUTS = 3
"""Number of control inputs at the start."""


class ControlInputs:
    """Control inputs that grow in number: data points are added in random order, and then all inputs are optimised.

    The inputs minimise G = Tr(K_ff - K_fc inv(K_cc) K_cf), the total variance of f given the control variables, by
    conjugate gradients (Titsias, Lawrence & Rattray 2009).

    Parameters
    ----------
    kernel : callable, tinygp kernel or scikit-learn kernel
        Kernel of the prior; see `ControlVariables`. If JAX can differentiate it, gradients are exact. Otherwise they
        are finite differences, which are slow.
    inputs : array, shape (N,) or (N, D)
        Inputs of the elements of f.
    rng : numpy.random.Generator
    increment : int
        Number of data points that are added at a time. Default: 1.

    Attributes
    ----------
    points : array, shape (M,) or (M, D)
        The control inputs.
    residual_variance : float
        G as a fraction of Tr(K_ff).
    exhausted : bool
        True if every data point has been added.
    """

    def __init__(self, kernel: Any, inputs: Any, rng: np.random.Generator, increment: int = 1):
        inputs = as_inputs(inputs, "inputs")
        self._order, self._increment = rng.permutation(inputs), increment
        self._variance = ResidualVariance(kernel, inputs)
        self._joined = min(INITIAL_INPUTS, len(inputs))
        self._optimise(self._order[: self._joined])

    @property
    def exhausted(self) -> bool:
        """True if every data point has been added."""
        return self._joined == len(self._order)

    def grow_until(self, residual_variance: float) -> None:
        """Add inputs until the residual variance is below this fraction, or there are no more to add."""
        while self.residual_variance >= residual_variance and not self.exhausted:
            self.grow()

    def grow(self) -> None:
        """Add the next data points, and optimise all inputs."""
        stop = min(self._joined + self._increment, len(self._order))
        new, self._joined = self._order[self._joined : stop], stop
        self._optimise(np.concatenate([self.points, new]))

    def _optimise(self, points: np.ndarray) -> None:
        """Minimise the residual variance from `points`, and store the inputs and the variance."""
        self.points = self._variance.minimise(points)
        if self.points.ndim == 1 or self.points.shape[1] == 1:
            self.points = np.sort(self.points, axis=0)
        self.residual_variance = self._variance(self.points) / self._variance.total


class ResidualVariance:
    """The total variance G of f given the control variables, as a function of their inputs, with its gradient."""

    def __init__(self, kernel: Any, inputs: np.ndarray):
        self._inputs, self._covariance = inputs, covariance_function(kernel)
        variances = variance_function(kernel)(inputs)
        self.total, self._nugget = float(variances.sum()), NUGGET * float(variances.mean())
        try:
            self._explained = _explained(kernel)
        except TypeError:  # a kernel with arrays cannot be hashed, and so not cached
            self._explained = _explained.__wrapped__(kernel)
        self._differentiable = bool(np.isfinite(self.with_gradient(inputs[:1])[0]))

    def __call__(self, points: np.ndarray) -> float:
        if self._differentiable:
            return self.with_gradient(points)[0]
        inner = self._covariance(points, points) + self._nugget * np.eye(len(points))
        explained = solve_triangular(cholesky(inner, lower=True), self._covariance(points, self._inputs), lower=True)
        return self.total - float(np.sum(explained**2))

    def with_gradient(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        """Return G and its gradient, by JAX. They are NaN if JAX cannot trace or differentiate the kernel there."""
        try:
            with jax_settings():
                explained, gradient = self._explained(*self._padded(points), self._inputs, self._nugget)
        except Exception:  # noqa: BLE001  a kernel written with NumPy is allowed, and may raise anything here
            return np.nan, np.full(points.shape, np.nan)
        return self.total - float(explained), -np.asarray(gradient)[: len(points)]

    def minimise(self, points: np.ndarray) -> np.ndarray:
        """Return the inputs that minimise G, by conjugate gradients that start at `points`."""
        from scipy.optimize import minimize  # slow to import, and needed only here

        scale = np.std(self._inputs, axis=0)  # makes step lengths independent of the unit of the inputs
        scale = np.where(scale > 0, scale, 1.0)

        def unscaled(flat: np.ndarray) -> np.ndarray:
            return flat.reshape(points.shape) * scale

        def value(flat: np.ndarray) -> float:
            return self(unscaled(flat)) / self.total

        def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
            variance, gradient = self.with_gradient(unscaled(flat))
            return variance / self.total, (gradient * scale).ravel() / self.total

        start, options = (points / scale).ravel(), {"maxiter": MAX_LINE_SEARCHES, "gtol": 1e-9}
        exact = bool(np.isfinite(value_and_gradient(start)[1]).all())
        function = value_and_gradient if exact else value
        return unscaled(minimize(function, start, jac=exact or None, method="CG", options=options).x)

    def _padded(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the points with far ones appended, to a multiple of 8, and a mask of the original ones.

        So the gradient is compiled once per 8 numbers of points.
        """
        count = len(points)
        more = np.arange(1.0, 1 + -count % 8).reshape(-1, *[1] * (points.ndim - 1))
        far = self._inputs.max(axis=0) + more * (1 + np.ptp(self._inputs, axis=0))
        return np.concatenate([points, far]), np.arange(count + len(more)) < count


@lru_cache(maxsize=8)
def _explained(kernel: Any) -> Callable[..., Any]:
    """Return a compiled function for the variance of f that control variables explain, and its gradient."""

    @jax.jit
    @jax.value_and_grad
    def explained(points: Any, is_input: Any, inputs: Any, nugget: Any) -> Any:
        both = is_input[:, None] & is_input
        inner = jnp.where(both, kernel(points, points), 0.0) + jnp.diag(jnp.where(is_input, nugget, 1.0))
        outer = jnp.where(is_input[:, None], kernel(points, inputs), 0.0)
        return jnp.sum(jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(inner), outer, lower=True) ** 2)

    return explained
