"""Parts of `evidence` with known results, and approximations of the log-evidence where they are exact."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal, norm

import ellipslice as es
from ellipslice.apps.paper.problems import synthetic
from ellipslice.likelihoods import Gaussian, LinearPredictor, Logistic, Poisson, Probit, StudentT
from ellipslice.marginal.annealing import Schedule, next_beta, systematic_rows
from ellipslice.marginal.estimates import estimates_agree, log_mean, log_mean_weight

RNG = np.random.default_rng(5)


def test_the_next_power_keeps_the_overlap_asked_for():
    values = RNG.normal(-1000, 300, 500)
    beta = next_beta(values, 0.0, 0.7)
    weights = np.exp(beta * (values - values.max()))
    np.testing.assert_allclose(weights.mean() ** 2 / (weights**2).mean(), 0.7, rtol=1e-6)
    assert next_beta(values, 0.5, 0.7) == pytest.approx(0.5 + beta)  # a step depends on the particles alone


@pytest.mark.parametrize("values", [np.zeros(10), RNG.normal(0, 0.1, 10), np.array([-3.0, -np.inf, np.nan])])
def test_a_weak_likelihood_is_taken_in_one_step(values):
    assert next_beta(values, 0.0, 0.8) == 1.0


def test_a_huge_likelihood_gets_a_tiny_power():
    values = RNG.normal(-1e12, 1e11, 500)
    assert 0 < next_beta(values, 0.0, 0.8) < 1e-9


def test_systematic_resampling_takes_each_as_often_as_its_weight_says():
    weights = np.array([0.5, 0.0, 0.3, 0.2, 0.0])
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights) - 700
    for _ in range(50):
        often = np.bincount(systematic_rows(log_weights, RNG), minlength=5)
        assert (np.abs(often - 5 * weights) < 1).all()
        assert often[[1, 4]].sum() == 0


def test_systematic_resampling_is_fair():
    log_weights = np.log(np.array([0.46, 0.31, 0.23]))
    often = sum(np.bincount(systematic_rows(log_weights, RNG), minlength=3) for _ in range(20_000)) / 60_000
    np.testing.assert_allclose(often, np.exp(log_weights), atol=0.01)


def test_a_refined_schedule_has_a_power_for_every_update():
    schedule = Schedule(np.array([0.1, 0.5, 1.0]), np.array([2, 4, 1]), np.zeros(3))
    np.testing.assert_allclose(schedule.per_update(), [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0])


def test_estimates_of_z_are_averaged_not_those_of_its_logarithm():
    mean, error = log_mean(np.log([1.0, 3.0, 2.0, 2.0]))
    assert mean == pytest.approx(math.log(2))
    assert error == pytest.approx(math.sqrt(2 / 3) / 2 / 2)
    assert log_mean(np.array([0.0, -np.inf]))[0] == pytest.approx(-math.log(2))


def test_the_effective_number_of_weights():
    log_weights = RNG.normal(-700, 2, 50)
    weights = np.exp(log_weights + 700)
    mean, error, effective = log_mean_weight(log_weights)
    assert mean == pytest.approx(np.log(weights.mean()) - 700)
    assert error == pytest.approx(weights.std(ddof=1) / np.sqrt(50) / weights.mean())
    assert effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert log_mean_weight(np.array([-5.0, -5.0, -np.inf]))[2] == pytest.approx(2)


def test_agreement_needs_a_check_that_can_say():
    assert estimates_agree((1.0, 0.1), (1.3, 0.1), 100) is True
    assert estimates_agree((1.0, 0.1), (2.0, 0.1), 200) is False
    assert estimates_agree((1.0, 0.1), (2.0, 0.1), 90) is None
    assert estimates_agree((1.0, 0.0), (1.0 + 1e-12, 0.0), 100) is True


@pytest.mark.long_cases("1-laplace")
@pytest.mark.parametrize("way", ["laplace", "ep"])
@pytest.mark.parametrize("dimensions", [1, 10])
def test_both_approximations_are_exact_for_gaussian_regression(way, dimensions):
    problem = synthetic(dimensions, 3)
    exact = multivariate_normal(cov=problem.covariance + 0.09 * np.eye(200)).logpdf(problem.likelihood.y)
    assert es.approximate_evidence(problem.likelihood, es.Dense(problem.covariance), way) == pytest.approx(exact, 1e-9)


def likelihood_of_one(likelihood, i):
    """Return the likelihood of one element of f, by formulas that the library does not use."""
    y = np.asarray(likelihood.y)[i]
    if isinstance(likelihood, Logistic):
        return lambda f: 1 / (1 + math.exp(-y * f))
    if isinstance(likelihood, Probit):
        return lambda f: norm.cdf(y * f)
    return lambda f: math.exp(y * f - math.exp(f)) / math.factorial(int(y))


@pytest.mark.long_cases("Probit(3 labels)", "Logistic(3 labels)")
@pytest.mark.parametrize(
    "likelihood", [Logistic([1.0, 1.0, -1.0]), Probit([1.0, -1.0, 1.0]), Poisson([3.0, 0.0, 1.0])], ids=repr
)
def test_expectation_propagation_is_exact_for_independent_values(likelihood):
    variance, mean = [1.0, 4.0, 0.25], [0.3, -1.0, 0.0]
    exact = 0.0
    for i in range(3):
        density, one = norm(mean[i], math.sqrt(variance[i])), likelihood_of_one(likelihood, i)
        exact += math.log(quad(lambda f, density=density, one=one: density.pdf(f) * one(f), -15, 15, epsabs=1e-12)[0])
    prior = es.Diagonal(variance, mean=mean)
    assert es.approximate_evidence(likelihood, prior, "ep") == pytest.approx(exact, abs=1e-6)
    assert es.approximate_evidence(likelihood, prior, "laplace") != pytest.approx(exact, abs=1e-3)


def test_laplace_is_the_height_and_the_curvature_at_the_mode():
    """A heavy-tailed likelihood that is convex near an outlier: the mode by brute force, the Hessian by differences."""
    prior, likelihood = es.Diagonal([1.0]), StudentT([6.0], noise_scale=0.7, degrees_of_freedom=3.0)

    def height(f):
        return float(likelihood(np.array([f]))) + norm.logpdf(f)

    grid = np.linspace(-2, 8, 101)
    around = grid[np.argmax([height(f) for f in grid])]
    mode = minimize_scalar(lambda f: -height(f), bounds=(around - 0.1, around + 0.1), options={"xatol": 1e-9}).x
    bend = (height(mode + 1e-3) - 2 * height(mode) + height(mode - 1e-3)) / 1e-6
    expected = height(mode) + 0.5 * math.log(2 * math.pi / -bend)
    assert es.approximate_evidence(likelihood, prior, "laplace") == pytest.approx(expected, abs=1e-4)


def test_constants_of_a_users_function_count():
    y = np.array([0.5, -1.0])
    prior = es.Dense([[1.0, 0.3], [0.3, 2.0]], mean=[0.2, 0.0])
    exact = multivariate_normal([0.2, 0.0], [[2.0, 0.3], [0.3, 3.0]]).logpdf(y)

    def log_likelihood(f):
        return -0.5 * jnp.sum((y - f) ** 2) - jnp.log(2 * jnp.pi)

    for way in ("laplace", "ep"):
        assert es.approximate_evidence(log_likelihood, prior, way) == pytest.approx(exact, abs=1e-9)


def test_a_predictor_of_few_weights():
    A, y = RNG.standard_normal((6, 2)), RNG.standard_normal(6)
    exact = multivariate_normal(cov=A @ np.diag([1.0, 2.0]) @ A.T + 0.25 * np.eye(6)).logpdf(y)
    likelihood, prior = LinearPredictor(A, Gaussian(y, 0.5)), es.Diagonal([1.0, 2.0])
    assert es.approximate_evidence(likelihood, prior) == pytest.approx(exact, abs=1e-9)


def test_what_approximations_refuse():
    prior = es.Diagonal([1.0, 1.0])
    with pytest.raises(ValueError, match='"ep" or "laplace", but it is \'pilot\''):
        es.approximate_evidence(Gaussian([0.0, 1.0]), prior, "pilot")
    with pytest.raises(ValueError, match="factorises over the elements of f"):
        es.approximate_evidence(lambda f: -((f[0] * f[1]) ** 2), prior)
    with pytest.raises(ValueError, match="which accepts any"):
        es.approximate_evidence(lambda f: float(np.sum(f)), prior)
