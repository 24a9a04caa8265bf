"""Check that estimates of the log-evidence are calibrated, for tests and for injected bugs."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.stats import multivariate_normal

import ellipslice as es
from statistical.monte_carlo import LIMIT, P_LIMIT, SEED

SIGMA = np.array([[1.0, 0.6, 0.2], [0.6, 1.0, 0.5], [0.2, 0.5, 1.0]])
Y, NOISE = np.array([1.2, -0.5, 0.8]), 0.4
TRUTH = multivariate_normal(cov=SIGMA + NOISE**2 * np.eye(3)).logpdf(Y)
REPLICATES = 10


def log_likelihood(f):
    return -0.5 * np.sum(((f - Y) / NOISE) ** 2, axis=-1) - 3 * np.log(NOISE * np.sqrt(2 * np.pi))


def estimate(seed, **options):
    """Return one estimate of log Z of the small problem."""
    settings = {
        "method": "tempered",
        "particles": 200,
        "replicates": REPLICATES,
        "target_effective_fraction": 0.5,
        "updates_per_temperature": 1,  # so few that errors persist to the next inverse temperature
        "reference": None,
        "engine": "host",
        "vectorized": True,
    }
    return es.evidence(log_likelihood, es.Dense(SIGMA), seed=SEED + seed, **{**settings, **options})


def estimate_nested(seed, particles=200):
    """Return one estimate of log Z of the small problem by nested sampling."""
    options = {"particles": particles, "replicates": REPLICATES, "engine": "host", "vectorized": True}
    return es.evidence(log_likelihood, es.Dense(SIGMA), method="nested", seed=SEED + seed, **options)


def check_calibrated(replicates=100, **options):
    """Run a small problem many times: Z must be right on average, and have the reported standard errors."""
    runs = [estimate(seed, **options) for seed in range(replicates)]
    for way in ("", "ais_"):
        off = np.array([getattr(run, f"{way}log_z") - TRUTH for run in runs])
        ratio = np.exp(off)
        z = (ratio.mean() - 1) / (ratio.std() / np.sqrt(replicates))
        assert abs(z) < LIMIT, f"{way or 'sequential'}: Z is off by a factor of {ratio.mean():.3f}, {z:.1f} errors"
        in_errors = (ratio - 1) / [getattr(run, f"{way}standard_error") * r for run, r in zip(runs, ratio, strict=True)]
        expected = stats.t(REPLICATES - 1 if not way else 199)
        far = int((np.abs(in_errors) > expected.isf(0.05)).sum())
        p = min(
            stats.kstest(in_errors, expected.cdf).pvalue,
            stats.binomtest(far, replicates, 0.1, alternative="greater").pvalue,
        )
        assert p > P_LIMIT, f"{way or 'sequential'}: errors are wrong, p = {p:.2g}; spread {in_errors.std():.2f}"
    return runs
