"""Check that bridge estimates are calibrated, for tests and for injected bugs."""

from __future__ import annotations

import numpy as np
from scipy import stats

from ellipslice.bridge.estimator import bridge
from statistical.monte_carlo import P_LIMIT, SEED

CENTRE, SPREAD, LOG_Z = np.array([0.3, -0.5]), np.array([1.2, 0.8]), -3.25
CHAINS, DRAWS, PROPOSALS = 4, 125, 800


def log_joint(x):
    """Return the log density of the unnormalised posterior, whose integral is exp(LOG_Z)."""
    return stats.norm.logpdf(x).sum(-1) + LOG_Z


def log_proposal(x):
    return stats.norm(CENTRE, SPREAD).logpdf(x).sum(-1)


def posterior_draws(rng, correlation):
    """Return stationary autoregressions with the posterior as their distribution, shape (chains, draws, 2)."""
    x = rng.standard_normal((CHAINS, DRAWS, 2))
    for i in range(1, DRAWS):
        x[:, i] = correlation * x[:, i - 1] + np.sqrt(1 - correlation**2) * x[:, i]
    return x


def check_calibrated(correlation, joint=log_joint, replicates=120):
    """Make many estimates: their errors must be standard normal in units of the standard errors."""
    z = []
    for number in range(replicates):
        rng = np.random.default_rng([SEED, number])
        x = posterior_draws(rng, correlation)
        y = CENTRE + SPREAD * rng.standard_normal((PROPOSALS, 2))
        found = bridge(joint(x) - log_proposal(x), joint(y) - log_proposal(y))
        z.append((found.log_z - LOG_Z) / found.standard_error)
    z = np.array(z)
    p = min(
        2 * stats.norm.sf(abs(z.mean()) * np.sqrt(replicates)),
        stats.chi2(replicates).sf((z**2).sum()),
        stats.chi2(replicates).cdf((z**2).sum()),
        stats.kstest(z, "norm").pvalue,
    )
    assert p > P_LIMIT, f"errors are wrong, p = {p:.2g}: mean {z.mean():.2f}, spread {z.std():.2f}"
