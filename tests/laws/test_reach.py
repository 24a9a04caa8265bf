"""Sweeps over blocks of a singular prior reach everything that the prior does, or are rejected."""

from __future__ import annotations

import numpy as np
import pytest
from tinygp.kernels import quasisep

import ellipslice as es
from ellipslice.likelihoods import Gaussian
from ellipslice.moves import (
    ControlVariables,
    CoordinateGibbs,
    CoordinateSlice,
    Cycle,
    EllipticalSlice,
    LineSlice,
    Local,
)
from statistical.monte_carlo import SEED, compare_gaussian

X = np.linspace(0, 1, 6)
KERNEL = np.exp(-np.abs(X[:, None] - X) / 0.4)
CENTRING = np.eye(6) - 1 / 6
PAIRS = np.kron(np.eye(2), [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])  # two paths of three nodes


def centred(covariance):
    product = CENTRING @ covariance @ CENTRING
    return (product + product.T) / 2


def squared_exponential(count, length_scale):
    x = np.linspace(0, 1, count)
    return es.Dense(np.exp(-0.5 * ((x[:, None] - x) / length_scale) ** 2))


WALK = es.SparsePrecision.random_walk(6, precision=2.0)
LINES = es.SparsePrecision.random_walk(6, order=2)
# Priors of 6 elements that sum to zero.
SUM_TO_ZERO = {
    "random walk": WALK,
    "intrinsic autoregression": es.SparsePrecision.car(np.ones((6, 6)) - np.eye(6)),
    "a constraint on a proper field": es.SparsePrecision(np.linalg.inv(KERNEL), constraints=np.ones((1, 6))),
    "Dense": es.Dense(centred(KERNEL)),
    # Cholesky cannot distinguish it from full rank.
    "Dense, rounding of a large level": es.Dense(centred(KERNEL + 100)),
    "Dense by a factor": es.Dense(factor=CENTRING @ np.linalg.cholesky(KERNEL)),
    "LowRank": es.LowRank(CENTRING @ np.linalg.cholesky(KERNEL)),
    "in a Stack": es.Stack({"f": WALK, "b": es.Diagonal(4.0)}),
}
BLOCKS = [[0, 1, 2], [3, 4, 5]]


def blocks(prior, own, **options):
    """Return a `Local` with these blocks of 6 elements, and one block of all other elements."""
    rest = [list(range(6, prior.size))] if prior.size > 6 else []
    return Local([*own, *rest], **options)


@pytest.mark.parametrize("name", SUM_TO_ZERO)
def test_fixed_blocks_of_values_that_sum_to_zero_are_refused(name):
    prior = SUM_TO_ZERO[name]
    for move in (
        blocks(prior, BLOCKS),
        blocks(prior, [[0, 1], [2, 3, 4, 5]], move=LineSlice()),
        Local.random(3, partitions=1),
        Local([range(prior.size)], Local.contiguous(3)),
        Cycle(blocks(prior, BLOCKS), blocks(prior, BLOCKS)),
        Cycle(Local([[0, 1, 2]], partial=True), Local([range(3, prior.size)], partial=True)),
    ):
        with pytest.raises(ValueError, match=r"never change \d.*singular.*Use Cycle\(.*EllipticalSlice.*Local.random"):
            move.prepare(prior)


@pytest.mark.parametrize("name", SUM_TO_ZERO)
def test_blocks_that_overlap_or_come_with_another_move_are_accepted(name):
    prior = SUM_TO_ZERO[name]
    local = blocks(prior, BLOCKS)
    for move in (
        Cycle(local, EllipticalSlice()),
        Cycle(local, blocks(prior, [[0, 1], [2, 3], [4, 5]])),
        Cycle(Local([[0, 1, 2, 3]], partial=True), Local([range(3, prior.size)], partial=True)),
        Local([range(prior.size)], Cycle(local, EllipticalSlice())),
        Local.random(3),
        Local([[0, 1, 2]], partial=True),
        ControlVariables.at_values([0, 3]),
    ):
        move.prepare(prior)
    # The same blocks are accepted with a prior of full rank.
    assert blocks(prior, BLOCKS).prepare(es.Diagonal(np.ones(prior.size)))


@pytest.mark.parametrize("move", [CoordinateSlice(), CoordinateGibbs()], ids=repr)
@pytest.mark.parametrize("name", SUM_TO_ZERO)
def test_one_value_at_a_time_is_refused(name, move):
    with pytest.raises(ValueError, match=r"determined by the rest|never change"):
        move.prepare(SUM_TO_ZERO[name])


# Each name maps to (move, prior, number of combinations that never change: 0 if the move is accepted).
OTHERS = {
    "constants and lines": (Local.contiguous(3), LINES, 2),
    "an overlap of one value fixes the constant, not the line": (
        Cycle(*(Local([block], partial=True) for block in ([0, 1, 2, 3], [3, 4, 5]))),
        LINES,
        1,
    ),
    "an overlap of two fixes both": (
        Cycle(*(Local([block], partial=True) for block in ([0, 1, 2, 3], [2, 3, 4, 5]))),
        LINES,
        0,
    ),
    "constants and lines, random": (Local.random(4), LINES, 0),
    "each component of a graph by itself": (Local.contiguous(3), es.SparsePrecision.car(PAIRS), 0),
    "across components": (Local([[0, 1, 3, 4, 5], [2]]), es.SparsePrecision.car(PAIRS), "determined"),
    "half of each component": (
        Local([[0, 1, 3, 4], [2, 5]]),
        es.SparsePrecision.car(np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3))),
        "determined",
    ),
    "some latents of a Stack whole": (Local("names"), SUM_TO_ZERO["in a Stack"], 0),
    "a latent that only draws, whole": (
        Local([[0, 1, 2], [3, 4, 5], ["s"]]),
        es.Stack({"f": WALK, "s": es.Sum(es.Diagonal(np.ones(2)), es.Diagonal(np.ones(2)))}),
        1,
    ),
    "weights of one block each": (Local.contiguous(3), es.LowRank(np.kron(np.eye(2), np.ones((3, 1)))), 0),
    "a weight that two blocks share": (
        Local.contiguous(3),
        es.LowRank(np.column_stack([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]])),
        1,
    ),
    "inputs that repeat in one block": (Local.contiguous(3), es.Dense(np.kron(KERNEL[:2, :2], np.ones((3, 3)))), 0),
    "inputs that repeat across blocks": (
        Local([[0, 1, 3], [2, 4, 5]]),
        es.Dense(np.kron(KERNEL[:3, :3], np.ones((2, 2)))),
        1,
    ),
    "a cosine, which two values determine": (
        Local.contiguous(3),
        es.Markov(quasisep.Cosine(scale=1.0), 0.3 * np.arange(6)),
        2,
    ),
    # The prior has full rank: the chain mixes slowly, and the convergence check can detect it.
    "a smooth kernel": (Local.contiguous(5), squared_exponential(20, 0.1), 0),
    # The prior is singular up to rounding. If it were accepted, half of the elements would have a posterior standard
    # deviation of 0.00 instead of 0.33.
    "a smoother kernel": (Local.contiguous(count=2), squared_exponential(20, 0.2), 2),
    "a vague level": (Local.contiguous(3), es.Dense(KERNEL + 1e10), 0),
    "values left out of a Cycle": (
        Cycle(Local([[0, 1]], partial=True), Local([[1, 2]], partial=True)),
        es.Diagonal(np.ones(6)),
        "leaves out 3 of 6 elements.*index 3",
    ),
    "values left out of an inner Local": (
        Local.contiguous(3, move=Local([[0, 1]], partial=True)),
        es.Diagonal(np.ones(6)),
        "leaves out 2 of 6 elements.*index 2",
    ),
    "no variance, among others": (Local.contiguous(3), es.Diagonal([1.0, 0.0, 1.0, 1.0, 1.0, 0.0]), 0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_sweep_cannot_change_is_counted(name):
    move, prior, stay = OTHERS[name]
    if stay == 0:
        move.prepare(prior)
        return
    with pytest.raises(ValueError, match=stay if isinstance(stay, str) else f"never change {stay} combination"):
        move.prepare(prior)


@pytest.mark.long
def test_a_long_field_is_checked_without_a_dense_matrix():
    size = 2_100  # larger than the largest size for which a matrix of that size is made
    lines = es.SparsePrecision.random_walk(size, order=2)
    with pytest.raises(ValueError, match="never change 58 combinations"):
        Local.contiguous(70).prepare(lines)
    Local.random(70, partitions=2).prepare(lines)
    weights = np.kron(np.eye(6), np.ones((350, 1)))
    Local.contiguous(350).prepare(es.LowRank(weights))
    shared = es.LowRank(weights + 0.5 * np.roll(weights, 175, axis=0))
    # Combinations of weights that two blocks share.
    with pytest.raises(ValueError, match="never change 3 combinations"):
        Local.contiguous(700).prepare(shared)
    thirds = Local([range(350, 1050), range(1050, 1750)], partial=True)
    with pytest.raises(ValueError, match="never change 1 combination"):  # the last weight wraps around to the start
        Cycle(Local.contiguous(700), thirds).prepare(shared)


def test_the_rank_of_a_conditional_is_not_raised_by_rounding():
    # 3 of 8 elements that sum to zero, given the others, have rank 2. It was once 3 for some blocks, with a standard
    # deviation of 1e-16 of the sum.
    x = np.linspace(0, 1, 8)
    kernel, centring = np.exp(-np.abs(x[:, None] - x) / 0.4), np.eye(8) - 1 / 8
    for prior in (es.Dense(factor=centring @ np.linalg.cholesky(kernel)), squared_exponential(20, 0.2)):
        for block in np.array_split(np.arange(prior.size), 3):
            assert prior.condition(block).prior.rank == len(block) - 1


@pytest.mark.long_cases("overlapping")
@pytest.mark.statistical
@pytest.mark.parametrize(
    "move",
    [Local.random(3), Cycle(Local(BLOCKS), EllipticalSlice()), Cycle(Local(BLOCKS), Local([[0, 1], [2, 3], [4, 5]]))],
    ids=["random", "with an ellipse", "overlapping"],
)
def test_sweeps_that_are_accepted_draw_from_the_posterior(move):
    covariance = np.linalg.pinv(2.0 * np.diff(np.eye(6), axis=0).T @ np.diff(np.eye(6), axis=0), hermitian=True)
    y, noise = np.array([-1.5, -1.0, -0.5, 0.2, 1.0, 1.8]), 0.6
    gain = np.linalg.solve(covariance + noise**2 * np.eye(6), covariance).T
    tree = es.sample(
        Gaussian(y, noise), WALK, move=move, initial=np.zeros(6), draws=700, warmup=50, seed=SEED, engine="host",
        progress=False,
    )  # fmt: skip
    draws = tree.posterior.f.values[..., :5]  # the last element follows from the others
    compare_gaussian(draws, (gain @ y)[:5], (covariance - gain @ covariance)[:5, :5], repr(move))
    assert draws[..., :3].sum(-1).std() > 0.1
