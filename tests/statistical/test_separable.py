"""Separable classes with unknown amplitude and length scale, compared with the exact posterior.

Only the prior limits the amplitude, and f depends strongly on it. With the probit likelihood f integrates out: the
probability of the labels is that of an orthant.
"""

from __future__ import annotations

import numpy as np
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from scipy import stats
from tinygp import kernels

import ellipslice as es
from statistical.monte_carlo import SEED, compare

pytestmark = [pytest.mark.statistical, pytest.mark.long]

X = np.array([-2.0, -1.2, -0.5, 0.4, 1.1, 2.0])
Y = np.sign(X)
PRIORS = {"amplitude": dist.LogNormal(0.0, 1.5), "scale": dist.LogNormal(0.0, 1.0)}


def functions(a, s):
    return np.stack([a, s, a * a, s * s, a * s], -1)


def posterior_on_a_grid():
    a, s = np.linspace(-5.0, 5.5, 29), np.linspace(-4.0, 4.0, 25)
    lag, turned = (X[:, None] - X) ** 2, np.outer(Y, Y)
    log_z = np.zeros((len(a), len(s)))
    for j, scale in enumerate(np.exp(s)):
        correlation = np.exp(-0.5 * lag / scale**2)
        for i, variance in enumerate(np.exp(2 * a)):
            # The covariance of f plus standard noise. It is scaled, which does not change the probability of an
            # orthant.
            matrix = turned * (variance * correlation + np.eye(6)) / (1 + variance)
            orthant = stats.multivariate_normal(np.zeros(6), matrix, allow_singular=True, seed=1, abseps=1e-4)
            log_z[i, j] = np.log(orthant.cdf(np.zeros(6)))
    log_p = log_z + stats.norm.logpdf(a, 0, 1.5)[:, None] + stats.norm.logpdf(s, 0, 1.0)
    weights = np.exp(log_p - log_p.max())
    return (weights[..., None] * functions(*np.meshgrid(a, s, indexing="ij"))).sum((0, 1)) / weights.sum()


def test_separable_classes():
    model = es.gp.LatentGP(
        lambda amplitude, scale: amplitude**2 * kernels.ExpSquared(scale), es.likelihoods.Probit, parameters=PRIORS
    )
    fit = model.fit(X, Y, draws=2000, seed=SEED, progress=False)
    drawn = functions(*(np.log(fit.tree["posterior"][name].values) for name in PRIORS))
    compare(drawn, posterior_on_a_grid(), "log amplitude, log scale, squares, product", error=0.01)
    assert array_stats.ess(drawn[..., 0], chain_axis=0, draw_axis=1) > 400
