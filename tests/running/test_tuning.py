"""Step sizes that are found by preliminary runs."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

import ellipslice as es
from ellipslice.diagnostics import effective_sample_size
from ellipslice.likelihoods import Gaussian, LinearPredictor
from ellipslice.moves import CoordinateGibbs, Cycle, EllipticalSlice, LineSlice, NealMetropolis, RandomWalk
from ellipslice.tuning.steps import GRID

PRIOR, LIKELIHOOD = es.Diagonal(np.ones(20)), Gaussian(np.linspace(-1, 1, 20), 0.3)


def test_the_grid_is_the_authors():
    printed = [0.0100, 0.0147, 0.0215, 0.0316, 0.0464, 0.0681, 0.1000, 0.1468, 0.2154, 0.3162]
    np.testing.assert_allclose(GRID, printed, atol=5e-5)


@pytest.mark.parametrize("move", [NealMetropolis, RandomWalk])
def test_the_best_is_what_sample_says_it_is(move):
    options = {"draws": 3000, "warmup": 100, "seed": 3}
    tuned = es.tune_step(move, LIKELIHOOD, PRIOR, step_sizes=(0.02, 0.15, 0.9), **options)
    assert tuned.move == move(0.15)
    np.testing.assert_array_equal(tuned.step_sizes, [0.02, 0.15, 0.9])
    assert (np.diff(tuned.acceptance_rate) < 0).all()  # the acceptance rate decreases with the step size
    tree = es.sample(LIKELIHOOD, PRIOR, move=tuned.move, chains=1, progress=False, **options)
    assert tuned.effective_sample_sizes[1] == effective_sample_size(tree.sample_stats["total_log_likelihood"])
    assert tuned.acceptance_rate[1] == (tree.sample_stats["angle"] != 0).mean()


@pytest.mark.parametrize(
    ("steps", "says"), [((0.01, 0.02), "the largest that was"), ((0.2, 0.9), "the smallest that was")]
)
def test_a_best_step_at_the_end_of_the_grid_is_said(steps, says):
    with pytest.warns(UserWarning, match=says):
        es.tune_step(NealMetropolis, LIKELIHOOD, PRIOR, step_sizes=steps, draws=2000, seed=3)


def test_named_latents_and_moves_around_a_step():
    prior = es.Stack({"f": PRIOR, "b": es.Diagonal(4.0)})

    def log_likelihood(f, b):
        return -2.0 * ((f - b) ** 2).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tuned = es.tune_step(
            lambda step_size: Cycle(NealMetropolis(step_size), EllipticalSlice()),
            log_likelihood,
            prior,
            step_sizes=[0.1],
            draws=20,
        )
    assert tuned.move == Cycle(NealMetropolis(0.1), EllipticalSlice())


@pytest.mark.parametrize(
    ("move", "steps", "error", "says"),
    [
        (NealMetropolis(0.1), [0.1], TypeError, "Give its class, NealMetropolis"),
        (NealMetropolis, [], ValueError, "step_sizes is empty"),
        (NealMetropolis, [0.1, 2.0], ValueError, "step_size must be in"),
        (float, [0.1], TypeError, "returned 0.1"),
    ],
)
def test_what_cannot_be_tuned_is_refused(move, steps, error, says):
    with pytest.raises(error, match=says):
        es.tune_step(move, LIKELIHOOD, PRIOR, step_sizes=steps)


@pytest.mark.parametrize(
    ("move", "says"),
    [
        (
            EllipticalSlice,
            "EllipticalSlice has no step size to tune: its first argument is bracket_width.*lambda value",
        ),
        (partial(EllipticalSlice, shrinking="halve"), "EllipticalSlice has no step"),
        (LineSlice, "LineSlice has no step size to tune: its first argument is width"),
        (CoordinateGibbs, "CoordinateGibbs has no step size to tune: it takes no argument"),
        (lambda step: EllipticalSlice(), "for every step size, so there is no step size to tune"),
    ],
)
def test_a_move_without_a_step_is_refused_before_any_run(move, says):
    # The step size was once taken for the width of the bracket, and "tuned".
    def never(f):
        raise AssertionError("a run was begun")

    with pytest.raises(TypeError, match=says):
        es.tune_step(move, never, PRIOR)


def numpy_likelihood(f):
    return float(np.sum(np.asarray(f) ** 2))


@pytest.mark.parametrize(
    ("log_likelihood", "prior", "says"),
    [
        (numpy_likelihood, PRIOR, "tune_hamiltonian needs gradients.*cannot trace.*Tracer.*jax.numpy.*EllipticalSlice"),
        (
            LinearPredictor(np.ones((2, 20)), lambda a: -(a**2).sum()),
            PRIOR,
            r"Hamiltonian needs a map.*LinearPredictor.*lambda f: g\(A @ f\)",
        ),
        (lambda f: f.total(), PRIOR, "total"),
    ],
    ids=["NumPy", "LinearPredictor", "a mistake of its own"],
)
def test_a_likelihood_that_hamiltonian_cannot_take_is_refused(log_likelihood, prior, says):
    with pytest.raises((TypeError, AttributeError), match=says):
        es.tune_hamiltonian(log_likelihood, prior, warmup=50)
