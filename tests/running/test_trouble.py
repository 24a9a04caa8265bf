"""What can go wrong during a run: it is reported or does no harm, and no draw is lost."""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy import special

import ellipslice as es
from ellipslice.data import coal_mining
from ellipslice.likelihoods import Binomial, Gaussian, Logistic, NegativeBinomial, Poisson, Probit, StudentT
from ellipslice.moves import AuxiliaryEllipse, Cycle, EllipticalSlice
from ellipslice.sampling import likelihood_checks

ENGINES = ["compiled", "host"]
PRIOR = es.Diagonal(np.ones(3))
SMALL: dict[str, Any] = {"draws": 40, "warmup": 0, "chains": 2, "seed": 3, "progress": False}


def sampled(log_likelihood: Any, prior: Any = PRIOR, **options: Any):
    return es.sample(log_likelihood, prior, **{**SMALL, **options})


def bowl(f: Any) -> float:
    return -2.0 * float(np.sum((np.asarray(f) - 0.5) ** 2))


def warned(log_likelihood: Any, prior: Any = PRIOR, **options: Any) -> tuple[Any, str]:
    """Return the result, and all warnings as one text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = sampled(log_likelihood, prior, **options)
    return tree, "\n".join(str(warning.message) for warning in caught)


# --- NaN, -inf ------------------------------------------------------------------------------------------------------


@pytest.mark.long_cases("compiled-4")
@pytest.mark.parametrize("look_ahead", [1, 4])
@pytest.mark.parametrize("engine", ENGINES)
def test_nan_is_rejected_counted_and_said(engine, look_ahead):
    xp = jnp if engine == "compiled" else np

    def log_likelihood(f: Any) -> Any:
        return xp.where(f[..., 0] > 0.3, xp.nan, -xp.sum(f**2, axis=-1))

    with pytest.warns(UserWarning, match="gave NaN.*rejected.*log of a negative number") as caught:
        tree = sampled(
            log_likelihood, engine=engine, initial=np.zeros(3), vectorized=True, look_ahead=look_ahead, warmup=10
        )
    assert str(tree.attrs["nan_evaluations"]) in str(caught[0].message).replace(",", "")
    assert caught[0].filename == __file__  # the warning points to the user's line
    assert tree.attrs["nan_evaluations"] >= int(tree.sample_stats["nan_evaluations"].sum()) > 0
    assert tree.posterior["f"][..., 0].max() <= 0.3
    assert np.isfinite(tree.sample_stats["total_log_likelihood"]).all()
    assert (tree.sample_stats["nan_evaluations"] < tree.sample_stats["evaluations"]).all()


def test_nan_counts_are_exact():
    """Exactly the NaN values that the function returned during the run are counted."""
    nans = 0

    def log_likelihood(f: np.ndarray) -> float:
        nonlocal nans
        if float(f[0]) < -0.5:
            nans += 1
            return math.nan
        return 0.0

    with pytest.warns(UserWarning, match="gave NaN"):
        tree = sampled(log_likelihood, initial=np.zeros(3), draws=300, chains=1)
    in_run = int(tree.sample_stats["nan_evaluations"].sum())
    assert in_run == tree.attrs["nan_evaluations"]
    assert 0 <= nans - in_run < 60  # the others were calls before the run


@pytest.mark.parametrize("engine", ENGINES)
def test_zero_likelihood_is_nothing_to_warn_about(engine):
    xp = jnp if engine == "compiled" else np
    tree = sampled(lambda f: xp.where(f[0] > 0.3, -xp.inf, 0.0), engine=engine, draws=200)
    assert tree.posterior["f"][..., 0].max() <= 0.3
    assert tree.attrs["nan_evaluations"] == 0


def test_a_start_is_looked_for_where_the_likelihood_is_not_zero():
    tree = sampled(lambda f: 0.0 if float(f[0]) > 1.5 else -math.inf, chains=8)
    assert tree.posterior["f"][..., 0].min() > 1.5


# --- the search cannot hang -----------------------------------------------------------------------------------------


def dies_after(calls: int) -> Callable[[Any], float]:
    """Return a likelihood that is NaN everywhere from some call on."""
    made = 0

    def value(f: Any) -> Any:
        nonlocal made
        made += 1
        return np.where(made > calls, np.nan, -np.sum(np.asarray(f) ** 2, axis=-1))

    return value


def dies_during_a_run() -> Callable[[Any], float]:
    """Return a likelihood that is NaN everywhere soon after the run has begun. Some calls are made before the run."""
    looks = 0

    def counted(f: Any) -> float:
        nonlocal looks
        looks += 1
        return float(-np.sum(np.asarray(f) ** 2))

    sampled(counted, draws=1, chains=1)
    return dies_after(looks + 8)


def test_a_search_without_end_is_given_up():
    tree, text = warned(dies_during_a_run(), engine="host", draws=14, chains=1)
    assert "updates found no acceptable point and kept" in text
    assert "gave NaN" in text
    stuck = tree.sample_stats["search_failed"].to_numpy()[0]
    first = int(np.argmax(stuck))
    assert stuck[-1]
    assert stuck[first:].all()  # all updates from the first one on
    f = tree.posterior["f"].to_numpy()[0]
    assert (f[first:] == f[max(first - 1, 0)]).all() or first == 0
    assert (tree.sample_stats["angle"].to_numpy()[0, first:] == 0).all()
    assert (tree.sample_stats["evaluations"].to_numpy()[0, first:] == 1000).all()
    assert (tree.sample_stats["nan_evaluations"].to_numpy()[0, first + 1 :] == 1000).all()
    assert tree.attrs["failed_searches"] == stuck.sum()


@pytest.mark.long_cases("move1")
@pytest.mark.parametrize("move", [AuxiliaryEllipse(), Cycle(EllipticalSlice(), EllipticalSlice(shrinking="halve"))])
def test_every_move_gives_up(move):
    tree, text = warned(dies_during_a_run(), draws=10, chains=1, move=move)
    assert "found no acceptable point" in text
    assert tree.sample_stats["search_failed"][0, -1]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_spike_holds_the_chain_and_does_not_hang_it(engine):
    """Only a single point has a positive likelihood: the bracket shrinks until rounding proposes that very point."""
    xp = jnp if engine == "compiled" else np
    spike = np.full(3, 0.25)
    tree, _ = warned(lambda f: xp.where((f == spike).all(), 0.0, -xp.inf), engine=engine, initial=spike, draws=3)
    assert (tree.posterior["f"] == 0.25).all()
    assert tree.sample_stats["evaluations"].max() <= 1000


def test_step_gives_up_too():
    with pytest.warns(UserWarning, match="found no acceptable point and kept the state"):
        f, value, info = es.step(
            np.zeros(2), np.ones(2), lambda f: 0.0 if not f.any() else math.nan, rng=np.random.default_rng(0)
        )
    assert info.search_failed
    assert (value, list(f)) == (0.0, [0.0, 0.0])
    assert info.nan_evaluations == info.evaluations == 1000


# --- a likelihood that is not a function ----------------------------------------------------------------------------


def test_a_random_likelihood_on_the_host():
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="not a function of f alone.*random numbers, mini-batches") as caught:
        sampled(lambda f: bowl(f) + 0.1 * rng.standard_normal())
    assert caught[0].filename == __file__


def test_a_random_likelihood_that_jax_can_trace():
    """Random numbers that are drawn while JAX traces become constants: compiled code would sample another posterior."""
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="not a function of f alone"):
        tree = sampled(lambda f: -jnp.sum(f**2) + rng.standard_normal())
    assert tree.attrs["engine"] == "host"


@pytest.mark.long
def test_a_function_that_calls_back_into_python_runs_on_the_host():
    """Compiled code may call back in a thread with other settings, and would not be faster."""

    def log_likelihood(f: Any) -> Any:
        return jax.pure_callback(
            lambda f: np.float64(-np.sum(np.asarray(f) ** 2)), jax.ShapeDtypeStruct((), "float64"), f
        )

    tree = sampled(log_likelihood, draws=5, warmup=0, chains=1)  # JAX compiles each call again
    assert tree.attrs["engine"] == "host"
    assert "calls back into Python" in tree.attrs["engine_reason"]
    with pytest.raises(ValueError, match="calls back into Python"):
        sampled(log_likelihood, engine="compiled")


def test_a_likelihood_that_begins_to_drift_is_found_at_the_end():
    calls = 0

    def log_likelihood(f: Any) -> float:
        nonlocal calls
        calls += 1
        return bowl(f) + 0.001 * max(0, calls - 150)

    with pytest.warns(UserWarning, match="not a function of f alone.*at the end of the run"):
        sampled(log_likelihood, draws=100)


# --- the prior inside the likelihood --------------------------------------------------------------------------------

X = np.linspace(0, 1, 25)
SMOOTH = 1.5 * np.exp(-0.5 * (X[:, None] - X) ** 2 / 0.2**2) + 1e-6 * np.eye(25)
ROUGH = np.exp(-np.abs(X[:, None] - X) / 0.3)
Y = np.sin(7 * X)


def log_prior(covariance: np.ndarray, by: str) -> Callable[[Any], Any]:
    if by == "scipy":
        return scipy.stats.multivariate_normal(np.zeros(len(covariance)), covariance).logpdf
    inverse = np.linalg.inv(covariance)
    return lambda f: -0.5 * f @ inverse @ f


def with_prior_inside(likelihood: Any, covariance: np.ndarray, by: str) -> Callable[[Any], Any]:
    inside = log_prior(covariance, by)
    if by == "scipy":
        return lambda f: float(likelihood(np.asarray(f)) + inside(np.asarray(f)))
    return lambda f: likelihood(f) + inside(f)


OBSERVED = {
    "Gaussian": Gaussian(Y, 0.3),
    "Poisson": Poisson(np.arange(25) % 4),
    "Logistic": Logistic(np.where(Y > 0, 1, -1)),
    "StudentT": StudentT(Y),
}


@pytest.mark.long_cases("Gaussian-jax", "Poisson-jax", "Logistic-jax")
@pytest.mark.parametrize("by", ["jax", "scipy"])
@pytest.mark.parametrize("name", OBSERVED)
def test_a_prior_inside_is_noticed(name, by):
    """A smooth process: the prior is so narrow in most directions that the data are not informative about them."""
    with pytest.warns(UserWarning, match=r"contain the log density of the prior.*count twice.*likelihood alone"):
        tree = sampled(with_prior_inside(OBSERVED[name], SMOOTH, by), es.Dense(SMOOTH), draws=2)
    assert tree.attrs["engine"] == ("host" if by == "scipy" else "compiled")


@pytest.mark.parametrize("name", ["Logistic", "StudentT", "Poisson"])
def test_a_rough_prior_inside_is_noticed(name):
    """Not with a Gaussian likelihood, which can hide the prior completely."""
    by = "jax" if name == "Poisson" else "scipy"  # flat only where a simulator could not be called safely
    with pytest.warns(UserWarning, match="contain the log density of the prior"):
        sampled(with_prior_inside(OBSERVED[name], ROUGH, by), es.Dense(ROUGH), draws=2)


def test_a_prior_with_a_mean_inside_is_noticed():
    inside = scipy.stats.multivariate_normal(np.full(25, 3.0), SMOOTH).logpdf
    with pytest.warns(UserWarning, match="contain the log density of the prior"):
        sampled(lambda f: Poisson(np.full(25, 20))(f) + inside(f), es.Dense(SMOOTH, mean=3.0), draws=2, engine="host")


@pytest.mark.long
def test_a_diagonal_prior_inside_is_noticed():
    """Weights of a regression with standard normal priors: a mistake of users who come from another library."""
    rng = np.random.default_rng(0)
    design = rng.standard_normal((60, 8))
    labels = np.where(rng.random(60) < special.expit(design[:, 0]), 1, -1)
    with pytest.warns(UserWarning, match="contain the log density of the prior"):
        sampled(
            lambda w: -jnp.logaddexp(0, -labels * (design @ w)).sum() + jax.scipy.stats.norm.logpdf(w).sum(),
            es.Diagonal(np.ones(8)),
            draws=2,
        )


def usps_like() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 16))
    squared = ((x[:, None] - x) ** 2).sum(-1)
    covariance = np.exp(3.5) ** 2 * np.exp(-0.5 * squared / np.exp(2.5) ** 2)
    return Logistic(np.where(x[:, 0] > 0, 1, -1)), es.Dense(covariance)


def coal() -> tuple[Any, Any]:
    data = coal_mining()
    lag = (data.centres[:, None] - data.centres) / 13516.0
    return Poisson(data.counts, offset=np.log(191 / 811)), es.Dense(np.exp(-0.5 * lag**2))


def regression(noise: float, scale: float = 1.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    design = rng.standard_normal((30, 5))
    y = design @ rng.standard_normal(5) + noise * rng.standard_normal(30)
    return (lambda w: float(-0.5 * np.sum((y - design @ w) ** 2) / noise**2)), es.Diagonal(np.full(5, scale))


def observed_half() -> tuple[Any, Any]:
    return (lambda f: Gaussian(Y[:12], 0.3)(f[:12])), es.Dense(SMOOTH)


def two_named() -> tuple[Any, Any]:
    return (
        lambda f, b: float(Poisson(np.arange(25) % 3)(f + b)),
        es.Stack({"f": es.Dense(SMOOTH), "b": es.Diagonal(9.0)}),
    )


def three_named() -> tuple[Any, Any]:
    """A smooth function, an offset and group effects: far out, values are so large that the check detects nothing."""
    groups = np.arange(25) % 6
    return (
        lambda f, b, u: Poisson(np.arange(25) % 3)(f + b + u[groups]),
        es.Stack({"f": es.Dense(SMOOTH), "b": es.Diagonal(4.0), "u": es.Diagonal(np.full(6, 0.25))}),
    )


HONEST: dict[str, Callable[[], tuple[Any, Any]]] = {
    "coal mining": coal,
    "USPS-like": usps_like,
    "Gaussian, weak": lambda: (Gaussian(Y, 30.0), es.Dense(SMOOTH)),
    "Gaussian": lambda: (Gaussian(Y, 0.3), es.Dense(SMOOTH)),
    "Gaussian, strong": lambda: (Gaussian(Y, 0.01), es.Dense(SMOOTH)),
    "Gaussian, rough": lambda: (Gaussian(Y, 0.3), es.Dense(ROUGH)),
    "Gaussian, unit noise, rough": lambda: (Gaussian(Y, 1.0), es.Dense(ROUGH)),
    "Poisson": lambda: (Poisson(np.arange(25) % 5), es.Dense(ROUGH)),
    "Poisson, strong": lambda: (Poisson(np.full(25, 500)), es.Dense(SMOOTH, mean=6.0)),
    "Binomial": lambda: (Binomial(np.arange(25) % 9, 10), es.Dense(SMOOTH)),
    "NegativeBinomial": lambda: (NegativeBinomial(np.arange(25), 3.0), es.Dense(ROUGH)),
    "Probit": lambda: (Probit(np.where(Y > 0, 1, -1)), es.Dense(SMOOTH)),
    "StudentT": lambda: (StudentT(Y, 0.2), es.Dense(ROUGH)),
    "StudentT, alone": lambda: (StudentT(np.linspace(-2, 2, 5)), es.Diagonal(np.ones(5))),
    "regression": lambda: regression(0.5),
    "regression, unit noise": lambda: regression(1.0),
    "regression, wide prior": lambda: regression(1.0, 100.0),
    "half unobserved": observed_half,
    "two named latents": two_named,
    "three named latents": three_named,
    "Gaussian, very strong": lambda: (lambda f: -0.5 * jnp.sum((Y - f) ** 2) / 0.0002**2, es.Dense(SMOOTH)),
    "linear": lambda: ((lambda f: float(np.sum(f))), es.Dense(SMOOTH)),
    "constant": lambda: ((lambda f: 3.0), es.Dense(SMOOTH)),
    "interval": lambda: ((lambda f: 0.0 if abs(f[0]) < 1 else -math.inf), es.Dense(ROUGH)),
    "low rank": lambda: (Gaussian(Y, 0.5), es.LowRank(np.column_stack([np.ones(25), X, X**2]))),
    "two axes": lambda: (Gaussian(np.ones((2, 3)), 0.4), es.Diagonal(np.ones((2, 3)))),
    "one value": lambda: (Gaussian([1.0], 0.5), es.Diagonal([1.0])),
}


def own(log_likelihood: Callable[..., Any]) -> Callable[..., Any]:
    """Return a likelihood as a user's own function, because the library's classes are not checked."""
    return lambda *latents, **named: log_likelihood(*latents, **named)


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("engine", ["host", pytest.param(None, marks=pytest.mark.long)])
def test_an_honest_likelihood_is_not_suspected(name, engine):
    log_likelihood, prior = HONEST[name]()
    sampled(own(log_likelihood), prior, draws=2, engine=engine)  # a warning is an error here


@pytest.mark.long_cases("1")
@pytest.mark.parametrize("size", [1, 5, 50])
def test_unit_noise_under_a_unit_prior_is_not_suspected(size):
    """The likelihood has the curvature of the prior exactly. Only its location differs, so y must not be 0."""
    suspected = []
    for seed in range(20):
        y = np.random.default_rng(seed).normal(0, math.sqrt(2), size)
        y += np.copysign(0.1, y)
        _, text = warned(own(Gaussian(y, 1.0)), es.Diagonal(np.ones(size)), draws=2, engine="host")
        suspected += [seed] if "contain the log density" in text else []
    assert not suspected


def test_a_function_is_looked_at_once_and_again_with_other_data(monkeypatch):
    looks = []
    real = likelihood_checks._curvature_matches_prior
    monkeypatch.setattr(likelihood_checks, "_curvature_matches_prior", lambda *given: looks.append(1) or real(*given))
    prior, y = es.Diagonal(np.ones(3)), np.array([0.3, 1.0, -2.0])

    def log_likelihood(f):
        return -jnp.sum((f - y) ** 2)

    def looks_of(log_likelihood, prior):
        looks.clear()
        sampled(log_likelihood, prior, draws=2)
        return len(looks)

    assert [looks_of(log_likelihood, prior) for _ in range(2)] == [1, 0]
    assert looks_of(log_likelihood, es.Diagonal(np.ones(3))) == 1
    assert looks_of(lambda f: log_likelihood(f) - f[0], prior) == 1
    y[0] = 0.4
    assert [looks_of(log_likelihood, prior) for _ in range(2)] == [1, 0]

    def guilty(f):
        return -jnp.sum(f**2) / 2

    for _ in range(2):
        _, text = warned(guilty, prior, draws=2)
        assert "contain the log density" in text


# --- checks before the run must do no harm --------------------------------------------------------------------------


def test_a_likelihood_undefined_at_the_mean():
    assert sampled(lambda f: math.log(abs(f[0]))).posterior["f"].shape == (2, 40, 3)


def test_a_likelihood_undefined_far_out():
    def solver(f: Any) -> float:
        if np.max(np.abs(np.asarray(f))) > 4.8:
            raise ArithmeticError("did not converge")
        return bowl(f)

    assert sampled(solver).posterior["f"].shape == (2, 40, 3)


def test_no_warnings_from_places_no_chain_visits():
    sampled(lambda f: float(np.log(np.abs(np.asarray(f))).sum()))


@pytest.mark.parametrize("vectorized", [None, True])
def test_a_slow_likelihood_starts_soon(vectorized):
    """With three seconds per call, the run should begin after a few calls, not after minutes."""
    calls, shift, clock = 0, 0.0, time.perf_counter

    def slow(f: Any) -> Any:
        nonlocal calls, shift
        calls += 1
        shift += 3.0
        return -np.sum(np.asarray(f) ** 2, axis=-1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: clock() + shift)
        sampled(slow, draws=1, chains=1, move=EllipticalSlice(bracket_width=1e-3), vectorized=vectorized)
    assert calls <= 15


def test_many_chains_of_a_slow_batched_likelihood_make_few_calls():
    """Starts, updates and the checks at the end evaluate all chains in one call each."""
    calls, shift, clock = 0, 0.0, time.perf_counter

    def slow(f: Any) -> Any:
        nonlocal calls, shift
        calls += 1
        shift += 0.3
        return -np.sum(np.asarray(f) ** 2, axis=-1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: clock() + shift)
        warned(slow, draws=1, chains=100, vectorized=True, engine="host", move=EllipticalSlice(bracket_width=1e-3))
    assert calls < 40


# --- exceptions -----------------------------------------------------------------------------------------------------


class DivergedError(Exception):
    """An exception of the user."""


def breaks_after(count: int, **names: Any) -> Callable[..., float]:
    calls = 0

    def log_likelihood(f: Any, **others: Any) -> float:
        nonlocal calls
        calls += 1
        value = bowl(f)
        if calls > count:
            raise DivergedError("at last")
        return value

    return log_likelihood


@pytest.mark.parametrize("after", [0, 1, 300])
def test_an_exception_keeps_its_type_and_says_where(after):
    with pytest.raises(DivergedError, match="at last") as error:
        sampled(breaks_after(after), draws=500)
    notes = " ".join(error.value.__notes__)
    assert "raised by the log-likelihood at f = [" in notes
    assert "latents" in notes
    assert list(error.value.latents) == ["f"]
    assert error.value.latents["f"].shape == (3,)
    assert error.traceback[-1].name == "log_likelihood"  # the user's own line is the innermost


def test_an_exception_of_named_latents_with_a_mean():
    seen = []

    def log_likelihood(f: Any, b: Any) -> float:
        f, b = np.asarray(f), float(b)
        if len(seen) > 250:
            seen.append((f.copy(), b))
            raise DivergedError
        seen.append((f.copy(), b))
        return bowl(f) - (b - 10) ** 2

    prior = es.Stack({"f": PRIOR, "b": es.Diagonal(1.0, mean=10.0)})
    with pytest.raises(DivergedError) as error:
        sampled(log_likelihood, prior, draws=500)
    assert set(error.value.latents) == {"f", "b"}
    np.testing.assert_array_equal(error.value.latents["f"], seen[-1][0])
    assert error.value.latents["b"] == seen[-1][1]
    assert "b = " in " ".join(error.value.__notes__)


def test_an_exception_in_a_batch():
    def log_likelihood(f: np.ndarray) -> np.ndarray:
        if (np.abs(f) > 2.0).any() and len(f) > 4:
            raise DivergedError
        return -np.sum(f**2, axis=-1)

    with pytest.raises(DivergedError) as error:
        sampled(log_likelihood, es.Diagonal(np.ones(3)), vectorized=True, engine="host", chains=8, draws=500)
    assert error.value.latents["f"].shape[1:] == (3,)
    assert "raised by the log-likelihood" in " ".join(error.value.__notes__)


def test_a_long_latent_does_not_flood_the_message():
    def log_likelihood(f: Any) -> float:
        raise DivergedError

    with pytest.raises(DivergedError) as error:
        sampled(log_likelihood, es.Diagonal(np.ones(100_000)))
    assert len(" ".join(error.value.__notes__)) < 500
    assert error.value.latents["f"].shape == (100_000,)


def test_an_exception_that_takes_no_attributes():
    """Some exceptions of compiled extensions are like that."""

    class SealedError(DivergedError):
        def __setattr__(self, name: str, value: Any) -> None:
            if name not in ("__traceback__", "__cause__", "__context__"):  # Python itself sets these
                raise AttributeError(name)

    def log_likelihood(f: Any) -> float:
        raise SealedError("at last")

    with pytest.raises(DivergedError, match="at last"):
        sampled(log_likelihood)


def test_the_check_at_the_end_cannot_lose_the_draws():
    """For example, a connection closes or a budget is used up: the run was complete."""
    count, calls = 0, 0

    def log_likelihood(f: Any) -> float:
        nonlocal calls
        calls += 1
        if count and calls > count:
            raise DivergedError("no more")
        return bowl(f)

    sampled(log_likelihood)
    count, calls = calls - 2, 0  # the same run again, except for the checks at its end
    with pytest.warns(UserWarning, match="log-likelihood|Ctrl-C"):
        tree = sampled(log_likelihood)
    assert tree.posterior["f"].shape == (2, 40, 3)


@pytest.mark.parametrize("prior", [PRIOR, es.FromDraws(lambda rng: rng.standard_normal(3), 3)], ids=repr)
def test_a_likelihood_that_changes_its_argument_is_refused(prior):
    def log_likelihood(f: np.ndarray) -> float:
        f -= 0.5
        return float(-f @ f)

    with pytest.raises(ValueError, match=r"in place|read-only"):
        sampled(log_likelihood, prior, engine="host")


@pytest.mark.parametrize("vectorized", [None, True])
def test_a_likelihood_that_changes_its_argument_now_and_then_is_refused(vectorized):
    """A clip in place: at the first point there is nothing to clip, but then every state of the chain is clipped."""
    prior = es.FromDraws(lambda rng: rng.standard_normal(3), 3)

    def log_likelihood(f: np.ndarray) -> Any:
        np.minimum(f, 1.0, out=f)
        return -0.1 * np.sum(f**2, axis=-1)

    with pytest.raises(ValueError, match=r"in place|read-only"):
        sampled(log_likelihood, prior, engine="host", initial=np.zeros(3), draws=200, vectorized=vectorized)


def test_a_routine_that_uses_its_memory_again():
    """Some fast samplers fill the same array in each call. Every draw must still have its own values."""
    memory = np.empty(3)

    def routine(rng: np.random.Generator) -> np.ndarray:
        rng.standard_normal(out=memory)
        return memory

    draws = es.FromDraws(routine, 3).draw_zero_mean(np.random.default_rng(0), 50)
    assert len(np.unique(draws[:, 0])) == 50


def test_a_routine_is_called_from_one_thread_at_a_time():
    """`FromDraws` accepts any Python function, and most samplers are not thread-safe."""
    inside, worst, lock = 0, 0, threading.Lock()

    def routine(rng: np.random.Generator) -> np.ndarray:
        nonlocal inside, worst
        with lock:
            inside += 1
            worst = max(worst, inside)
        time.sleep(1e-4)
        with lock:
            inside -= 1
        return rng.standard_normal(3)

    sampled(Gaussian(np.zeros(3)), es.FromDraws(routine, 3), engine="compiled", chains=4)
    assert worst == 1


def test_a_routine_that_raises_on_the_way():
    calls = 0

    def routine(rng: np.random.Generator) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls > 1500:
            raise DivergedError("sampler broke")
        return rng.standard_normal(3)

    for engine in ENGINES:
        calls = 0
        with pytest.raises(DivergedError, match="sampler broke"):
            sampled(Gaussian(np.zeros(3)), es.FromDraws(routine, 3), engine=engine, draws=2000)


def test_a_start_outside_a_singular_prior_is_refused():
    """f2 = 2 f1 always. From a point off that line the chain returns slowly, or never, and the draws would be wrong."""
    prior = es.LowRank(np.array([[1.0], [2.0]]))
    with pytest.raises(ValueError, match=r"initial.*prior"):
        sampled(bowl, prior, initial=[1.0, -5.0])


def test_it_runs_in_threads_too():
    """As under a web server or Dask, where there are no signal handlers: the draws are bit-identical."""
    expected = sampled(bowl).posterior["f"].to_numpy()
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(sampled(bowl).posterior["f"].to_numpy())) for _ in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    for result in results:
        np.testing.assert_array_equal(result, expected)


# --- slow likelihoods -----------------------------------------------------------------------------------------------


def test_a_slow_vectorized_likelihood_comes_to_an_end():
    """The likelihood is slower than a turn of the engine: a search must continue, and not begin again."""
    calls = 0

    def log_likelihood(f: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        assert calls < 400
        time.sleep(0.07 if calls > 15 else 0.0)
        return -5000 * np.sum((f - 1) ** 2, axis=-1)

    tree = sampled(log_likelihood, vectorized=True, engine="host", draws=4, look_ahead=1)
    assert tree.sample_stats["evaluations"].max() > 5


@pytest.mark.long_cases("compiled")
@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_a_slow_likelihood_leaves_no_long_silence(engine):
    """With 10 ms per call and 8 calls per update, rows must be short, because progress and Ctrl-C wait for them."""

    def slow(f: Any) -> Any:
        if engine == "host":
            time.sleep(0.01)
            return -200 * float(np.sum((np.asarray(f) - 0.5) ** 2))
        idle = jax.lax.fori_loop(0, 1_000_000, lambda i, x: jnp.sin(x), f[0])
        return -200 * jnp.sum((f - 0.5) ** 2) + 0.0 * idle

    times = []
    sampled(
        slow,
        move=EllipticalSlice(),
        engine=engine,
        chains=1,
        draws=32,
        keep=lambda f: times.append(time.perf_counter()) or f,
        initial=np.full(3, 0.5),
    )
    pauses = np.diff(times[1:]) > 0.02  # the first is the call that finds out what `keep` returns
    assert pauses.sum() > 10  # draws arrive one or a few at a time


# --- Ctrl-C ---------------------------------------------------------------------------------------------------------


def bowls(f: Any) -> Any:
    return -2.0 * np.sum((np.asarray(f) - 0.5) ** 2, axis=-1)


def interrupted(log_likelihood: Callable[[Any], Any], at: int, pause: float = 0.0) -> Callable[[Any], Any]:
    """Return the likelihood, with Ctrl-C pressed during one of its calls.

    It is slow, so that all chains have their turns.
    """
    calls = 0

    def pressed(f: Any) -> Any:
        nonlocal calls
        calls += 1
        time.sleep(pause)
        if calls == at:
            raise KeyboardInterrupt
        return log_likelihood(f)

    return pressed


def survives(log_likelihood: Callable[[Any], Any], **options: Any) -> Any:
    """Call `sampled`. An escaped Ctrl-C becomes an ordinary failure, because it would stop pytest itself."""
    try:
        with pytest.warns(UserWarning, match=r"stopped by Ctrl-C: returning [\d,]+ of [\d,]+ draws per chain"):
            return sampled(log_likelihood, **options)
    except KeyboardInterrupt as error:
        raise AssertionError(f"Ctrl-C escaped: {error}") from error


@pytest.mark.parametrize("options", [{}, {"thin": 3}, {"vectorized": True}, {"warmup": 20}, {"chains": 3}], ids=repr)
@pytest.mark.parametrize("at", [777, pytest.param(500, marks=pytest.mark.long)])
def test_ctrl_c_from_inside_the_likelihood(at, options):
    options = {"draws": 3000, "engine": "host", **options}
    whole = sampled(bowls, **options)
    tree = survives(interrupted(bowls, at, pause=0.0004), **options)
    check_prefix(tree, whole)
    assert tree.attrs["interrupted"] == 1


def check_prefix(part: Any, whole: Any) -> None:
    """Check that all draws are bit-identical to those of the complete run."""
    draws = part.posterior.sizes["draw"]
    assert 0 < draws < whole.posterior.sizes["draw"]
    assert part.attrs["draws"] == draws
    for group in ("posterior", "sample_stats"):
        for name, values in part[group].data_vars.items():
            np.testing.assert_array_equal(values, whole[group][name][:, :draws], err_msg=name)


def test_no_completed_draw_is_lost():
    """With one chain and a constant likelihood, every call during the run completes an update."""
    looks = 0

    def look(f: Any) -> float:
        nonlocal looks
        looks += 1
        return 0.0

    sampled(look, chains=1, draws=1, engine="host")
    before_the_run = looks - 2  # without the one update and the check at the end
    tree = survives(interrupted(lambda f: 0.0, before_the_run + 351), chains=1, draws=10_000, engine="host")
    assert tree.attrs["draws"] == 350


def test_ctrl_c_before_every_chain_had_a_turn():
    tree = survives(interrupted(bowls, 400), chains=3, draws=10_000, engine="host")
    assert tree.attrs["draws"] > 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_while_python_collects_garbage():
    """Exceptions in the garbage collector are dropped. JAX has callbacks there, so this happens."""
    pressed = 0

    def collecting(phase: str, _: Any) -> None:
        nonlocal pressed
        if phase == "start" and not pressed:
            pressed = 1
            signal.raise_signal(signal.SIGINT)

    looks = itertools.count()

    def log_likelihood(f: Any) -> float:
        if next(looks) == 2_000:
            gc.callbacks.append(collecting)
            gc.collect()
        return bowl(f)

    try:
        tree = survives(log_likelihood, draws=200_000, engine="host")
    finally:
        gc.callbacks.remove(collecting)
    assert pressed
    assert tree.attrs["interrupted"] == 1


def test_ctrl_c_during_warm_up():
    calls = 0

    def log_likelihood(f: Any) -> float:
        nonlocal calls
        calls += 1
        if calls == 500:
            raise KeyboardInterrupt
        return bowl(f)

    with pytest.raises(KeyboardInterrupt, match=r"during warm-up, after \d+ updates: no draw to return"):
        sampled(log_likelihood, warmup=10_000, engine="host")


def test_ctrl_c_after_the_last_draw():
    calls = 0

    def counted(f: Any) -> float:
        nonlocal calls
        calls += 1
        return bowl(f)

    sampled(counted, engine="host")
    try:
        with pytest.warns(UserWarning, match="the check of the log-likelihood at the end.*KeyboardInterrupt"):
            tree = sampled(interrupted(bowl, calls), engine="host")
    except KeyboardInterrupt as error:
        raise AssertionError("Ctrl-C lost the draws") from error
    assert tree.posterior["f"].shape == (2, 40, 3)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_a_handler_of_the_user_s_own_stays(handler):
    before = signal.signal(signal.SIGINT, handler)
    seen = []

    def log_likelihood(f: Any) -> float:
        seen.append(signal.getsignal(signal.SIGINT))
        if len(seen) % 50 == 0:
            signal.raise_signal(signal.SIGINT)
        return bowl(f)

    try:
        tree = sampled(log_likelihood, engine="host", keep=lambda f: signal.raise_signal(signal.SIGINT) or f)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert set(seen) == {handler}
    assert tree.posterior["f"].shape == (2, 40, 3)
    assert not tree.attrs["interrupted"]


PROGRAM = """
    import json, signal, sys, time, warnings
    import arviz_base, numpy as np, jax.numpy as jnp
    import ellipslice as es

    def host(f):
        return -2.0 * float(np.sum((np.asarray(f) - 0.5) ** 2))

    def compiled(f):
        return -2.0 * jnp.sum((f - 0.5) ** 2)

    def slow_host(f):
        time.sleep(0.01)
        return host(f)

    kept = 0

    def keep(f):
        global kept
        kept += 1
        if kept == 40:
            print("sampling", flush=True)
        return f

    name, draws, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    options = dict(warmup=10, chains=2, seed=5, progress=False, keep=keep)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = es.sample(globals()[name], es.Diagonal(np.ones(3)), draws=draws, **options)
    ended = time.time()
    np.save(path, tree.posterior["f"].to_numpy())
    print(json.dumps({"ended": ended, "attrs": {k: v for k, v in tree.attrs.items() if k in ("engine", "draws",
          "interrupted", "sampling_time")}, "warnings": [str(w.message) for w in caught]}))
"""


def interrupt_program(name: str, draws: int, path: Path, after: float) -> dict[str, Any]:
    """Run the program, press Ctrl-C after it has sampled for a while, and return its output."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), name, str(draws), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "sampling\n"
        time.sleep(after)
        pressed = time.time()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()  # so that a process that did not end does not disturb the tests that follow
    assert process.returncode == 0, errors
    return {**json.loads(output), "pressed": pressed}


@pytest.mark.long_cases("compiled", "slow_host")
@pytest.mark.parametrize("name", ["host", "compiled", "slow_host"])
def test_ctrl_c_from_the_keyboard(name, tmp_path):
    result = interrupt_program(name, 1_000_000, tmp_path / "part.npy", after=0.5)
    attrs = result["attrs"]
    assert attrs["engine"] == name.removeprefix("slow_")
    assert attrs["interrupted"] == 1
    assert any("stopped by Ctrl-C: returning" in warning for warning in result["warnings"])
    part = np.load(tmp_path / "part.npy")
    assert part.shape == (2, attrs["draws"], 3)
    assert attrs["draws"] > 10
    assert result["ended"] - result["pressed"] < 1.5

    namespace: dict[str, Any] = {}
    source = textwrap.dedent(PROGRAM).split("name, draws, path")[0]
    exec(source, namespace)
    again = es.sample(
        namespace["host" if attrs["engine"] == "host" else name],
        PRIOR,
        engine=attrs["engine"],
        draws=min(attrs["draws"], 600),
        warmup=10,
        chains=2,
        seed=5,
        progress=False,
    )
    np.testing.assert_array_equal(again.posterior["f"], part[:, : min(attrs["draws"], 600)])
