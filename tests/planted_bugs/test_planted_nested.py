"""Injected bugs in nested sampling: closed forms over many seeds, or insertion ranks, detect each of them."""

from __future__ import annotations

import numpy as np
import pytest

from ellipslice.marginal import nested, nested_sum
from ellipslice.marginal.particle_moves import HostParticleMove
from ellipslice.noise import generator
from statistical import nested_problems
from statistical.monte_carlo import SEED
from statistical.nested_problems import (
    BOWL_PRIOR,
    BOWL_TRUTH,
    PLATEAUS_PRIOR,
    PLATEAUS_TRUTH,
    ExactMove,
    bowl,
    check_nested,
    nested_run,
    plateaus,
)

pytestmark = pytest.mark.statistical
PLATEAUS = {"values": plateaus, "prior": PLATEAUS_PRIOR, "truth": PLATEAUS_TRUTH}


def check_bowl(monkeypatch, count=20):
    """Check runs whose replacements are exact, so that only the sum and the removal are tested."""
    run = nested_problems.nested_run
    monkeypatch.setattr(
        nested_problems,
        "nested_run",
        lambda seed, **options: run(seed, values=bowl, prior=BOWL_PRIOR, move=ExactMove(seed), **options),
    )
    check_nested(count, BOWL_TRUTH)


def test_the_right_sum_passes(monkeypatch):
    check_bowl(monkeypatch)


def test_start_points_that_are_not_draws_from_the_prior(monkeypatch):
    right = nested_problems.nested_run

    def wide(seed, **options):
        draws = 1.3 * np.asarray(BOWL_PRIOR.draw_zero_mean(generator(SEED, seed, 50), 200))
        return right(seed, draws=draws, **options)

    monkeypatch.setattr(nested_problems, "nested_run", wide)
    with pytest.raises(AssertionError, match="log Z is off"):
        check_bowl(monkeypatch)


def test_a_batch_that_counts_as_removals_from_one_number_of_points(monkeypatch):
    def constant(points):
        """Count 20 live points of each replicate at every removal, as if each were replaced at once."""
        order, count = np.argsort(points.log_likelihood, kind="stable"), len(points.log_likelihood)
        masses = np.empty(count)
        live = 20 * len(np.unique(points.replicate))
        masses[order] = -np.arange(count) / live - np.log(live)
        return masses

    monkeypatch.setattr(nested_sum, "log_masses", constant)
    monkeypatch.setattr(nested_problems, "log_sum", nested_sum.log_sum)
    with pytest.raises(AssertionError, match="log Z is off"):
        check_bowl(monkeypatch)


@pytest.mark.long
def test_replacements_on_a_plateau_at_the_level(monkeypatch):
    """A replacement must be above the level, and not at it."""
    move = HostParticleMove.move
    monkeypatch.setattr(
        HostParticleMove,
        "move",
        lambda self, particles, betas, floor: move(self, particles, betas, np.nextafter(floor, -np.inf)),
    )
    with pytest.raises((AssertionError, RuntimeWarning), match=r"log Z is off|divide by zero"):
        check_nested(20, **PLATEAUS)


def test_too_few_updates_are_found_by_the_ranks():
    """One update leaves a replacement near the point that it was copied from. 32 updates are enough."""
    assert nested_run(1, updates=1).ranks.p_value(200) < 1e-6
    assert nested_run(1, updates=32).ranks.p_value(200) > 1e-4


def test_replacements_that_do_not_move_are_found_by_the_ranks():
    class Copies(ExactMove):
        def move(self, particles, betas, floor=None):
            return super().move(particles, betas, floor)._replace(particles=particles)

    run = nested_run(1, bowl, BOWL_PRIOR, move=Copies(1), live=1000)
    assert run.ranks.p_value(1000) < 1e-6


def test_a_level_that_is_not_kept_is_found_by_the_ranks(monkeypatch):
    move = HostParticleMove.move
    monkeypatch.setattr(
        HostParticleMove, "move", lambda self, particles, betas, floor: move(self, particles, betas, floor - 0.5)
    )
    monkeypatch.setattr(nested, "MAX_ITERATIONS", 20)
    ranks = []
    right = nested.insertion_ranks
    monkeypatch.setattr(nested, "insertion_ranks", lambda *given: ranks.append(right(*given)) or ranks[-1])
    with pytest.raises(RuntimeError, match="has not ended after 20 iterations"):
        nested_run(1)
    assert nested.join_ranks(ranks).p_value(200) < 1e-6
