"""Families of responses: densities and means against SciPy, checks of responses and arguments, and default priors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import special, stats

from catalogue_likelihoods import Categories, Censored, Mixture
from ellipslice.latent.families import FAMILIES, make_family
from ellipslice.latent.family import default_priors
from ellipslice.likelihoods import Binomial, Gaussian, Poisson, Probit

ETA = np.array([-1.2, 0.0, 0.4, 1.5])
EXPOSURE = np.array([0.5, 1.0, 2.0, 3.0])
TRIALS = np.array([3, 1, 8, 12])
EVENT = np.array([1, 0, 1, 0])


@dataclass(frozen=True)
class Case:
    """A family with data, and the distribution of the responses in SciPy."""

    y: np.ndarray
    distribution: Callable[[np.ndarray], Any]
    parameters: dict[str, float] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=dict)
    bad: tuple[float, str] = (np.inf, "is not finite")
    """A response that is not possible, and part of the message."""


def complementary(eta):
    return -np.expm1(-np.exp(eta))


COUNTS = np.array([0.0, 1.0, 3.0, 9.0])
NOT_A_COUNT = (1.5, r"y\[2\] = 1.5 is not a count")
CASES = {
    "gaussian": Case(np.array([-2.0, 0.1, 0.4, 3.0]), lambda eta: stats.norm(eta, 0.7), {"noise_scale": 0.7}),
    "poisson": Case(
        COUNTS, lambda eta: stats.poisson(EXPOSURE * np.exp(eta)), columns={"exposure": EXPOSURE}, bad=NOT_A_COUNT
    ),
    "negative_binomial": Case(
        COUNTS,
        lambda eta: stats.nbinom(2.5, 2.5 / (2.5 + EXPOSURE * np.exp(eta))),
        {"dispersion": 2.5},
        {"exposure": EXPOSURE},
        bad=(-1.0, r"y\[2\] = -1 is not a count"),
    ),
    "binomial": Case(
        np.array([0.0, 1.0, 3.0, 12.0]),
        lambda eta: stats.binom(TRIALS, special.expit(eta)),
        columns={"trials": TRIALS},
        bad=NOT_A_COUNT,
    ),
    "bernoulli": Case(
        np.array([0.0, 1.0, 1.0, 0.0]), lambda eta: stats.bernoulli(special.expit(eta)), bad=(2.0, "is not 0 or 1")
    ),
    "bernoulli, probit": Case(
        np.array([0.0, 1.0, 1.0, 0.0]), lambda eta: stats.bernoulli(stats.norm.cdf(eta)), bad=(2.0, "is not 0 or 1")
    ),
    "bernoulli, cloglog": Case(
        np.array([0.0, 1.0, 1.0, 0.0]), lambda eta: stats.bernoulli(complementary(eta)), bad=(0.5, "is not 0 or 1")
    ),
    "binomial, probit": Case(
        np.array([0.0, 1.0, 3.0, 12.0]),
        lambda eta: stats.binom(TRIALS, stats.norm.cdf(eta)),
        columns={"trials": TRIALS},
        bad=NOT_A_COUNT,
    ),
    "binomial, cloglog": Case(
        np.array([0.0, 1.0, 3.0, 12.0]),
        lambda eta: stats.binom(TRIALS, complementary(eta)),
        columns={"trials": TRIALS},
        bad=NOT_A_COUNT,
    ),
    "student_t": Case(
        np.array([-2.0, 0.1, 0.4, 30.0]),
        lambda eta: stats.t(5.0, eta, 0.7),
        {"noise_scale": 0.7, "degrees_of_freedom": 5.0},
    ),
    "gamma": Case(
        np.array([0.2, 0.1, 0.4, 3.0]),
        lambda eta: stats.gamma(2.5, scale=np.exp(eta) / 2.5),
        {"shape": 2.5},
        bad=(0.0, "is not a positive number"),
    ),
    "beta": Case(
        np.array([0.2, 0.1, 0.4, 0.9]),
        lambda eta: stats.beta(4 * special.expit(eta), 4 * special.expit(-eta)),
        {"precision": 4.0},
        bad=(1.0, "is not between 0 and 1"),
    ),
    "exponential": Case(
        np.array([0.2, 0.1, 0.4, 3.0]),
        lambda eta: Censored(stats.expon(scale=np.exp(-eta)), EVENT),
        columns={"event": EVENT},
        bad=(-1.0, "is not a positive number"),
    ),
    "weibull": Case(
        np.array([0.2, 0.1, 0.4, 3.0]),
        lambda eta: Censored(stats.weibull_min(1.5, scale=np.exp(-eta / 1.5)), EVENT),
        {"shape": 1.5},
        {"event": EVENT},
        bad=(0.0, "is not a positive number"),
    ),
    "zero_inflated_poisson": Case(
        COUNTS,
        lambda eta: Mixture(stats.poisson(EXPOSURE * np.exp(eta)), 0.3),
        {"zero_probability": 0.3},
        {"exposure": EXPOSURE},
        bad=NOT_A_COUNT,
    ),
    "zero_inflated_negative_binomial": Case(
        COUNTS,
        lambda eta: Mixture(stats.nbinom(2.5, 2.5 / (2.5 + EXPOSURE * np.exp(eta))), 0.3),
        {"zero_probability": 0.3, "dispersion": 2.5},
        {"exposure": EXPOSURE},
        bad=NOT_A_COUNT,
    ),
    "zero_inflated_binomial": Case(
        np.array([0.0, 1.0, 3.0, 12.0]),
        lambda eta: Mixture(stats.binom(TRIALS, special.expit(eta)), 0.3),
        {"zero_probability": 0.3},
        {"trials": TRIALS},
        bad=NOT_A_COUNT,
    ),
    "ordinal": Case(
        np.array([1.0, 2.0, 4.0, 3.0]),
        lambda eta: Categories(np.array([0.0, 0.5, 1.7]), eta),
        {"gap_1": 0.5, "gap_2": 1.2},
        bad=(0.0, "is not a category"),
    ),
    "stochastic_volatility": Case(np.array([-2.0, 0.1, 0.4, 3.0]), lambda eta: stats.norm(0 * eta, np.exp(eta / 2))),
}
EVERY = pytest.mark.parametrize("name", CASES)


def family_of(name, **known):
    """Return the family of a case: "name", or "name, link"."""
    name_only, _, link = name.partition(", ")
    return make_family(name_only, link or None, **CASES[name].columns, **known).for_response(CASES[name].y)


def test_every_family_and_link_has_a_case():
    links = {f"{name}, {link}" for name, family in FAMILIES.items() for link in family.links}
    assert set(CASES) == set(FAMILIES) | links
    assert all(name == family.name for name, family in FAMILIES.items())


@EVERY
def test_density(name):
    case, family = CASES[name], family_of(name)
    likelihood = family.make_likelihood(family.check_response(case.y), **case.parameters)
    distribution = case.distribution(ETA)
    log_density = getattr(distribution, "logpdf", None) or distribution.logpmf
    np.testing.assert_allclose(likelihood.pointwise(ETA), log_density(case.y), rtol=1e-11)


@EVERY
def test_mean(name):
    case, family = CASES[name], family_of(name)
    batch = np.stack([ETA, ETA + 0.3])
    mean = case.distribution(batch).mean()
    np.testing.assert_allclose(family.mean(batch, **case.parameters), mean, rtol=1e-12)
    per_draw = {parameter: np.full((2, 1), value) for parameter, value in case.parameters.items()}
    np.testing.assert_allclose(family.mean(batch, **per_draw), mean, rtol=1e-12)


@EVERY
def test_mean_of_new_rows_has_their_columns(name):
    case = CASES[name]
    first = {column: value[:1] for column, value in case.columns.items() if column != "event"}
    expected = case.distribution(ETA).mean()[:1]
    np.testing.assert_allclose(family_of(name).mean(ETA[:1], **first, **case.parameters), expected, rtol=1e-12)


@EVERY
def test_simulated_responses_are_possible_and_have_the_mean(name):
    case, family = CASES[name], family_of(name)
    drawn = family.simulate(np.broadcast_to(ETA, (4000, 4)), np.random.default_rng(0), **case.parameters)
    assert drawn.shape == (4000, 4)
    np.testing.assert_array_equal(family.check_response(drawn[0]), drawn[0])
    distribution = case.distribution(ETA)
    error = np.sqrt(distribution.var() / 4000)
    assert not (drawn == drawn[0]).all()
    assert (np.abs(drawn.mean(axis=0) - distribution.mean()) <= 5 * error).all()


@EVERY
def test_rows_with_missing_responses(name):
    case, family = CASES[name], family_of(name)
    y = [None, *case.y[1:]]
    checked = family.check_response(y)
    np.testing.assert_array_equal(np.isnan(checked), [True, False, False, False])
    np.testing.assert_array_equal(family.check_response(np.ma.masked_array(case.y, [1, 0, 0, 0])), checked)
    observed = ~np.isnan(checked)
    likelihood = family.at_rows(observed).make_likelihood(checked[observed], **case.parameters)
    whole = family.make_likelihood(case.y, **case.parameters)
    np.testing.assert_array_equal(likelihood.pointwise(ETA[1:]), whole.pointwise(ETA)[1:])
    with pytest.raises(ValueError, match="has no observed value"):
        family.check_response([np.nan, np.nan])


@EVERY
def test_an_impossible_response(name):
    case, family = CASES[name], family_of(name)
    value, message = case.bad
    with pytest.raises(ValueError, match=f"{family.name}: .*{message}"):
        family.check_response([np.nan, case.y[1], value])
    with pytest.raises(ValueError, match=r"has shape \(2, 1\)"):
        family.check_response([[1.0], [1.0]])


@EVERY
def test_a_known_parameter_is_not_estimated(name):
    case = CASES[name]
    family = family_of(name).given(**case.parameters)
    assert family.parameters == {}
    assert default_priors(family, case.y) == {}
    likelihood = family.make_likelihood(case.y)
    np.testing.assert_array_equal(
        likelihood.pointwise(ETA), family_of(name).make_likelihood(case.y, **case.parameters).pointwise(ETA)
    )


@EVERY
def test_default_priors_are_distributions_that_allow_the_parameters(name):
    case, family = CASES[name], family_of(name)
    assert set(family.parameters) == set(case.parameters)
    priors = default_priors(family, case.y)
    assert set(priors) == set(case.parameters)
    for parameter, prior in priors.items():
        assert isinstance(prior, dist.Distribution)
        assert np.isfinite(prior.log_prob(case.parameters[parameter]))
        assert family.parameters[parameter].prior_text


def test_the_prior_of_the_noise_scale_follows_the_responses():
    family, y = FAMILIES["gaussian"], np.array([1.0, 5.0, np.nan, 3.0])
    (prior,) = default_priors(family, y).values()
    np.testing.assert_allclose(float(prior.icdf(0.5)), 0.5 * np.std([1.0, 5.0, 3.0]), rtol=1e-6)
    (constant,) = default_priors(family, np.ones(3)).values()
    np.testing.assert_allclose(float(constant.icdf(0.5)), 0.5, rtol=1e-6)


def test_families_by_class():
    assert make_family(Poisson, exposure=2.0).fixed == {"offset": np.log(2.0)}
    assert make_family(partial(Gaussian, noise_scale=2.0)).fixed == {"noise_scale": 2.0}
    assert make_family(Probit) == make_family("bernoulli", "probit")
    family = FAMILIES["poisson"]
    assert make_family(family) == family
    assert make_family("Negative-Binomial") == FAMILIES["negative_binomial"]


WRONG = [
    (lambda: make_family("normal"), ValueError, r"""no family 'normal'\. Did you mean "gaussian"\?"""),
    (lambda: make_family("nb"), ValueError, 'Did you mean "negative_binomial"'),
    (lambda: make_family("logit"), ValueError, 'Did you mean "bernoulli"'),
    (lambda: make_family("poison"), ValueError, 'Did you mean "poisson"'),
    (lambda: make_family("wishart"), ValueError, r"no family 'wishart'\. The families are: gaussian, student_t"),
    (lambda: make_family(3), TypeError, "family must be a name, a function, a Family or a class of likelihoods, but"),
    (lambda: make_family(Poisson([1])), TypeError, r"Poisson\(1 observation, offset=0\), which contains data"),
    (lambda: make_family("poisson", trials=2), TypeError, r"poisson has no argument 'trials'\. .* are: exposure"),
    (lambda: make_family("bernoulli", sigma=2), TypeError, "Its arguments are: none"),
    (lambda: make_family("zip"), ValueError, 'Did you mean "zero_inflated_poisson"'),
    (lambda: make_family("cumulative"), ValueError, 'Did you mean "ordinal"'),
    (
        lambda: make_family("bernoulli", "log"),
        ValueError,
        r"""no link 'log'\. Its links are: "logit", "probit", "clog""",
    ),
    (lambda: make_family("poisson", "identity"), ValueError, 'poisson has no link .* Its links are: "log"'),
    (lambda: make_family("ordinal", categories=2.5).for_response(COUNTS), ValueError, "categories must be one whole"),
    (
        lambda: make_family("ordinal", categories=3).for_response(COUNTS),
        ValueError,
        r"y\[3\] = 9 is higher than the nu",
    ),
    (
        lambda: make_family("poisson", exposure=[1.0, 2.0]).for_response(COUNTS),
        ValueError,
        r"shape \(2,\), but there are 4",
    ),
    (
        lambda: make_family("weibull", event=[0, 2]).make_likelihood(np.ones(2), shape=1.0),
        ValueError,
        r"event\[1\] = 2 is not 0 or 1",
    ),
    (lambda: make_family("poisson", exposure=[1.0, 0.0]), ValueError, r"poisson: exposure\[1\] = 0 is not positive"),
    (lambda: make_family("binomial").mean(ETA), TypeError, "binomial requires trials: one number, or one per row"),
    (lambda: make_family("gaussian").simulate(ETA, np.random.default_rng(0)), TypeError, "its parameter noise_scale"),
    (lambda: make_family(Binomial, trials=2).make_likelihood(np.array([3.0])), ValueError, "is more than its trials"),
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG, ids=[row[2] for row in WRONG])
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_repr():
    assert repr(FAMILIES["gaussian"]) == "Family(gaussian, identity link, parameters: noise_scale)"
    assert repr(FAMILIES["bernoulli"]) == "Family(bernoulli, logit link)"
