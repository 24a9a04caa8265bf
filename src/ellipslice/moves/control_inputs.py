"""Where control variables should be: inputs that leave little of f to chance, found by minimising what they leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ellipslice.priors.features import as_inputs
from ellipslice.priors.kernels import covariance_function, variance_function
from ellipslice.settings import jax_settings

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
        while self.left >= share and not self.exhausted:
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
        self.left = self._variance(self.points) / self._variance.total


class VarianceLeft:
    """G as a function of the control inputs, with its gradient."""

    def __init__(self, kernel: Any, inputs: np.ndarray):
        self._inputs, self._covariance = inputs, covariance_function(kernel)
        variances = variance_function(kernel)(inputs)
        self.total, self._nugget = float(variances.sum()), NUGGET * float(variances.mean())
        self._gradient = _differentiated(kernel, inputs, self._nugget)

    def __call__(self, points: np.ndarray) -> float:
        inner = self._covariance(points, points) + self._nugget * np.eye(len(points))
        explained = solve_triangular(cholesky(inner, lower=True), self._covariance(points, self._inputs), lower=True)
        return self.total - float(np.sum(explained**2))

    def minimise(self, points: np.ndarray) -> np.ndarray:
        """The inputs where conjugate gradients lead from `points`."""
        from scipy.optimize import minimize  # slow to import, and needed only here

        scale = np.std(self._inputs, axis=0)  # days or metres, a step is to be one
        scale = np.where(scale > 0, scale, 1.0)

        def unscaled(flat: np.ndarray) -> np.ndarray:
            return flat.reshape(points.shape) * scale

        def value(flat: np.ndarray) -> float:
            return self(unscaled(flat)) / self.total

        def gradient(flat: np.ndarray) -> np.ndarray:
            return (self._gradient(unscaled(flat)) * scale).ravel() / self.total

        start = (points / scale).ravel()
        exact = gradient if np.isfinite(gradient(start)).all() else None
        options = {"maxiter": LINE_SEARCHES, "gtol": 1e-9}
        return unscaled(minimize(value, start, jac=exact, method="CG", options=options).x)


def _differentiated(kernel: Any, inputs: np.ndarray, nugget: float) -> Callable[[np.ndarray], np.ndarray]:
    """The gradient of G; not a number where the kernel has none, or JAX cannot find it."""

    @jax.jit
    @jax.grad
    def gradient(points: Any) -> Any:
        inner = kernel(points, points) + nugget * jnp.eye(len(points))
        explained = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(inner), kernel(points, inputs), lower=True)
        return -jnp.sum(explained**2)

    def at(points: np.ndarray) -> np.ndarray:
        try:
            with jax_settings():
                return np.asarray(gradient(points))
        except Exception:  # noqa: BLE001  not a function of JAX arrays, which is no fault
            return np.full(points.shape, np.nan)

    return at
