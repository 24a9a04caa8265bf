"""Parts of nested sampling with known results: prior masses, insertion ranks, blind spots."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ellipslice.marginal.blind_spot import smallest_share
from ellipslice.marginal.insertion_ranks import InsertionRanks, insertion_ranks, uniform_p_value
from ellipslice.marginal.nested_sum import NestedPoints, information, jackknife_error, log_masses, log_sum

RNG = np.random.default_rng(6)


def points(values, birth=None, replicate=None):
    values = np.asarray(values, float)
    birth = np.full(len(values), np.nan) if birth is None else np.asarray(birth, float)
    return NestedPoints(values, birth, np.zeros(len(values), int) if replicate is None else np.asarray(replicate))


def test_masses_of_draws_from_the_prior_are_those_of_removals_one_at_a_time():
    """The logarithm of the mass of n - k points is the mean of that of a Beta(n - k + 1, k) variable."""
    masses = log_masses(points([3.0, 1.0, 2.0, 0.0]))
    remaining = np.array([1.0, *np.exp(-np.cumsum([1 / 4, 1 / 3, 1 / 2]))])
    expected = -np.diff([*remaining, 0.0])
    np.testing.assert_allclose(np.exp(masses)[[3, 1, 2, 0]], expected, rtol=1e-12)
    mean = stats.beta(3, 2).expect(np.log)
    assert math.log(remaining[2]) == pytest.approx(mean, abs=1e-6)


def test_masses_add_up_to_one():
    values = RNG.normal(size=50)
    birth = np.where(RNG.random(50) < 0.5, np.nan, values - RNG.exponential(size=50))
    birth[np.argmin(values)] = np.nan
    assert np.exp(log_masses(points(values, birth))).sum() == pytest.approx(1.0, abs=1e-12)


def test_a_batch_counts_as_removals_from_ever_fewer_points():
    """Two of 4 points are removed at once, and replaced by two that are born at the higher of their levels."""
    values, birth = [0.0, 1.0, 5.0, 6.0, 2.0, 3.0], [np.nan] * 4 + [1.0, 1.0]
    steps = [1 / 4, 1 / 3, 1 / 4, 1 / 3, 1 / 2]
    remaining = np.exp(-np.concatenate([[0.0], np.cumsum(steps)]))
    masses = np.exp(log_masses(points(values, birth)))
    np.testing.assert_allclose(masses[[0, 1, 4, 5, 2, 3]], -np.diff([*remaining, 0.0]), rtol=1e-12)


def test_a_plateau_has_the_share_of_its_points():
    """Of 1,000 points 900 are on a plateau of zero likelihood. Their replacements were born above it."""
    values = np.concatenate([np.full(900, -np.inf), np.zeros(1000)])
    birth = np.concatenate([np.full(1000, np.nan), np.full(900, -np.inf)])
    assert math.exp(log_sum(points(values, birth))) == pytest.approx(0.1, rel=0.01)
    assert information(points(values, birth)) == pytest.approx(math.log(10), abs=0.01)


def test_a_constant_likelihood_is_its_own_evidence():
    assert log_sum(points(np.full(20, -3.5))) == pytest.approx(-3.5, abs=1e-12)
    assert information(points(np.full(20, -3.5))) == pytest.approx(0.0, abs=1e-12)


def test_replicates_count_as_one_run():
    values = RNG.normal(size=40)
    alone = log_sum(points(values))
    assert log_sum(points(values, replicate=np.arange(40) % 4)) == alone
    others = [log_sum(points(values[np.arange(40) % 4 != own])) for own in range(4)]
    expected = math.sqrt(3 / 4 * np.sum((np.array(others) - np.mean(others)) ** 2))
    assert jackknife_error(points(values, replicate=np.arange(40) % 4)) == pytest.approx(expected)


def test_an_error_is_infinite_if_one_replicate_has_all_of_z():
    values = np.array([-np.inf, 0.0, -np.inf, -np.inf])
    assert jackknife_error(points(values, replicate=[0, 0, 1, 1])) == np.inf


def test_ranks_of_one_replacement_are_uniform_over_all_places():
    survivors = np.array([1.0, 2.0, 3.0])
    ranks = [insertion_ranks(survivors, np.array([2.0]), np.array([at]), RNG).rank[0] for at in (0.5, 1.5, 2.5, 3.5)]
    assert [int(4 * rank) for rank in ranks] == [0, 1, 2, 3]


def test_ranks_of_independent_draws_are_uniform_and_independent():
    """The replacements of a batch are ranked in sequence, so their ranks are independent, too."""
    found = [insertion_ranks(draws[:6], draws[:3], draws[6:], RNG) for draws in RNG.normal(size=(4000, 9))]
    ranks = np.array([own.rank for own in found])
    for values in (ranks.ravel(), np.concatenate([own.distance for own in found])):
        assert stats.kstest(values, "uniform").pvalue > 1e-4
    assert (np.abs(np.corrcoef(ranks.T)[np.triu_indices(3, 1)]) < 4 / math.sqrt(4000)).all()


def test_ties_are_broken_at_random():
    found = [insertion_ranks(np.zeros(5), np.zeros(2), np.zeros(2), RNG) for _ in range(2000)]
    assert stats.kstest(np.concatenate([own.rank for own in found]), "uniform").pvalue > 1e-4


def test_copies_have_uniform_ranks_but_small_distances():
    draws = RNG.normal(size=300)
    found = insertion_ranks(draws, draws, draws, RNG)
    assert uniform_p_value(found.rank) > 1e-4
    assert uniform_p_value(found.distance) < 1e-12
    assert found.p_value(100) < 1e-12


@pytest.mark.parametrize("count", [20, 500])
def test_the_p_value_is_that_of_kolmogorov_and_smirnov(count):
    values = RNG.random(count)
    assert uniform_p_value(values) == pytest.approx(stats.kstest(values, "uniform").pvalue, abs=0.02)
    assert uniform_p_value(values**1.5) == pytest.approx(stats.kstest(values**1.5, "uniform").pvalue, rel=0.3, abs=0.01)


def test_a_slow_part_of_a_run_is_found():
    """The ranks of an eighth of the run are concentrated, too few for a test of all ranks."""
    u = RNG.random((2, 8000))
    u[1, 3000:4000] **= 1.3
    assert uniform_p_value(u[1]) > 1e-3
    assert InsertionRanks(*u).p_value(1000) < 1e-4
    assert InsertionRanks(*RNG.random((2, 8000))).p_value(1000) > 1e-3
    assert InsertionRanks(np.empty(0), np.empty(0)).p_value(1000) == 1


@pytest.mark.parametrize(("draws", "needed"), [(8, 1), (1000, 1), (1000, 5)])
def test_a_region_of_the_smallest_share_is_found_with_a_probability_of_95_percent(draws, needed):
    assert stats.binom(draws, smallest_share(draws, needed)).sf(needed - 1) == pytest.approx(0.95, abs=1e-9)
