"""Gaussians in place of the likelihood of each latent value, for any value of the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.approximations.expectation_propagation import NODES, propagate
from ellipslice.approximations.laplace import newton
from ellipslice.approximations.sites import narrow
from ellipslice.jax_settings import on_cpu
from ellipslice.parameters.joint import JointPrior
from ellipslice.parameters.pivots import Pivots
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.parameters.sites import Sites, StandIns, expansion
from ellipslice.parameters.variational_sites import several
from ellipslice.programs.site_sums import NotFactorised

ANCHORS = 12
"""Values of the parameters for which sites are found."""

USUAL = 0.95
"""Anchors are among so many of the parameters' values, those nearest to the middle."""


def stand_ins(
    prior: JointPrior, log_likelihood: PointLikelihood, anchors: np.ndarray, pivots: Pivots | None = None
) -> StandIns | str:
    """Sites by expectation propagation, for parameters (count, size); or why there are none."""
    found = []
    for u in anchors:
        one = _sites_at(prior, log_likelihood, u, pivots)
        if isinstance(one, str):
            return one
        found.append(one)
    f = found[0][1]
    sites = [one.about(f) for one, _ in found]
    there = StandIns(anchors, _metric(anchors), _stacked(sites))
    if not log_likelihood.used:
        return there
    with on_cpu():
        then = [expansion(log_likelihood.slopes(u, f), f) for u in anchors]
    return there._replace(f=f, then=_stacked(then))


def often(stand_ins: StandIns) -> StandIns:
    """The sites of one anchor as those of `ANCHORS` at the same place: compiled code is made for as many."""
    anchors, metric, sites, f, then = stand_ins

    def repeated(sites: Sites) -> Sites:
        linear, precision = (np.repeat(part, ANCHORS, axis=0) for part in sites[:2])
        return Sites(linear, precision, sites.origin)

    again = None if then is None else repeated(then)
    return StandIns(np.repeat(anchors, ANCHORS, axis=0), metric, repeated(sites), f, again)


def spread_out(u: np.ndarray, centre: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Anchors: the centre and then, one after another, the value farthest from all before; of u, (count, size)."""
    white = np.linalg.solve(factor, (u - centre).T).T
    size = (white**2).sum(1)
    near = size <= np.quantile(size, USUAL)
    u, white, distance = u[near], white[near], size[near]
    chosen = [centre]
    for _ in range(ANCHORS - 1):
        farthest = int(np.argmax(distance))
        chosen.append(u[farthest])
        distance = np.minimum(distance, ((white - white[farthest]) ** 2).sum(1))
    return np.stack(chosen)


def _metric(anchors: np.ndarray) -> np.ndarray:
    """Such that an anchor is about one away from the next."""
    count, size = anchors.shape
    if count == 1:
        return np.zeros((size, size))
    deviation = anchors.std(0) + 1e-9
    white = anchors / deviation
    distance = np.sqrt(((white[:, None] - white) ** 2).sum(-1)) + np.diag(np.full(count, np.inf))
    return np.diag(1 / deviation) / (np.median(distance.min(1)) + 1e-9)


def _stacked(sites: list[Sites]) -> Sites:
    """Sites of the same origin."""
    linear, precision = (np.stack([one[part] for one in sites]) for part in (0, 1))
    return Sites(linear, precision, np.asarray(sites[0].origin))


def _sites_at(
    prior: JointPrior, log_likelihood: PointLikelihood, u: np.ndarray, pivots: Pivots | None
) -> tuple[Sites, np.ndarray] | str:
    """Sites for the parameters u, and the mean of f with them."""
    joint = prior.joint
    lower, mean = joint.with_factors(u, prior.inputs, pivots, lambda *both: both)
    if len(joint.latents) > 1:
        return several(lower, mean, log_likelihood, u)

    def slopes_at(h: np.ndarray) -> tuple[Any, Any, Any]:
        value, slope, bend = log_likelihood.slopes(u, mean + h)
        return value, slope[0], bend[0]

    def terms(h: np.ndarray) -> np.ndarray:
        return np.asarray(log_likelihood.terms(u, mean + h))

    with on_cpu():
        try:
            terms(np.zeros((len(NODES), mean.shape[1])))
        except NotFactorised as reason:
            return str(reason)
        except Exception:  # noqa: BLE001  whatever a function raises that JAX cannot trace
            return "JAX cannot trace it"
        found = newton(lower[0].T, slopes_at)
        found = propagate(lower[0].T, terms, found)
    narrowed = narrow(lower[0].T, found.precision)
    f = mean + narrowed.T @ (narrowed @ found.linear)
    return Sites(found.linear[None], found.precision[None], np.asarray(mean)), f
