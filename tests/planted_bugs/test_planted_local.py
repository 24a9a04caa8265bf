"""Injected bugs in updates of `Local`: each is detected, and each is really a bug."""

from __future__ import annotations

import numpy as np
import pytest

import ellipslice as es
from catalogue import ROUGH, SEEDS
from ellipslice.moves import EllipticalSlice, Local, State
from ellipslice.moves import local_groups as module
from ellipslice.moves.array_ops import set_block
from ellipslice.testing import check_move
from sweeps import check_draws, check_sweep, stack_draws

EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)
PRIOR = es.Dense(ROUGH)


class MeanNotSubtracted(Local):
    """An injected bug: the inner move runs on f[block] itself, without subtracting the mean."""

    def update(self, block, noise, state, target):
        indices, f = block.conditional.block, state.f
        inside = target.with_likelihood(lambda g: target.log_likelihood(set_block(f, indices, g)), block.inner)
        new, info = self.move.step(noise, State(f[indices], state.log_likelihood), inside)
        return State(set_block(f, indices, new.f), new.log_likelihood), info


class MeanNotAddedBack(MeanNotSubtracted):
    """An injected bug: the mean is subtracted, but not added again."""

    def update(self, block, noise, state, target):
        indices = block.conditional.block
        shifted = set_block(state.f, indices, state.f[indices] - block.conditional.mean(state.f))
        return super().update(block, noise, State(shifted, state.log_likelihood), target)


class StaleMean(Local):
    """An injected bug: the means of all blocks are those of the state before the sweep."""

    def _sweep(self, sweep, target, noise, state):
        self.before = state.f
        return super()._sweep(sweep, target, noise, state)

    def update(self, block, noise, state, target):
        mean = block.conditional.mean(self.before)
        indices, f = block.conditional.block, state.f
        inside = target.with_likelihood(lambda g: target.log_likelihood(set_block(f, indices, g + mean)), block.inner)
        new, info = self.move.step(noise, State(f[indices] - mean, state.log_likelihood), inside)
        return State(set_block(f, indices, new.f + mean), new.log_likelihood), info


class WrongAssembly(Local):
    """An injected bug: the elements of the block are written back in another order."""

    def update(self, block, noise, state, target):
        new, info = super().update(block, noise, state, target)
        indices = block.conditional.block
        turned = set_block(new.f, indices, new.f[indices][::-1])
        return State(turned, target.log_likelihood(turned)), info._replace(evaluations=info.evaluations + 1)


class SameDrawForAll(Local):
    """An injected bug: all blocks use one draw from the prior, nu[block] - mean(nu), so they are not independent."""

    def noise_spec(self, prior, prepared):
        blocks = prepared[0].blocks

        def draw(rng, updates):
            nu = np.asarray(prior.draw_zero_mean(rng, updates))
            less_mean = nu.copy()
            for block in blocks:
                less_mean[:, block.indices] -= np.stack([block.conditional.mean(row) for row in nu])
            return stack_draws(less_mean, [block.indices for block in blocks])

        return super().noise_spec(prior, prepared)._replace(draw=draw)


class MarginalPrior(Local):
    """An injected bug: blocks are drawn from the prior instead of the conditional prior."""

    def noise_spec(self, prior, prepared):
        partition = [block.indices for block in prepared[0].blocks]
        return (
            super()
            .noise_spec(prior, prepared)
            ._replace(draw=lambda rng, updates: stack_draws(np.asarray(prior.draw_zero_mean(rng, updates)), partition))
        )


MISTAKES = [MeanNotSubtracted, MeanNotAddedBack, StaleMean, WrongAssembly]


@EVERY_SEED
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_wrong_sweep_does_not_keep_the_prior(mistake, seed):
    move = mistake([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])
    with pytest.raises(AssertionError, match="changes the prior"):
        check_sweep(move, PRIOR, ROUGH, seed)


@EVERY_SEED
@pytest.mark.parametrize("mistake", [MarginalPrior, SameDrawForAll], ids=lambda mistake: mistake.__name__)
def test_wrong_draws_are_caught(mistake, seed):
    with pytest.raises(AssertionError, match="wrong draws"):
        check_draws(mistake([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]), PRIOR, ROUGH, seed)


@pytest.mark.long_cases("StaleMean-0", "MarginalPrior-0")
@EVERY_SEED
@pytest.mark.parametrize(
    "mistake", [MeanNotSubtracted, MeanNotAddedBack, StaleMean, MarginalPrior], ids=lambda mistake: mistake.__name__
)
def test_check_move_sees_it_too(mistake, seed):
    # On two elements, because a block of one has no order. A user's own move has no other check.
    with pytest.raises(AssertionError, match=r"posterior|not that of its state"):
        check_move(mistake([[0], [1]]), seed=seed)


def test_stacked_conditionals_are_not_mixed_up(monkeypatch):
    # Every block gets the arrays of the first one.
    monkeypatch.setattr(module.BlockGroup, "blocks", property(lambda g: [g.block([x[0] for x in g.stacked])] * g.count))
    with pytest.raises(AssertionError, match="changes the prior"):
        check_sweep(Local.contiguous(4), PRIOR, ROUGH)


def test_as_it_stands_there_is_no_mistake():
    check_sweep(Local.contiguous(4, move=EllipticalSlice(1.0)), PRIOR, ROUGH)
    check_draws(Local.contiguous(4), PRIOR, ROUGH)
