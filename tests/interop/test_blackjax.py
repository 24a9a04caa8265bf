"""Our update inside BlackJAX: known posteriors, loops, batches, SMC, injected bugs and rejected arguments."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.smc.resampling import systematic
from blackjax.util import run_inference_algorithm

import ellipslice as es
from catalogue import CORRELATED, SINGULAR
from ellipslice.interop import update as update_module
from ellipslice.interop.blackjax import build_kernel, elliptical_slice, init
from ellipslice.interop.shared import OLDEST, require
from statistical.monte_carlo import SEED, compare, compare_gaussian
from statistical.test_closed_form import posterior

Y = np.array([-1.0, 0.5, 1.5])
SIGMA = 0.5


def log_likelihood(f):
    return -0.5 * jnp.sum((f - Y) ** 2) / SIGMA**2


def chains(algorithm, start, updates=3000, count=4, number=0):
    """Return draws, shape (chain, draw, ...), and infos of chains that start at the prior mean, with `vmap`."""

    @jax.jit
    def run(key):
        def one(state, key):
            state, info = algorithm.step(key, state)
            return state, (state.position, info)

        return jax.lax.scan(one, algorithm.init(start), jax.random.split(key, updates))[1]

    return jax.vmap(run)(jax.random.split(jax.random.key(SEED + number), count))


# --- known posteriors -----------------------------------------------------------------------------------------------


@pytest.mark.short_cases("singular-covariance1")
@pytest.mark.statistical
@pytest.mark.parametrize(("name", "covariance"), [("full rank", CORRELATED), ("singular", SINGULAR)])
def test_known_posteriors(name, covariance):
    algorithm = elliptical_slice(log_likelihood, mean=np.full(3, 0.5), cov=covariance)
    draws, info = chains(algorithm, jnp.full(3, 0.5))
    compare_gaussian(np.asarray(draws, float), *posterior(covariance, Y, SIGMA, 0.5), name)
    assert not info.search_failed.any()
    assert info.subiter.min() == 1


@pytest.mark.long
@pytest.mark.statistical
def test_it_is_a_drop_in_for_theirs():
    """The same call as BlackJAX's gives the same posterior and number of evaluations, within Monte Carlo error."""
    tried = []
    for number, make in enumerate((elliptical_slice, blackjax.elliptical_slice)):
        algorithm = make(log_likelihood, mean=jnp.full(3, 0.5), cov=jnp.asarray(CORRELATED))
        draws, info = chains(algorithm, jnp.full(3, 0.5), number=1 + number)
        compare_gaussian(np.asarray(draws, float), *posterior(CORRELATED, Y, SIGMA, 0.5), make.__module__)
        tried.append(np.asarray(info.subiter, float))
    rows = min(len(part) for part in tried)
    compare(tried[0][:rows] - tried[1][:rows], 0.0, "evaluations")


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("diagonal", [True, False])
def test_a_covariance_that_is_traced(diagonal):
    """The covariance may depend on a parameter that is known only when the function is called."""
    base = np.diag(CORRELATED) if diagonal else CORRELATED

    @jax.jit
    def draws_with(scale):
        algorithm = elliptical_slice(log_likelihood, mean=scale * 0.25, cov=scale * jnp.asarray(base))
        return chains(algorithm, jnp.zeros(3), 2000, number=3)[0]

    covariance = 2.0 * (np.diag(base) if diagonal else base)
    compare_gaussian(np.asarray(draws_with(2.0), float), *posterior(covariance, Y, SIGMA, 0.5), "traced")


@pytest.mark.statistical
def test_our_priors_and_their_names():
    """The latents of this Stack are not in alphabetical order, and have shapes and a mean."""
    prior = es.Stack({"z": es.Dense(CORRELATED, mean=1.0), "a": es.Diagonal(np.full((2, 1), 4.0))})

    def seen(position):
        return log_likelihood(position["z"]) - 0.5 * jnp.sum((position["a"] - 3.0) ** 2)

    start = {"z": jnp.zeros(3), "a": jnp.zeros((2, 1))}
    draws, _ = chains(elliptical_slice(seen, prior=prior), start, number=4)
    compare_gaussian(np.asarray(draws["z"], float), *posterior(CORRELATED, Y, SIGMA, 1.0), "z")
    a = np.asarray(draws["a"], float).reshape(4, -1, 2)
    compare_gaussian(a, *posterior(4.0 * np.eye(2), [3.0, 3.0], 1.0), "a")


# --- exactly what an update is --------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_old_state_is_on_the_ellipse():
    """Rotated back by theta, new state and momentum give the old state: the update is on an ellipse about the mean."""
    algorithm = elliptical_slice(log_likelihood, mean=np.full(3, 0.5), cov=CORRELATED)
    state, step = algorithm.init(jnp.array([0.3, 0.1, 2.0])), jax.jit(algorithm.step)
    for key in jax.random.split(jax.random.key(7), 20):
        new, info = step(key, state)
        back = (new.position - 0.5) * jnp.cos(info.theta) - (info.momentum - 0.5) * jnp.sin(info.theta) + 0.5
        np.testing.assert_allclose(back, state.position, atol=1e-5)
        np.testing.assert_allclose(new.logdensity, log_likelihood(new.position), rtol=1e-5)
        state = new


@pytest.mark.long
def test_pytrees_batches_and_loops_give_the_same_chain():
    flat = elliptical_slice(log_likelihood, mean=jnp.arange(3.0), cov=CORRELATED)
    tree = elliptical_slice(
        lambda at: log_likelihood(jnp.append(at["b"], at["c"])), mean=jnp.arange(3.0), cov=CORRELATED
    )
    at = {"b": jnp.zeros(2), "c": jnp.zeros(())}
    keys = jax.random.split(jax.random.key(0), 6)
    state, other = flat.init(jnp.zeros(3)), tree.init(at)
    rows, step, step_tree = [], jax.jit(flat.step), jax.jit(tree.step)
    for key in keys:
        state, _ = step(key, state)
        other, _ = step_tree(key, other)
        np.testing.assert_allclose(jnp.append(other.position["b"], other.position["c"]), state.position, atol=1e-5)
        rows.append(state.position)
    _, scanned = jax.lax.scan(lambda s, key: (flat.step(key, s)[0],) * 2, flat.init(jnp.zeros(3)), keys)
    np.testing.assert_allclose(scanned.position, rows, atol=1e-5)
    together = jax.vmap(lambda key: flat.step(key, flat.init(jnp.zeros(3)))[0].position)(keys)
    one_by_one = [step(key, flat.init(jnp.zeros(3)))[0].position for key in keys]
    np.testing.assert_allclose(together, one_by_one, atol=1e-5)


@pytest.mark.long
def test_one_function_or_not_is_the_same_chain(monkeypatch):
    def run():
        algorithm = elliptical_slice(log_likelihood, cov=CORRELATED)
        states = run_inference_algorithm(jax.random.key(3), algorithm, 50, initial_position=jnp.zeros(3))[1][0]
        return np.asarray(states.position)

    fast = run()
    monkeypatch.setattr(update_module, "_fits_one_function", lambda likelihood, f: False)
    np.testing.assert_allclose(run(), fast, atol=1e-4)


def test_keys_of_the_old_kind():
    step = jax.jit((algorithm := elliptical_slice(log_likelihood, cov=CORRELATED)).step)
    state = algorithm.init(jnp.zeros(3))
    np.testing.assert_array_equal(
        step(jax.random.key(5), state)[0].position, step(jax.random.PRNGKey(5), state)[0].position
    )


def test_double_precision_is_kept():
    y = Y.copy()  # JAX 0.12 would use the single-precision copy of Y that other tests have made it keep
    with jax.enable_x64(True):
        algorithm = elliptical_slice(lambda f: -0.5 * jnp.sum((f - y) ** 2) / SIGMA**2, cov=CORRELATED)
        state, info = algorithm.step(jax.random.key(0), algorithm.init(np.zeros(3)))
        assert state.position.dtype == state.logdensity.dtype == info.momentum.dtype == np.float64


@pytest.mark.long
def test_nans_are_rejected_and_counted():
    algorithm = elliptical_slice(lambda f: jnp.where(f[0] > 0.5, jnp.nan, log_likelihood(f)), cov=CORRELATED)
    draws, info = chains(algorithm, jnp.zeros(3), 500, number=5)
    assert draws[..., 0].max() <= 0.5
    assert info.nan_evaluations.sum() > 0
    theirs = blackjax.elliptical_slice(
        lambda f: jnp.where(f[0] > 0.5, jnp.nan, log_likelihood(f)), mean=jnp.zeros(3), cov=jnp.asarray(CORRELATED)
    )
    assert chains(theirs, jnp.zeros(3), 500, number=5)[0][..., 0].max() > 0.5  # so that the test could fail


def test_a_search_that_finds_nothing_stays():
    start = jnp.array([0.1, 0.2, 0.3])
    algorithm = elliptical_slice(lambda f: jnp.where(jnp.all(f == start), 0.0, -jnp.inf), mean=0.7, cov=CORRELATED)
    state, info = algorithm.step(jax.random.key(0), algorithm.init(start))
    np.testing.assert_array_equal(state.position, start)
    assert bool(info.search_failed)
    assert float(info.theta) == 0.0


# --- sequential Monte Carlo -----------------------------------------------------------------------------------------


def tempered(logprior, number, runs=24, particles=400):
    """Return the means of the particles and log Z, one row per run."""
    factor = jnp.asarray(np.linalg.cholesky(CORRELATED))

    def value(f):
        return log_likelihood(f) - 1.5 * jnp.log(2 * jnp.pi * SIGMA**2)

    smc = blackjax.adaptive_tempered_smc(
        logprior,
        value,
        build_kernel(CORRELATED, 0.5),
        init,
        {},
        systematic,
        0.5,
        num_mcmc_steps=3,
    )

    def run(key):
        def one(carry):
            key, state, log_z = carry
            key, own = jax.random.split(key)
            state, info = smc.step(own, state)
            return key, state, log_z + info.log_likelihood_increment

        key, own = jax.random.split(key)
        start = 0.5 + jax.random.normal(own, (particles, 3)) @ factor.T
        _, state, log_z = jax.lax.while_loop(lambda c: c[1].tempering_param < 1, one, (key, smc.init(start), 0.0))
        weighted = jnp.sum(state.weights[:, None] * state.particles, axis=0)
        return weighted, log_z

    return jax.jit(lambda keys: jax.lax.map(run, keys))(jax.random.split(jax.random.key(SEED + number), runs))


@pytest.mark.long
@pytest.mark.statistical
def test_inside_adaptive_tempered_smc():
    means, log_z = tempered(lambda f: 0.0, number=6)
    mean, _ = posterior(CORRELATED, Y, SIGMA, 0.5)
    compare(np.asarray(means, float)[None], mean, "means of particles")
    total, gap = CORRELATED + SIGMA**2 * np.eye(3), Y - 0.5
    truth = -0.5 * (gap @ np.linalg.solve(total, gap) + np.linalg.slogdet(2 * np.pi * total)[1])
    log_z = np.asarray(log_z, float)
    assert (
        abs(log_z.mean() - truth) < 5 * log_z.std() / np.sqrt(len(log_z)) + log_z.var()
    )  # the log of a mean is biased


@pytest.mark.long
@pytest.mark.statistical
def test_the_prior_given_to_smc_as_well_is_caught():
    """Injected bug: the mistake that the page warns of."""
    inverse = jnp.asarray(np.linalg.inv(CORRELATED))
    means, _ = tempered(lambda f: -0.5 * (f - 0.5) @ inverse @ (f - 0.5), number=6)
    with pytest.raises(AssertionError, match="standard errors off"):
        compare(np.asarray(means, float)[None], posterior(CORRELATED, Y, SIGMA, 0.5)[0], "means of particles")


# --- planted mistakes -----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.statistical
def test_a_prior_counted_twice_is_caught():
    inverse = jnp.asarray(np.linalg.inv(CORRELATED))
    algorithm = elliptical_slice(
        lambda f: log_likelihood(f) - 0.5 * (f - 0.5) @ inverse @ (f - 0.5), mean=0.5, cov=CORRELATED
    )
    with pytest.raises(AssertionError, match="standard errors off"):
        compare_gaussian(
            np.asarray(chains(algorithm, jnp.full(3, 0.5))[0], float), *posterior(CORRELATED, Y, SIGMA, 0.5), "twice"
        )


@pytest.mark.long
@pytest.mark.statistical
def test_a_level_from_the_same_uniform_as_the_angle_is_caught(monkeypatch):
    monkeypatch.setattr(
        update_module, "uniform", lambda words, number, dtype: es.noise.uniform(words, number // 3, dtype)
    )
    algorithm = elliptical_slice(log_likelihood, mean=0.5, cov=CORRELATED)
    with pytest.raises(AssertionError, match=r"standard errors off|not the distribution"):
        compare_gaussian(
            np.asarray(chains(algorithm, jnp.full(3, 0.5))[0], float), *posterior(CORRELATED, Y, SIGMA, 0.5), "shared"
        )


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: elliptical_slice(log_likelihood), TypeError, "cov=, or one of ellipslice's priors"),
        (
            lambda: elliptical_slice(log_likelihood, cov=np.ones((1, 1, 1))),
            ValueError,
            r"3 dimensions. Expected a matrix, shape \(N, N\)",
        ),
        (lambda: elliptical_slice(log_likelihood, cov=-np.eye(3)), ValueError, "positive semi-definite|negative"),
        (lambda: elliptical_slice(log_likelihood, prior=es.Dense(np.eye(3)), mean=1.0), TypeError, "has its own"),
        (lambda: elliptical_slice(log_likelihood, prior=np.eye(3)), TypeError, "ellipslice's priors"),
        (
            lambda: elliptical_slice(log_likelihood, prior=es.FromDraws(lambda rng: rng.normal(size=3), 3)),
            TypeError,
            "draws on the host.*ellipslice.sample",
        ),
        (lambda: elliptical_slice(lambda f: -jnp.inf, cov=np.eye(3)).init(jnp.zeros(3)), ValueError, "finite"),
        (lambda: init(jnp.zeros(3, complex), log_likelihood), TypeError, "real numbers"),
    ],
)
def test_what_makes_no_algorithm_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()


@pytest.mark.parametrize(
    ("algorithm", "position", "says"),
    [
        (elliptical_slice(jnp.sum, cov=np.eye(3)), jnp.zeros(2), "2 elements, but the prior has 3"),
        (elliptical_slice(lambda f: f, cov=np.eye(3)), jnp.zeros(3), "forget to sum"),
        (elliptical_slice(jnp.sum, prior=es.Dense(np.eye(3))), jnp.zeros((3, 1)), r"shape \(3, 1\)"),
        (elliptical_slice(lambda at: 0.0, prior=es.Stack({"a": es.Diagonal(1.0)})), jnp.zeros(1), "a dict of a"),
    ],
)
def test_a_position_that_does_not_fit_is_refused(algorithm, position, says):
    with pytest.raises(ValueError, match=says):
        algorithm.step(jax.random.key(0), algorithm.init(position))


@pytest.mark.parametrize(
    ("covariance", "mean", "says"),
    [
        (np.eye(3)[:, :2], 0.0, r"cov has shape \(3, 2\). Expected a square matrix"),
        (np.eye(3), np.zeros(2), r"mean has shape \(2,\), but cov is for 3 elements"),
        (np.ones(3), np.zeros((3, 1)), r"mean has shape \(3, 1\), but cov is for 3 elements"),
    ],
)
def test_what_is_traced_and_does_not_fit_is_refused(covariance, mean, says):
    with pytest.raises(ValueError, match=says):
        jax.eval_shape(lambda cov: elliptical_slice(log_likelihood, mean=mean, cov=cov), covariance)


@pytest.mark.parametrize("name", OLDEST)
def test_releases_that_are_too_old_are_refused(name, monkeypatch):
    require(name)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.3.1")
    with pytest.raises(ImportError, match=rf"requires {name} {OLDEST[name]} or newer, but 0.3.1.*ellipslice\[{name}\]"):
        require(name)

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(ImportError, match=rf"not installed.*ellipslice\[{name}\]"):
        require(name)


def test_the_extras_ask_for_the_releases_that_are_checked():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf8")
    for name, oldest in OLDEST.items():
        assert re.search(rf'^{name} = \["{name}>={re.escape(oldest)}"', text, re.MULTILINE), name
