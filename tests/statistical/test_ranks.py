"""Simulation-based calibration (Talts et al. 2018): if f and y come from the model, f ranks uniformly among its draws.

Unlike a comparison with a closed form this goes through all of `es.sample`, start included, over many data sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import ellipslice as es
from ellipslice.likelihoods import Binomial, Poisson
from statistical.monte_carlo import SEED

pytestmark = pytest.mark.statistical

REPEATS, DRAWS = 400, 19  # 20 ranks, 20 of each expected, or 10 where only half is run
THIN, WARMUP = 12, 40

TIMES = np.arange(5.0)
COVARIANCE = np.exp(-0.5 * (TIMES[:, None] - TIMES) ** 2 / 2) + 0.1 * np.eye(5)
MEAN = np.linspace(-0.5, 0.5, 5)


def check_uniform(ranks: np.ndarray, what: str) -> None:
    counts = np.bincount(ranks, minlength=DRAWS + 1)
    assert counts.size == DRAWS + 1
    p = stats.chisquare(counts).pvalue
    assert p > 1e-6, f"{what}: ranks are not uniform (p = {p:.2g}): {counts}"


def rank(truth: Any, draws: np.ndarray) -> int:
    return int((draws < truth).sum())


@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_counts_along_a_process(engine):
    """Poisson counts of a Gaussian process with a mean. Compiled once: new data are not new code."""
    rng = np.random.default_rng(SEED + 1)
    prior = es.Dense(COVARIANCE, MEAN)
    factor = np.linalg.cholesky(COVARIANCE)
    template = Poisson(np.zeros(5))
    ranks: dict[str, list[int]] = {"first": [], "middle": [], "sum": [], "log-likelihood": []}
    for repeat in range(REPEATS if engine == "compiled" else REPEATS // 2):
        f = MEAN + factor @ rng.standard_normal(5)
        likelihood = Poisson(template.simulate(f, rng))
        tree = es.sample(
            likelihood,
            prior,
            engine=engine,
            draws=DRAWS,
            warmup=WARMUP,
            thin=THIN,
            chains=1,
            seed=SEED + repeat,
            progress=False,
        )
        draws = tree.posterior["f"].to_numpy()[0]
        ranks["first"].append(rank(f[0], draws[:, 0]))
        ranks["middle"].append(rank(f[2], draws[:, 2]))
        ranks["sum"].append(rank(f.sum(), draws.sum(axis=1)))
        ranks["log-likelihood"].append(rank(likelihood(f), tree.sample_stats["total_log_likelihood"].to_numpy()[0]))
    for name, values in ranks.items():
        check_uniform(np.array(values), f"{name}, {engine}")


class Survey:
    """Successes out of 6 trials with a shared offset, of two named latents: the host engine, in NumPy."""

    def __init__(self, y: np.ndarray):
        self._likelihood = Binomial(y, 6)

    def __call__(self, f: Any, b: Any) -> float:
        return float(self._likelihood(np.asarray(f) + np.asarray(b)))


def test_two_named_latents():
    rng = np.random.default_rng(SEED + 2)
    prior = es.Stack({"f": es.Diagonal(np.full(3, 0.8)), "b": es.Diagonal(1.5, mean=-0.7)})
    template = Binomial(np.zeros(3), 6)
    ranks: dict[str, list[int]] = {"f": [], "b": [], "f + b": []}
    for repeat in range(REPEATS // 2):
        f, b = rng.normal(0, np.sqrt(0.8), 3), rng.normal(-0.7, np.sqrt(1.5))
        tree = es.sample(
            Survey(template.simulate(f + b, rng)),
            prior,
            draws=DRAWS,
            warmup=WARMUP,
            thin=THIN,
            chains=1,
            seed=SEED + repeat,
            progress=False,
        )
        fs, bs = tree.posterior["f"].to_numpy()[0], tree.posterior["b"].to_numpy()[0]
        ranks["f"].append(rank(f[1], fs[:, 1]))
        ranks["b"].append(rank(b, bs))
        ranks["f + b"].append(rank(f[1] + b, fs[:, 1] + bs))
    for name, values in ranks.items():
        check_uniform(np.array(values), name)
