"""Injected bugs in the combination of prior and likelihood, compared with posteriors known in closed form.

Tolerances are Monte Carlo errors: a mean over draws is compared with the truth in units of its standard error, which is
computed from the effective sample size.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from arviz_stats.base import array_stats
from jax.tree_util import Partial
from scipy import stats

import ellipslice as es
from catalogue import SEEDS
from ellipslice.posterior import CentredLikelihood
from ellipslice.priors import Diagonal
from ellipslice.pytree import pytree
from ellipslice.testing import check_prior

EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)
LEAST = 1e-6


def p_value(values, truth):
    """Return the p-value for the mean over draws, shape (chain, draw), being `truth`."""
    size = float(array_stats.ess(values, method="mean"))
    return 2 * stats.norm.sf(abs(values.mean() - truth) / (values.std() / math.sqrt(size)))


def run(log_likelihood, prior, seed, engine):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*prior would count twice")
        tree = es.sample(
            log_likelihood,
            prior,
            move=es.moves.EllipticalSlice(),
            draws=5000,
            warmup=100,
            chains=4,
            seed=seed,
            engine=engine,
            progress=False,
        )
    return tree.posterior.f.values.reshape(4, 5000)


def p_values(draws, mean, variance):
    """Return the p-values for the mean and the variance of the posterior being these."""
    return p_value(draws, mean), p_value((draws - mean) ** 2, variance)


# --- the prior counted twice (peers.md, section 5) ------------------------------------------------------------------
# Prior N(0, 1), one observation, 1.0 with standard deviation 0.5: the posterior is N(0.8, 0.2).


def observed(f):
    return -2.0 * ((f - 1.0) ** 2).sum()


def observed_and_prior(f):
    """The log-density of the whole model, which Gen and PyMC3 once used."""
    return observed(f) - 0.5 * (f**2).sum()


@pytest.mark.long_cases("host-0")
@EVERY_SEED
@pytest.mark.statistical
@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_a_prior_counted_twice_is_caught(engine, seed):
    right = run(Partial(observed), Diagonal(np.ones(1)), seed, engine)
    assert min(p_values(right, 0.8, 0.2)) > LEAST
    wrong = run(Partial(observed_and_prior), Diagonal(np.ones(1)), seed, engine)
    assert p_value(wrong, 0.8) < LEAST
    assert min(p_values(wrong, 2 / 3, 1 / 6)) > LEAST  # the posterior with the prior counted twice


# --- the mean -------------------------------------------------------------------------------------------------------
# Prior N(3, 1), one observation, 1.0 with standard deviation 0.5: the posterior is N(1.4, 0.2).


def forgets_to_add_the_mean(self, f):
    """An injected bug of `CentredLikelihood.unpack`: the likelihood gets f - mean."""
    return {"f": f}


@pytree
class DrawsAroundItsMean(Diagonal):
    """A prior whose draws contain its mean, 3: the ellipse is centred at 0, but its draws at the mean."""

    def draw_zero_mean(self, rng, count):
        return np.asarray(super().draw_zero_mean(rng, count)) + 3.0


@pytest.mark.long_cases("host-0")
@EVERY_SEED
@pytest.mark.statistical
@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_a_mean_that_is_not_subtracted_is_caught(engine, seed, monkeypatch):
    right = run(Partial(observed), Diagonal(np.ones(1), mean=3.0), seed, engine)
    assert min(p_values(right, 1.4, 0.2)) > LEAST
    around = run(Partial(observed), DrawsAroundItsMean(np.ones(1)), seed, engine)  # jax-fsm-mcmc, CUQIpy
    assert p_value(around, 1.4) < LEAST
    monkeypatch.setattr(CentredLikelihood, "unpack", forgets_to_add_the_mean)
    forgotten = run(lambda f: observed(f), Diagonal(np.ones(1), mean=3.0), seed, engine)  # not compiled before
    assert p_value(forgotten, 1.4) < LEAST


@EVERY_SEED
def test_draws_about_the_mean_are_caught(seed):
    with pytest.raises(AssertionError, match="mean zero"):
        check_prior(DrawsAroundItsMean(np.ones(1)), seed=seed)


# --- standard deviations instead of variances -----------------------------------------------------------------------


@EVERY_SEED
@pytest.mark.statistical
def test_deviations_taken_for_variances_are_caught(seed):
    # Prior N(0, 4): the posterior is N(16/17, 4/17). With variance 2 it would be N(8/9, 2/9).
    right = run(Partial(observed), Diagonal([4.0]), seed, "compiled")
    assert min(p_values(right, 16 / 17, 4 / 17)) > LEAST
    assert p_value(run(Partial(observed), Diagonal([2.0]), seed, "compiled"), 16 / 17) < LEAST
