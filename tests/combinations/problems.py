"""The values of the options that are tested in combination, on latent vectors of four elements.

Each prior comes with its mean and covariance, and each likelihood with its logarithm as SciPy or NumPy computes it, so
that `answer` finds the posterior moments without the code under test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy import special, stats
from scipy.sparse import csr_array
from scipy.stats import qmc
from tinygp.kernels import quasisep

import ellipslice as es
from catalogue import blocks, constrained, differences, grid_covariance
from ellipslice.approximations.sites import SitesReference as Sites
from ellipslice.likelihoods.base import Likelihood
from ellipslice.pytree import pytree, set_fields

SIZE = 4
X = np.array([0.0, 0.4, 1.0, 1.5])
MEAN = np.array([0.5, -0.3, 0.0, 0.2])
CONSTANT_MEAN = np.full(SIZE, 0.3)
VARIANCES = np.array([1.0, 0.5, 1.5, 0.8])
FACTOR = np.array([[1.0, 0.0], [0.6, -0.5], [0.3, 0.7], [0.0, 0.9]])
PAIR = np.array([[1.0, 0.4], [0.4, 0.8]])
PRECISION = np.diag(np.full(SIZE, 2.5)) - np.eye(SIZE, k=1) - np.eye(SIZE, k=-1)
LOWER = -0.5
"""Upper bound of each element under the truncated prior."""

# --- priors ---------------------------------------------------------------------------------------------------------


def kernel(x: Any, y: Any) -> Any:
    return np.exp(-np.abs(np.ravel(x)[:, None] - np.ravel(y)))


def exponential(lag: Any) -> Any:
    return np.exp(-np.linalg.norm(lag, axis=-1))


def routine(rng: np.random.Generator) -> np.ndarray:
    return np.linalg.cholesky(K) @ rng.standard_normal(SIZE)


K = kernel(X, X)
LAYOUT = {"f": (SIZE,)}


@dataclass(frozen=True)
class PriorCase:
    """A prior, with its mean and covariance computed independently."""

    make: Callable[[], Any]
    covariance: np.ndarray
    mean: np.ndarray = field(default_factory=lambda: np.zeros(SIZE))
    layout: dict[str, tuple[int, ...]] = field(default_factory=LAYOUT.copy)
    lower: float = -np.inf

    def latents(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Return named latents from flat vectors, shape (..., SIZE)."""
        named, start = {}, 0
        for name, shape in self.layout.items():
            stop = start + int(np.prod(shape))
            named[name] = flat[..., start:stop].reshape((*flat.shape[:-1], *shape))
            start = stop
        return named

    def flat(self, latents: Any) -> np.ndarray:
        """Return flat vectors, shape (chain, draw, SIZE), from named latents, shape (chain, draw, ...)."""
        parts = [np.asarray(latents[name]) for name in self.layout]
        return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=-1)

    @property
    def points(self) -> np.ndarray:
        """Return initial states for chains 0 to 7, inside the support of the prior."""
        values, vectors = np.linalg.eigh(self.covariance)
        z = 0.3 * np.random.default_rng(0).standard_normal((8, SIZE))
        points = self.mean + z * np.sqrt(np.maximum(values, 0)) @ vectors.T
        return np.maximum(points, LOWER + 0.1) if self.lower > -np.inf else points


PRIORS: dict[str, PriorCase] = {
    "Dense": PriorCase(lambda: es.Dense(K), K),
    "Dense with a mean": PriorCase(lambda: es.Dense(K, MEAN), K, MEAN),
    "Diagonal": PriorCase(lambda: es.Diagonal(VARIANCES), np.diag(VARIANCES)),
    "LowRank": PriorCase(lambda: es.LowRank(FACTOR), FACTOR @ FACTOR.T),
    "FromDraws": PriorCase(lambda: es.FromDraws(routine, SIZE), K),
    "Stationary": PriorCase(
        lambda: es.Stationary(exponential, SIZE, 0.5, 0.3), grid_covariance(exponential, (SIZE,), 0.5), CONSTANT_MEAN
    ),
    "Kronecker": PriorCase(
        lambda: es.Kronecker(PAIR, K[:2, :2], mean=0.3), np.kron(PAIR, K[:2, :2]), CONSTANT_MEAN, {"f": (2, 2)}
    ),
    "Markov": PriorCase(lambda: es.Markov(quasisep.Exp(scale=1.0), X), K),
    "SparsePrecision": PriorCase(lambda: es.SparsePrecision(csr_array(PRECISION)), np.linalg.inv(PRECISION)),
    "random walk": PriorCase(
        lambda: es.SparsePrecision.random_walk(SIZE), constrained(differences(SIZE, 1), np.ones((1, SIZE)))
    ),
    "Stack": PriorCase(
        lambda: es.Stack({"g": es.Dense(K[:3, :3]), "b": es.Diagonal(1.0, 0.5)}),
        blocks(K[:3, :3], np.eye(1)),
        np.array([0.0, 0.0, 0.0, 0.5]),
        {"g": (3,), "b": ()},
    ),
    "Sum": PriorCase(lambda: es.Sum(es.Dense(K, MEAN), es.Diagonal(VARIANCES)), K + np.diag(VARIANCES), MEAN),
    "TruncatedGaussian": PriorCase(
        lambda: es.TruncatedGaussian.box(es.Dense(K, MEAN), lower=LOWER), K, MEAN, lower=LOWER
    ),
}

# --- likelihoods ----------------------------------------------------------------------------------------------------

COUNTS = np.array([0.0, 1.0, 3.0, 1.0])
REALS = np.array([-0.5, 0.2, 1.5, 0.8])
SIGNS = np.array([-1.0, 1.0, 1.0, -1.0])
MATRIX = np.array([[1.0, 0.5, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.3, -0.8]])


def poisson(f: Any, xp: Any) -> Any:
    """Return the log-likelihood of all functions below, over the last axis and without constants."""
    return (COUNTS * f - xp.exp(f)).sum(-1)


def python_float(f: Any) -> Any:
    return float(poisson(np.asarray(f), np))


def numpy_scalar(f: Any) -> Any:
    return np.float64(poisson(np.asarray(f), np))


def zero_dimensional(f: Any) -> Any:
    return np.array(poisson(np.asarray(f), np))


def float32_scalar(f: Any) -> Any:
    return np.float32(poisson(np.asarray(f), np))


def one_element(f: Any) -> Any:
    return np.array([poisson(np.asarray(f), np)])


def numpy_batch(f: Any) -> Any:
    return poisson(np.asarray(f), np)


def jax_scalar(f: Any) -> Any:
    return poisson(f, jnp)


def jax_float32(f: Any) -> Any:
    return jnp.float32(poisson(f, jnp))


def jax_batch(f: Any) -> Any:
    return poisson(f, jnp)


def jax_cut(f: Any) -> Any:
    """Zero likelihood in a half-space."""
    return jnp.where(f[..., 0] + f[..., 1] > -1.5, poisson(f, jnp), -jnp.inf)


@pytree
class Cauchy(Likelihood):
    """A user-defined likelihood, as CONTRIBUTING.md describes it."""

    y: Any

    def __init__(self, y: Any):
        set_fields(self, y=np.asarray(y, dtype=np.float64))

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        return -xp.log1p((self.y - f) ** 2) - np.log(np.pi)

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        return f + rng.standard_cauchy(np.shape(f))


@dataclass(frozen=True)
class LikelihoodCase:
    """A log-likelihood, with its values at flat vectors, shape (count, SIZE), computed independently."""

    make: Callable[[PriorCase], Any]
    values: Callable[[np.ndarray], np.ndarray]
    vectorized: bool | None = None
    traced: bool = True
    """True if JAX can trace it."""
    own_class: bool = False
    """True if it is an instance of `Likelihood`, which takes one latent vector."""
    concave: bool = True
    """True if it is log-concave, so that log_concave=True is correct."""


def of_class(make: Callable[[Any], Any], y: np.ndarray, distribution: Any, concave: bool = True) -> LikelihoodCase:
    return LikelihoodCase(
        lambda prior: make(y.reshape(prior.layout.get("f", (SIZE,)))),
        lambda f: distribution(f).sum(-1),
        own_class=True,
        concave=concave,
    )


@cache
def for_layout(function: Callable[[Any], Any], layout: tuple[str, ...], two_axes: bool, xp: Any) -> Any:
    """Return the function as a user would write it for these latents. Cached, because each function is compiled."""
    if layout == ("f",):
        return (lambda f: function(f.reshape(*f.shape[:-2], SIZE))) if two_axes else function
    return lambda g, b: function(xp.concatenate([g, xp.asarray(b)[..., None]], axis=-1))


def of_function(function: Callable[[Any], Any], xp: Any, values: Any = None, **known: Any) -> LikelihoodCase:
    def make(prior: PriorCase) -> Any:
        return for_layout(function, tuple(prior.layout), prior.layout.get("f") == (2, 2), xp)

    return LikelihoodCase(make, values or partial(poisson, xp=np), traced=xp is jnp, **known)


def cut_values(f: np.ndarray) -> np.ndarray:
    return np.where(f[..., 0] + f[..., 1] > -1.5, poisson(f, np), -np.inf)


def negative_binomial(f: np.ndarray) -> np.ndarray:
    return stats.nbinom.logpmf(COUNTS, 2.0, 2.0 / (2.0 + np.exp(f)))


LIKELIHOODS: dict[str, LikelihoodCase] = {
    "jax scalar": of_function(jax_scalar, jnp),
    "Poisson": of_class(es.likelihoods.Poisson, COUNTS, lambda f: stats.poisson.logpmf(COUNTS, np.exp(f))),
    "python float": of_function(python_float, np),
    "Gaussian": of_class(lambda y: es.likelihoods.Gaussian(y, 0.7), REALS, lambda f: stats.norm.logpdf(REALS, f, 0.7)),
    "Logistic": of_class(es.likelihoods.Logistic, SIGNS, lambda f: special.log_expit(SIGNS * f)),
    "Probit": of_class(es.likelihoods.Probit, SIGNS, lambda f: special.log_ndtr(SIGNS * f)),
    "Binomial": of_class(
        lambda y: es.likelihoods.Binomial(y, 4), COUNTS, lambda f: stats.binom.logpmf(COUNTS, 4, special.expit(f))
    ),
    "NegativeBinomial": of_class(lambda y: es.likelihoods.NegativeBinomial(y, 2.0), COUNTS, negative_binomial),
    "StudentT": of_class(
        lambda y: es.likelihoods.StudentT(y, 0.8, 5.0),
        REALS,
        lambda f: stats.t.logpdf(REALS, 5.0, f, 0.8),
        concave=False,
    ),
    "own class": of_class(Cauchy, REALS, lambda f: stats.cauchy.logpdf(REALS, f), concave=False),
    "LinearPredictor": LikelihoodCase(
        lambda prior: es.likelihoods.LinearPredictor(MATRIX, es.likelihoods.Poisson(COUNTS[1:])),
        lambda f: stats.poisson.logpmf(COUNTS[1:], np.exp(f @ MATRIX.T)).sum(-1),
    ),
    "numpy scalar": of_function(numpy_scalar, np),
    "0-d array": of_function(zero_dimensional, np),
    "numpy float32": of_function(float32_scalar, np),
    "jax float32": of_function(jax_float32, jnp),
    "numpy batch": of_function(numpy_batch, np, vectorized=True),
    "jax batch": of_function(jax_batch, jnp, vectorized=True),
    "jax with -inf": of_function(jax_cut, jnp, cut_values),
    "none": LikelihoodCase(lambda prior: None, lambda f: np.zeros(len(f))),
    "shape (1,)": of_function(one_element, np),
}

REPRESENTED = {
    *(es.likelihoods.Beta, es.likelihoods.ComplementaryLogLog, es.likelihoods.Gamma, es.likelihoods.Ordinal),
    *(es.likelihoods.ProbitBinomial, es.likelihoods.StochasticVolatility, es.likelihoods.Weibull),
    *(es.likelihoods.ZeroInflatedBinomial, es.likelihoods.ZeroInflatedNegativeBinomial),
    es.likelihoods.ZeroInflatedPoisson,
}
"""Likelihoods that are not combined with other options, because for `sample` they are like one of the table: functions
of one element each, log-concave like Poisson or not like StudentT. The property tests of likelihoods run all."""

# --- moves ----------------------------------------------------------------------------------------------------------


MOVES: dict[str, Callable[[], Any]] = {
    "default": lambda: None,
    "EllipticalSlice": lambda: es.moves.EllipticalSlice(bracket_width=2.0, shrinking="halve"),
    "AuxiliaryEllipse": es.moves.AuxiliaryEllipse,
    "ConstrainedSlice": es.moves.ConstrainedSlice,
    "NealMetropolis": lambda: es.moves.NealMetropolis(0.7),
    "RandomWalk": lambda: es.moves.RandomWalk(0.9),
    "LineSlice": es.moves.LineSlice,
    "CoordinateSlice": es.moves.CoordinateSlice,
    "CoordinateGibbs": es.moves.CoordinateGibbs,
    "ControlVariables": lambda: es.moves.ControlVariables(kernel, X, [0.2, 1.2]),
    "ControlVariables at values": lambda: es.moves.ControlVariables.at_values([0, 2]),
    "Hamiltonian": lambda: es.moves.Hamiltonian(0.5, 3),
    "NUTS": lambda: es.moves.Hamiltonian(0.5),
    "ReferenceSlice": lambda: es.moves.ReferenceSlice(Sites(0.5 * COUNTS, np.full(SIZE, 0.5)), plain_every=3),
    "SplitHamiltonian": lambda: es.moves.SplitHamiltonian(Sites(0.5 * COUNTS, np.full(SIZE, 0.5)), 3, plain_every=3),
    "SplitHamiltonian around the prior": lambda: es.moves.SplitHamiltonian(None, 4),
    "Local": lambda: es.moves.Local([[0, 1], [2, 3]]),
    "Local along lines": lambda: es.moves.Local.contiguous(2, move=es.moves.LineSlice()),
    "Local at random": lambda: es.moves.Local.random(2, partitions=2),
    "Local by k-means": lambda: es.moves.Local.kmeans(X, 2),
    "Cycle": lambda: es.moves.Cycle(es.moves.EllipticalSlice(), es.moves.NealMetropolis(0.5)),
    "Cycle with Local": lambda: es.moves.Cycle(es.moves.Local([[1, 2]], partial=True), es.moves.EllipticalSlice()),
}

# --- the answer -----------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """Posterior moments of (f, f squared, log-likelihood): shape (2 SIZE + 1,)."""

    mean: np.ndarray
    deviation: np.ndarray
    error: np.ndarray
    """Standard error of the mean."""


def quantities(f: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the compared quantities, shape (..., 2 SIZE + 1), from draws (..., SIZE) and log-likelihoods (...)."""
    return np.concatenate([f, f**2, values[..., None]], axis=-1)


@cache
def answer(prior: str, likelihood: str) -> Answer:
    """Return moments by importance sampling from the prior, with quasi-random points in eight scramblings."""
    case, values_at = PRIORS[prior], LIKELIHOODS[likelihood].values
    eigenvalues, vectors = np.linalg.eigh(case.covariance)
    factor = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    means, squares = [], []
    for seed in range(8):
        z = special.ndtri(qmc.Sobol(SIZE, rng=np.random.default_rng(seed)).random_base2(11))
        f = case.mean + z @ factor.T
        values = values_at(f)
        log_w = np.where((f >= case.lower).all(-1), values, -np.inf)
        w = np.exp(log_w - log_w.max())
        w /= w.sum()
        q = quantities(f, np.where(w > 0, values, 0.0))
        means.append(w @ q)
        squares.append(w @ q**2)
    mean = np.mean(means, axis=0)
    deviation = np.sqrt(np.maximum(np.mean(squares, axis=0) - mean**2, 0.0))
    return Answer(mean, deviation, np.std(means, axis=0, ddof=1) / np.sqrt(8))
