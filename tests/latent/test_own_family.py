"""Families of users: a function is compared with the built-in Poisson family, and mistakes in functions are named."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.scipy.special import gammaln

import ellipslice as es
from ellipslice.latent.families import make_family
from ellipslice.latent.mode import find_marginal_mode
from ellipslice.likelihoods import Likelihood
from ellipslice.pytree import pytree, set_fields

_rng = np.random.default_rng(3)
GROUP = np.arange(60) % 12
X = _rng.standard_normal(60)
DATA = {"y": _rng.poisson(np.exp(1 + 0.5 * X + 0.4 * _rng.standard_normal(12)[GROUP])), "x": X, "g": GROUP}
FORMULA = "y ~ x + (1 | g)"


def poisson(y, eta):
    return y * eta - jnp.exp(eta) - gammaln(y + 1)


def negative_binomial(y, eta, dispersion, factor=1.0):
    mean = factor * jnp.exp(eta)
    total = gammaln(y + dispersion) - gammaln(dispersion) - gammaln(y + 1)
    return total + dispersion * jnp.log(dispersion / (dispersion + mean)) + y * jnp.log(mean / (dispersion + mean))


@pytree
class Laplace(Likelihood):
    """A user's class."""

    y: Any
    scale: Any

    def __init__(self, y, scale):
        set_fields(self, y=np.asarray(y, dtype=float), scale=np.asarray(scale, dtype=float))

    def _pointwise(self, f, xp, special):
        return -xp.abs(f - self.y) / self.scale - xp.log(2 * self.scale)

    def expected(self, f):
        return np.array(f)

    def simulate(self, f, rng):
        return f + rng.laplace(0, np.broadcast_to(self.scale, f.shape))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_a_function_has_the_values_and_derivatives_of_the_built_in_family(batch):
    y, eta = DATA["y"].astype(float), np.random.default_rng(0).standard_normal((*batch, 60))
    own = make_family(poisson).make_likelihood(y)
    built_in = make_family("poisson").make_likelihood(y)
    np.testing.assert_allclose(own.pointwise(eta), built_in.pointwise(eta), rtol=1e-12)
    np.testing.assert_allclose(own(eta), built_in(eta), rtol=1e-12)
    np.testing.assert_allclose(own.slope(eta), built_in.slope(eta), rtol=1e-11)
    np.testing.assert_allclose(own.curvature(eta), built_in.curvature(eta), rtol=1e-11)


def test_parameters_and_known_values_of_a_function():
    y, eta, exposure = DATA["y"].astype(float), X, np.linspace(0.5, 2.0, 60)
    family = make_family(negative_binomial, factor=exposure)
    assert repr(family) == "Family(negative_binomial, own link, parameters: dispersion)"
    built_in = make_family("negative_binomial", exposure=exposure).make_likelihood(y, dispersion=2.5)
    np.testing.assert_allclose(family.make_likelihood(y, dispersion=2.5).pointwise(eta), built_in.pointwise(eta))
    assert make_family(partial(negative_binomial, dispersion=2.5)).parameters == {}
    observed = np.arange(60) > 10
    part = family.at_rows(observed).make_likelihood(y[observed], dispersion=2.5)
    np.testing.assert_allclose(part.pointwise(eta[observed]), built_in.pointwise(eta)[observed])


def test_the_modes_are_those_of_the_built_in_family():
    modes = [
        find_marginal_mode(es.LatentGaussianModel(FORMULA, data=DATA, family=family).definition.posterior)
        for family in (poisson, "poisson")
    ]
    np.testing.assert_allclose(modes[0].u, modes[1].u, atol=1e-6)
    np.testing.assert_allclose(modes[0].latents.eta, modes[1].latents.eta, atol=1e-6)


@pytest.mark.long
def test_the_draws_have_the_posterior_of_the_built_in_family():
    priors = {"dispersion": dist.LogNormal(1.0, 0.7)}
    fits = [
        es.LatentGaussianModel(FORMULA, data=DATA, family=family, priors=priors).fit(draws=1000, seed=seed)
        for family, seed in ((negative_binomial, 1), ("negative_binomial", 2))
    ]
    tables = [fit.summary(["fixed", "g", "g_sd", "dispersion"]) for fit in fits]
    error = np.sqrt(sum(table["sd"] ** 2 / table["ess"] for table in tables))
    assert (np.abs(tables[0]["mean"] - tables[1]["mean"]) < 4.5 * error).all()


def test_predictions_of_a_function_are_linear_predictors():
    model = es.LatentGaussianModel(FORMULA, data=DATA, family=poisson)
    fit = model.fit(draws=5, seed=1, chains=1)
    assert set(fit.predict({"x": [0.0, 1.0], "g": [0, 3]}).data_vars) == {"linear_predictor"}
    assert fit.linear_predictor().shape == (1, 5, 60)
    assert "expected" not in model.prior_predictive(draws=3)
    assert "g: independent random intercepts" in model.describe()


def test_a_class_is_a_family():
    data = DATA | {"y": np.random.default_rng(1).laplace(1.0, 0.5, 60)}
    model = es.LatentGaussianModel(FORMULA, data=data, family=Laplace, priors={"scale": dist.HalfNormal(1.0)})
    assert "scale: parameter of the family. Prior: HalfNormal(scale=1)." in model.describe()
    fit = model.fit(draws=5, seed=1, chains=1)
    assert set(fit.predict().data_vars) == {"linear_predictor", "expected", "predictive"}


def test_a_compiled_function_is_a_family():
    np.testing.assert_allclose(
        make_family(jax.jit(poisson)).make_likelihood(np.ones(2)).pointwise(np.zeros(2)), [-1, -1]
    )


def test_likelihoods_of_functions_are_pickled():
    likelihood = make_family(negative_binomial).make_likelihood(np.ones(3), dispersion=2.0)
    again = pickle.loads(pickle.dumps(likelihood))
    np.testing.assert_array_equal(again.pointwise(X[:3]), likelihood.pointwise(X[:3]))


def by_numpy(y, eta):
    return np.exp(np.asarray(eta)) * y


def with_if(y, eta):
    return y * eta if eta[0] > 0 else -eta


def summed(y, eta):
    return jnp.sum(y * eta - jnp.exp(eta))


def coupled(y, eta):
    return -((eta - y) ** 2) - jnp.roll(eta, 1) ** 2


def alone(y):
    return y


def unnamed(y, eta, *parameters):
    return y * eta


WRONG = [
    (by_numpy, {}, TypeError, "by_numpy cannot be traced by JAX. Write it with jax.numpy instead of NumPy"),
    (with_if, {}, TypeError, "with jax.numpy.where instead of if"),
    (summed, {}, ValueError, r"summed returns shape \(\) for 60 responses\. Expected one log density per response"),
    (coupled, {}, TypeError, "a pointwise value depends on more than its own element of f"),
    (alone, {}, TypeError, r"alone has the arguments y\. Expected log_density\(y, eta, \.\.\.\)"),
    (unnamed, {}, TypeError, "unnamed has the argument 'parameters'. Give every parameter a name"),
    (negative_binomial, {}, TypeError, "negative_binomial: dispersion has no default prior. Give one"),
    (
        negative_binomial,
        {"known": {"sigma": 1}},
        TypeError,
        "no argument 'sigma'. Its arguments are: factor, dispersion",
    ),
    (Laplace, {}, TypeError, "Laplace: scale has no default prior"),
]


@pytest.mark.parametrize(("family", "options", "error", "message"), WRONG, ids=[row[3][:30] for row in WRONG])
def test_mistakes_raise_before_a_fit(family, options, error, message):
    with pytest.raises(error, match=message):
        es.LatentGaussianModel(FORMULA, data=DATA, family=family, **options)


def test_a_function_cannot_simulate():
    with pytest.raises(NotImplementedError, match="Write a class that derives from"):
        make_family(poisson).simulate(X, np.random.default_rng(0))
