"""A length scale with two posterior modes: a rough function with little noise, or a smooth one with much noise."""

from __future__ import annotations

import functools

import numpy as np
import numpyro.distributions as dist
import pytest
import xarray
from arviz_stats.base import array_stats
from tinygp import kernels

import ellipslice as es
from ellipslice.bridge import UnreliableEvidenceError
from evidence_models import check, integral
from statistical.monte_carlo import SEED, compare

pytestmark = pytest.mark.statistical

BETWEEN = -0.5
"""Logarithm of the length scale between the modes, where its density is a twentieth of that at the modes."""


def data():
    rng = np.random.default_rng(41)
    n = int(rng.integers(10, 25))
    x = np.sort(rng.uniform(0, 10, n))
    wiggles = rng.uniform(0.2, 0.7) * np.sin(rng.uniform(3, 8) * x)
    return x, np.sin(0.7 * x) + wiggles + 0.05 * rng.standard_normal(n)


X, Y = data()
PRIORS = {
    "amplitude": dist.LogNormal(0.0, 1.0),
    "scale": dist.LogNormal(0.5, 1.5),
    "noise_scale": dist.LogNormal(-1.0, 1.2),
}


def functions(log_scale, log_sigma):
    below = 1.0 * (log_scale < BETWEEN)
    return np.stack([below, log_scale, log_sigma, below * log_sigma], -1)


AMPLITUDES, SCALES, NOISES = np.linspace(-2.5, 3.5, 51), np.linspace(-5, 6, 221), np.linspace(-6, 2, 81)
"""Grids of the logarithms of the hyperparameters."""


def log_joint_on_a_grid():
    """Return log p(y, scale, noise), up to a constant: f integrates out, and the amplitude is summed over its grid."""
    a, s, n = AMPLITUDES, SCALES, NOISES
    lag = (X[:, None] - X) ** 2
    logs = []
    for one in s:
        values, vectors = np.linalg.eigh(np.exp(-lag / 2 / np.exp(2 * one)))
        variance = np.exp(2 * a)[:, None, None] * np.maximum(values, 0) + np.exp(2 * n)[:, None]
        log_l = -0.5 * ((Y @ vectors) ** 2 / variance + np.log(variance)).sum(-1)
        log_p = -0.5 * (a**2)[:, None] - 0.5 * ((one - 0.5) / 1.5) ** 2 - 0.5 * ((n + 1) / 1.2) ** 2
        logs.append(np.logaddexp.reduce(log_l + log_p, axis=0))
    return np.array(logs)


def posterior_on_a_grid():
    """Return the exact posterior means."""
    logs = log_joint_on_a_grid()
    weights = np.exp(logs - logs.max())
    where = np.broadcast_arrays(SCALES[:, None], NOISES)
    return (weights[..., None] * functions(*where)).sum((0, 1)) / weights.sum()


@functools.cache
def fitted():
    model = es.gp.LatentGP(
        lambda amplitude, scale: amplitude**2 * kernels.ExpSquared(scale), es.likelihoods.Gaussian, parameters=PRIORS
    )
    return model.fit(X, Y, draws=2000, seed=SEED, progress=False)


@pytest.mark.long
def test_chains_change_modes():
    fit = fitted()
    drawn = functions(*(np.log(fit.tree["posterior"][name].values) for name in ("scale", "noise_scale")))
    compare(drawn, posterior_on_a_grid(), "which mode, log scale, log noise")
    # Sites that did not follow the noise scale, which moved by itself, gave 16 to 42 effective samples of 16,000 draws.
    assert array_stats.ess(drawn[..., 1], chain_axis=0, draw_axis=1) > 400


@pytest.mark.long
def test_the_marginal_likelihood_of_both_modes():
    powers_of_2_pi = -0.5 * (len(Y) + 3) * np.log(2 * np.pi) - np.log(1.5 * 1.2)
    exact = integral(log_joint_on_a_grid(), AMPLITUDES, SCALES, NOISES) + powers_of_2_pi
    check(fitted().log_evidence(4000), exact, 0.05)


@pytest.mark.long
@pytest.mark.parametrize("rough", [True, False])
def test_chains_that_missed_a_mode_have_no_marginal_likelihood(rough):
    """Without draws from the prior among the proposals, both estimates agreed on a log Z that was 0.6 too low."""
    fit = fitted()
    draws = fit.tree["posterior"].to_dataset().stack(all=("chain", "draw"))
    draws = draws.isel(all=np.flatnonzero((np.log(draws["scale"].values) < BETWEEN) == rough))
    each = draws.sizes["all"] // 4
    moved = {name: np.moveaxis(draws[name].values, -1, 0)[: 4 * each] for name in draws.data_vars}
    dims = {name: ("chain", "draw", "point")[: value.ndim + 1] for name, value in moved.items()}
    group = {name: (dims[name], value.reshape(4, each, *value.shape[1:])) for name, value in moved.items()}
    tree = xarray.DataTree.from_dict({"posterior": xarray.Dataset(group)})
    with pytest.raises(UnreliableEvidenceError, match="the chains may have missed a mode"):
        es.gp.Fit(fit.model, fit.X, fit.y, tree).log_evidence(4000)
