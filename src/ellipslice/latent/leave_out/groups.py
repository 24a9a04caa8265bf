"""p(responses of a group | other responses) for one draw, by importance sampling of the group's linear predictors.

A draw is divided, as `draws` describes, into white coordinates z of the linear predictors of the group's rows, and the
rest. Let f(z) be the density of z given the rest, the hyperparameters u and all responses, up to a constant, and h(z)
that without the responses of the group. The integral F of f is estimated without bias by draws from the reference, and
the integral H of h by draws from the reference without the sites of the group, the cavity. And reference(z) / f(z) at
the draw's own z is an unbiased estimate of 1 / F. So

    p(group | other responses) = E[F_estimate / f_ratio] / E[H_estimate / f_ratio],   f_ratio = f(z) / reference(z),

where E is the mean over the posterior. It is exact for any likelihood; for a Gaussian one, F and H have no error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ellipslice.latent.leave_out.draws import RowDraw

PAIRS = 16
"""Number of pairs of draws from the reference and from the cavity for each posterior draw, on opposite sides."""

SMALLEST_EIGENVALUE = 1e-10
"""Directions of the group's linear predictors with a smaller variance, relative to the largest, are not integrated."""

SMALLEST_PRECISION = 1e-6
"""Smallest precision of the cavity, relative to that of the reference."""


class GroupTerms(NamedTuple):
    """Logarithms of the parts of the estimate for one draw."""

    inside: float
    """Estimate of F."""
    outside: float
    """Estimate of H."""
    inverse: float
    """Estimate of 1 / F, for a draw of the posterior given all responses."""
    inverse_outside: float
    """Estimate of 1 / H, for a draw of the posterior without the group."""


class _Coordinates(NamedTuple):
    """White coordinates z of the linear predictors of a group."""

    directions: np.ndarray
    """Changes of all linear predictors per unit of z, shape (rows, coordinates)."""
    own: np.ndarray
    """The draw's z."""


def group_terms(draw: RowDraw, group: np.ndarray, rng: np.random.Generator) -> GroupTerms:
    """Return the parts of the estimate for the rows of a group."""
    coordinates = _white_coordinates(draw, group)
    directions, own = coordinates
    precision, linear = draw.sites
    inner = directions[group]
    start = draw.change[group] - inner @ own
    cavity = np.eye(len(own)) - inner.T @ (precision[group][:, None] * inner)
    values, axes = np.linalg.eigh(cavity)
    cavity = (axes * np.maximum(values, SMALLEST_PRECISION)) @ axes.T
    mean = np.linalg.solve(cavity, -inner.T @ (linear[group] - precision[group] * start))
    lower = np.linalg.cholesky(cavity)
    half = rng.standard_normal((PAIRS, len(own)))
    white = np.concatenate([half, -half])
    z = mean + solve_triangular(lower.T, white.T).T
    normaliser = np.log(np.diagonal(lower)).sum()
    log_cavity = normaliser - 0.5 * (white**2).sum(1)
    count = np.log(len(white))
    inside = float(
        np.logaddexp.reduce(_log_densities(draw, group, coordinates, white).sum(0) + 0.5 * (white**2).sum(1)) - count
    )
    outside = float(np.logaddexp.reduce(_log_densities(draw, group, coordinates, z)[0] - log_cavity) - count)
    h, group_density = _log_densities(draw, group, coordinates, own[None])[:, 0]
    at_own = normaliser - 0.5 * float(((own - mean) @ lower) @ ((own - mean) @ lower))
    return GroupTerms(inside, outside, float(-0.5 * own @ own - h - group_density), float(at_own - h))


def _white_coordinates(draw: RowDraw, group: np.ndarray) -> _Coordinates:
    """Return white coordinates of the group's linear predictors. There are fewer than rows if some are dependent."""
    values, axes = np.linalg.eigh(draw.covariance[np.ix_(group, group)])
    kept = values > SMALLEST_EIGENVALUE * values[-1]
    axes = axes[:, kept] / np.sqrt(values[kept])
    return _Coordinates(draw.covariance[:, group] @ axes, axes.T @ (draw.change - draw.mean)[group])


def _log_densities(draw: RowDraw, group: np.ndarray, coordinates: _Coordinates, z: np.ndarray) -> np.ndarray:
    """Return log h and the log-likelihood of the group at some z of shape (points, coordinates), shape (2, points)."""
    moved = (z - coordinates.own) @ coordinates.directions.T
    with np.errstate(all="ignore"):
        values = np.require(draw.likelihood.pointwise(draw.eta + moved), requirements="W")
        change = draw.change + moved
        sites = (draw.sites.linear - 0.5 * draw.sites.precision * change) * change
        group_density = values[:, group].sum(1)
        values[:, group] = 0.0
        found = np.stack([values.sum(1) - 0.5 * (z**2).sum(1) - sites.sum(1), group_density])
    return np.where(np.isnan(found), -np.inf, found)
