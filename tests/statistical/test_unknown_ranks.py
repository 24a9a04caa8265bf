"""Simulation-based calibration (Talts et al. 2018) of parameters and latent functions together.

If parameters, f and counts come from the model, each ranks uniformly among its draws. The move is the same for all data
sets, its Gaussians and sites chosen without looking at them: any choice is valid. `fit` would choose better ones.
"""

from __future__ import annotations

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from tinygp import kernels

import ellipslice as es
from ellipslice.gp.joint import JointPrior
from ellipslice.gp.likelihood import PointLikelihood
from ellipslice.gp.sites import Sites, StandIns
from ellipslice.gp.sweep import WAYS, Around, Sweep, Tuned
from statistical.monte_carlo import SEED

pytestmark = [pytest.mark.statistical, pytest.mark.long]

REPEATS, DRAWS, THIN, WARMUP = 150, 9, 6, 30
X = np.array([0.0, 0.5, 1.1, 2.0])


def kernel(amplitude, scale):
    return amplitude**2 * kernels.Matern52(scale)


PRIORS = {
    "amplitude": dist.LogNormal(0.0, 0.6),
    "scale": dist.Gamma(3.0, 3.0),
    "level": dist.Normal(0.5, 0.5),
    "dispersion": dist.LogNormal(1.0, 0.5),
}
MODEL = es.gp.LatentGP(kernel, es.likelihoods.NegativeBinomial, mean=lambda level: level, parameters=PRIORS)


def gaussians(count):
    return Around(
        np.stack([np.zeros(count), np.full(count, 0.3)]), np.stack([0.7 * np.eye(count), 0.4 * np.eye(count)])
    )


def test_parameters_and_latent_functions_rank_uniformly():
    joint, rng = MODEL.joint, np.random.default_rng(SEED + 1)
    joint.look(X)
    prior = JointPrior(joint, X)
    sites = Sites(np.full((1, 4), 0.8), np.full((1, 4), 1.0))
    two = Sites(*(np.stack([part, 1.4 * part]) for part in sites[:2]), np.full((1, 4), 0.1))
    then = Sites(np.full((2, 1, 4), 0.2), np.full((2, 1, 4), 0.6), np.full((1, 4), 0.1))
    blended = StandIns(np.array([[0.0] * 4, [0.5] * 4]), np.eye(4), two, np.full((1, 4), 0.5), then)
    turns = tuple((way, around) for way in range(len(WAYS)) for around in range(2))
    tuned = Tuned(gaussians(4), gaussians(1), np.ones((1, 4)), blended, turns)
    move = Sweep(joint, (0, 1, 2), (3,), WAYS, 2, tuned=tuned)
    ranks = []
    for repeat in range(REPEATS):
        truth = prior.draw(rng, 1)[0]
        dispersion = joint.parameters.constrained(truth[:4])["dispersion"]
        template = es.likelihoods.NegativeBinomial(np.zeros(4), float(dispersion))
        y = template.simulate(joint.split(truth, 4).f[0], rng)
        tree = es.sample(
            PointLikelihood(MODEL.likelihood, joint, y, 4), prior, move=move, draws=DRAWS, thin=THIN, warmup=WARMUP,
            chains=1, seed=SEED + repeat, progress=False,
        )  # fmt: skip
        ranks.append((tree.posterior.f.values[0] < truth).sum(0))
    ranks = np.array(ranks)
    for column, what in [(0, "amplitude"), (1, "scale"), (2, "level"), (3, "dispersion"), (8, "f[0]"), (10, "f[2]")]:
        counts = np.bincount(ranks[:, column], minlength=DRAWS + 1)
        p = stats.chisquare(counts).pvalue
        assert p > 1e-6, f"{what}: ranks are not uniform (p = {p:.2g}): {counts}"
