"""Hamiltonian moves: draws of known posteriors for any prior, tuning, and arguments that are rejected."""

from __future__ import annotations

import builtins
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from catalogue import CORRELATED, PRIORS, SINGULAR, WIDE_FACTOR
from ellipslice.likelihoods import Gaussian, LinearPredictor
from ellipslice.moves import Hamiltonian
from ellipslice.moves.hamiltonian import WhitenedPrior
from ellipslice.testing import check_move
from statistical.monte_carlo import SEED, compare_gaussian
from statistical.test_closed_form import posterior

pytestmark = pytest.mark.statistical

# Priors with their covariances: full rank, singular, more normals than elements, and a constant element.
CASES = {
    "full rank": (es.Dense(CORRELATED, mean=0.5), CORRELATED),
    "singular": (es.Dense(SINGULAR, mean=0.5), SINGULAR),
    "more normals than values": (es.LowRank(WIDE_FACTOR, mean=0.5), WIDE_FACTOR @ WIDE_FACTOR.T),
    "a fixed value": (es.Diagonal([2.0, 0.0, 0.5], mean=0.5), np.diag([2.0, 0.0, 0.5])),
}


def draws_of(name, move, draws=6000, sigma=0.5):
    prior, covariance = CASES[name]
    y = np.linspace(-1, 1.5, len(covariance))
    tree = es.sample(Gaussian(y, sigma), prior, move=move, draws=draws, warmup=100, seed=SEED + 1, progress=False)
    assert tree.attrs["engine"] == "compiled"
    return tree.posterior["f"].to_numpy(), *posterior(covariance, y, sigma, 0.5)


# The sharpest direction has prior variance 16 and noise variance 0.25: leapfrog is stable below 2 / sqrt(1 + 64).
STEP = 0.15


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_known_posteriors(name):
    compare_gaussian(*draws_of(name, Hamiltonian(STEP, 8)), f"Hamiltonian, {name}")


@pytest.mark.long
def test_nuts():
    compare_gaussian(*draws_of("singular", Hamiltonian(STEP), draws=3000), "NUTS")


@pytest.mark.long
def test_what_f_does_not_see_must_be_drawn(monkeypatch):
    """An injected bug: normals outside the span of f start every trajectory at 0, so their energy can only grow."""
    name = "more normals than values"
    compare_gaussian(*draws_of(name, Hamiltonian(1.6, 1), sigma=10.0), "as it should be")
    monkeypatch.setattr(WhitenedPrior, "whiten", lambda self, f, key: self.prior.whiten(f))
    with pytest.raises(AssertionError, match="variance"):  # another step, or compiled code would be used again
        compare_gaussian(*draws_of(name, Hamiltonian(1.601, 1), sigma=10.0), "planted")


class Forgetful(Hamiltonian):
    """An injected bug: accepts the end of every trajectory, as if the integrator were exact."""

    def trajectory(self, key, z, prior, target):
        gradient = jax.grad(lambda z: target.log_likelihood(prior.unwhiten(z)) - 0.5 * jnp.sum(z * z))
        momentum = jax.random.normal(key, z.shape, z.dtype)
        for _ in range(self.leapfrog_steps or 1):
            momentum = momentum + 0.5 * self.step_size * gradient(z)
            z = z + self.step_size * momentum
            momentum = momentum + 0.5 * self.step_size * gradient(z)
        return z, jnp.asarray(self.leapfrog_steps)


class Restless(Hamiltonian):
    """An injected bug: uses the density of the prior twice."""

    def trajectory(self, key, z, prior, target):
        twice = target.with_likelihood(
            lambda f: target.log_likelihood(f) - 0.5 * jnp.sum(prior.whiten(f) ** 2), target.prepared
        )
        return super().trajectory(key, z, prior, twice)


@pytest.mark.long
@pytest.mark.parametrize("move", [Forgetful(0.3, 6), Restless(0.3, 6)], ids=lambda move: type(move).__name__)
def test_planted_trajectories_are_caught(move):
    with pytest.raises(AssertionError, match=r"posterior|reached a state where"):
        check_move(move)


# --- tuning ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_tuning_finds_the_scales():
    """Standard deviations of 0.1 and 1: the tuned variances show them, and most trajectories are accepted."""
    prior, sigma = es.Diagonal(np.ones(4), mean=2.0), np.array([0.1, 0.1, 1e3, 1e3])
    tuned = es.tune_hamiltonian(Gaussian(np.zeros(4), sigma), prior, seed=SEED)
    found = np.array(tuned.move.inverse_mass_diagonal)
    assert (found[:2] < 0.1).all()
    assert (found[2:] > 0.3).all()
    assert tuned.initial.shape == (4,)
    tree = es.sample(
        Gaussian(np.zeros(4), sigma),
        prior,
        move=tuned.move,
        initial=tuned.initial,
        draws=2000,
        warmup=0,
        progress=False,
    )
    assert (tree.sample_stats["angle"] != 0).mean() > 0.6
    compare_gaussian(tree.posterior["f"].to_numpy(), *posterior(np.eye(4), np.zeros(4), sigma, 2.0), "tuned")


@pytest.mark.long
def test_named_latents_are_tuned_too():
    prior = es.Stack({"f": es.Dense(CORRELATED), "b": es.Diagonal(4.0)})
    tuned = es.tune_hamiltonian(lambda f, b: -2 * jnp.sum((f - b) ** 2), prior, leapfrog_steps=2, warmup=50)
    assert tuned.initial["f"].shape == (3,)
    assert len(tuned.move.inverse_mass_diagonal) == 4


# --- arguments that are rejected ------------------------------------------------------------------------------------


def test_the_host_engine_is_refused():
    with pytest.raises(TypeError, match=r"needs gradients.*jax\.numpy.*EllipticalSlice"):
        es.sample(lambda f: -float(f @ f), es.Diagonal(np.ones(2)), move=Hamiltonian(0.1), progress=False)


@pytest.mark.parametrize("name", ["FromDraws", "Stationary", "SparsePrecision"])
def test_a_prior_that_cannot_be_whitened_in_compiled_code_is_refused(name):
    with pytest.raises(TypeError, match="Hamiltonian needs a map from the prior"):
        Hamiltonian(0.1).prepare(PRIORS[name]())


def test_a_carried_predictor_is_refused():
    with pytest.raises(TypeError, match=r"LinearPredictor has no `whiten`: it updates A f.*lambda f: g"):
        es.sample(
            LinearPredictor(np.eye(3), Gaussian(np.zeros(3))),
            es.Dense(CORRELATED),
            move=Hamiltonian(0.1),
            progress=False,
        )


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Hamiltonian(0.0), ValueError, "step_size must be above 0"),
        (lambda: Hamiltonian(0.1, 0), ValueError, "leapfrog_steps must be a whole number"),
        (lambda: Hamiltonian(0.1, inverse_mass_diagonal=[1.0, -1.0]), ValueError, "positive"),
        (
            lambda: Hamiltonian(0.1, inverse_mass_diagonal=[1.0]).prepare(es.Dense(CORRELATED)),
            ValueError,
            "1 values.* 3 stand",
        ),
        (
            lambda: es.tune_hamiltonian(jnp.sum, es.Dense(CORRELATED), target_acceptance=1.0),
            ValueError,
            "target_acceptance",
        ),
        (lambda: es.tune_hamiltonian(jnp.sum, es.Dense(CORRELATED), warmup=3), ValueError, "warmup"),
    ],
)
def test_settings_that_make_no_move_are_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()


def test_without_blackjax_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("blackjax"):
            raise ImportError("no such module")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"ellipslice\[blackjax\]"):
        Hamiltonian(0.1)


@pytest.mark.long
def test_a_state_that_stays_keeps_its_bits():
    """With such a long step every trajectory is rejected, and f must not be changed by whitening and unwhitening."""
    start = np.array([0.1, 0.2, 0.3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = es.sample(
            lambda f: -1e8 * jnp.sum(f**2),
            es.Dense(CORRELATED),
            move=Hamiltonian(50.0, 3),
            initial=start,
            draws=20,
            warmup=0,
            progress=False,
        )
    np.testing.assert_array_equal(tree.posterior["f"].to_numpy(), np.broadcast_to(start, (4, 20, 3)))
    assert (tree.sample_stats["angle"] == 0).all()
