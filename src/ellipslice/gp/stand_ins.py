"""Gaussians in place of the likelihood of each latent value, for one value of the parameters."""

from __future__ import annotations

import numpy as np

from ellipslice.gp.joint import JointPrior
from ellipslice.gp.likelihood import PointLikelihood
from ellipslice.gp.pivots import Pivots
from ellipslice.gp.sweep import Sites
from ellipslice.posterior import Posterior
from ellipslice.priors import Dense
from ellipslice.references.fit import read_terms
from ellipslice.references.laplace import laplace
from ellipslice.references.propagation import propagate
from ellipslice.settings import on_cpu


def fit_sites(
    prior: JointPrior, log_likelihood: PointLikelihood, u: np.ndarray, pivots: Pivots | None = None
) -> Sites | str:
    """Sites by expectation propagation, with the parameters u; or why there are none."""
    joint = prior.joint
    if len(joint.latents) > 1:
        return "there are several latent functions"
    lower, mean = joint.with_factors(u, prior.inputs, pivots, lambda *both: both)
    given = log_likelihood.given(u)
    with on_cpu():
        try:
            terms = read_terms(Posterior(Dense(factor=lower[0]), lambda h: given(h + mean[0])))
        except Exception:  # noqa: BLE001  whatever a function raises that JAX cannot trace
            return "JAX cannot trace it"
        if isinstance(terms, str):
            return terms
        found = laplace(lower[0].T, terms.log_likelihood)
        found = propagate(lower[0].T, terms.of_each, found)
    return Sites(found.linear[None], found.precision[None], np.asarray(mean[0])[None])
