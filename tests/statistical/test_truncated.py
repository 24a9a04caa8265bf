"""Truncated Gaussians compared with known results: truncnorm, orthants, and integrals in two dimensions."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse, stats

import ellipslice as es
from ellipslice.likelihoods import Gaussian, LinearPredictor
from ellipslice.moves import constrained
from ellipslice.moves.constrained_arcs import Arcs, allowed_arcs, forbidden_intervals
from statistical.monte_carlo import SEED, compare, compare_distribution

pytestmark = pytest.mark.statistical

LONG = {"draws": 10_000, "warmup": 200, "chains": 2, "progress": False}


def draws(log_likelihood, prior, seed, **options):
    return es.sample(log_likelihood, prior, seed=SEED + seed, **{**LONG, **options}).posterior.f.values


def compare_truncnorm(f, mean, deviation, lower, upper, what):
    """Check draws, shape (chain, draw), of one element: mean, variance and distribution."""
    known = stats.truncnorm((lower - mean) / deviation, (upper - mean) / deviation, mean, deviation)
    compare(f[..., None], [known.mean()], f"{what}, mean")
    compare((f[..., None] - known.mean()) ** 2, [known.var()], f"{what}, variance")
    compare_distribution(f, known.cdf, what)
    assert f.min() >= lower
    assert f.max() <= upper


INTERVALS = {
    "half": (0.0, 1.0, 0.0, np.inf),
    "middle": (0.0, 1.0, -0.5, 0.8),
    "far tail": (0.0, 1.0, 6.0, np.inf),
    "farther tail, from above": (0.0, 1.0, -np.inf, -12.0),
    "a slit": (0.0, 1.0, 2.0, 2.01),
    "shifted and scaled": (3.0, 0.5, 3.4, 5.0),
    "hardly any": (1.0, 2.0, -7.0, 9.0),
}


@pytest.mark.short_cases("a slit")
@pytest.mark.parametrize("name", INTERVALS)
def test_one_value(name):
    mean, deviation, lower, upper = INTERVALS[name]
    prior = es.TruncatedGaussian.box(es.Diagonal([deviation**2], mean=mean), lower, upper)
    compare_truncnorm(draws(None, prior, 1)[..., 0], mean, deviation, lower, upper, name)


def orthant(correlation):
    """Return the probability of the positive orthant and E[x], E[x_0 x_1] within it, for unit variances.

    2 or 3 dimensions.
    """
    size = len(correlation)

    def quadrant(r):
        return 0.25 + math.asin(r) / (2 * math.pi)

    if size == 2:
        r = correlation[0, 1]
        probability = quadrant(r)
        faces = np.array([0.5, 0.5])  # P(the other is positive | this one is 0)
        product = r * probability + math.sqrt(1 - r**2) / (2 * math.pi)
        return probability, correlation @ faces / math.sqrt(2 * math.pi) / probability, product / probability
    pairs = [(0, 1), (0, 2), (1, 2)]
    probability = 1 / 8 + sum(math.asin(correlation[i, j]) for i, j in pairs) / (4 * math.pi)
    faces = []
    for i, (j, k) in enumerate([(1, 2), (0, 2), (0, 1)]):
        left = correlation[j, k] - correlation[i, j] * correlation[i, k]
        faces.append(quadrant(left / math.sqrt((1 - correlation[i, j] ** 2) * (1 - correlation[i, k] ** 2))))
    return probability, correlation @ np.array(faces) / math.sqrt(2 * math.pi) / probability, None


ORTHANTS = {
    "independent": np.eye(2),
    "together": np.array([[1.0, 0.8], [0.8, 1.0]]),
    "against each other": np.array([[1.0, -0.9], [-0.9, 1.0]]),
    "three": np.array([[1.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 1.0]]),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ORTHANTS)
def test_orthants(name):
    correlation = ORTHANTS[name]
    f = draws(None, es.TruncatedGaussian.box(es.Dense(correlation), lower=0.0), 2)
    _, mean, product = orthant(correlation)
    compare(f, mean, f"{name}, means")
    if product is not None:
        compare((f[..., 0] * f[..., 1])[..., None], [product], f"{name}, product")
    assert f.min() >= 0


def test_the_formulas_of_orthants():
    rng = np.random.default_rng(0)
    for correlation in ORTHANTS.values():
        probability, mean, _ = orthant(correlation)
        x = rng.multivariate_normal(np.zeros(len(mean)), correlation, 200_000)
        inside = x[(x > 0).all(1)]
        assert len(inside) / len(x) == pytest.approx(probability, abs=5 * math.sqrt(0.25 / len(x)))
        np.testing.assert_allclose(inside.mean(0), mean, atol=5 * inside.std() / math.sqrt(len(inside)))


@pytest.mark.long
def test_gaussian_observations_of_a_box():
    variance, mean, y, sigma = np.array([1.0, 4.0, 0.3]), np.array([0.0, 1.0, -1.0]), np.array([-1.0, 3.0, 0.0]), 0.5
    lower, upper = np.array([0.0, -np.inf, -0.9]), np.array([np.inf, 2.0, -0.2])
    prior = es.TruncatedGaussian.box(es.Diagonal(variance, mean=mean), lower, upper)
    f = draws(Gaussian(y, sigma), prior, 3)
    precision = 1 / variance + 1 / sigma**2
    centre = (mean / variance + y / sigma**2) / precision
    for i in range(3):
        compare_truncnorm(f[..., i], centre[i], precision[i] ** -0.5, lower[i], upper[i], f"observed value {i}")


@pytest.mark.long
def test_carried_predictors_and_constraints_together():
    prior = es.TruncatedGaussian.box(es.Diagonal([2.0], mean=0.5), lower=0.0)
    rows, y = np.array([[1.0], [2.0], [-1.0]]), np.array([-0.5, 0.4, 0.3])
    f = draws(LinearPredictor(rows, Gaussian(y, 0.7)), prior, 4)
    precision = 1 / 2.0 + (rows**2).sum() / 0.49
    centre = (0.5 / 2.0 + float(rows[:, 0] @ y) / 0.49) / precision
    compare_truncnorm(f[..., 0], centre, precision**-0.5, 0.0, np.inf, "LinearPredictor")


COVARIANCE, MEAN = np.array([[1.0, 0.6], [0.6, 2.0]]), np.array([0.3, -0.4])
POLYTOPE, LIMITS = np.array([[1.0, 1.0], [-1.0, 2.0], [-2.0, -1.0]]), np.array([1.5, 1.0, 1.0])


def two_sided(f):
    """Return a log-likelihood with two modes, one of which is cut in half by the constraints."""
    near, far = -2 * ((f - np.array([0.6, 0.4])) ** 2).sum(), -3 * ((f - np.array([0.2, -1.3])) ** 2).sum()
    return (np if isinstance(f, np.ndarray) else jnp).logaddexp(near, far)  # JAX would be slow on the host


def integrals():
    """Return E[f_0], E[f_1], E[f_0 f_1] and E[f_0^2] of the posterior on the triangle, from a fine grid."""
    axis = np.linspace(-6, 6, 3001)
    x = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    x = x[(x @ POLYTOPE.T <= LIMITS).all(1)]
    d = (x - MEAN) @ np.linalg.inv(np.linalg.cholesky(COVARIANCE)).T
    near = -2 * ((x - [0.6, 0.4]) ** 2).sum(1)
    weight = np.exp(-0.5 * (d**2).sum(1) + np.logaddexp(near, -3 * ((x - [0.2, -1.3]) ** 2).sum(1)))
    features = np.stack([x[:, 0], x[:, 1], x[:, 0] * x[:, 1], x[:, 0] ** 2], 1)
    return weight @ features / weight.sum()


def check_triangle(A=POLYTOPE, engine="compiled", **options):
    f = draws(two_sided, es.TruncatedGaussian(es.Dense(COVARIANCE, mean=MEAN), A, LIMITS), 5, engine=engine, **options)
    features = np.stack([f[..., 0], f[..., 1], f[..., 0] * f[..., 1], f[..., 0] ** 2], -1)
    compare(features, integrals(), "a triangle")  # the error of the grid is a hundredth of the Monte Carlo error
    assert (f @ POLYTOPE.T <= LIMITS + 1e-12).all()


@pytest.mark.long
@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_a_triangle_with_two_humps(engine):
    check_triangle(engine=engine)


@pytest.mark.long
def test_rows_that_say_nothing_new():
    """Repeated rows, a row of zeros and an infinite bound change nothing."""
    rows = np.concatenate([POLYTOPE, POLYTOPE, np.zeros((1, 2)), [[1.0, 0.0]]])
    prior = es.TruncatedGaussian(es.Dense(COVARIANCE, mean=MEAN), rows, np.concatenate([LIMITS, LIMITS, [0.0, np.inf]]))
    f = draws(two_sided, prior, 6)
    compare(f, integrals()[:2], "rows twice")


def test_a_singular_prior():
    """Two equal elements: constraints on either, and on their difference, which never varies."""
    prior = es.LowRank(np.array([[1.0], [1.0]]))
    A = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])
    f = draws(None, es.TruncatedGaussian(prior, A, [-0.5, 2.0, 0.0, 0.0]), 7)
    np.testing.assert_array_equal(f[..., 0], f[..., 1])
    compare_truncnorm(f[..., 0], 0.0, 1.0, 0.5, 2.0, "a singular prior")


def test_a_routine_that_samples():
    prior = es.FromDraws(lambda rng: rng.standard_normal(2) * [1.0, 2.0], 2)
    f = draws(None, es.TruncatedGaussian.box(prior, [1.0, -np.inf], [np.inf, -3.0]), 8, draws=4000)
    compare_truncnorm(f[..., 0], 0.0, 1.0, 1.0, np.inf, "a routine")
    compare_truncnorm(f[..., 1], 0.0, 2.0, -np.inf, -3.0, "a routine")


@pytest.mark.long
def test_named_latents():
    stack = es.Stack({"a": es.Diagonal([1.0]), "b": es.Diagonal(np.ones((1, 2)), mean=2.0)})
    prior = es.TruncatedGaussian.box(stack, lower={"a": 0.3}, upper={"b": [[1.0, np.inf]]})
    tree = es.sample(lambda a, b: -0.5 * (a**2).sum(), prior, seed=SEED + 9, **LONG)
    compare_truncnorm(tree.posterior.a.values[..., 0], 0.0, 0.5**0.5, 0.3, np.inf, "a")
    compare_truncnorm(tree.posterior.b.values[..., 0, 0], 2.0, 1.0, -np.inf, 1.0, "b[0]")
    compare_truncnorm(tree.posterior.b.values[..., 0, 1], 2.0, 1.0, -np.inf, np.inf, "b[1]")


def test_a_start_on_the_boundary():
    prior = es.TruncatedGaussian.box(es.Diagonal(np.ones(2)), lower=0.0)
    f = draws(None, prior, 10, initial=np.array([0.0, 0.0]))
    compare(f, np.full(2, math.sqrt(2 / math.pi)), "from the corner")


# --- injected bugs --------------------------------------------------------------------------------------------------


def sees_half(p, q, c):
    """An injected bug: ignores on which side of the current state the interval is."""
    return allowed_arcs(p, np.abs(q), c)


def only_the_first(p, q, c):
    """An injected bug: uses only one of the constraints."""
    return allowed_arcs(p[:1], q[:1], c[:1])


def no_gaps(p, q, c):
    """An injected bug: proposes on the first part of the ellipse that has the length of the arcs."""
    arcs = allowed_arcs(p, q, c)
    return arcs._replace(width=np.zeros_like(arcs.width))


def adds_up(p, q, c):
    """An injected bug: adds up intervals although they overlap."""
    low, high = forbidden_intervals(p, q, c)
    order = np.argsort(low)
    width = np.maximum(high - low, 0)[order]
    return Arcs(low[order], width, max(2 * math.pi - width.sum(), 0.0))


class ArcByArc(constrained.AlongArcs):
    """An injected bug: chooses an arc independently of its length, and then a point on it, which is not reversible."""

    def begin(self, here, place, u):
        ends = np.unique(np.concatenate([[0.0], self.arcs.at[self.arcs.width > 0], [self.arcs.length]]))
        i = min(int(place * (len(ends) - 1)), len(ends) - 2)
        tau = ends[i] + u * (ends[i + 1] - ends[i])
        return tau, tau - self.arcs.length, tau


@pytest.mark.long
@pytest.mark.parametrize("planted", [sees_half, only_the_first, no_gaps, adds_up])
def test_wrong_arcs_are_caught(planted, monkeypatch):
    monkeypatch.setattr(constrained, "allowed_arcs", planted)
    with pytest.raises((AssertionError, UserWarning)):  # a UserWarning if searches fail
        check_triangle(engine="host", draws=4000)


@pytest.mark.long
def test_a_wrong_search_is_caught(monkeypatch):
    monkeypatch.setattr(constrained, "AlongArcs", ArcByArc)
    with pytest.raises(AssertionError):
        check_triangle(engine="host")


@pytest.mark.long
def test_a_forgotten_mean_is_caught(monkeypatch):
    monkeypatch.setattr(es.TruncatedGaussian, "bounds", property(lambda self: self.b))
    with pytest.raises(AssertionError):
        check_triangle(A=sparse.csr_array(POLYTOPE), engine="host", draws=2000)
