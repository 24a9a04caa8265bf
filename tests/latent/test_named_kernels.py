"""Kernels by name: their covariances, the default priors of their hyperparameters, and fits from a formula."""

from __future__ import annotations

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.spatial.distance import pdist, squareform
from tinygp import kernels
from tinygp.kernels.distance import L2Distance

import ellipslice as es
from catalogue_terms import forgetting
from ellipslice.latent.terms import GP, Matern

RNG = np.random.default_rng(8)
DATA = {name: np.round(RNG.uniform(0, 4, 12), 2) for name in ("a", "b", "c")}

CORRELATIONS = {
    "matern12": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
    "squared_exponential": lambda r: np.exp(-(r**2) / 2),
}


def quantiles(prior, *probabilities):
    """Return quantiles of an inverse gamma distribution by SciPy."""
    return stats.invgamma.ppf(probabilities, float(prior.concentration), scale=float(prior.rate))


@pytest.mark.parametrize("columns", [("a",), ("a", "b"), ("a", "b", "c")], ids=len)
@pytest.mark.parametrize("name", CORRELATIONS)
def test_the_covariance_is_that_of_the_euclidean_distance(name, columns):
    bound = GP(columns, kernel=name).bind(DATA)
    points = np.unique(np.column_stack([DATA[each] for each in columns]), axis=0)
    expected = 1.3**2 * CORRELATIONS[name](squareform(pdist(points)) / 0.4)
    covariance = np.linalg.inv(bound.precision(sd=1.3, length_scale=0.4).toarray())
    if len(columns) == 1 and name != "squared_exponential":
        assert "Markov in time" in bound.describe()
        expected *= forgetting(len(points))
        effect = bound.state.structure.effect.toarray()
        covariance = effect @ covariance @ effect.T
    else:
        assert "dense covariance" in bound.describe()
    np.testing.assert_allclose(covariance, expected, atol=1e-6)


def test_the_length_scale_over_two_columns_has_the_prior_of_the_range_of_matern():
    """Two length scales are the range, so the priors are equal after scaling."""
    ours, theirs = (term.bind(DATA) for term in (GP(("a", "b"), kernel="matern12"), Matern(("a", "b"))))
    p = (0.05, 0.5, 0.9)
    ratio = 2 * quantiles(ours.priors["length_scale"], *p) / quantiles(theirs.priors["range"], *p)
    np.testing.assert_allclose(ratio, 1.0, rtol=1e-5)
    side = max(np.ptp(DATA["a"]), np.ptp(DATA["b"]))
    assert quantiles(ours.priors["length_scale"], 0.05) == pytest.approx(side / 20, rel=1e-5)


@pytest.mark.parametrize(
    ("columns", "low", "high"),
    [
        ({"t": 3.0 + 2.0 * np.arange(50)}, 2.0, 98.0),
        ({"t": 2.0 * np.arange(30_000)}, 2.0, 59_998.0),
        ({"t": np.array([0.0, 1e-12, 1.0, 2.0, 3.0, 30.0])}, 1.0, 30.0),  # two times that are almost equal
        ({"t": np.array([0.0, 6.0])}, 0.6, 6.0),
        (dict(zip("xyz", np.eye(3), strict=True)), np.sqrt(0.02), np.sqrt(2.0)),
    ],
    ids=["regular", "many", "almost equal", "two", "three columns"],
)
def test_quantiles_of_the_length_scale_are_distances(columns, low, high):
    prior = GP(tuple(columns), kernel="matern12").bind(columns).priors["length_scale"]
    np.testing.assert_allclose(quantiles(prior, 0.01, 0.99), [low, high], rtol=1e-4)


def test_priors_scale_with_the_data_and_can_be_replaced():
    scaled = {"a": 1000 * DATA["a"]}
    for columns, factor in ((DATA, 1.0), (scaled, 1000.0)):
        priors = GP("a", kernel="matern52").bind(columns, unit=7.0).priors
        assert float(priors["sd"].cdf(7.0)) == pytest.approx(0.99)
        low = quantiles(priors["length_scale"], 0.01) / factor
        assert low == pytest.approx(quantiles(GP("a", kernel="matern52").bind(DATA).priors["length_scale"], 0.01))
    own = {"length_scale": dist.LogNormal(0.0, 1.0)}
    bound = GP("a", kernel="matern32", prior=own).bind(DATA)
    assert bound.priors["length_scale"] is own["length_scale"]
    assert float(bound.priors["sd"].cdf(1.0)) == pytest.approx(0.99)
    sd = dist.HalfNormal(2.0)
    assert GP("a", kernel="matern32", prior=sd).bind(DATA).priors["sd"] is sd


def test_the_description_has_the_kernel_and_its_priors():
    text = GP(("a", "b"), kernel="matern32").bind(DATA).describe()
    assert "Gaussian process with the kernel matern32 at 12 distinct inputs of a and b, dense covariance" in text
    assert "Prior of a_b_sd: Exponential(rate=4.605)" in text
    assert "Prior of a_b_length_scale: InverseGamma(concentration=1, rate=0.5" in text


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (GP("a", kernel="matern"), "GP: kernel is 'matern'. Expected one of 'matern12', 'matern32', 'matern52', "),
        (
            GP("a", kernel="matern32", prior={"length": dist.HalfNormal(1.0)}),
            "GP has no hyperparameter 'length'. Its hyperparameters are: sd, length_scale",
        ),
        (
            GP("a", kernel="matern32", prior={"length_scale": dist.Normal(0.0, 1.0)}),
            r"the prior of a_length_scale has the support \(-inf, inf\). The length scale is between 0 and inf",
        ),
        (GP("same", kernel="matern32"), "same: all rows have the same input, which does not determine a length scale"),
        (GP(("a", "text"), kernel="matern32"), "GP: column 'text' has the values u, u"),
    ],
    ids=["name", "hyperparameter", "support", "one input", "text"],
)
def test_mistakes(term, message):
    with pytest.raises((ValueError, TypeError), match=message):
        term.bind({**DATA, "same": np.ones(12), "text": ["u"] * 12})


@pytest.mark.long
def test_a_fit_from_a_formula_agrees_with_the_kernel_of_tinygp():
    """The same model with a name and with a function of tinygp has the same posterior, within the Monte Carlo error."""
    rng = np.random.default_rng(3)
    east, north = rng.uniform(0, 5, (2, 40))
    points = np.column_stack([east, north])
    covariance = CORRELATIONS["matern32"](squareform(pdist(points)) / 1.5)
    f = np.linalg.cholesky(covariance + 1e-9 * np.eye(40)) @ rng.standard_normal(40)
    data = {"y": rng.poisson(np.exp(1 + f)), "east": east, "north": north}
    named = es.LatentGaussianModel("y ~ 1 + gp(east, north, kernel='matern32')", data=data, family="poisson")
    priors = GP(("east", "north"), kernel="matern32").bind(data).priors

    def kernel(sd, length_scale):
        return sd**2 * kernels.Matern32(length_scale, distance=L2Distance())

    assert "with the kernel matern32 at 40 distinct inputs of east and north" in named.describe()
    other = es.LatentGaussianModel("y ~ 1 + gp(east, north, kernel=kernel, prior=priors)", data=data, family="poisson")
    assert callable(kernel)
    assert len(priors) == 2
    fits = [model.fit(draws=400, seed=seed, progress=False) for seed, model in enumerate((named, other))]
    for name in ("east_north_sd", "east_north_length_scale"):
        one, two = (np.log(fit.tree.posterior[name]) for fit in fits)
        error = np.sqrt(float(one.var() + two.var()) / 400)  # each has at least 400 effective draws
        assert abs(float(one.mean() - two.mean())) < 5 * error
    predicted = fits[0].predict({"east": [2.5, 20.0], "north": [2.5, 20.0]})
    sd = predicted["linear_predictor"].std(("chain", "draw")).values
    assert sd[0] < sd[1]
