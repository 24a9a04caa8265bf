"""Special cases of `LatentGP` and `CoxProcess`: constants, no events, one named latent, warnings given once.

Fits run on the host engine, or share one compiled program, so these tests are quick.
"""

import contextlib
import re
import warnings

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tinygp import kernels

import ellipslice as es
from ellipslice.gp import CoxProcess, LatentGP
from ellipslice.likelihoods import Gaussian, Logistic, Poisson, Probit
from ellipslice.parameters.parameters import DRAWN_ONE_BY_ONE, ROWS_PER_CALL, Parameters
from ellipslice.parameters.point_likelihood import PointLikelihood

X = np.linspace(0.0, 2.0, 6)
Y = np.array([2.0, 3.0, 1.0, 0.0, 1.0, 4.0])
MATERN = kernels.Matern52(1.0)
SHORT = {"draws": 6, "warmup": 3, "chains": 1, "seed": 1, "progress": False}
HOST = SHORT | {"engine": "host"}


# --- a prior without spread -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior",
    [
        dist.Delta(2.0),
        dist.Delta(jnp.ones(2)),
        dist.Delta(jnp.ones(2), event_dim=1),
        dist.Delta(2.0).expand([2]),
        dist.Delta(jnp.ones(2)).to_event(1),
        dist.Normal(1.0, 0.0, validate_args=False),
        dist.Normal(jnp.zeros(2), jnp.array([1.0, 0.0]), validate_args=False),
    ],
)
def test_a_constant_is_no_hyperparameter(prior):
    """It ended in "Matrix is not positive definite" after the pilot runs."""
    own = r"parameters\['s'\] is a constant: its prior has variance 0\. .* Write the value into the kernel"
    with pytest.raises(ValueError, match=own):
        LatentGP(lambda s: kernels.Matern52(s), Poisson, parameters={"s": prior}).fit(X, Y, **SHORT)
    with pytest.raises(ValueError, match=own):
        LatentGP(MATERN, lambda y, s: Gaussian(y, s), parameters={"s": prior}).fit(X, Y, **SHORT)


ANY = {"validate_args": False}


def test_a_constant_of_an_estimator():
    pytest.importorskip("sklearn")
    estimator = es.gp.EllipticalGPRegressor(lambda s: kernels.ExpSquared(s), parameters={"s": dist.Delta(2.0)})
    with pytest.raises(ValueError, match=r"parameters\['s'\] is a constant"):
        estimator.fit(X[:, None], Y)


@pytest.mark.parametrize(
    "prior", [dist.Normal(np.nan, 1.0, **ANY), dist.Uniform(1.0, 1.0, **ANY), dist.Normal(np.inf, 1.0, **ANY)]
)
def test_a_prior_whose_draws_are_no_numbers(prior):
    with pytest.raises(ValueError, match=r"parameters\['s'\] (has prior draws that are not finite|is a constant)"):
        Parameters({"s": prior}).gaussian()


# --- values of hyperparameters ---

FAMILIES = {
    "Normal": dist.Normal(1.0, 2.0),
    "LogNormal": dist.LogNormal(0.0, jnp.array([0.5, 1.0])),
    "HalfNormal": dist.HalfNormal(2.0),
    "HalfCauchy": dist.HalfCauchy(1.0),
    "Exponential": dist.Exponential(2.0),
    "Uniform": dist.Uniform(1.0, 3.0),
}


def test_the_first_draws_do_not_depend_on_how_many_are_drawn(monkeypatch):
    assert tuple(FAMILIES) == DRAWN_ONE_BY_ONE
    parameters = Parameters(FAMILIES)
    assert parameters._drawn_one_by_one
    found = [parameters.draw(np.random.default_rng(3), count) for count in (1, 4, 41)]
    monkeypatch.setattr(Parameters, "_drawn_one_by_one", False)
    for one in found:
        np.testing.assert_array_equal(one, parameters.draw(np.random.default_rng(3), len(one)))


def test_another_family_is_drawn_as_often_as_requested():
    assert not Parameters(FAMILIES | {"shape": dist.Gamma(2.0, 3.0)})._drawn_one_by_one


def test_hyperparameters_of_many_draws_are_those_of_each():
    parameters = Parameters(FAMILIES | {"weights": dist.Dirichlet(jnp.ones(3)), "rho": dist.Beta(2.0, 0.5)})
    u = np.random.default_rng(0).standard_normal((ROWS_PER_CALL + 7, parameters.size))
    found, expected = parameters.constrained_rows(u), [parameters.constrained(one) for one in u]
    assert list(found) == list(expected[0])
    for name, values in found.items():
        np.testing.assert_array_equal(values, np.stack([one[name] for one in expected]))


# --- events ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [[], (), np.empty(0), np.empty((0, 1)), np.zeros(0, int)])
def test_no_event_is_data(events):
    process = CoxProcess(MATERN, (0.0, 3.0), 5, mean=-1.0)
    np.testing.assert_array_equal(process.counts(events), np.zeros(5))
    with pytest.raises(ValueError, match=r"there are no events, and mean was not given: .* Give mean"):
        CoxProcess(MATERN, (0.0, 3.0), 5).fit(events, **SHORT)


@pytest.mark.parametrize(
    ("window", "events", "message"),
    [
        ((0.0, 3.0), np.empty((0, 2)), "events have 2 axes, but the window has 1"),
        ([(0.0, 3.0)] * 2, np.empty((0, 1)), "events have 1 axes, but the window has 2"),
        ((0.0, 3.0), 0.5, "events must be an array of shape (n,) or (n, axes), but it is 0.5. Give [0.5]"),
    ],
)
def test_events_of_another_shape(window, events, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        CoxProcess(MATERN, window, 5, mean=-1.0).counts(events)


@pytest.mark.long
def test_a_rate_without_events_is_below_its_prior_mean():
    fit = CoxProcess(MATERN, (0.0, 3.0), 5, mean=1.0).fit([], **SHORT | {"draws": 400, "warmup": 50})
    assert fit.tree.posterior.f.mean() < 0.5  # prior mean 1, and no event in cells with rate e
    np.testing.assert_array_equal(fit.shown, np.zeros(5))
    assert CoxProcess(MATERN, [(0.0, 3.0)] * 2, 5, mean=1.0).counts([]).shape == (25,)


# --- latent functions by name ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_one_latent_function_with_a_name_and_a_ready_made_likelihood():
    """This used to raise "Likelihood.__call__() got an unexpected keyword argument 'g'"."""
    named, plain = (LatentGP(kernel, Poisson).fit(X, Y, **HOST) for kernel in ({"g": MATERN}, MATERN))
    np.testing.assert_array_equal(named.tree.posterior.g, plain.tree.posterior.f)
    assert set(named.predict(X[:2] + 0.1).data_vars) == {"g", "expected", "predictive"}
    np.testing.assert_array_equal(named.log_predictive_density([0.3], [1]), plain.log_predictive_density([0.3], [1]))


def of_point(latents, likelihood):
    """Return the log-likelihood of a model with unknown hyperparameters, which its pilot runs call."""
    model = LatentGP({**latents, "s": lambda a: kernels.Matern52(a)}, likelihood, parameters={"a": dist.LogNormal()})
    model.joint.factors.probe(X)
    return PointLikelihood(model.likelihood, model.joint, Y, len(X))


def test_one_latent_function_with_a_name_and_unknown_parameters():
    point = np.concatenate([[0.1], np.zeros(6), np.linspace(0.0, 1.0, 6)])
    assert of_point({}, Poisson)(point) == Poisson(Y)(point[-6:])


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        (
            Poisson,
            "but the model has g, s. Give a function of all of them, such as likelihood=lambda y: ",
        ),
        (lambda y: lambda f: 0.0, "must take the latent functions by name, g, s, but: "),
    ],
)
def test_several_latent_functions_and_a_likelihood_of_one(likelihood, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        LatentGP({"g": MATERN, "s": MATERN}, likelihood).fit(X, Y, **HOST)
    with pytest.raises(TypeError, match=re.escape(message)):
        of_point({"g": MATERN}, likelihood)


def test_a_linear_predictor_of_named_latent_functions():
    A = np.random.default_rng(0).standard_normal((4, 6))
    both = LatentGP(
        {"g": MATERN, "h": MATERN}, lambda y: es.likelihoods.LinearPredictor({"g": A, "h": -A}, Poisson(y[:4]))
    )
    by_hand = LatentGP({"g": MATERN, "h": MATERN}, lambda y: lambda g, h: Poisson(y[:4])(A @ g - A @ h))
    one, two = (model.fit(X, Y, **HOST).tree.posterior for model in (both, by_hand))
    np.testing.assert_allclose(one.g, two.g)
    np.testing.assert_allclose(one.h, two.h)


# --- warnings -------------------------------------------------------------------------------------------------------


def labels_warned_of(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    return result, sum("labels 0/1 were read" in str(one.message) for one in caught)


@pytest.mark.parametrize("likelihood", [Probit, Logistic, lambda y: lambda f: Probit(y)(f)])
def test_labels_are_warned_of_once(likelihood):
    y = np.array([True, False, True, True, False, False])
    fit, count = labels_warned_of(lambda: LatentGP(MATERN, likelihood).fit(X, y, **HOST))
    assert count == 1 or likelihood not in (Probit, Logistic)  # a user's function may warn at each call
    for again in (lambda: fit.predict(X + 0.05), lambda: fit.predict(X + 0.05, likelihood=Probit)):
        assert labels_warned_of(again)[1] == 0
    if likelihood in (Probit, Logistic):
        assert labels_warned_of(lambda: fit.log_predictive_density(X[:2], [True, False]))[1] == 0


@pytest.mark.parametrize(
    "likelihood",
    [Probit, lambda y, p: Probit(y), lambda y, p: Probit(y * (p["s"] > 0))],
)
def test_labels_are_warned_of_once_with_unknown_parameters(likelihood):
    names = {"r"} if likelihood is Probit else {"r", "s"}
    model = LatentGP(lambda r: kernels.Matern52(r), likelihood, parameters=dict.fromkeys(names, dist.LogNormal()))
    y = np.array([True, False, True, True, False, False])

    def look():
        model.components.entered = None
        with contextlib.suppress(ValueError):  # of the one that does not use s
            model.components.probe(X, y)
        log_likelihood = PointLikelihood(model.likelihood, model.joint, y, len(X))
        for _ in range(3):
            log_likelihood.of_latents(np.zeros(len(names)))

    assert labels_warned_of(look)[1] == 1
