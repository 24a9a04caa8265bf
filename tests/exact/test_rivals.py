"""The moves that the paper compares with accept the right proposals, up to rounding error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from catalogue import CORRELATED, COVARIANCES, PRIORS, SEEDS
from ellipslice.engines.host.engine import HostTarget
from ellipslice.moves import LineSlice, NealMetropolis, RandomWalk, State
from ellipslice.moves.line import Line, LineDraws, PriorOnLine, prior_on_line
from ellipslice.noise import UpdateNoise
from ellipslice.testing import check_reversible
from ellipslice.testing.search import noise_of_an_update
from judged import check_ratio, check_slice

EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)


def gaussian(mean, variance):
    return lambda to, start: float(stats.multivariate_normal.logpdf(to, mean * start, variance * CORRELATED))


@EVERY_SEED
@pytest.mark.parametrize("step", [0.05, 0.3, 0.9, 1.0])
def test_neal_accepts_with_the_ratio_of_metropolis_and_hastings(step, seed):
    check_ratio(NealMetropolis(step), gaussian(math.sqrt(1 - step**2), step**2), seed)


@EVERY_SEED
@pytest.mark.parametrize("step", [0.05, 0.3, 1.7])
def test_the_walk_accepts_with_the_ratio_of_metropolis_and_hastings(step, seed):
    check_ratio(RandomWalk(step), gaussian(1.0, step**2), seed)


@EVERY_SEED
@pytest.mark.parametrize("width", [0.3, 1.0, 4.0])
def test_a_line_is_searched_under_the_whole_posterior(width, seed):
    check_slice(LineSlice(width), seed)


@EVERY_SEED
@pytest.mark.parametrize("width", [0.01, 1.0, 5.0])
def test_a_search_along_a_line_is_reversible(width, seed):
    check_reversible(Line(width, PriorOnLine(0.0, 1.0)), turn=None, seed=seed)


def test_proposals_are_equations_3_and_15():
    f, nu, noise = np.array([1.0, -2.0]), np.array([0.5, 4.0]), lambda drawn: UpdateNoise(drawn, [1e9], None)
    target = HostTarget(lambda f: 0.0)
    ended, info = NealMetropolis(0.6).step(noise(nu[None]), State(f, 0.0), target)
    np.testing.assert_array_equal(ended.f, 0.8 * f + 0.6 * nu)
    assert (info.evaluations, info.nan_evaluations, info.search_failed, info.angle) == (1, 0, False, math.asin(0.6))
    ended, info = RandomWalk(0.6).step(noise(LineDraws(nu, 0 * nu)), State(f, 0.0), target)
    np.testing.assert_array_equal(ended.f, f + 0.6 * nu)
    assert (info.evaluations, info.nan_evaluations, info.search_failed, info.angle) == (1, 0, False, 0.6)


# The dense formula is inaccurate for times that are so close, and a sparse factor in a product cannot be compiled.
UNFIT = {"Markov, close times", "Kronecker of sparse"}
WITHOUT_DENSITY = {
    "LowRank plus a diagonal with a 0",
    "Stationary",
    "Stationary, one value",
    "Stationary, an axis of one",
    "Stationary, grown",
    "Stationary, two axes",
    "Stationary, three axes",
    "Kronecker with a grid",
    "Sum",
    "Sum of three",
    "Stack of structures",
}
WITHOUT_MEAN = [name for name in COVARIANCES if "mean" not in name]
DENSITIES = [name for name in WITHOUT_MEAN if name not in UNFIT | WITHOUT_DENSITY]


def test_all_that_have_a_density_are_looked_at():
    assert {name for name in WITHOUT_MEAN if "log_density" not in PRIORS[name]().capabilities} == WITHOUT_DENSITY


@pytest.mark.short_cases(
    "Dense", "Dense, singular", "Diagonal", "LowRank", "SparsePrecision", "Markov, walk", "Stack of one"
)
@pytest.mark.parametrize("name", DENSITIES)
def test_the_prior_along_a_line_is_that_of_its_covariance(name):
    prior, rng = PRIORS[name](), np.random.default_rng(0)
    f = np.asarray(prior.draw_zero_mean(rng, 1))[0]
    draws = noise_of_an_update(LineSlice(), prior, rng).drawn
    nu, on_line = draws.nu, prior_on_line(f, draws)
    deviation = np.sqrt(COVARIANCES[name].diagonal())
    deviation[deviation == 0] = 1.0
    values, vectors = np.linalg.eigh(COVARIANCES[name] / deviation / deviation[:, None])
    kept = values > 1e-13 * values.max()
    z_f, z_nu = (vectors[:, kept].T @ (v / deviation) / np.sqrt(values[kept]) for v in (f, nu))
    # Where a variance is small compared with the largest, quotients by it have few accurate digits.
    digits = 1e-9 + 1e-14 * values.max() / values[kept].min()
    scale = float(z_f @ z_f + z_nu @ z_nu)
    assert on_line.slope == pytest.approx(z_f @ z_nu, abs=digits * scale)
    assert on_line.square == pytest.approx(z_nu @ z_nu, abs=digits * scale)
    w = 0.3
    assert on_line(w) == pytest.approx(-0.5 * (np.sum((z_f + w * z_nu) ** 2) - z_f @ z_f), abs=digits * scale)


@pytest.mark.parametrize("move", [RandomWalk(0.3), LineSlice()], ids=repr)
def test_a_prior_without_a_density_is_refused(move):
    says = f"{type(move).__name__} needs the prior's density"
    with pytest.raises(TypeError, match=f"{says} .* FromDraws has no `log_density`.*EllipticalSlice"):
        move.prepare(PRIORS["FromDraws"]())
    with pytest.raises(TypeError, match=f"{says} .*in compiled code"):
        move.prepare(PRIORS["Kronecker of sparse"]())


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        *[(lambda step=step: NealMetropolis(step), ValueError, "in \\(0, 1\\]") for step in (0.0, -0.1, 1.1, math.nan)],
        *[(lambda step=step: RandomWalk(step), ValueError, "above 0") for step in (0.0, -0.1, math.inf, math.nan)],
        *[(lambda width=width: LineSlice(width), ValueError, "width") for width in (0.0, -1.0, math.inf, math.nan)],
        (lambda: NealMetropolis("0.1"), TypeError, "tune_step"),
        (lambda: RandomWalk(None), TypeError, "tune_step"),
        (lambda: LineSlice("wide"), TypeError, "'wide'"),
    ],
)
def test_settings_that_make_no_move_are_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()
