"""The Laplace approximation of the latents for one value of the hyperparameters, by Newton's method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ellipslice.latent.posterior import Conditional, LatentPosterior, Sites
from ellipslice.latent.reference import Reference
from ellipslice.likelihoods import Likelihood

MOST_STEPS = 50
"""Largest number of Newton steps."""

TOLERANCE = 1e-4
"""Largest change of a linear predictor at which the iteration ends."""

STEPS = 0.5 ** np.arange(14)
"""Fractions of a Newton step. The first one that does not decrease the log density is taken."""

SMALLEST_PRECISION = 1e-8
"""Smallest precision of a site, also where the log-likelihood is convex; relative to the largest if that is below 1."""


WIDE_VARIANCE = 100.0
"""Variance of a Gaussian that limits the first linear predictor, as for binary responses, whose mode is infinite."""


class Point(NamedTuple):
    """Latents, and their log density."""

    x: np.ndarray
    log_density: float


class Mode(NamedTuple):
    """The mode of the latents given the hyperparameters."""

    eta: np.ndarray
    """Linear predictor of the observed rows at the mode."""
    sites: Sites
    """Second-order expansion of the log-likelihood at the mode."""
    reference: Reference
    log_density: float
    """Laplace approximation of log p(u, y), up to a constant."""


def positive(precision: np.ndarray) -> np.ndarray:
    """Return site precisions that are at least a small number, which does not depend on the unit of the response."""
    return np.maximum(precision, SMALLEST_PRECISION * min(1.0, max(float(precision.max()), 0.0) or 1.0))


def expand(likelihood: Likelihood, eta: np.ndarray, offset: np.ndarray) -> Sites:
    """Return the second-order expansion of the log-likelihood at eta as sites; precision is at least a small number."""
    precision = positive(-likelihood.curvature(eta))
    return Sites(precision, likelihood.slope(eta) + precision * (eta - offset))


def first_predictor(likelihood: Likelihood, offset: np.ndarray) -> np.ndarray:
    """Return a linear predictor that fits each response alone, from which Newton's method can start.

    It is the mode of the likelihood times N(offset, 100), found by steps of at most 1 for each element. If the linear
    predictor is the location of the response, it is the response itself, because a heavy-tailed likelihood is almost
    flat far from it.
    """
    if likelihood.identity_link:
        return np.array(likelihood.y)
    eta = np.array(offset)
    for _ in range(MOST_STEPS):
        slope = likelihood.slope(eta) - (eta - offset) / WIDE_VARIANCE
        precision = positive(-likelihood.curvature(eta)) + 1 / WIDE_VARIANCE
        step = np.clip(slope / precision, -1.0, 1.0)
        eta = eta + step
        if np.abs(step).max() < TOLERANCE:
            break
    return eta


def find_mode(posterior: LatentPosterior, at: Conditional, eta: np.ndarray) -> Mode | None:
    """Return the mode of the latents given hyperparameters, from a first linear predictor; None if there is none.

    The first step is a whole Newton step from the linear predictor, which need not belong to any latents.
    """
    assembly, likelihood = posterior.assembly, at.likelihood
    point: Point | None = None
    for _ in range(MOST_STEPS):
        reference = posterior.reference(at, expand(likelihood, eta, assembly.offset))
        if reference is None:
            return None
        point = _step(posterior, at, point, reference.mean)
        if not np.isfinite(point.log_density):
            return None
        last, eta = eta, assembly.predictor(point.x)
        if np.abs(eta - last).max() < TOLERANCE:
            break
    return _laplace(posterior, at, eta)


def _step(posterior: LatentPosterior, at: Conditional, point: Point | None, target: np.ndarray) -> Point:
    """Return a point on the way to the target, at which the log density is not lower; the target if there is no point.

    The step is halved until the density there is not lower.
    """
    if point is None:
        return Point(target, posterior.log_joint(at, target))
    for step in STEPS:
        x = point.x + step * (target - point.x)
        value = posterior.log_joint(at, x)
        if value >= point.log_density - 1e-9 * abs(point.log_density):
            return Point(x, value)
    return point


def _laplace(posterior: LatentPosterior, at: Conditional, eta: np.ndarray) -> Mode | None:
    """Return the Gaussian around a linear predictor, with the log density that it gives at its mean."""
    assembly, likelihood = posterior.assembly, at.likelihood
    sites = expand(likelihood, eta, assembly.offset)
    reference = posterior.reference(at, sites)
    if reference is None:
        return None
    _, square = reference.place(np.zeros(assembly.size))
    log_density = (
        at.log_prior + float(likelihood(assembly.predictor(reference.mean)))
        + reference.log_prior_ratio(reference.mean, square)
    )  # fmt: skip
    return Mode(eta, sites, reference, log_density)
