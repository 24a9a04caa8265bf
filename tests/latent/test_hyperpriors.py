"""Priors of hyperparameters: densities against SciPy, the penalised-complexity prior of phi, and supports."""

from __future__ import annotations

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import integrate, stats

from catalogue_terms import DATA, GRAPH, scaled_laplacian
from ellipslice.jax_settings import jax_settings
from ellipslice.latent.terms import AR1, BYM, BYM2, ICAR, IID, RW2, Fixed, gamma_precision, pc_mixing, pc_prior

SD = np.array([0.05, 0.4, 1.0, 3.0])


@pytest.fixture(autouse=True)
def _double_precision():
    with jax_settings():
        yield


@pytest.mark.parametrize(("sd", "probability"), [(1.0, 0.01), (3.0, 0.5)])
def test_pc_prior(sd, probability):
    prior = pc_prior(sd, probability)
    expected = stats.expon(scale=-sd / np.log(probability))
    assert expected.sf(sd) == pytest.approx(probability)
    np.testing.assert_allclose(prior.log_prob(SD), expected.logpdf(SD), rtol=1e-12)


def test_gamma_precision():
    density = stats.gamma(2.0, scale=1 / 0.5).logpdf(SD**-2.0) + np.log(2 * SD**-3.0)
    np.testing.assert_allclose(gamma_precision(2.0, 0.5).log_prob(SD), density, rtol=1e-12)


def divergence(phi):
    """Return twice the Kullback-Leibler divergence of BYM2's regions from independent effects, by dense matrices."""
    covariance = (1 - phi) * np.eye(8) + phi * np.linalg.pinv(scaled_laplacian(), rcond=1e-10, hermitian=True)
    return np.trace(covariance) - 8 - np.linalg.slogdet(covariance)[1]


def mixing(u=0.4, probability=0.7):
    return BYM2("region", **GRAPH, prior={"phi": pc_mixing(u, probability)}).bind(DATA).priors["phi"]


@pytest.mark.parametrize("phi", [1e-3, 0.2, 0.5, 0.9, 0.999])
def test_pc_mixing_is_exponential_in_the_distance(phi):
    rate = -np.log(0.3) / np.sqrt(divergence(0.4))
    assert float(mixing().cdf(phi)) == pytest.approx(-np.expm1(-rate * np.sqrt(divergence(phi))), rel=1e-9)
    h = 1e-5 * phi * (1 - phi)
    slope = (mixing().cdf(phi + h) - mixing().cdf(phi - h)) / (2 * h)
    assert float(mixing().log_prob(phi)) == pytest.approx(np.log(float(slope)), abs=1e-6)


def test_pc_mixing_has_the_given_probability_and_integrates_to_one():
    prior = mixing()
    assert float(prior.cdf(0.4)) == pytest.approx(0.7, abs=1e-12)
    mass = integrate.quad(
        lambda t: float(np.exp(prior.log_prob(1 / (1 + np.exp(-t))))) * np.exp(-t) / (1 + np.exp(-t)) ** 2, -30, 30
    )[0]
    assert mass == pytest.approx(float(prior.cdf(1 / (1 + np.exp(-30.0)))), abs=1e-7)
    assert mass > 0.999
    np.testing.assert_allclose(prior.cdf(prior.icdf(np.array([0.1, 0.5, 0.9]))), [0.1, 0.5, 0.9], rtol=1e-9)


def test_pc_mixing_has_a_finite_density_near_zero():
    values = mixing().log_prob(np.array([1e-5, 1e-6, 1e-12, 1e-100]))
    np.testing.assert_allclose(values, values[-1], atol=1e-4)
    assert np.isfinite(values).all()


def test_draws_of_pc_mixing():
    drawn = np.asarray(mixing().sample(jax.random.key(0), (4000,)))
    assert abs((drawn < 0.4).mean() - 0.7) < 5 * np.sqrt(0.21 / 4000)


def test_gamma_precision_in_words():
    text = IID("g", prior=gamma_precision(2.0, 0.5)).bind(DATA).describe()
    assert text.endswith("Prior of g_sd: Gamma(concentration=2, rate=0.5) of the precision, 1 / sd^2.")


def test_pc_mixing_in_words():
    term = BYM2("region", **GRAPH, prior={"phi": pc_mixing(0.5, 2 / 3)}).bind(DATA)
    assert "Prior of region_phi: penalised complexity, P(phi < 0.5) = 0.666667." in term.describe()


def test_one_prior_is_that_of_all_standard_deviations():
    prior = dist.HalfNormal(2.0)
    assert list(BYM("region", **GRAPH, prior=prior).bind(DATA).priors.values()) == [prior, prior]
    priors = AR1("week", prior=prior).bind(DATA).priors
    assert priors["sd"] is prior
    assert float(priors["rho"].low) == -1.0


@pytest.mark.parametrize(
    "prior",
    [
        dist.HalfNormal(1.0),
        dist.HalfCauchy(1.0),
        dist.LogNormal(0.0, 1.0),
        dist.Uniform(0.0, 5.0),
        gamma_precision(1, 1),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_priors_of_a_standard_deviation(prior):
    bound = IID("g", prior=prior).bind(DATA)
    assert bound.priors["sd"] is prior
    assert "Prior of g_sd: " in bound.describe()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: IID("g", prior=dist.Normal(0, 1)),
            ValueError,
            r"prior of g_sd has the support \(-inf, inf\). The stand",
        ),
        (
            lambda: IID("g", prior=2.0),
            TypeError,
            "prior of g_sd must be a NumPyro distribution, but it is 2.0. Use pc_p",
        ),
        (lambda: IID("g", prior=dist.Poisson(1.0)), ValueError, "must be a continuous distribution of one number"),
        (
            lambda: IID("g", prior=dist.HalfNormal(np.ones(3))),
            ValueError,
            "must be a continuous distribution of one numb",
        ),
        (
            lambda: IID("g", prior={"sigma": dist.HalfNormal()}),
            ValueError,
            "IID has no hyperparameter 'sigma'. Its hyperp",
        ),
        (lambda: AR1("week", prior={"rho": dist.Uniform(-2, 1)}), ValueError, "The correlation is between -1 and 1"),
        (
            lambda: BYM2("region", **GRAPH, prior={"phi": dist.HalfNormal()}),
            ValueError,
            "The proportion of the variance",
        ),
        (
            lambda: Fixed("x", prior=dist.HalfNormal()),
            ValueError,
            "Fixed has no hyperparameter, so prior= has no meaning",
        ),
        (
            lambda: ICAR("region", **GRAPH, prior={"sd": pc_mixing(0.5, 0.5)}),
            TypeError,
            "region_sd must be a NumPyro d",
        ),
        (lambda: pc_prior(0.0, 0.01), ValueError, "pc_prior: sd must be one positive number, but it is 0.0"),
        (lambda: pc_prior(1.0, 1.0), ValueError, "pc_prior: probability must be above 0 and below 1, but it is 1"),
        (lambda: pc_mixing(0.5, 0.0), ValueError, "pc_mixing: probability must be above 0 and below 1"),
        (lambda: gamma_precision(-1.0, 1.0), ValueError, "gamma_precision: shape must be one positive number"),
        (
            lambda: BYM2("region", graph=[], regions=list("abcde"), prior={"phi": pc_mixing(0.5, 0.5)}),
            ValueError,
            "pc_mixing requires a graph with neighbours",
        ),
    ],
)
def test_a_prior_that_does_not_fit_is_rejected(make, error, message):
    with pytest.raises(error, match=message):
        _ = make().bind(DATA).priors


def test_the_default_prior_has_the_unit_of_the_linear_predictor():
    prior = RW2("day").bind(DATA, unit=30.0).priors["sd"]
    assert 1 - float(prior.cdf(30.0)) == pytest.approx(0.01, rel=1e-9)
