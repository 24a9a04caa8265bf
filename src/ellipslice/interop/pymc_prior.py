"""The Gaussian priors of a PyMC model: which variables have one, and draws from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ellipslice.priors import Dense


class Gaussian(NamedTuple):
    """The prior of one variable, for some values of the others."""

    mean: np.ndarray
    draw: Callable[[np.random.Generator], np.ndarray]
    """A draw less the mean, of the variable's shape."""


def normal(shape: tuple[int, ...], mean: Any, deviation: Any) -> Gaussian:
    """Independent values: `pm.Normal`."""
    return Gaussian(np.broadcast_to(mean, shape), lambda rng: deviation * rng.standard_normal(shape))


def multivariate_normal(shape: tuple[int, ...], mean: Any, covariance: Any) -> Gaussian:
    """Vectors along the last axis, with one covariance or one for each: `pm.MvNormal`."""
    if np.ndim(covariance) == 2:
        rows = _rows(covariance)
        return Gaussian(np.broadcast_to(mean, shape), lambda rng: _times(rng, shape, rows))
    covariances = np.broadcast_to(covariance, (*shape, shape[-1])).reshape(-1, shape[-1], shape[-1])
    each = [_rows(one) for one in covariances]

    def draw(rng: np.random.Generator) -> np.ndarray:
        return np.stack([_times(rng, shape[-1:], rows) for rows in each]).reshape(shape)

    return Gaussian(np.broadcast_to(mean, shape), draw)


def precision_normal(shape: tuple[int, ...], mean: Any, precision: Any) -> Gaussian:
    """The same, by precision: what PyMC makes of `pm.MvNormal(tau=...)`."""
    return multivariate_normal(shape, mean, np.linalg.inv(precision))


def matrix_normal(shape: tuple[int, ...], mean: Any, row_factor: Any, column_factor: Any) -> Gaussian:
    """Matrices, by the Cholesky factors of their two covariances: `pm.MatrixNormal`."""
    return Gaussian(np.broadcast_to(mean, shape), lambda rng: row_factor @ rng.standard_normal(shape) @ column_factor.T)


def _rows(covariance: Any) -> np.ndarray:
    """A factor, cut at rounding error: no jitter is needed."""
    covariance = np.asarray(covariance, dtype=float)
    if np.allclose(covariance, covariance.T):  # but for rounding, which can be large in the inverse of a precision
        covariance = (covariance + covariance.T) / 2
    return np.asarray(Dense(covariance).rows)


def _times(rng: np.random.Generator, shape: tuple[int, ...], rows: np.ndarray) -> np.ndarray:
    return rng.standard_normal((*shape[:-1], len(rows))) @ rows


PRIORS: dict[str, Callable[..., Gaussian]] = {
    "NormalRV": normal,
    "MvNormalRV": multivariate_normal,
    "PrecisionMvNormalRV": precision_normal,
    "MatrixNormalRV": matrix_normal,
}
"""By the name of PyMC's operation, whose parameters they take in its order."""


def why_not(model: Any, variable: Any) -> str | None:
    """Why a free variable's prior is none of these; None if it is one."""
    name = type(variable.owner.op).__name__
    if name not in PRIORS:
        return f"its prior is a {name.removesuffix('RV')}"
    transform = model.rvs_to_transforms[variable]
    return None if transform is None else f"it is sampled through a {type(transform).__name__}"
