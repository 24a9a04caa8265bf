"""Geweke's joint distribution test (2004): the sampler and the simulator must have the same joint distribution.

The chain alternates f | y (one update) and y | f (`simulate`). If it starts from a draw of the joint distribution,
every state is such a draw. So f must have the moments of the prior, which are known exactly, and y those of the
simulator. A bug in the update, in the value of a likelihood or in its simulator changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ellipslice as es
import ellipslice.likelihoods as lh
from ellipslice.engines.host.engine import HostTarget
from ellipslice.moves import AuxiliaryEllipse, EllipticalSlice, State
from ellipslice.noise import UpdateNoise
from statistical.monte_carlo import SEED, compare

pytestmark = pytest.mark.statistical

COVARIANCE = np.array([[1.0, 0.6, 0.1], [0.6, 1.5, -0.4], [0.1, -0.4, 0.7]])
FACTOR = np.linalg.cholesky(COVARIANCE)
UPDATES = 12000

LIKELIHOODS: dict[str, Callable[[Any], lh.Likelihood]] = {
    "Gaussian": lambda y: lh.Gaussian(y, noise_scale=[0.5, 1.0, 2.0]),
    "Logistic": lh.Logistic,
    "Probit": lh.Probit,
    "Poisson": lambda y: lh.Poisson(y, offset=[0.5, -0.5, 1.0]),
    "Binomial": lambda y: lh.Binomial(y, trials=[1, 4, 9]),
    "NegativeBinomial": lambda y: lh.NegativeBinomial(y, dispersion=[0.8, 2.0, 5.0], offset=0.5),
    "StudentT": lambda y: lh.StudentT(y, noise_scale=0.6, degrees_of_freedom=3.0),
    "ProbitBinomial": lambda y: lh.ProbitBinomial(y, trials=[1, 4, 9]),
    "ComplementaryLogLog": lambda y: lh.ComplementaryLogLog(y, trials=[1, 4, 9]),
    "Gamma": lambda y: lh.Gamma(y, shape=[0.5, 2.0, 8.0]),
    "Beta": lambda y: lh.Beta(y, precision=[2.0, 5.0, 20.0]),
    "Weibull": lambda y: lh.Weibull(y, shape=[0.7, 1.0, 2.0]),
    "Ordinal": lambda y: lh.Ordinal(y, [-1.0, 0.0, 1.5]),
    "StochasticVolatility": lh.StochasticVolatility,
    "ZeroInflatedPoisson": lambda y: lh.ZeroInflatedPoisson(y, [0.1, 0.3, 0.6], offset=1.0),
    "ZeroInflatedNegativeBinomial": lambda y: lh.ZeroInflatedNegativeBinomial(y, 0.3, dispersion=[0.8, 2.0, 5.0]),
    "ZeroInflatedBinomial": lambda y: lh.ZeroInflatedBinomial(y, 0.4, trials=[1, 4, 9]),
}


def test_every_likelihood_is_here():
    assert {cls.__name__ for cls in es.likelihoods.REGISTERED} == set(LIKELIHOODS)


def tamed(y: np.ndarray) -> np.ndarray:
    """Return functions of y with finite moments, also for heavy tails: a smooth sign and a logarithmic size."""
    return np.concatenate([np.tanh(y), np.log1p(np.abs(y))], axis=-1)


def joint_test(build: Callable[[Any], lh.Likelihood], update: Callable[..., np.ndarray], what: str) -> None:
    rng = np.random.default_rng(SEED + 1)
    start = build(np.full(3, 0.5) if what == "Beta" else np.ones(3))
    f = FACTOR @ rng.standard_normal(3)
    y = start.simulate(f, rng)
    fs, ys = np.empty((1, UPDATES, 3)), np.empty((1, UPDATES, 3))
    for i in range(UPDATES):
        likelihood = build(y)
        f = update(f, likelihood, rng)
        y = likelihood.simulate(f, rng)
        fs[0, i], ys[0, i] = f, y

    compare(fs, 0.0, f"{what}: f")
    compare(fs**2, COVARIANCE.diagonal(), f"{what}: f squared")
    pairs = np.stack([fs[..., i] * fs[..., j] for i, j in ((0, 1), (0, 2), (1, 2))], axis=-1)
    compare(pairs, COVARIANCE[[0, 0, 1], [1, 2, 2]], f"{what}: products of two f")

    independent = rng.standard_normal((100_000, 3)) @ FACTOR.T
    simulated = start.simulate(independent, rng)
    for name, function in {
        "y": lambda f, y: tamed(y),
        "y and f": lambda f, y: np.tanh(y) * np.tanh(f),
        "y and its neighbour": lambda f, y: np.tanh(y[..., :-1]) * np.tanh(y[..., 1:]),
    }.items():
        alone = function(independent, simulated)
        error = alone.std(axis=0) / np.sqrt(len(alone))
        compare(function(fs, ys), alone.mean(axis=0), f"{what}: {name}", error)


@pytest.mark.short_cases("Gaussian")
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_step(name):
    def update(f: np.ndarray, likelihood: Any, rng: np.random.Generator) -> np.ndarray:
        return es.step(f, FACTOR @ rng.standard_normal(3), likelihood, rng=rng)[0]

    joint_test(LIKELIHOODS[name], update, name)


@pytest.mark.long
@pytest.mark.parametrize(
    "move",
    [
        *(AuxiliaryEllipse(), AuxiliaryEllipse(concentration=0.6), EllipticalSlice(bracket_width=1.2)),
        *(EllipticalSlice(shrinking="halve"), EllipticalSlice(shrinking="other_half")),
    ],
    ids=repr,
)
def test_moves(move):
    def update(f: np.ndarray, likelihood: Any, rng: np.random.Generator) -> np.ndarray:
        nu = (FACTOR @ rng.standard_normal(3))[None]
        noise = UpdateNoise(nu, [rng.standard_exponential()], [lambda k: rng.random()])
        return move.step(noise, State(f, likelihood(f)), HostTarget(likelihood))[0].f

    joint_test(LIKELIHOODS["Poisson"], update, repr(move))
