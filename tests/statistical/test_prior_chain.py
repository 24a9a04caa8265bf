"""Sampling from the prior: a constant likelihood (Section 2.4 of the paper).

The first proposal is always accepted, so an update is f_n = f_{n-1} cos(theta_n) + nu_n sin(theta_n) with theta_n
uniform. Each update has one evaluation. f is uncorrelated with its past, because E cos = 0. f^2 has the
autocorrelations (1/2)^k, because E cos^2 = 1/2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ellipslice as es
from ellipslice.moves import AuxiliaryEllipse, Cycle, EllipticalSlice
from ellipslice.noise import NoiseSpec, block_length, draw_block, start_generator
from statistical.monte_carlo import P_LIMIT, SEED, compare, compare_gaussian

pytestmark = pytest.mark.statistical

COVARIANCE = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, -0.3], [0.0, -0.3, 0.5]])
MEAN = np.array([0.0, 1.0, -2.0])
ENGINES = ["compiled", "host"]


def constant(f: Any) -> Any:
    return -3.0 + 0.0 * f[0]


def prior_chain(engine: str, **options: Any):
    options = {"move": EllipticalSlice(), **options}
    return es.sample(constant, es.Dense(COVARIANCE, MEAN), engine=engine, seed=SEED + 1, progress=False, **options)


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("move", "each"),
    [
        (EllipticalSlice(), 1),
        (EllipticalSlice(bracket_width=0.7), 1),
        (AuxiliaryEllipse(), 1),
        (AuxiliaryEllipse(concentration=0.8), 1),
        (Cycle(EllipticalSlice(), AuxiliaryEllipse()), 2),
    ],
    ids=repr,
)
def test_one_evaluation_per_update(move, each, engine):
    tree = prior_chain(engine, move=move, draws=100, warmup=10, chains=2)
    assert (tree.sample_stats["evaluations"] == each).all()
    assert tree.attrs["evaluations"] == each * 220
    assert (tree.sample_stats["total_log_likelihood"] == -3.0).all()


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_the_paper_s_formula(engine):
    """Every state follows from the start, the recorded angles and the random numbers of (seed, chain, update)."""
    draws = 2800  # more than a block
    tree = prior_chain(engine, draws=draws, warmup=0, chains=[0, 5])
    prior = es.Dense(COVARIANCE, MEAN)
    length = block_length(prior.size)
    assert draws > length
    for chain in (0, 5):
        spec = NoiseSpec.from_prior(prior, prior.size)
        blocks = [draw_block(spec, SEED + 1, chain, block, length) for block in range(1 + draws // length)]
        nu = np.concatenate([np.asarray(block.nu)[:, 0] for block in blocks])
        uniforms = np.concatenate([block.uniforms.first[:, 0] for block in blocks])
        theta = tree.sample_stats["angle"].sel(chain=chain).to_numpy()
        # step 3: the first angle is 2 pi times the update's second uniform
        np.testing.assert_allclose(theta, 2 * math.pi * uniforms[:draws, 1], rtol=1e-15)
        f = np.asarray(prior.draw_zero_mean(start_generator(SEED + 1, chain), 1))[0]
        for n, drawn in enumerate(tree.posterior["f"].sel(chain=chain).to_numpy()):
            f = f * math.cos(theta[n]) + nu[n] * math.sin(theta[n])
            np.testing.assert_allclose(drawn, f + MEAN, rtol=0, atol=1e-13)
        # the recursion, unrolled as the paper prints it
        steps = 60
        remaining = np.concatenate([np.cumprod(np.cos(theta[:steps])[::-1])[::-1], [1.0]])
        start = np.asarray(prior.draw_zero_mean(start_generator(SEED + 1, chain), 1))[0]
        unrolled = start * remaining[0] + (np.sin(theta[:steps]) * remaining[1:]) @ nu[:steps]
        np.testing.assert_allclose(tree.posterior["f"].sel(chain=chain)[steps - 1], unrolled + MEAN, rtol=0, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_autocorrelation(engine):
    draws = {"compiled": 60000, "host": 8000}[engine]
    tree = prior_chain(engine, draws=draws, warmup=0, chains=4)  # started from its stationary distribution
    f = (tree.posterior["f"].to_numpy() - MEAN) / np.sqrt(COVARIANCE.diagonal())
    square = (f**2 - 1) / math.sqrt(2)  # mean 0 and variance 1
    for lag in range(1, 6):
        compare(f[:, lag:] * f[:, :-lag], 0.0, f"f at lag {lag}")
        compare(square[:, lag:] * square[:, :-lag], 0.5**lag, f"f squared at lag {lag}")
    compare_gaussian(tree.posterior["f"].to_numpy(), MEAN, COVARIANCE, "the prior")


@pytest.mark.parametrize("engine", ENGINES)
def test_angles_are_uniform_and_independent(engine):
    theta = prior_chain(engine, draws=5000, warmup=0, chains=4).sample_stats["angle"].to_numpy() % (2 * math.pi)
    assert stats.kstest(theta.ravel() / (2 * math.pi), "uniform").pvalue > P_LIMIT
    compare(np.stack([np.cos(theta), np.cos(theta) ** 2], axis=-1), [0.0, 0.5], "cosine")
    compare(np.cos(theta[:, 1:] - theta[:, :-1]), 0.0, "an angle and the next")
    compare(np.cos(theta[1:] - theta[:-1]), 0.0, "an angle and that of the next chain")
