"""Simulation-based calibration of `es.sample`: if f and y come from the model, f ranks uniformly among its draws.

Unlike a comparison with a closed form, this tests all of `es.sample`, including the initial states, on many data sets.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import ellipslice as es
from ellipslice.likelihoods import Binomial, Poisson
from proof.task import Task, parts
from proof.uniform import counts, not_uniform, rank

FULL = {"fits": 4000, "fits_on_host": 1000}
SHORT = {"fits": 400, "fits_on_host": 200}

DRAWS = 19  # 20 ranks
OPTIONS = {"draws": DRAWS, "warmup": 40, "thin": 12, "chains": 1, "progress": False}

TIMES = np.arange(5.0)
COVARIANCE = np.exp(-0.5 * (TIMES[:, None] - TIMES) ** 2 / 2) + 0.1 * np.eye(5)
MEAN = np.linspace(-0.5, 0.5, 5)


def tasks(fits: int, fits_on_host: int) -> list[Task]:
    return [
        *(partial(counts_along_a_process, "compiled", *part) for part in parts(fits, 0, most=250)),
        *(partial(counts_along_a_process, "host", *part) for part in parts(fits_on_host, 1, most=50)),
        *(partial(two_named_latents, *part) for part in parts(fits_on_host, 2, most=50)),
    ]


problems = not_uniform


def counts_along_a_process(engine: str, fits: int, seed: int) -> dict[str, list[int]]:
    """Poisson counts of a Gaussian process with a mean. It is compiled once for all data sets."""
    rng = np.random.default_rng(seed)
    prior, factor = es.Dense(COVARIANCE, MEAN), np.linalg.cholesky(COVARIANCE)
    template = Poisson(np.zeros(5))
    ranks: dict[str, list[int]] = {"first": [], "middle": [], "sum": [], "log-likelihood": []}
    for fit in range(fits):
        f = MEAN + factor @ rng.standard_normal(5)
        likelihood = Poisson(template.simulate(f, rng))
        tree = es.sample(
            likelihood, prior, move=es.moves.EllipticalSlice(), engine=engine, seed=seed + 1 + fit, **OPTIONS
        )
        draws = tree.posterior["f"].to_numpy()[0]
        ranks["first"].append(rank(f[0], draws[:, 0]))
        ranks["middle"].append(rank(f[2], draws[:, 2]))
        ranks["sum"].append(rank(f.sum(), draws.sum(axis=1)))
        values = tree.sample_stats["total_log_likelihood"].to_numpy()[0]
        ranks["log-likelihood"].append(rank(likelihood(f), values))
    return {f"{engine}, {name}": found for name, found in counts(ranks, DRAWS).items()}


class Survey:
    """Successes out of 6 trials with two named latents, a vector and a shared offset, on the host engine."""

    def __init__(self, y: np.ndarray):
        self._likelihood = Binomial(y, 6)

    def __call__(self, f: Any, b: Any) -> float:
        return float(self._likelihood(np.asarray(f) + np.asarray(b)))


def two_named_latents(fits: int, seed: int) -> dict[str, list[int]]:
    """Return a `Stack` of a vector and an offset."""
    rng = np.random.default_rng(seed)
    prior = es.Stack({"f": es.Diagonal(np.full(3, 0.8)), "b": es.Diagonal(1.5, mean=-0.7)})
    template = Binomial(np.zeros(3), 6)
    ranks: dict[str, list[int]] = {"f": [], "b": [], "f + b": []}
    for fit in range(fits):
        f, b = rng.normal(0, np.sqrt(0.8), 3), rng.normal(-0.7, np.sqrt(1.5))
        tree = es.sample(
            Survey(template.simulate(f + b, rng)),
            prior,
            move=es.moves.EllipticalSlice(),
            seed=seed + 1 + fit,
            **OPTIONS,
        )
        fs, bs = tree.posterior["f"].to_numpy()[0], tree.posterior["b"].to_numpy()[0]
        ranks["f"].append(rank(f[1], fs[:, 1]))
        ranks["b"].append(rank(b, bs))
        ranks["f + b"].append(rank(f[1] + b, fs[:, 1] + bs))
    return {f"named, {name}": found for name, found in counts(ranks, DRAWS).items()}
