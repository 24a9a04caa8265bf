"""Posterior predictive checks, tables and groups for ArviZ of fits of Gaussian processes."""

from __future__ import annotations

from typing import Any

import arviz_stats
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import stats
from tinygp import kernels

import ellipslice as es
from ellipslice.gp import CoxProcess, LatentGP

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")

TIMES = pd.Series(np.arange(12.0), index=[f"t{i}" for i in range(12)], name="week")
COUNTS = pd.Series([2, 1, 3, 2, 4, 5, 3, 2, 2, 0, 1, 1], name="cases")
SHORT = {"draws": 60, "warmup": 20, "chains": 2, "seed": 1, "progress": False}
KERNEL = kernels.Matern32(3.0)


@pytest.fixture(scope="module")
def fit() -> Any:
    return LatentGP(KERNEL, es.likelihoods.Poisson).fit(TIMES, COUNTS, **SHORT)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter:UserWarning")
def test_pointwise_log_likelihood_and_data(fit):
    tree = fit.to_arviz()
    assert set(tree.children) == {
        "posterior", "sample_stats", "log_likelihood", "posterior_predictive", "observed_data", "constant_data"
    }  # fmt: skip
    found, f = tree["log_likelihood"]["cases"], tree["posterior"]["f"].values
    np.testing.assert_allclose(found, stats.poisson.logpmf(COUNTS.to_numpy(), np.exp(f)), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.sum("point"), tree["sample_stats"]["total_log_likelihood"], rtol=1e-9)
    for group in ("log_likelihood", "posterior_predictive", "observed_data", "constant_data"):
        assert tree[group]["point"].values.tolist() == TIMES.index.tolist()
    np.testing.assert_array_equal(tree["observed_data"]["cases"], COUNTS)
    np.testing.assert_array_equal(tree["constant_data"]["week"], TIMES)
    assert found.coords["week"].dims == ("point",)
    assert arviz_stats.loo(tree).n_data_points == 12
    some = fit.to_arviz("log_likelihood", draws=20)
    assert set(some.children) == {"posterior", "sample_stats", "log_likelihood"}
    assert some["posterior"].sizes["draw"] == some["log_likelihood"].sizes["draw"] == 10
    for row in range(10):  # each draw has its own log-likelihood
        np.testing.assert_allclose(
            some["log_likelihood"]["cases"][1, row].sum(), some["sample_stats"]["total_log_likelihood"][1, row]
        )


def test_posterior_predictive_draws_have_the_distribution_of_the_likelihood(fit):
    """Given the draws of f, sums of the standardised responses are approximately normal."""
    rate = np.exp(fit.tree["posterior"]["f"].values)
    drawn = fit.posterior_predictive(None)["cases"]
    assert drawn.dims == ("chain", "draw", "point")
    z = (drawn.values - rate) / np.sqrt(rate)
    assert abs(z.sum()) / np.sqrt(z.size) < 4.5
    assert abs(z.var() - 1) < 5 * np.sqrt((2 + (1 / rate).mean()) / z.size)
    np.testing.assert_array_equal(drawn, fit.posterior_predictive(None)["cases"])
    assert (drawn != fit.posterior_predictive(None, seed=1)["cases"]).any()
    assert fit.posterior_predictive(10)["cases"].shape == (2, 5, 12)


def test_the_plot_of_the_check_shows_the_responses(fit):
    axes = fit.plot_check(draws=100)
    assert axes.get_xlabel() == "cases"
    heights = [patch.get_height() ** 2 for patch in axes.patches]
    expected = np.bincount(COUNTS)
    np.testing.assert_allclose(heights[: len(expected)], expected)
    assert not np.any(heights[len(expected) :])


def test_a_table_of_draws(fit):
    table = fit.to_dataframe()
    assert table.index.names == ["chain", "draw"]
    np.testing.assert_array_equal(table["f[t3]"], fit.tree["posterior"]["f"].values[..., 3].ravel())


@pytest.mark.filterwarnings("ignore:.*labels 0/1:UserWarning")
def test_observed_labels_are_those_of_the_predictive_draws():
    fit = LatentGP(KERNEL, es.likelihoods.Logistic).fit(TIMES.to_numpy(), [0, 1] * 6, **SHORT)
    tree = fit.to_arviz(["observed_data", "posterior_predictive"])
    assert set(np.unique(tree["observed_data"]["y"])) == {-1.0, 1.0}
    assert set(np.unique(tree["posterior_predictive"]["y"])) == {-1.0, 1.0}


def test_cells_of_a_cox_process():
    """The exposure of a cell, 1.5, is part of its likelihood."""
    process = CoxProcess(KERNEL, window=(0, 6), cells=4)
    fit: Any = process.fit([0.5, 1.0, 4.0], **SHORT)
    tree = fit.to_arviz()
    expected = stats.poisson.logpmf([2, 0, 1, 0], 1.5 * np.exp(tree["posterior"]["f"].values))
    np.testing.assert_allclose(tree["log_likelihood"]["y"], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(tree["constant_data"]["X0"], process.centres)


def test_a_likelihood_that_is_a_function_and_several_functions():
    def log_likelihood(y):
        return lambda f, g: jnp.sum(-0.5 * (y - f - g) ** 2)

    fit: Any = LatentGP({"f": KERNEL, "g": KERNEL}, log_likelihood).fit(TIMES, np.zeros(12), **SHORT)
    assert set(fit.to_arviz().children) == {"posterior", "sample_stats", "constant_data"}
    with pytest.raises(TypeError, match="the model has the latent functions f, g"):
        fit.posterior_predictive()
    one: Any = LatentGP(KERNEL, lambda y: lambda f: -0.5 * jnp.sum((y - f) ** 2)).fit(TIMES, np.zeros(12), **SHORT)
    with pytest.raises(TypeError, match=r"has no pointwise values\. Use a class of es\.likelihoods"):
        one.to_arviz("log_likelihood")
    with pytest.raises(ValueError, match="groups has 'priors', which does not exist"):
        one.to_arviz("priors")


@pytest.mark.long
def test_unknown_hyperparameters_are_those_of_each_draw():
    model = LatentGP(KERNEL, es.likelihoods.NegativeBinomial, parameters={"dispersion": dist.LogNormal(1.0, 0.5)})
    tree: Any = model.fit(TIMES, COUNTS, **SHORT).to_arviz("log_likelihood")
    draws = tree["posterior"]
    shape = draws["dispersion"].values[..., None]
    assert np.ptp(shape) > 1
    expected = stats.nbinom.logpmf(COUNTS.to_numpy(), shape, shape / (shape + np.exp(draws["f"].values)))
    np.testing.assert_allclose(tree["log_likelihood"]["cases"], expected, rtol=1e-9, atol=1e-9)
