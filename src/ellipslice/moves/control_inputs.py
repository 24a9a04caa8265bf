"""Where control variables should be: inputs that leave little of f to chance, found by minimising what they leave."""

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
"""Of the kernel's variance: independent noise that control variables have, so that inputs may come close."""

LINE_SEARCHES = 200
"""Most of them in one minimisation."""

START = 3
"""Control inputs to begin with."""


class ControlInputs:
    """Control inputs that grow in number: data points in random order join them, and then all of them move.

    Titsias, Lawrence & Rattray (2009): the inputs minimise G = Tr(K_ff - K_fc inv(K_cc) K_cf), the variance that f has
    left once the control variables are known, by conjugate gradients.

    Parameters
    ----------
    kernel : callable, tinygp kernel or scikit-learn kernel
        As for `ControlVariables`. If JAX can differentiate it, gradients are exact; else they are numerical, and slow.
    inputs : array, shape (N,) or (N, D)
    rng : numpy.random.Generator
    increment : int
        How many join at a time.

    Attributes
    ----------
    points : array, shape (M,) or (M, D)
    left : float
        G as a share of Tr(K_ff).
    exhausted : bool
        Whether every data point has joined, so that there are no more to add.
    """

    def __init__(self, kernel: Any, inputs: Any, rng: np.random.Generator, increment: int = 1):
        inputs = as_inputs(inputs, "inputs")
        self._order, self._increment = rng.permutation(inputs), increment
        self._variance = VarianceLeft(kernel, inputs)
        self._joined = min(START, len(inputs))
        self._settle(self._order[: self._joined])

    @property
    def exhausted(self) -> bool:
        """Whether there are no more data points to add."""
        return self._joined == len(self._order)

    def grow_until(self, share: float) -> None:
        """Add inputs until less than this share of the variance is left, or there are no more to add."""
        while self.residual_variance >= share and not self.exhausted:
            self.grow()

    def grow(self) -> None:
        """Add the next data points, and move all inputs."""
        stop = min(self._joined + self._increment, len(self._order))
        new, self._joined = self._order[self._joined : stop], stop
        self._settle(np.concatenate([self.points, new]))

    def _settle(self, points: np.ndarray) -> None:
        self.points = self._variance.minimise(points)
        if self.points.ndim == 1 or self.points.shape[1] == 1:
            self.points = np.sort(self.points, axis=0)
        self.residual_variance = self._variance(self.points) / self._variance.total


class VarianceLeft:
    """G as a function of the control inputs, with its gradient."""

    def __init__(self, kernel: Any, inputs: np.ndarray):
        self._inputs, self._covariance = inputs, covariance_function(kernel)
        variances = variance_function(kernel)(inputs)
        self.total, self._nugget = float(variances.sum()), NUGGET * float(variances.mean())
        try:
            self._explained = _explained(kernel)
        except TypeError:  # a kernel that holds arrays cannot be looked up
            self._explained = _explained.__wrapped__(kernel)
        self._by_jax = bool(np.isfinite(self.with_gradient(inputs[:1])[0]))

    def __call__(self, points: np.ndarray) -> float:
        if self._by_jax:
            return self.with_gradient(points)[0]
        inner = self._covariance(points, points) + self._nugget * np.eye(len(points))
        explained = solve_triangular(cholesky(inner, lower=True), self._covariance(points, self._inputs), lower=True)
        return self.total - float(np.sum(explained**2))

    def with_gradient(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        """G and its gradient by JAX; not a number where the kernel has none, or is not JAX's."""
        try:
            with jax_settings():
                explained, gradient = self._explained(*self._padded(points), self._inputs, self._nugget)
        except Exception:  # noqa: BLE001  not a function of JAX arrays, which is no fault
            return np.nan, np.full(points.shape, np.nan)
        return self.total - float(explained), -np.asarray(gradient)[: len(points)]

    def minimise(self, points: np.ndarray) -> np.ndarray:
        """The inputs where conjugate gradients lead from `points`."""
        from scipy.optimize import minimize  # slow to import, and needed only here

        scale = np.std(self._inputs, axis=0)  # whether in days or in metres, steps are of the size of 1
        scale = np.where(scale > 0, scale, 1.0)

        def unscaled(flat: np.ndarray) -> np.ndarray:
            return flat.reshape(points.shape) * scale

        def value(flat: np.ndarray) -> float:
            return self(unscaled(flat)) / self.total

        def both(flat: np.ndarray) -> tuple[float, np.ndarray]:
            left, gradient = self.with_gradient(unscaled(flat))
            return left / self.total, (gradient * scale).ravel() / self.total

        start, options = (points / scale).ravel(), {"maxiter": LINE_SEARCHES, "gtol": 1e-9}
        exact = bool(np.isfinite(both(start)[1]).all())
        return unscaled(minimize(both if exact else value, start, jac=exact or None, method="CG", options=options).x)

    def _padded(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points, others far away to make up a multiple of 8, and which are which: compiled once for 8 numbers."""
        count = len(points)
        more = np.arange(1.0, 1 + -count % 8).reshape(-1, *[1] * (points.ndim - 1))
        far = self._inputs.max(axis=0) + more * (1 + np.ptp(self._inputs, axis=0))
        return np.concatenate([points, far]), np.arange(count + len(more)) < count


@lru_cache(maxsize=8)
def _explained(kernel: Any) -> Callable[..., Any]:
    """What some of the points explain of the inputs' variance, and its gradient, compiled."""

    @jax.jit
    @jax.value_and_grad
    def explained(points: Any, counts: Any, inputs: Any, nugget: Any) -> Any:
        both = counts[:, None] & counts
        inner = jnp.where(both, kernel(points, points), 0.0) + jnp.diag(jnp.where(counts, nugget, 1.0))
        outer = jnp.where(counts[:, None], kernel(points, inputs), 0.0)
        return jnp.sum(jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(inner), outer, lower=True) ** 2)

    return explained
