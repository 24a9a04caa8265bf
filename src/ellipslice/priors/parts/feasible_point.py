"""An interior point of linear inequalities, by linear programming: the start of chains on a truncated Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from ellipslice.jax_settings import jax_settings
from ellipslice.priors.base import Prior

MIN_SLACK = 1e-6
"""Smallest slack of an interior point, in standard deviations of A f under the prior.

The tolerance of the solver is a tenth of it."""


def interior_point(prior: Prior, A: Any, bounds: np.ndarray, draws: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return a centred flat f with A f below `bounds`, in the span of the draws of the prior, shape (N,).

    It is the mean, 0, if that satisfies the constraints. Otherwise it is the point with the largest common slack t, at
    most 1, with A f + t * spread <= bounds, moved towards the mean as long as half that slack remains.

    Parameters
    ----------
    prior : Prior
    A : array or sparse array, shape (constraints, N)
    bounds : array, shape (constraints,)
        Upper bounds of A f. Infinite ones are ignored.
    draws : array, shape (count, N)
        Draws of the prior, for the scale of each element.
    spread : array, shape (constraints,)
        Standard deviations of A nu.

    Raises
    ------
    ValueError
        If no point satisfies the constraints, or only points without slack do.
    """
    acting = bounds < np.inf
    A, limits = A[acting], bounds[acting] / spread[acting]
    if (limits > MIN_SLACK).all():
        return np.zeros(prior.size)
    basis = _basis(prior, draws)
    rows = scipy.sparse.csr_array(scipy.sparse.diags_array(1 / spread[acting]) @ (A @ basis))
    coefficients, slack = _max_slack(rows, limits)
    f = basis @ (coefficients * _smallest_fraction(rows @ coefficients, limits - slack / 2))
    if not (A @ f < bounds[acting]).all():
        raise ValueError(
            "the linear program found no point that satisfies A f <= b, because of rounding errors. Pass such a point "
            "as initial=."
        )
    return f


def _basis(prior: Prior, draws: np.ndarray) -> Any:
    """Return a matrix (N, coefficients) whose columns span draws of the prior, in units of its standard deviations."""
    try:
        rank = prior.rank
    except TypeError:  # a prior without a known factor: use the span of some of its draws
        more = np.asarray(prior.draw_zero_mean(np.random.default_rng(1), min(prior.size, 1000)))
        return more.T / np.sqrt(len(more))
    if rank == prior.size:
        return scipy.sparse.diags_array(np.sqrt((draws**2).mean(0)))
    with jax_settings():
        return np.asarray(prior.unwhiten(np.eye(prior.noise_size))).T


def _max_slack(rows: Any, limits: np.ndarray) -> tuple[np.ndarray, float]:
    """Return a y, and the largest t, at most 1, with rows @ y + t <= limits."""
    from scipy.optimize import linprog  # slow to import, and needed only here

    count, size = rows.shape
    cost = np.append(np.zeros(size), -1.0)
    inequalities = scipy.sparse.hstack([rows, np.ones((count, 1))])
    found = linprog(cost, inequalities, limits, bounds=[(None, None)] * size + [(None, 1.0)], method="highs")
    if not found.success:
        raise ValueError(
            f"the linear program for a point with A f <= b failed: {found.message} Pass such a point as initial=."
        )
    slack = float(found.x[-1])
    if slack < -MIN_SLACK:
        raise ValueError(
            "no point satisfies A f <= b: the constraints contradict each other, or exclude all draws of the prior. "
            "Check the signs: a lower bound is -f <= -lower."
        )
    if slack < MIN_SLACK:
        raise ValueError(
            f"A f <= b has no interior: constraints are less than {MIN_SLACK:g} standard deviations of the prior "
            "apart. For equalities, condition the prior on them instead. If the region is only very thin, pass a point "
            "of it as initial=."
        )
    return found.x[:-1], slack


def _smallest_fraction(products: np.ndarray, limits: np.ndarray) -> float:
    """Return the smallest fraction c in [0, 1] with c * products <= limits, if c = 1 satisfies it."""
    below = limits < 0  # the other limits hold for every fraction
    return float(np.max(limits[below] / products[below], initial=0.0))
