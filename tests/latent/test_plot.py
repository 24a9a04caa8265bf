"""Plots of effects: curves for terms over time or a covariate, points for groups, also if their labels are numbers."""

from __future__ import annotations

import numpy as np
import pytest

import ellipslice as es

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    data = {"y": rng.poisson(3, 60), "x": rng.standard_normal(60), "g": np.arange(60) % 5, "t": np.arange(60) % 12}
    model = es.LatentGaussianModel("y ~ x + rw1(t) + (1 | g)", data=data, family="poisson")
    return model.fit(draws=20, warmup=5, chains=2, seed=1, progress=False)


@pytest.mark.parametrize(
    ("name", "curve", "label"), [("t", True, "t"), ("g", False, "g"), ("fixed", False, "coefficient")]
)
def test_effects_are_curves_only_where_levels_are_connected(fit, name, curve, label):
    axes = fit.plot(name)
    (line,) = [line for line in axes.lines if line.get_label() == "median"]
    middle = fit.tree.posterior[name].median(("chain", "draw"))
    assert (line.get_linestyle() == "-") == curve
    np.testing.assert_allclose(line.get_ydata(), middle)
    assert axes.get_xlabel() == label
    assert axes.get_ylabel() == f"effect of {name}"
    plt.close("all")


def test_a_hyperparameter_is_a_density(fit):
    axes = fit.plot("g_sd")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("g_sd", "posterior density")
    np.testing.assert_allclose(sum(bar.get_width() * bar.get_height() for bar in axes.patches), 1)
    plt.close("all")


def test_an_unknown_name_raises(fit):
    with pytest.raises(ValueError, match="g_sd"):
        fit.plot("g_std")
