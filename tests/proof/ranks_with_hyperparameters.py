"""Simulation-based calibration of hyperparameters and latent functions together.

If hyperparameters, f and counts come from the model, each ranks uniformly among its draws. The move is the same for all
data sets. Its Gaussians and sites do not depend on the data. Any choice is valid; `fit` would find better ones.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpyro.distributions as dist
from tinygp import kernels

import ellipslice as es
from ellipslice.approximations.sites import Sites
from ellipslice.parameters.joint import JointPrior
from ellipslice.parameters.joint_update import JointUpdate
from ellipslice.parameters.parametrisations import PARAMETRISATIONS
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.parameters.sites import SiteInterpolator
from ellipslice.parameters.update_settings import GAUSSIANS, JointSettings, ParameterGaussian, Step
from proof.task import Task, parts
from proof.uniform import counts, not_uniform, rank

FULL = {"fits": 1000}
SHORT = {"fits": 150}

DRAWS = 9  # 10 ranks
OPTIONS = {"draws": DRAWS, "thin": 60, "warmup": 600, "chains": 1, "progress": False}
"""Thinning, large enough for nearly independent draws. With 6, the histograms of ranks had the shape of a U."""
X = np.array([0.0, 0.5, 1.1, 2.0])

QUANTITIES = {"amplitude": 0, "scale": 1, "level": 2, "dispersion": 3, "f[0]": 8, "f[2]": 10}
"""Positions in a vector of the joint prior: hyperparameters, white noise, then f."""


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
    return ParameterGaussian(
        np.stack([np.zeros(count), np.full(count, 0.3)]), np.stack([0.7 * np.eye(count), 0.4 * np.eye(count)])
    )


problems = not_uniform


def tasks(fits: int) -> list[Task]:
    return [partial(ranks_of, *part) for part in parts(fits, 0, most=50)]


def ranks_of(fits: int, seed: int) -> dict[str, list[int]]:
    """Return the occurrences of each rank, for every hyperparameter and two values of the latent function."""
    joint, rng = MODEL.joint, np.random.default_rng(seed)
    joint.factors.probe(X)
    prior = JointPrior(joint, X)
    sites = Sites(np.full((1, 4), 0.8), np.full((1, 4), 1.0))
    two = Sites(*(np.stack([part, 1.4 * part]) for part in sites[:2]), np.full((1, 4), 0.1))
    then = Sites(np.full((2, 1, 4), 0.2), np.full((2, 1, 4), 0.6), np.full((1, 4), 0.1))
    blended = SiteInterpolator(np.array([[0.0] * 4, [0.5] * 4]), np.eye(4), two, np.full((1, 4), 0.5), then)
    mixture = tuple(Step(name, around) for name in PARAMETRISATIONS for around in GAUSSIANS)
    settings = JointSettings(gaussians(4), gaussians(1), np.ones((1, 4)), blended, mixture)
    move = JointUpdate(joint, (0, 1, 2), (3,), tuple(PARAMETRISATIONS), 2, settings=settings)
    ranks: dict[str, list[int]] = {name: [] for name in QUANTITIES}
    for fit in range(fits):
        truth = prior.draw_zero_mean(rng, 1)[0]
        dispersion = joint.parameters.constrained(truth[:4])["dispersion"]
        template = es.likelihoods.NegativeBinomial(np.zeros(4), float(dispersion))
        y = template.simulate(joint.split(truth, 4).f[0], rng)
        likelihood = PointLikelihood(MODEL.likelihood, joint, y, 4)
        tree = es.sample(likelihood, prior, move=move, seed=seed + 1 + fit, **OPTIONS)
        for name, column in QUANTITIES.items():
            ranks[name].append(rank(truth[column], tree.posterior.f.values[0, :, column]))
    return counts(ranks, DRAWS)
