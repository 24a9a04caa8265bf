"""Draws from the prior: moments of effects and responses, and priors so wide that counts overflow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import ellipslice as es

N = 12
DATA = {"y": np.arange(N), "x": np.linspace(-1, 1, N), "g": np.repeat([0, 1, 2], 4)}


def test_moments_and_shapes():
    pc = es.terms.pc_prior(1.0, 0.05)
    terms = [es.terms.Fixed(["1", "x"], sd=[0.5, 0.3]), es.terms.IID("g", prior=pc)]
    drawn = es.LatentGaussianModel("y", terms, data=DATA, family="poisson").prior_predictive(2000, seed=1)
    assert drawn["y"].shape == drawn["linear_predictor"].shape == (2000, N)
    fixed = drawn["fixed"].values
    for values, sd in zip(fixed.T, (0.5, 0.3), strict=True):
        assert stats.kstest(values, stats.norm(0, sd).cdf).pvalue > 1e-4
    sd = drawn["g_sd"].values
    assert stats.kstest(sd, stats.expon(scale=-1 / np.log(0.05)).cdf).pvalue > 1e-4
    assert stats.kstest(drawn["g"].values[:, 1] / sd, stats.norm.cdf).pvalue > 1e-4
    eta = fixed[:, :1] + fixed[:, 1:] * DATA["x"] + drawn["g"].values[:, DATA["g"]]
    np.testing.assert_allclose(drawn["linear_predictor"], eta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(drawn["expected"], np.exp(eta), rtol=1e-9)


def test_a_prior_that_is_too_wide_warns():
    model = es.LatentGaussianModel("y ~ x", data=DATA, family="poisson", fixed_sd=50.0)
    with pytest.warns(UserWarning, match="a log mean is above 35"):
        drawn = model.prior_predictive(50)
    assert np.isfinite(drawn["y"]).all()


def test_an_improper_term_is_named():
    model = es.LatentGaussianModel("y ~ rw2(x)", data=DATA, family="poisson")
    with pytest.raises(ValueError, match=r"x has no prior predictive distribution.*linear trend"):
        model.prior_predictive(5)
