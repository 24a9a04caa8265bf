"""Groups for ArviZ, posterior predictive draws, their plot, and tables of draws."""

from __future__ import annotations

import arviz_stats
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ellipslice as es
from statistical.monte_carlo import SEED, compare

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")

ROWS = 30
MISSING = np.arange(ROWS) % 7 == 3
INDEX = np.array([f"r{i}" for i in range(ROWS)])
E = np.linspace(0.5, 4.0, ROWS)


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    counts = np.where(MISSING, np.nan, rng.poisson(3 * E))
    data = pd.DataFrame({"deaths": counts, "x": rng.standard_normal(ROWS), "g": np.arange(ROWS) % 5, "E": E}, INDEX)
    model = es.LatentGaussianModel("deaths ~ x + (1 | g)", data=data, family="poisson", exposure="E")
    return model.fit(draws=100, warmup=20, seed=SEED + 1, progress=False)


def test_pointwise_log_likelihood(fit):
    """It is that of SciPy at the linear predictor, for the rows with a response, with the labels of the data frame."""
    tree = fit.to_arviz(["log_likelihood", "observed_data", "constant_data"])
    found, y = tree["log_likelihood"]["deaths"], fit.model.definition.y[~MISSING]
    eta = fit.linear_predictor().values[..., ~MISSING]
    np.testing.assert_allclose(found, stats.poisson(E[~MISSING] * np.exp(eta)).logpmf(y), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        found.sum("row"), tree["sample_stats"]["total_log_likelihood"], rtol=1e-9, err_msg="rows do not add up"
    )
    for group in ("log_likelihood", "observed_data", "constant_data"):
        assert list(tree[group].coords["row"].values) == list(INDEX[~MISSING])
    np.testing.assert_array_equal(tree["observed_data"]["deaths"], y)
    np.testing.assert_allclose(tree["constant_data"]["exposure"], E[~MISSING])
    assert set(tree["constant_data"].data_vars) == {"offset", "exposure"}


PLAIN = pytest.mark.filterwarnings("ignore:Estimated shape parameter:UserWarning")
"""Plain importance sampling warns, for which `LatentFit.loo` is the remedy."""


@PLAIN
def test_arviz_reads_the_groups(fit):
    tree = fit.to_arviz()
    assert set(tree.children) == {
        "posterior", "sample_stats", "log_likelihood", "posterior_predictive", "observed_data", "constant_data"
    }  # fmt: skip
    plain = arviz_stats.loo(tree)
    own = fit.loo(400)
    assert plain.n_data_points == own.n_data_points == (~MISSING).sum()
    assert abs(plain.elpd - own.elpd) < 1  # with few effects, plain importance sampling is not far off
    assert fit.to_arviz("observed_data", draws=40)["posterior"].sizes["draw"] == 10


@PLAIN
def test_arviz_before_version_1_reads_the_groups(fit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)  # of ArviZ's refactoring
        az = pytest.importorskip("arviz", exc_type=ImportError)
    if not hasattr(az, "InferenceData"):
        pytest.skip("this ArviZ has no InferenceData")
    found = fit.to_arviz(legacy=True)
    assert isinstance(found, az.InferenceData)
    assert "log_likelihood" in found.groups()
    assert az.loo(found).elpd_loo == pytest.approx(arviz_stats.loo(fit.to_arviz()).elpd, abs=0.05)


def test_groups_of_the_prior():
    data = {"y": np.array([1.0, np.nan, 3.0, 2.0]), "x": np.arange(4.0)}
    model = es.LatentGaussianModel("y ~ x", data=data, fixed_sd=2.0)
    fit = model.fit(draws=20, warmup=5, seed=1, progress=False)
    tree = fit.to_arviz(["prior", "prior_predictive"], draws=500, seed=3)
    expected = model.prior_predictive(500, seed=3)
    np.testing.assert_array_equal(tree["prior"]["fixed"][0], expected["fixed"])
    np.testing.assert_array_equal(tree["prior_predictive"]["y"][0], expected["y"].values[:, [0, 2, 3]])
    assert set(tree["prior"].data_vars) == {"fixed", "noise_scale"}


def test_posterior_predictive(fit):
    """Means are those of the expected responses; rows without a response are left out."""
    drawn = fit.posterior_predictive(None)["deaths"]
    assert drawn.shape == (4, 100, (~MISSING).sum())
    assert list(drawn.coords["row"].values) == list(INDEX[~MISSING])
    expected = E[~MISSING] * np.exp(fit.linear_predictor().values[..., ~MISSING])
    compare(drawn.values - expected, 0.0, "predictive minus expected")
    compare((drawn.values - expected) ** 2 - expected, 0.0, "variance of the predictive draws minus that of Poisson")
    again = fit.posterior_predictive(None, seed=1)["deaths"]
    assert (again != drawn).any()


def test_rootogram(fit):
    axes = fit.plot_check(draws=200, seed=2)
    y = fit.model.definition.y[~MISSING]
    bars = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axes.patches}
    for value, height in bars.items():
        assert height == pytest.approx(np.sqrt((y == value).sum()))
    assert sum(height**2 for height in bars.values()) == pytest.approx(len(y))
    drawn = fit.posterior_predictive(200, seed=2)["deaths"].values.reshape(200, -1)
    (line,) = axes.lines
    expected = [np.sqrt((drawn == value).sum(1).mean()) for value in line.get_xdata()]
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert axes.get_xlabel() == "deaths"
    plt.close("all")


def test_densities_of_continuous_responses():
    rng = np.random.default_rng(0)
    model = es.LatentGaussianModel("y ~ 1", data={"y": rng.standard_normal(40)})
    axes = model.fit(draws=30, warmup=5, seed=1, progress=False).plot_check(draws=20)
    areas = [np.trapezoid(line.get_ydata(), line.get_xdata()) for line in axes.lines]
    assert len(areas) == 21
    np.testing.assert_allclose(areas, 1.0, atol=0.1)
    plt.close("all")


def test_censored_times_are_not_those_of_the_draws():
    died = np.array([1.0, 0.0] * 10)
    data = {"y": np.random.default_rng(0).exponential(size=20), "died": died}
    model = es.LatentGaussianModel("y ~ 1", data=data, family="exponential", known={"event": "died"}, fixed_sd=1.0)
    fit = model.fit(draws=20, warmup=5, seed=1, progress=False)
    with pytest.warns(UserWarning, match="10 of 20 responses are censored, but predictive draws are not"):
        fit.plot_check(draws=10)
    plt.close("all")
    uncensored = model.without(np.flatnonzero(died == 0)).fit(draws=20, warmup=5, seed=1, progress=False)
    uncensored.plot_check(draws=10)
    plt.close("all")


def test_table_of_draws(fit):
    table = fit.to_dataframe()
    assert table.shape == (400, 1 + 2 + 5)
    np.testing.assert_array_equal(table["g_sd"], fit.tree.posterior["g_sd"].values.ravel())
    assert table.loc[(2, 7), "g[3]"] == fit.tree.posterior["g"].sel(chain=2, draw=7, g_level=3)
    assert list(fit.to_dataframe("g_sd").columns) == ["g_sd"]
    with pytest.raises(ValueError, match="names"):
        fit.to_dataframe("h")


def test_errors(fit):
    with pytest.raises(ValueError, match="groups"):
        fit.to_arviz(["likelihood"])
    with pytest.raises(ValueError, match="draws"):
        fit.to_arviz(draws=0)

    def own(y, eta):
        return -((y - eta) ** 2)

    other = es.LatentGaussianModel("y ~ 1", data={"y": np.arange(5.0)}, family=own, fixed_sd=1.0)
    fitted = other.fit(draws=20, warmup=5, seed=1, progress=False)
    with pytest.raises(TypeError, match="the family own cannot simulate responses, because it is a function"):
        fitted.posterior_predictive()
    with pytest.raises(TypeError, match="the family own cannot simulate responses"):
        fitted.to_arviz(["prior_predictive"])
    assert "posterior_predictive" not in fitted.to_arviz().children
