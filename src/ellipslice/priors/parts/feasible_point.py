"""A point well inside linear constraints, by linear programming: where chains on a truncated Gaussian start."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.optimize import linprog

from ellipslice.jax_settings import jax_settings
from ellipslice.priors.base import Prior

THINNEST = 1e-6
"""The least room inside all constraints, in standard deviations of their products under the prior. (The solver's own
tolerance is a tenth of it.)"""


def interior_point(prior: Prior, A: Any, bounds: np.ndarray, draws: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """A centred flat f with A f below `bounds`, that the prior can draw; refused if there is none.

    The mean, if it is inside. Else a point with the most room t that all constraints leave, A f + t * spread <= bounds,
    up to a standard deviation each; and from there towards the mean for as long as there is half that room.

    Parameters
    ----------
    prior : Prior
    A : array or sparse array, shape (constraints, N)
    bounds : array, shape (constraints,)
        Infinite ones are left out.
    draws : array, shape (count, N)
        Some draws, for the scale of each value.
    spread : array, shape (constraints,)
        The standard deviation of A nu.
    """
    acting = bounds < np.inf
    A, limits = A[acting], bounds[acting] / spread[acting]
    if (limits > THINNEST).all():
        return np.zeros(prior.size)
    basis = _basis(prior, draws)
    rows = scipy.sparse.csr_array(scipy.sparse.diags_array(1 / spread[acting]) @ (A @ basis))
    coefficients, room = _max_slack(rows, limits)
    f = basis @ (coefficients * _nearer(rows @ coefficients, limits - room / 2))
    if not (A @ f < bounds[acting]).all():
        raise ValueError("the linear program found no point that keeps A f <= b to rounding. Pass one as initial=.")
    return f


def _basis(prior: Prior, draws: np.ndarray) -> Any:
    """A matrix, shape (N, coefficients), whose columns span the draws of the prior, scaled alike."""
    try:
        rank = prior.rank
    except TypeError:  # a prior that draws by itself: what it drew can be drawn
        more = np.asarray(prior.draw_zero_mean(np.random.default_rng(1), min(prior.size, 1000)))
        return more.T / np.sqrt(len(more))
    if rank == prior.size:
        return scipy.sparse.diags_array(np.sqrt((draws**2).mean(0)))
    with jax_settings():
        return np.asarray(prior.unwhiten(np.eye(prior.noise_size))).T


def _max_slack(rows: Any, limits: np.ndarray) -> tuple[np.ndarray, float]:
    """A y, and the largest t, at most 1, with rows @ y + t <= limits."""
    count, size = rows.shape
    cost = np.append(np.zeros(size), -1.0)
    inequalities = scipy.sparse.hstack([rows, np.ones((count, 1))])
    found = linprog(cost, inequalities, limits, bounds=[(None, None)] * size + [(None, 1.0)], method="highs")
    if not found.success:
        raise ValueError(f"the linear program for a point with A f <= b failed: {found.message} Pass one as initial=.")
    room = float(found.x[-1])
    if room < -THINNEST:
        raise ValueError(
            "no point keeps A f <= b: the constraints contradict each other, or what the prior can draw. Look for a "
            "wrong sign: lower bounds are -f <= -lower."
        )
    if room < THINNEST:
        raise ValueError(
            f"A f <= b has no inside: less than {THINNEST:g} standard deviations of the prior between constraints. For "
            "equalities, condition the prior on them instead; if the region is just very thin, pass a point inside as "
            "initial=."
        )
    return found.x[:-1], room


def _nearer(products: np.ndarray, limits: np.ndarray) -> float:
    """How much of a point, from nothing to all, is enough to be within the limits, if all of it is."""
    below = limits < 0  # the others hold for any share
    return float(np.max(limits[below] / products[below], initial=0.0))
