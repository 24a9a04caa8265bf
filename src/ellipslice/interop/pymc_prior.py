"""Gaussian priors of PyMC variables: recognise them, and draw from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ellipslice.priors import Dense


class Gaussian(NamedTuple):
    """The prior of one variable, given the current values of the others."""

    mean: np.ndarray
    """Mean, with the shape of the variable."""
    draw: Callable[[np.random.Generator], np.ndarray]
    """Function that returns a draw without the mean, with the shape of the variable."""


def normal(shape: tuple[int, ...], mean: Any, std: Any) -> Gaussian:
    """Return the prior of a `pm.Normal`: independent elements."""
    return Gaussian(np.broadcast_to(mean, shape), lambda rng: std * rng.standard_normal(shape))


def multivariate_normal(shape: tuple[int, ...], mean: Any, covariance: Any) -> Gaussian:
    """Return the prior of a `pm.MvNormal`: vectors along the last axis, with one covariance for all or one for each."""
    if np.ndim(covariance) == 2:
        factor = _transposed_factor(covariance)
        return Gaussian(np.broadcast_to(mean, shape), lambda rng: _draw_vectors(rng, shape, factor))
    covariances = np.broadcast_to(covariance, (*shape, shape[-1])).reshape(-1, shape[-1], shape[-1])
    factors = [_transposed_factor(one) for one in covariances]

    def draw(rng: np.random.Generator) -> np.ndarray:
        return np.stack([_draw_vectors(rng, shape[-1:], factor) for factor in factors]).reshape(shape)

    return Gaussian(np.broadcast_to(mean, shape), draw)


def precision_normal(shape: tuple[int, ...], mean: Any, precision: Any) -> Gaussian:
    """Return the prior of a `pm.MvNormal(tau=...)`, which PyMC describes by its precision."""
    return multivariate_normal(shape, mean, np.linalg.inv(precision))


def matrix_normal(shape: tuple[int, ...], mean: Any, row_factor: Any, column_factor: Any) -> Gaussian:
    """Return the prior of a `pm.MatrixNormal`, from the Cholesky factors of its two covariances."""
    return Gaussian(np.broadcast_to(mean, shape), lambda rng: row_factor @ rng.standard_normal(shape) @ column_factor.T)


def _transposed_factor(covariance: Any) -> np.ndarray:
    """Return R with covariance = R' R, shape (r, n). The covariance may be singular; no jitter is added."""
    covariance = np.asarray(covariance, dtype=float)
    if np.allclose(covariance, covariance.T):  # the inverse of a precision can have a large rounding error
        covariance = (covariance + covariance.T) / 2
    return np.asarray(Dense(covariance).rows)


def _draw_vectors(rng: np.random.Generator, shape: tuple[int, ...], factor: np.ndarray) -> np.ndarray:
    return rng.standard_normal((*shape[:-1], len(factor))) @ factor


PRIORS: dict[str, Callable[..., Gaussian]] = {
    "NormalRV": normal,
    "MvNormalRV": multivariate_normal,
    "PrecisionMvNormalRV": precision_normal,
    "MatrixNormalRV": matrix_normal,
}
"""Function for each of PyMC's operations, by its class name. It takes the shape, and the operation's parameters."""


def reason_against(model: Any, variable: Any) -> str | None:
    """Return the reason why the prior of a free variable is not in `PRIORS`; None if it is."""
    name = type(variable.owner.op).__name__
    if name not in PRIORS:
        return f"its prior is a {name.removesuffix('RV')}"
    transform = model.rvs_to_transforms[variable]
    return None if transform is None else f"it is sampled through a {type(transform).__name__}"
