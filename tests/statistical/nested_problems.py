"""Problems and checks of nested sampling with known answers, for tests and for injected bugs."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.stats import chi2

import ellipslice as es
from ellipslice.marginal.annealing import Cost
from ellipslice.marginal.nested import batch_of, nested_sampling
from ellipslice.marginal.nested_sum import jackknife_error, log_sum
from ellipslice.marginal.particle_moves import HostParticleMove, MovedParticles, ParticleMove, Particles
from ellipslice.noise import generator
from statistical.calibrated_evidence import SIGMA, TRUTH, log_likelihood
from statistical.monte_carlo import LIMIT, SEED

REPLICATES = 10
GAUSSIAN = es.Dense(SIGMA)


def plateaus(f):
    """Return a log-likelihood with four values. Its regions are balls of a standard normal f in two dimensions."""
    squares = np.sum(f**2, axis=-1)
    return np.select([squares < 0.2, squares < 1.5, squares < 4.0], [3.0, 2.0, 0.0], -np.inf)


PLATEAUS_PRIOR = es.Diagonal([1.0, 1.0])
PLATEAUS_TRUTH = float(np.log(np.diff(chi2(2).cdf([0, 0.2, 1.5, 4.0])) @ np.exp([3.0, 2.0, 0.0])))


BOWL_PRIOR, BOWL_TRUTH = es.Diagonal([1.0, 1.0]), -float(np.log(5))


def bowl(f):
    return -2 * np.sum(f**2, axis=-1)


class ExactMove(ParticleMove):
    """Replacements that are independent draws of `bowl` above the level."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def evaluate(self, f):
        return bowl(f)

    def move(self, particles, betas, floor=None):
        largest = chi2(2).cdf(-floor / 2)
        radius = np.sqrt(chi2(2).ppf(largest * self._rng.random(len(floor))))
        angle = self._rng.uniform(0, 2 * np.pi, len(floor))
        f = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return MovedParticles(Particles(f, bowl(f)), bowl(f)[None], len(f), 0, 0)


def nested_run(seed, values=log_likelihood, prior=GAUSSIAN, updates=8, live=200, move=None, draws=None):
    """Return one run of nested sampling on the host, with a fixed number of updates."""
    count = REPLICATES * batch_of(live // REPLICATES)
    move = HostParticleMove(values, prior, SEED + seed, count) if move is None else move
    f = np.asarray(prior.draw_zero_mean(generator(SEED, seed, 50), live)) if draws is None else draws
    return nested_sampling(move, Particles(f, values(f)), REPLICATES, updates, generator(SEED, seed, 51), Cost())


def check_nested(count=60, truth=TRUTH, spread=0.15, **options):
    """Run a problem with many seeds: log Z must be right on average, and have the reported standard errors."""
    runs = [nested_run(seed, **options) for seed in range(count)]
    off = np.array([log_sum(run.points) for run in runs]) - truth
    errors = np.array([jackknife_error(run.points) for run in runs])
    z = off.mean() / (off.std(ddof=1) / np.sqrt(count))
    assert abs(z) < LIMIT, f"log Z is off by {off.mean():.3f}, {z:.1f} errors"
    assert errors.mean() < spread, f"the mean standard error is {errors.mean():.3f}"
    p = stats.kstest(off / errors, stats.t(REPLICATES - 1).cdf).pvalue
    assert p > 1e-4, f"errors are wrong, p = {p:.2g}; spread {(off / errors).std():.2f}"
    return runs


def spike(width, size, xp):
    """Return a log-likelihood with log Z = 0: a broad part with 10 % of the evidence, and a spike with 90 %.

    The prior is standard normal. The broad part is proportional to exp(-|f|^2 / 2). The spike is at 0.5 in every
    coordinate, with the standard deviation `width`.
    """
    broad = np.log(0.1) + size / 2 * np.log(2)
    narrow = np.log(0.9) + size / 2 * np.log1p(1 / width**2) + size * 0.25 / (2 * (1 + width**2))

    def log_likelihood(f):
        squares = xp.sum(f**2, axis=-1), xp.sum((f - 0.5) ** 2, axis=-1)
        return xp.logaddexp(broad - squares[0] / 2, narrow - squares[1] / (2 * width**2))

    return log_likelihood
