"""The library compared with another implementation (BlackJAX) and with numbers of the paper."""

from __future__ import annotations

from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.data import coal_mining
from ellipslice.likelihoods import Logistic, Poisson
from statistical.monte_carlo import LIMIT, SEED, compare, standard_error

pytestmark = pytest.mark.statistical


def rival_draws(log_likelihood: Any, mean: Any, covariance: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Return draws of BlackJAX's elliptical slice sampler, shape (chain, draw, size), without the first tenth."""
    with jax.enable_x64(True):
        algorithm = blackjax.elliptical_slice(
            lambda f: log_likelihood(f), mean=jnp.broadcast_to(jnp.asarray(mean), len(covariance)), cov=covariance
        )

        @jax.jit
        def chain(key: Any) -> Any:
            first, key = jax.random.split(key)
            start = algorithm.init(mean + jnp.linalg.cholesky(covariance) @ jax.random.normal(first, len(covariance)))

            def update(state: Any, key: Any) -> Any:
                state, _ = algorithm.step(key, state)
                return state, state.position

            return jax.lax.scan(update, start, jax.random.split(key, draws))[1]

        keys = jax.random.split(jax.random.key(seed), 4)
        return np.stack([np.asarray(chain(key)) for key in keys])[:, draws // 10 :]


def logistic_process() -> tuple[Any, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 6, 15))
    covariance = 4.0 * np.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-6 * np.eye(15)
    return Logistic(np.where(rng.random(15) < 1 / (1 + np.exp(-3 * np.sin(x))), 1, -1)), np.zeros(15), covariance


def poisson_process() -> tuple[Any, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    x = np.linspace(0, 5, 20)
    covariance = 0.8 * np.exp(-np.abs(x[:, None] - x) / 1.5)
    return Poisson(rng.poisson(np.exp(1 + np.sin(x)))), np.full(20, 0.7), covariance


@pytest.mark.long
@pytest.mark.parametrize("problem", [logistic_process, poisson_process])
def test_blackjax_agrees(problem):
    log_likelihood, mean, covariance = problem()
    draws = 12000
    theirs = rival_draws(log_likelihood, mean, covariance, draws, SEED + 1)
    prior = es.Dense(covariance, mean)
    tree = es.sample(
        log_likelihood,
        prior,
        move=es.moves.EllipticalSlice(),
        draws=draws,
        warmup=1000,
        chains=4,
        seed=SEED + 2,
        progress=False,
    )
    ours = tree.posterior["f"].to_numpy()

    middle = theirs.mean(axis=(0, 1))
    compare(ours, middle, "means", standard_error(theirs))
    squares = (theirs - middle) ** 2
    compare((ours - middle) ** 2, squares.mean(axis=(0, 1)), "variances", standard_error(squares))
    products = (theirs - middle)[..., :-1] * (theirs - middle)[..., 1:]
    compare(
        (ours - middle)[..., :-1] * (ours - middle)[..., 1:],
        products.mean(axis=(0, 1)),
        "covariances",
        standard_error(products),
    )


def test_coal_mining_as_in_the_paper():
    """Figure 6: 0.704 million evaluations in 110,000 updates. The mean log-likelihood, -464.30, is from longer runs.

    The bar of the figure can be read to 0.0025 million (0.4 %). The paper's 1e-9 on the diagonal and its length scale
    of 13500 make a smaller difference. Hence the tolerance is 1 % in addition to the Monte Carlo error of this run. (A
    run of 10^6 updates gives 6.36 evaluations per update.)
    """
    coal = coal_mining()
    lag = (coal.centres[:, None] - coal.centres) / 13516.0
    tree = es.sample(
        Poisson(coal.counts, offset=np.log(191 / 811)),
        es.Dense(np.exp(-0.5 * lag**2)),
        move=es.moves.EllipticalSlice(),
        draws=8000,
        warmup=500,
        chains=4,
        seed=SEED + 3,
        keep=lambda f: f[::100],
        progress=False,
    )
    proposals = tree.sample_stats["proposals"].to_numpy().astype(float)
    error = standard_error(proposals)
    assert abs(proposals.mean() - 0.704e6 / 110_000) < 0.01 * 6.40 + LIMIT * error

    log_l = tree.sample_stats["total_log_likelihood"].to_numpy()
    error = standard_error(log_l)
    # An effective sample size of a few hundred, as expected from the paper's 1819 per 100,000.
    assert 0.03 < error < 0.15
    compare(log_l, -464.30, "log-likelihood", error=0.02)
    assert 1.5 < log_l.std() < 2.1


# --- a defect of BlackJAX that the library must not have ------------------------------------------------------------


def nan_outside(f: Any) -> Any:
    """Return a log-likelihood that is undefined beyond 1: the square root of a negative number."""
    return jnp.sqrt(1.0 - f[0]) - 5.0 * (f[0] - 1.0) ** 2


def test_nan_is_never_accepted_here():
    with pytest.warns(UserWarning, match="gave NaN"):
        tree = es.sample(
            nan_outside,
            es.Diagonal([1.0]),
            move=es.moves.EllipticalSlice(),
            initial=[0.5],
            draws=500,
            warmup=0,
            seed=SEED + 4,
            progress=False,
        )
    assert tree.attrs["engine"] == "compiled"
    assert tree.attrs["nan_evaluations"] > 0
    assert tree.posterior["f"].max() < 1
    assert np.isfinite(tree.sample_stats["total_log_likelihood"]).all()


@pytest.mark.long
def test_blackjax_accepts_nan():
    """BlackJAX's loop continues while the value is below the level, which is false for NaN (BlackJAX 1.7.1)."""
    with jax.enable_x64(True):
        algorithm = blackjax.elliptical_slice(nan_outside, mean=jnp.zeros(1), cov=jnp.eye(1))
        state = algorithm.init(jnp.array([0.5]))
        step = jax.jit(algorithm.step)
        for key in jax.random.split(jax.random.key(0), 200):
            state, _ = step(key, state)
            if jnp.isnan(state.logdensity):
                return
    pytest.skip(f"BlackJAX {blackjax.__version__} no longer accepts NaN")
