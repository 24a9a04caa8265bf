"""Models with the less common families: known columns, modes far from 0, and fits that converge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy import special

import ellipslice as es
from ellipslice.latent.families import make_family
from ellipslice.latent.mode import find_marginal_mode
from ellipslice.latent.newton import expand, find_mode, first_predictor
from ellipslice.latent.posterior import Sites
from ellipslice.latent.propagation import propagate
from ellipslice.latent.scales import Scales
from ellipslice.latent.sites import InterpolatedSites
from ellipslice.latent.student import StudentT
from statistical.monte_carlo import SEED

ROWS, GROUPS, SD = 100, 20, 0.5
FORMULA = "y ~ x + (1 | g)"


@dataclass(frozen=True)
class Truth:
    """A family with the values from which responses are simulated."""

    family: str
    coefficients: tuple[float, float]
    parameters: dict[str, float] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    link: str | None = None
    censored: bool = False

    def data(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return responses and covariates. Times are censored at random times."""
        rng = np.random.default_rng(seed)
        x, g = rng.standard_normal(ROWS), np.arange(ROWS) % GROUPS
        eta = self.coefficients[0] + self.coefficients[1] * x + SD * rng.standard_normal(GROUPS)[g]
        family = make_family(self.family, self.link, **self.known).for_response(np.array([1.0, 4.0]))
        y = family.simulate(eta, rng, **self.parameters)
        if not self.censored:
            return {"y": y, "x": x, "g": g}
        end = np.quantile(y, 0.8) * rng.uniform(0.5, 1.5, ROWS)
        return {"y": np.minimum(y, end), "x": x, "g": g, "event": (y <= end).astype(float)}

    def model(self, data: dict[str, Any]) -> es.LatentGaussianModel:
        known = self.known | ({"event": "event"} if self.censored else {})
        return es.LatentGaussianModel(FORMULA, data=data, family=self.family, link=self.link, known=known)


TRUTHS = {
    "student_t": Truth("student_t", (0.3, 0.6), {"noise_scale": 0.5, "degrees_of_freedom": 4.0}),
    "student_t, far from 0": Truth("student_t", (1e3, 0.6), {"noise_scale": 0.5, "degrees_of_freedom": 2.0}),
    "bernoulli, probit": Truth("bernoulli", (0.3, 0.6), link="probit"),
    "bernoulli, cloglog": Truth("bernoulli", (-0.3, 0.6), link="cloglog"),
    "binomial, probit": Truth("binomial", (0.2, 0.5), known={"trials": 6.0}, link="probit"),
    "binomial, cloglog": Truth("binomial", (-0.5, 0.5), known={"trials": 6.0}, link="cloglog"),
    "gamma": Truth("gamma", (5.0, 0.6), {"shape": 3.0}),
    "beta": Truth("beta", (-0.5, 0.6), {"precision": 8.0}),
    "exponential": Truth("exponential", (-3.0, 0.6), censored=True),
    "weibull": Truth("weibull", (-4.0, 0.6), {"shape": 1.7}, censored=True),
    "zero_inflated_poisson": Truth("zero_inflated_poisson", (1.2, 0.5), {"zero_probability": 0.3}),
    "zero_inflated_negative_binomial": Truth(
        "zero_inflated_negative_binomial", (1.5, 0.5), {"zero_probability": 0.3, "dispersion": 4.0}
    ),
    "zero_inflated_binomial": Truth("zero_inflated_binomial", (0.2, 0.5), {"zero_probability": 0.3}, {"trials": 8.0}),
    "ordinal": Truth("ordinal", (1.0, 0.8), {"gap_1": 1.0, "gap_2": 1.5}, {"categories": 4.0}),
    "stochastic_volatility": Truth("stochastic_volatility", (-8.0, 0.5)),
}


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", TRUTHS)
def test_fits_converge_and_cover_the_truth(name):
    truth = TRUTHS[name]
    data = truth.data(SEED + 5)
    fit = truth.model(data).fit(draws=1000, seed=1)
    table = fit.summary([*truth.parameters, "g_sd", "fixed"])
    assert (table["rhat"] < 1.02).all()
    known = np.array([*truth.parameters.values(), SD, *truth.coefficients])
    posterior = fit.tree.posterior
    draws = [posterior[each].values.reshape(-1, 1) for each in (*truth.parameters, "g_sd")]
    draws = np.concatenate([*draws, posterior["fixed"].values.reshape(-1, 2)], axis=1)
    below = (draws < known).mean(axis=0)
    assert ((below > 0.0005) & (below < 0.9995)).all()


# --- modes and sites ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRUTHS)
def test_modes_are_stationary(name):
    """At the mode of the latents the gradient is 0, also where the log-likelihood is convex or far from 0."""
    posterior = TRUTHS[name].model(TRUTHS[name].data()).definition.posterior
    at = posterior.at(posterior.hyperparameters.start())
    found = find_mode(posterior, at, first_predictor(at.likelihood, posterior.assembly.offset))
    x = found.reference.mean
    gradient = posterior.assembly.A.T @ at.likelihood.slope(posterior.assembly.predictor(x))
    size = x.size
    prior = np.array([0.5 * posterior.analysis.quadratic(at.prior_entries, each) for each in (x + np.eye(size))])
    prior -= np.array([0.5 * posterior.analysis.quadratic(at.prior_entries, each) for each in (x - np.eye(size))])
    scale = np.abs(posterior.assembly.A.T) @ np.abs(at.likelihood.slope(posterior.assembly.predictor(x)))
    assert (np.abs(gradient - 0.5 * prior) <= 1e-3 * (1 + scale)).all()


def moved(data: dict[str, Any], distance: float) -> Any:
    terms = [es.terms.Fixed(["1", "x"], sd=[1e6, 1.0]), es.terms.IID("g")]
    known = {"noise_scale": 0.5, "degrees_of_freedom": 3.0}
    return es.LatentGaussianModel(data["y"] + distance, terms, data=data, family="student_t", known=known).definition


def test_sites_do_not_depend_on_the_origin_of_the_response():
    data = TRUTHS["student_t"].data()
    found = []
    for distance in (0.0, 1e3):
        posterior = moved(data, distance).posterior
        at = posterior.at(np.array([-0.7]))
        mode = find_mode(posterior, at, first_predictor(at.likelihood, posterior.assembly.offset))
        sites, eta = propagate(posterior, at, mode.sites)
        found.append((sites.precision, sites.linear - sites.precision * distance, eta - distance))
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(here, there, atol=2e-3)


def test_sites_of_outliers_keep_their_slope_where_the_precision_is_limited():
    """Interpolated sites have the slope of the log-likelihood at the fixed predictor, for any degrees of freedom."""
    model = es.LatentGaussianModel(FORMULA, data=TRUTHS["student_t"].data(), family="student_t")
    posterior = model.definition.posterior
    names = posterior.hyperparameters.names
    start = posterior.hyperparameters.start()
    at = posterior.at(start)
    eta = at.likelihood.y + np.linspace(-30, 30, ROWS)
    scales = Scales.of(posterior.hyperparameters.parameters.priors.values(), False)
    student = StudentT(scales, start, np.eye(len(start)))
    weak = 0.1 * expand(at.likelihood, eta, 0 * eta).precision
    found = Sites(weak, at.likelihood.slope(eta) + weak * eta)  # with less precision than the expansion
    sites = InterpolatedSites.between([(at, found)], student, 0 * eta, eta)
    heavy = start.copy()
    heavy[names.index("degrees_of_freedom")] -= 1.0
    other = posterior.at(heavy)
    precision, linear = sites(other)
    middle = np.abs(eta - at.likelihood.y) < 1
    assert (precision[middle] <= 1e-8 * precision.max()).any()
    np.testing.assert_allclose(linear - precision * eta, other.likelihood.slope(eta), rtol=1e-6, atol=1e-9)


def test_the_mode_of_heavy_tails_ignores_outliers():
    data = TRUTHS["student_t"].data() | {}
    data["y"] = data["y"].copy()
    data["y"][::10] += 1e4
    posterior = moved(data, 0.0).posterior
    found = find_marginal_mode(posterior)
    clean = np.arange(ROWS) % 10 > 0
    assert np.abs((found.latents.eta - data["y"])[clean]).mean() < 1.0


# --- known columns --------------------------------------------------------------------------------------------------


def test_events_are_not_required_for_predictions():
    truth = TRUTHS["weibull"]
    data = truth.data()
    assert 0.1 < data["event"].mean() < 0.9
    fit = truth.model(data).fit(draws=5, seed=1, chains=1)
    new = fit.predict({"x": [0.0, 1.0], "g": [0, 1]})
    assert (new["predictive"].values > 0).all()
    shape = fit.tree.posterior["shape"].values[0]
    eta = new["linear_predictor"].values[0, :, 0]
    mean = np.exp(-eta / shape) * special.gamma(1 + 1 / shape)
    np.testing.assert_allclose(new["expected"].values[0, :, 0], mean)


def test_censored_rows_change_the_likelihood():
    truth = TRUTHS["exponential"]
    data = truth.data()
    here = truth.model(data).definition.posterior
    eta = np.linspace(-4, -2, ROWS)
    expected = data["event"] * eta - data["y"] * np.exp(eta)
    np.testing.assert_allclose(here.at(np.zeros(1)).likelihood.pointwise(eta), expected)


def test_categories_and_names_of_gaps():
    data = {"y": np.array([1, 2, 3, 5, 4, 2] * 5), "x": np.linspace(-1, 1, 30)}
    model = es.LatentGaussianModel("y ~ x", data=data, family="ordinal")
    assert list(model.hyperparameters) == ["gap_1", "gap_2", "gap_3"]
    assert "gap_3: distance between the cut points 3 and 4; cut point 1 is 0. Prior: LogNormal" in model.describe()
    more = es.LatentGaussianModel("y ~ x", data=data, family="ordinal", known={"categories": 6})
    assert len(more.hyperparameters) == 4
    two = es.LatentGaussianModel("y ~ x", data=data | {"y": data["y"] % 2 + 1}, family="ordinal")
    assert not two.hyperparameters


def test_known_parameters_and_links_are_in_the_description():
    data = TRUTHS["student_t"].data()
    model = es.LatentGaussianModel(FORMULA, data=data, family="student_t", known={"degrees_of_freedom": 4})
    assert list(model.hyperparameters) == ["g_sd", "noise_scale"]
    binary = es.LatentGaussianModel(FORMULA, data=data | {"y": data["y"] > 0}, family="bernoulli", link="cloglog")
    assert "bernoulli, cloglog link" in binary.describe()


DATA = TRUTHS["weibull"].data()
WRONG = [
    ({"known": {"event": "died"}}, KeyError, "died"),
    ({"known": {"event": DATA["event"] + 1}}, ValueError, "is not 0 or 1. Expected 0 for censored times"),
    ({"known": {"event": [0.0, 1.0]}}, ValueError, r"weibull: event has shape \(2,\), but there are 100 rows"),
    ({"known": {"censored": "event"}}, TypeError, "no argument 'censored'. Its arguments are: event, shape"),
    ({"link": "logit"}, ValueError, "weibull has no link 'logit'"),
    ({"known": {"shape": -1.0}}, ValueError, "shape = -1 is not positive"),
]


@pytest.mark.parametrize(("options", "error", "message"), WRONG, ids=[row[2][:25] for row in WRONG])
def test_wrong_known_values(options, error, message):
    with pytest.raises((error, ValueError), match=message):
        es.LatentGaussianModel(FORMULA, data=DATA, family="weibull", **options)


def test_a_group_with_only_zeros_and_a_flat_prior_is_improper():
    """Additional zeros explain a zero at any linear predictor, so a group of zeros says nothing about its effect."""
    data = {"y": [0, 0, 0, 2, 3, 1], "x": [1, 1, 1, 0, 0, 0]}
    with pytest.raises(ValueError, match="the posterior is improper"):
        es.LatentGaussianModel("y ~ x", data=data, family="zero_inflated_poisson", fixed_sd="flat")
    data["y"][0] = 1
    es.LatentGaussianModel("y ~ x", data=data, family="zero_inflated_poisson", fixed_sd="flat")
