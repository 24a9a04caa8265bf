"""Fit site approximations of the likelihood, for any value of the hyperparameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.approximations.expectation_propagation import NODES, fit_ep
from ellipslice.approximations.laplace import newton
from ellipslice.approximations.sites import Sites, posterior_factor
from ellipslice.jax_settings import on_cpu
from ellipslice.parameters.joint import JointPrior
from ellipslice.parameters.pivots import Pivots
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.parameters.sites import SiteInterpolator, expansion
from ellipslice.parameters.variational_sites import fit_variational_sites
from ellipslice.programs.site_sums import NotFactorised

ANCHORS = 12
"""Number of values of the hyperparameters at which sites are fitted."""

ANCHOR_FRACTION = 0.95
"""Fraction of the draws of a pilot run, those nearest to the centre, from which anchors are chosen."""


def fit_sites(
    prior: JointPrior, log_likelihood: PointLikelihood, anchors: np.ndarray, pivots: Pivots | None = None
) -> SiteInterpolator | str:
    """Return sites fitted at the anchors, shape (count, size); or the reason why there are none.

    For one latent function they are fitted by expectation propagation, for several by a variational approximation.
    """
    found = []
    for u in anchors:
        one = _sites_at(prior, log_likelihood, u, pivots)
        if isinstance(one, str):
            return one
        found.append(one)
    f = found[0][1]
    sites = [one.about(f) for one, _ in found]
    interpolator = SiteInterpolator(anchors, _metric(anchors), _stacked(sites))
    if not log_likelihood.used:
        return interpolator
    with on_cpu():
        expansions = [expansion(log_likelihood.derivatives(u, f), f) for u in anchors]
    return interpolator._replace(f=f, expansions=_stacked(expansions))


def repeat_anchor(single: SiteInterpolator) -> SiteInterpolator:
    """Return `ANCHORS` copies of a single anchor, so that the code compiled for that number can be used."""

    def repeated(sites: Sites) -> Sites:
        linear, precision = (np.repeat(part, ANCHORS, axis=0) for part in (sites.linear, sites.precision))
        return Sites(linear, precision, sites.origin)

    return single._replace(
        anchors=np.repeat(single.anchors, ANCHORS, axis=0),
        sites=repeated(single.sites),
        expansions=None if single.expansions is None else repeated(single.expansions),
    )


def farthest_points(u: np.ndarray, centre: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return `ANCHORS` anchors, shape (ANCHORS, size), that are far from each other.

    The first is the centre. Each next one is the row of u, shape (count, size), that is farthest from all before it, in
    the metric of the factor.
    """
    white = np.linalg.solve(factor, (u - centre).T).T
    square_norm = (white**2).sum(1)
    near = square_norm <= np.quantile(square_norm, ANCHOR_FRACTION)
    u, white, distance = u[near], white[near], square_norm[near]
    chosen = [centre]
    for _ in range(ANCHORS - 1):
        farthest = int(np.argmax(distance))
        chosen.append(u[farthest])
        distance = np.minimum(distance, ((white - white[farthest]) ** 2).sum(1))
    return np.stack(chosen)


def _metric(anchors: np.ndarray) -> np.ndarray:
    """Return a diagonal metric in which the distance between neighbouring anchors is about 1."""
    count, size = anchors.shape
    if count == 1:
        return np.zeros((size, size))
    std = anchors.std(0) + 1e-9
    white = anchors / std
    distance = np.sqrt(((white[:, None] - white) ** 2).sum(-1)) + np.diag(np.full(count, np.inf))
    return np.diag(1 / std) / (np.median(distance.min(1)) + 1e-9)


def _stacked(sites: list[Sites]) -> Sites:
    """Return sites that have the same origin as one object, with a leading axis."""
    linear, precision = np.stack([one.linear for one in sites]), np.stack([one.precision for one in sites])
    return Sites(linear, precision, np.asarray(sites[0].origin))


def _sites_at(
    prior: JointPrior, log_likelihood: PointLikelihood, u: np.ndarray, pivots: Pivots | None
) -> tuple[Sites, np.ndarray] | str:
    """Return sites for hyperparameters u, and the mean of f with them; or the reason why there are none."""
    joint = prior.joint
    factor, mean = joint.factors.apply(u, prior.inputs, pivots, lambda factor, mean: (factor, mean))
    if len(joint.latents) > 1:
        return fit_variational_sites(factor, mean, log_likelihood, u)
    (rows,) = factor.rows

    def derivatives(h: np.ndarray) -> tuple[Any, Any, Any]:
        value, slope, curvature = log_likelihood.derivatives(u, mean + h)
        return value, slope[0], curvature[0]

    def pointwise(h: np.ndarray) -> np.ndarray:
        return np.asarray(log_likelihood.pointwise(u, mean + h))

    with on_cpu():
        try:
            pointwise(np.zeros((len(NODES), mean.shape[1])))
        except NotFactorised as reason:
            return str(reason)
        except Exception:  # noqa: BLE001  (a function that JAX cannot trace may raise anything)
            return "JAX cannot trace it"
        found = newton(rows, derivatives)
        found = fit_ep(rows, pointwise, found)
    narrowed = posterior_factor(rows, found.precision)
    f = mean + narrowed.T @ (narrowed @ found.linear)
    return Sites(found.linear[None], found.precision[None], np.asarray(mean)), f
