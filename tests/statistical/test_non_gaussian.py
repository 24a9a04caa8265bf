"""Posteriors that are not Gaussian, in one or two dimensions, compared with numerical integration."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import ellipslice as es
from ellipslice.likelihoods import Binomial, Logistic, NegativeBinomial, Poisson, Probit, StudentT
from statistical.monte_carlo import SEED, compare, compare_distribution

pytestmark = pytest.mark.statistical

COVARIANCE = np.array([[1.5, 1.0], [1.0, 2.0]])
MEAN = np.array([0.3, -0.4])
OFFSET = np.array([0.2, 1.0])

# Each observation model twice: from the library, and from SciPy, which is independent of it.
MODELS: dict[str, tuple[Any, Any]] = {
    "Poisson": (Poisson([4, 0], offset=OFFSET), lambda f: stats.poisson.logpmf([4, 0], np.exp(f + OFFSET))),
    "Logistic": (Logistic([1, -1]), lambda f: np.log(special.expit(f * [1, -1]))),
    "Probit": (Probit([-1, -1]), lambda f: stats.norm.logcdf(-f)),
    "Binomial": (Binomial([1, 7], [9, 8]), lambda f: stats.binom.logpmf([1, 7], [9, 8], special.expit(f))),
    "NegativeBinomial": (
        NegativeBinomial([6, 2], dispersion=1.5),
        lambda f: stats.nbinom.logpmf([6, 2], 1.5, 1.5 / (1.5 + np.exp(f))),
    ),
    "StudentT": (
        StudentT([3.0, -3.5], noise_scale=0.3, degrees_of_freedom=2.0),
        lambda f: stats.t.logpdf([3.0, -3.5], 2.0, loc=f, scale=0.3),
    ),
}


class Grid:
    """A posterior on a grid of two latents: expectations and marginals by Simpson's rule."""

    def __init__(self, terms: Any, mean: np.ndarray, covariance: np.ndarray, points: int = 601, reach: float = 9.0):
        self.axes = list((mean + np.sqrt(covariance.diagonal()) * np.linspace(-reach, reach, points)[:, None]).T)
        self.f = np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1)
        with np.errstate(divide="ignore"):
            log_density = terms(self.f).sum(-1) + stats.multivariate_normal(mean, covariance).logpdf(self.f)
        simpson = np.ones(points)
        simpson[1:-1:2], simpson[2:-1:2] = 4.0, 2.0
        self.weights = np.exp(log_density - log_density.max()) * np.outer(simpson, simpson)
        self.weights /= self.weights.sum()

    def expect(self, function: Any) -> Any:
        values = function(self.f)
        return np.tensordot(self.weights, values, axes=((0, 1), (0, 1)))

    def cdf(self, axis: int) -> Any:
        """Return the distribution function of one latent, interpolated between grid points."""
        marginal = self.weights.sum(axis=1 - axis)
        x = self.axes[axis]
        simpson = np.ones(len(x))
        simpson[1:-1:2], simpson[2:-1:2] = 4.0, 2.0
        density = marginal / simpson
        total = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
        return lambda values: np.interp(values, x, total / total[-1])


def test_grid_knows_a_gaussian():
    """The grid itself is checked: a Gaussian observation has a closed form."""
    grid = Grid(lambda f: stats.norm.logpdf([1.0, 0.0], f, 0.5), MEAN, COVARIANCE)
    gain = COVARIANCE @ np.linalg.inv(COVARIANCE + 0.25 * np.eye(2))
    np.testing.assert_allclose(grid.expect(lambda f: f), MEAN + gain @ ([1.0, 0.0] - MEAN), atol=1e-10)
    variance = grid.expect(lambda f: f[..., 0] ** 2) - grid.expect(lambda f: f[..., 0]) ** 2
    np.testing.assert_allclose(variance, (COVARIANCE - gain @ COVARIANCE)[0, 0], atol=1e-10)


@functools.cache
def grid_of(name: str) -> Grid:
    return Grid(MODELS[name][1], MEAN, COVARIANCE)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["compiled", "host"])
@pytest.mark.parametrize("name", MODELS)
def test_two_latents(name, engine):
    ours, scipys = MODELS[name]
    grid = grid_of(name)
    tree = es.sample(
        ours,
        es.Dense(COVARIANCE, MEAN),
        move=es.moves.EllipticalSlice(),
        engine=engine,
        draws={"compiled": 20000, "host": 5000}[engine],
        warmup=200,
        chains=4,
        seed=SEED + 1,
        progress=False,
    )
    f = tree.posterior["f"].to_numpy()
    mean = grid.expect(lambda f: f)
    compare(f, mean, f"{name}, mean")
    compare((f - mean) ** 2, grid.expect(lambda f: (f - mean) ** 2), f"{name}, variance")
    compare((f - mean) ** 3, grid.expect(lambda f: (f - mean) ** 3), f"{name}, third moment")
    compare((f - mean).prod(-1), grid.expect(lambda f: (f - mean).prod(-1)), f"{name}, covariance")
    for axis in range(2):
        compare_distribution(f[..., axis], grid.cdf(axis), f"{name}, value {axis}")
    log_l = tree.sample_stats["total_log_likelihood"].to_numpy()
    compare(log_l, grid.expect(lambda f: scipys(f).sum(-1)), f"{name}, log-likelihood")


@pytest.mark.long
def test_a_scipy_likelihood_on_the_host():
    """The same posterior with SciPy's density: only the sampler is the library's."""
    grid = Grid(lambda f: stats.t.logpdf([2.0, -1.0], 3.0, loc=f, scale=0.4), MEAN, COVARIANCE)

    def log_likelihood(f: np.ndarray) -> np.ndarray:
        return stats.t.logpdf([2.0, -1.0], 3.0, loc=f, scale=0.4).sum(axis=-1)

    tree = es.sample(
        log_likelihood,
        es.Dense(COVARIANCE, MEAN),
        move=es.moves.EllipticalSlice(),
        vectorized=True,
        draws=2000,
        warmup=100,
        chains=8,
        seed=SEED + 2,
        progress=False,
    )
    assert tree.attrs["engine"] == "host"
    f = tree.posterior["f"].to_numpy()
    mean = grid.expect(lambda f: f)
    compare(f, mean, "mean")
    compare((f - mean) ** 2, grid.expect(lambda f: (f - mean) ** 2), "variance")


# --- likelihoods with zeros or with two modes -----------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("engine", ["compiled", "host"])
@pytest.mark.parametrize(("low", "high"), [(0.5, np.inf), (-0.2, 0.9), (2.0, 3.5)])
def test_truncated_gaussian(low, high, engine):
    """log L is 0 inside an interval and -inf outside."""
    mean, sd = -0.4, 1.3
    answer = stats.truncnorm((low - mean) / sd, (high - mean) / sd, loc=mean, scale=sd)
    if engine == "compiled":

        def log_likelihood(f: Any) -> Any:
            return jnp.where((f > low) & (f < high), 0.0, -jnp.inf)
    else:

        def log_likelihood(f: Any) -> float:
            return 0.0 if low < f < high else -math.inf

    tree = es.sample(
        log_likelihood,
        es.Diagonal(sd**2, mean=mean),
        move=es.moves.EllipticalSlice(),
        engine=engine,
        draws={"compiled": 20000, "host": 4000}[engine],
        warmup=50,
        chains=4,
        initial=(low + min(high, low + 1)) / 2,
        seed=SEED + 3,
        progress=False,
    )
    f = tree.posterior["f"].to_numpy()
    assert f.min() > low
    assert f.max() < high
    compare(f, answer.mean(), "mean")
    compare((f - answer.mean()) ** 2, answer.var(), "variance")
    compare_distribution(f, answer.cdf, "truncated")
    assert tree.attrs["nan_evaluations"] == 0


@pytest.mark.long
@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_bimodal(engine):
    """Two modes of unequal weight with a valley between them: the probability of each, and the whole mixture."""
    places, noise, shares = np.array([-1.6, 1.4]), 0.45, np.array([0.3, 0.7])
    if engine == "compiled":

        def log_likelihood(f: Any) -> Any:
            return jax.scipy.special.logsumexp(-0.5 * ((f - places) / noise) ** 2 + jnp.log(shares))
    else:

        def log_likelihood(f: Any) -> float:
            return float(np.log(shares @ np.exp(-0.5 * ((f - places) / noise) ** 2)))

    # N(f; 0, 1) N(f; place, noise^2) is a Gaussian times N(place; 0, 1 + noise^2).
    weights = shares * stats.norm.pdf(places, 0, math.hypot(1, noise))
    weights /= weights.sum()
    modes = stats.norm(places / (1 + noise**2), noise / math.hypot(1, noise))
    tree = es.sample(
        log_likelihood,
        es.Diagonal(1.0),
        move=es.moves.EllipticalSlice(),
        engine=engine,
        draws={"compiled": 30000, "host": 6000}[engine],
        warmup=100,
        chains=4,
        seed=SEED + 4,
        progress=False,
    )
    f = tree.posterior["f"].to_numpy()
    compare(1.0 * (f > 0), weights @ modes.sf(0.0), "share of the right mode")
    compare(f, weights @ modes.mean(), "mean")
    compare(f**2, weights @ (modes.var() + modes.mean() ** 2), "second moment")
    compare_distribution(f, lambda x: modes.cdf(x[:, None]) @ weights, "mixture")


def test_one_latent_many_observations():
    """A likelihood much narrower than the prior and far from its centre: 200 counts that share one latent."""
    y = np.random.default_rng(0).poisson(math.exp(2.5), 200)

    def log_likelihood(f: Any) -> Any:
        return y.sum() * f - len(y) * jnp.exp(f)

    x = np.linspace(1, 4, 20001)
    density = np.exp(y.sum() * x - len(y) * np.exp(x) - 0.5 * x**2 - (y.sum() * 2.5 - len(y) * math.exp(2.5)))
    density /= density.sum()
    mean = density @ x
    tree = es.sample(
        log_likelihood,
        es.Diagonal(1.0),
        move=es.moves.EllipticalSlice(),
        draws=20000,
        warmup=200,
        chains=4,
        seed=SEED + 5,
        progress=False,
    )
    f = tree.posterior["f"].to_numpy()
    compare(f, mean, "mean")
    compare((f - mean) ** 2, density @ (x - mean) ** 2, "variance")
    compare_distribution(f, lambda values: np.interp(values, x, density.cumsum() - density / 2), "marginal")
