"""Updates of one element at a time, compared with the conditional distributions, up to rounding error."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ellipslice as es
from catalogue import CORRELATED, PRIORS, ROUGH, SEEDS, SINGULAR
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.host.engine import HostEngine, HostTarget
from ellipslice.jax_settings import jax_settings
from ellipslice.likelihoods import Gaussian
from ellipslice.moves import CoordinateGibbs, CoordinateSlice, State, one_at_a_time
from ellipslice.moves.line import PriorOnLine
from ellipslice.moves.one_at_a_time import CoordinateMove, ParabolaAlongAxis
from ellipslice.noise import block_length, draw_block
from ellipslice.posterior import Posterior
from ellipslice.testing.search import noise_of_an_update
from engine_rows import begin, columns, finish
from judged import DATA, PRIOR, log_likelihood, log_posterior
from statistical.monte_carlo import SEED, compare

EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)
Y, SIGMA = np.linspace(-1, 2, 12), np.linspace(0.2, 1.5, 12)


def exact_sweeps(precision, mean, normals, f):
    """Yield the states of Gibbs sampling from N(mean, inverse of precision), in the order of the elements."""
    for row in normals:
        f = f.copy()
        for i, z in enumerate(row):
            rest = precision[i] @ (f - mean) - precision[i, i] * (f[i] - mean[i])
            f[i] = mean[i] - rest / precision[i, i] + z / np.sqrt(precision[i, i])
        yield f


def run(engine, posterior, move, seed, f, updates):
    with jax_settings():
        start = State(f, float(posterior.log_likelihood(f)))
        running = begin(engine(posterior), move, seed, [0], [start], updates)
        made = columns(finish(running))
        running.close()
    return made["f"], made["evaluations"]


@pytest.mark.long_cases("observed-CompiledEngine-0", "summed-CompiledEngine-0")
@EVERY_SEED
@pytest.mark.parametrize("engine", [HostEngine, CompiledEngine])
@pytest.mark.parametrize("rows", [None, np.tril(np.ones((12, 12))) / 6], ids=["observed", "summed"])
def test_gibbs_draws_from_the_exact_conditionals(engine, rows, seed):
    prior = es.Dense(ROUGH)
    matrix = np.eye(12) if rows is None else rows

    def summed(f):
        return -0.5 * (((Y - matrix @ f) / SIGMA) ** 2).sum()

    posterior = Posterior(prior, Gaussian(Y, SIGMA) if rows is None else summed)
    precision = np.linalg.inv(ROUGH) + matrix.T / SIGMA**2 @ matrix
    mean = np.linalg.solve(precision, matrix.T @ (Y / SIGMA**2))
    move, start, updates = CoordinateGibbs(), np.zeros(12), 20
    noise = draw_block(move.noise_spec(prior, move.prepare(prior)), seed, 0, 0, block_length(12))
    got, evaluations = run(engine, posterior, move, seed, start, updates)
    for f, expected in zip(
        got, exact_sweeps(precision, mean, noise.drawn.stacks[0][:updates, :, 0], start), strict=True
    ):
        np.testing.assert_allclose(f, expected, atol=1e-8)
    assert (evaluations == 48).all()


@EVERY_SEED
def test_gibbs_is_valid_where_the_parabola_does_not_fit(seed):
    """The proposal, which does not depend on the state, is accepted with the Metropolis-Hastings ratio."""
    rng, move, prior = np.random.default_rng(seed), ParabolaAlongAxis(), es.Diagonal([2.0])

    def odd(f):
        return float(np.sin(3 * f[0]) - 0.1 * f[0] ** 4)

    low, middle, high = (odd(np.array([at * np.sqrt(2)])) for at in (-1, 0, 1))
    spread = 1 / np.sqrt(1 - (low - 2 * middle + high))
    q = stats.norm((high - low) / 2 * spread**2 * np.sqrt(2), spread * np.sqrt(2))
    prepared = move.prepare(prior)
    target, accepted = HostTarget(odd, prepared), 0
    for _ in range(300):
        f = rng.normal(0, 2, 1)
        noise = noise_of_an_update(move, prior, rng, prepared)
        new = q.mean() + q.std() * noise.drawn[0]
        ratio = odd(np.array([new])) - odd(f) + q.logpdf(f[0]) - q.logpdf(new) - (new**2 - f[0] ** 2) / 4
        for level, moves in ((-ratio + 1e-9, True), (-ratio - 1e-9, False)):
            end, info = move.step(noise._replace(level=[level]), State(f, odd(f)), target)
            assert end.f[0] == pytest.approx(new if moves else f[0], abs=1e-12)
            assert (info.evaluations, info.nan_evaluations, info.search_failed) == (4, 0, False)
        accepted += ratio > 0
    assert 30 < accepted < 270


NO_PARABOLA = {
    "bends upwards": lambda f: float(np.log(np.cosh(1.5 * f[0]))),
    "zero on one side": lambda f: float(-f[0]) if f[0] < 1 else -np.inf,
}


@EVERY_SEED
@pytest.mark.parametrize("name", NO_PARABOLA)
def test_where_no_parabola_fits_gibbs_draws_from_the_prior(name, seed):
    """The proposal is accepted by the ratio of likelihoods. The parabola, which is not used, must not be part of it."""
    rng, move, prior, function = np.random.default_rng(seed), ParabolaAlongAxis(), es.Diagonal([2.0]), NO_PARABOLA[name]
    prepared = move.prepare(prior)
    target, accepted = HostTarget(function, prepared), 0
    for _ in range(300):
        f = -np.abs(rng.normal(0, 2, 1))
        noise = noise_of_an_update(move, prior, rng, prepared)
        new = np.sqrt(2) * noise.drawn
        ratio = function(new) - function(f)
        for level, moves in ((-ratio + 1e-9, ratio > -np.inf), (-ratio - 1e-9, False)):
            end, _ = move.step(noise._replace(level=[level]), State(f, function(f)), target)
            assert end.f[0] == pytest.approx(new[0] if moves else f[0], abs=1e-12)
        accepted += ratio > 0
    assert 10 < accepted < 290


def coordinate_search(move, seed, updates=100):
    """Check that the search of each element compares posterior densities: all points of every sweep, in order."""
    rng, tried = np.random.default_rng(seed), []

    def remembered(f):
        tried.append(f)
        return log_likelihood(f)

    prepared, state, rejected = move.prepare(PRIOR), State(DATA, log_likelihood(DATA)), 0
    for _ in range(updates):
        tried.clear()
        noise = noise_of_an_update(move, PRIOR, rng, prepared)
        here, (state, info) = state.f, move.step(noise, state, HostTarget(remembered, prepared))
        assert info.evaluations == len(tried)
        for value in range(3):
            log_y = log_posterior(here) - noise.level[value]
            points = [f for f in tried if np.flatnonzero(f != here).tolist() == [value]]
            tried = tried[len(points) :]
            *others, taken = points
            assert all(log_posterior(f) < log_y + 1e-9 for f in others)
            assert log_posterior(taken) > log_y - 1e-9
            here, rejected = taken, rejected + len(others)
        assert not tried
        np.testing.assert_array_equal(state.f, here)
    assert rejected > updates / 10


@EVERY_SEED
@pytest.mark.parametrize("width", [1.0, 6.0])
def test_each_value_is_searched_under_the_whole_posterior(width, seed):
    coordinate_search(CoordinateSlice(width), seed)


def test_the_bracket_is_in_units_of_the_conditional_deviation():
    """Without data the first proposal is uniform over the bracket, and is accepted."""
    tree = es.sample(
        lambda f: 0.0 * jnp.sum(f), es.Dense(CORRELATED), move=CoordinateSlice(1e-3), draws=400, seed=1, progress=False
    )
    moved = np.abs(np.diff(tree.posterior.f.values, axis=1)).max(axis=(0, 1))
    deviation = 1 / np.sqrt(np.linalg.inv(CORRELATED).diagonal())
    assert (moved < 1e-3 * deviation).all()
    assert (moved > 0.9e-3 * deviation).all()  # the largest of 1,596 steps, of which three in a thousand are that long


# --- injected bugs --------------------------------------------------------------------------------------------------


@EVERY_SEED
@pytest.mark.parametrize(
    "wrong", [lambda slope, square: PriorOnLine(0.0, square), lambda slope, square: PriorOnLine(slope, 2.0)]
)
def test_a_wrong_prior_along_an_axis_is_caught(wrong, seed, monkeypatch):
    monkeypatch.setattr(one_at_a_time, "PriorOnLine", wrong)
    with pytest.raises(AssertionError):
        coordinate_search(CoordinateSlice(), seed)


def test_a_marginal_deviation_instead_of_the_conditional_is_caught(monkeypatch):
    right = CoordinateMove.prepare
    monkeypatch.setattr(CoordinateMove, "prepare", lambda self, prior: 2 * right(self, prior))
    with pytest.raises(AssertionError):
        coordinate_search(CoordinateSlice(), 0)
    with pytest.raises(AssertionError):
        test_gibbs_draws_from_the_exact_conditionals(HostEngine, None, 0)


# --- arguments that are rejected ------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [CoordinateSlice(), CoordinateGibbs()], ids=repr)
def test_values_that_the_others_determine_are_refused(move):
    with pytest.raises(ValueError, match=r"determined by the rest.*EllipticalSlice"):
        es.sample(lambda f: -jnp.sum(f**2), es.Dense(SINGULAR), move=move)
    with pytest.raises(TypeError, match="FromDraws has no `condition`"):
        move.prepare(PRIORS["FromDraws"]())


@pytest.mark.parametrize("width", [0.0, -1.0, np.inf])
def test_a_width_that_is_none_is_refused(width):
    with pytest.raises(ValueError, match="width must be above 0"):
        CoordinateSlice(width)


@pytest.mark.statistical
def test_zero_and_nan_beside_the_value_do_not_hold_gibbs():
    """No parabola fits where the likelihood is zero or NaN at a probe.

    The draws are then those of the truncated prior.
    """
    prior = es.Diagonal([1.0])
    for beyond in (-np.inf, np.nan):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*gave NaN")
            tree = es.sample(
                lambda f, beyond=beyond: jnp.where(f[0] > 0.5, beyond, 0.0),
                prior,
                move=CoordinateGibbs(),
                initial=[0.2],
                draws=1000,
                warmup=0,
                seed=SEED,
                progress=False,
            )
        assert (tree.posterior.f <= 0.5).all()
        compare(tree.posterior.f.values, stats.truncnorm(-np.inf, 0.5).mean(), "a Gaussian that is cut off")
        assert tree.attrs["evaluations"] == 4 * tree.attrs["updates"]
