"""Estimates of the log-evidence compared with closed forms, and the calibration of their standard errors."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.stats import multivariate_normal

import ellipslice as es
from ellipslice.apps.paper.problems import synthetic
from statistical.calibrated_evidence import NOISE, SIGMA, Y, check_calibrated
from statistical.monte_carlo import LIMIT, SEED

pytestmark = pytest.mark.statistical


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:the particles mix slowly", "ignore:annealed importance sampling gives")
def test_estimates_have_no_bias_calibrated_errors_and_draws_from_the_posterior():
    runs = check_calibrated()
    assert np.mean([run.standard_error for run in runs]) < 0.3
    assert sum(run.estimates_agree is False for run in runs) <= 3

    draws = np.concatenate([run.draws for run in runs])
    gain = SIGMA @ np.linalg.inv(SIGMA + NOISE**2 * np.eye(3))
    mean, covariance = gain @ Y, SIGMA - gain @ SIGMA
    error = np.sqrt(covariance.diagonal() / (len(draws) / 10))  # assume that a tenth of the draws are independent
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean), LIMIT * error)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.03)


@pytest.mark.long
@pytest.mark.parametrize("dimensions", [1, 10])
def test_gaussian_regression_from_a_reference_is_exact(dimensions):
    problem = synthetic(dimensions, 2)
    exact = multivariate_normal(cov=problem.covariance + 0.09 * np.eye(200)).logpdf(problem.likelihood.y)
    result = es.evidence(problem.likelihood, es.Dense(problem.covariance), seed=SEED + 1, check=False)
    assert (result.reference, result.engine) == ("ep", "batched")
    assert result.log_z == pytest.approx(exact, abs=1e-6)


@pytest.mark.long
def test_gaussian_regression_from_the_prior():
    problem = synthetic(1, 2)
    exact = multivariate_normal(cov=problem.covariance + 0.09 * np.eye(200)).logpdf(problem.likelihood.y)
    options = {"particles": 500, "reference": None, "target_effective_fraction": 0.6, "updates_per_temperature": 20}
    result = es.evidence(problem.likelihood, es.Dense(problem.covariance), seed=SEED + 2, **options)
    assert abs(result.log_z - exact) < LIMIT * result.standard_error
    assert result.standard_error < 0.5
    assert result.estimates_agree is not False


@pytest.mark.long
def test_labels_from_the_prior_and_from_two_references_agree():
    """There is no closed form, but three methods that share little code must agree."""
    x = np.linspace(0, 1, 30)
    prior = es.Dense(4.0 * np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.2**2))
    likelihood = es.likelihoods.Logistic(np.where(np.sin(9 * x) > 0, 1.0, -1.0))
    found = {way: es.evidence(likelihood, prior, reference=way, seed=SEED + 3) for way in (None, "laplace", "ep")}
    for way in ("laplace", "ep"):
        gap = found[way].log_z - found[None].log_z
        assert abs(gap) < LIMIT * np.hypot(found[way].standard_error, found[None].standard_error)
        assert found[way].estimates_agree
        assert found[way].standard_error < found[None].standard_error
    assert found["ep"].log_z == pytest.approx(es.approximate_evidence(likelihood, prior, "ep"), abs=0.05)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["host", "batched"])
def test_a_likelihood_of_zero_on_most_draws(engine):
    """The likelihood is 1 beyond one standard deviation and 0 elsewhere, so Z is a probability."""

    def beyond(f):
        return jnp.where(f[0] > 1, 0.0, -jnp.inf)

    def beyond_on_the_host(f):
        return 0.0 if f[0] > 1 else -np.inf

    function = beyond if engine == "batched" else beyond_on_the_host
    result = es.evidence(function, es.Diagonal([1.0, 2.0]), method="tempered", particles=2000, seed=SEED + 4)
    assert result.engine == engine
    assert abs(result.log_z - np.log(stats.norm.sf(1))) < LIMIT * result.standard_error
    assert result.draws.shape == (2000, 2)
    assert (result.draws[:, 0] > 1).all()
    assert result.estimates_agree
