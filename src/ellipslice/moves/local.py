"""Block updates: some elements at a time, given the rest, with the conditional prior (Section 3.3 of the paper)."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.checks import whole_number
from ellipslice.moves import local_blocks
from ellipslice.moves.array_ops import set_block, switch, where
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.elliptical import EllipticalSlice
from ellipslice.moves.local_conditionals import block_mean, condition_block, rank_of
from ellipslice.moves.local_groups import (
    BlockGroup,
    ConditionalBlock,
    PreparedBlock,
    PreparedPartition,
    assign_stack_rows,
    draw_blocks,
)
from ellipslice.moves.local_reach import Moved, Reach, check_reach
from ellipslice.noise import NoiseSpec, UpdateNoise, take
from ellipslice.priors import Prior
from ellipslice.priors.parts.augmented import PredictorPrior

DEFAULT_MOVE = EllipticalSlice()


class Local(Move):
    """Block updates: update blocks of elements in turn, each given the rest, by any move.

    One update is one sweep over the blocks. Use it if a latent should be updated separately, such as an intercept next
    to a function (Section 2.5: `Local("names")`), or if informative data allow only small changes of the whole vector.
    A sweep makes one search per block, so it costs several times the evaluations of one update of the whole vector, and
    one conditional mean per block.

    Parameters
    ----------
    blocks : "names", or list of blocks
        A block is a list of indices into the flat vector (in C order), the name of a latent of a `Stack`, or a list of
        such names. "names" makes each latent a block. `Local.contiguous`, `Local.kmeans` and `Local.random` choose
        blocks.
    move : Move
        The move that updates a block. Default: `EllipticalSlice()`.
    partial : bool
        Allow elements that are in no block, and linear combinations that no block can change. They are then updated
        only by the other moves of a `Cycle`. Default: False, which raises.

    Raises
    ------
    TypeError
        If `blocks` or `move` is invalid or, when a run starts, if the prior has no `condition`.
    ValueError
        When a run starts, if blocks overlap, if the rest determines a block, or if some direction would never change.

    Notes
    -----
    Let B be the block, m(f) its conditional mean given the rest, and S its conditional covariance. Then
    g = f[B] - m(f) has the prior N(0, S), and the inner move is applied to g. Conditionals are factorised once per run.
    The prior must have `condition`, unless all blocks are whole latents of a `Stack`. A conditional mean costs
    ``O(N |B|)`` for a `Dense` prior, O(N) for a `Markov` prior, and a sum over the neighbours of the block for a
    `SparsePrecision`. It costs nothing for a whole latent of a `Stack`.

    A block that the rest determines raises an error, because it could not change. Smooth kernels on dense grids make
    such blocks. If the covariance of the prior is singular, fixed blocks may change without ever changing some linear
    combination. For example, if the elements sum to zero, the sum of each block stays constant. That raises an error,
    too: add `EllipticalSlice()` in a `Cycle`, or use `Local.random` or overlapping blocks.

    Statistics are those of `Cycle`: counts are summed over the blocks, and `angle` is that of the last block.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> import ellipslice as es
    >>> x = np.linspace(0, 1, 20)
    >>> prior = es.Dense(np.exp(-np.abs(x[:, None] - x)))
    >>> move = es.moves.Local.contiguous(5)
    >>> move
    Local.contiguous(size=5)
    >>> tree = es.sample(lambda f: -50 * jnp.sum((x - f) ** 2), prior, move=move, draws=50, warmup=50, seed=1)
    >>> tree.posterior.f.shape
    (4, 50, 20)
    """

    stored_as = "Local"

    def __init__(self, blocks: Any, move: Move = DEFAULT_MOVE, *, partial: bool = False):
        if not isinstance(move, Move):
            raise TypeError(f"move must be a move, such as EllipticalSlice(), but it is {move!r}.")
        self.blocks, self.move, self.partial = local_blocks.partition_rule(blocks), move, bool(partial)
        self.gradients = move.gradients

    @classmethod
    def contiguous(cls, size: int | None = None, *, count: int | None = None, move: Move = DEFAULT_MOVE) -> Local:
        """Use contiguous blocks of the flat vector, of sizes that differ by at most 1.

        Parameters
        ----------
        size : int, optional
            Largest number of elements in a block. Give either `size` or `count`.
        count : int, optional
            Number of blocks. At most one per element.
        move : Move
            The move that updates a block. Default: `EllipticalSlice()`.
        """
        if (size is None) == (count is None):
            raise TypeError(
                "Local.contiguous needs either size, the largest number of elements in a block, or count, the number "
                "of blocks."
            )
        return cls(local_blocks.Contiguous(_optional_count("size", size), _optional_count("count", count)), move)

    @classmethod
    def kmeans(cls, inputs: Any, count: int, *, move: Move = DEFAULT_MOVE, seed: int = 0) -> Local:
        """Use blocks of elements with nearby inputs, found by k-means.

        Parameters
        ----------
        inputs : array, shape (N,) or (N, D)
            Inputs of the elements of the flat vector.
        count : int
            Largest number of blocks. There are fewer if inputs repeat or clusters are empty.
        move : Move
            The move that updates a block. Default: `EllipticalSlice()`.
        seed : int
            Seed of k-means. Default: 0.
        """
        return cls(local_blocks.by_kmeans(inputs, int(_optional_count("count", count) or 1), seed), move)

    @classmethod
    def random(cls, size: int, *, partitions: int = 8, seed: int = 0, move: Move = DEFAULT_MOVE) -> Local:
        """Use random blocks, which differ between updates.

        Each update chooses one of a few random partitions. All of them are factorised once, so set-up takes
        `partitions` times the time and memory of one.

        Parameters
        ----------
        size : int
            Largest number of elements in a block.
        partitions : int
            Number of random partitions. At least 1. Default: 8.
        seed : int
            Seed of the partitions. Default: 0.
        move : Move
            The move that updates a block. Default: `EllipticalSlice()`.
        """
        drawn = _optional_count("partitions", partitions)
        return cls(local_blocks.Random(int(_optional_count("size", size) or 1), int(drawn or 1), seed), move)

    def prepare(self, prior: Prior) -> Any:
        """Return the conditionals of every block of every partition. Raise if some direction would never change."""
        prepared = self.prepare_part(prior)
        if not self.partial:
            check_reach(self, prior, self.reach(prior, prepared))
        return prepared

    def prepare_part(self, prior: Prior) -> tuple[PreparedPartition, ...]:
        if isinstance(prior, PredictorPrior):  # its elements are not only those of the user's prior
            raise TypeError(
                f"Local needs the prior of a block given the rest. {prior._missing_capability('condition')}"
            )
        return tuple(self._prepare(partition, prior) for partition in self.blocks.partitions(prior))

    def _prepare(self, partition: local_blocks.Partition, prior: Prior) -> PreparedPartition:
        """Return the conditionals of all blocks of a partition. Raise if the partition is not valid."""
        local_blocks.check_partition(partition, prior, self.partial)
        blocks = []
        for block, stack_row in zip(partition, assign_stack_rows([len(block) for block in partition]), strict=True):
            conditional = condition_block(prior, block)
            inner = self.move.prepare_part(conditional.prior)
            blocks.append(PreparedBlock(conditional, inner, self.move.noise_spec(conditional.prior, inner), stack_row))
        return PreparedPartition(blocks)

    def reach(self, prior: Prior, prepared: tuple[PreparedPartition, ...]) -> Reach:
        total: list[Moved] = []
        for block in (block for partition in prepared for block in partition.blocks):
            given_rest = block.conditional.prior
            inner = self.move.reach(given_rest, block.inner)
            if inner is None:
                total.append(Moved(block.indices, rank_of(given_rest)))
            else:  # an inner block is updated given the rest of its block and all other blocks, so given the rest
                total += [Moved(block.indices[moved.indices], moved.rank) for moved in inner]
        return total

    def noise_spec(self, prior: Prior, prepared: tuple[PreparedPartition, ...]) -> NoiseSpec:
        partitions = [partition.blocks for partition in prepared]
        draws = max(block.draws for blocks in partitions for block in blocks) + (len(partitions) > 1)
        return NoiseSpec(
            partial(draw_blocks, partitions),
            searches=max(sum(block.spec.searches for block in blocks) for blocks in partitions),
            numbers=prior.size * draws,
        )

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make a sweep over the blocks of the partition that was drawn for this update."""
        partitions: tuple[PreparedPartition, ...] = target.prepared
        if len(partitions) == 1:
            return self._sweep(partitions[0], target, noise, state)
        sweeps = [partial(self._sweep, partition, target) for partition in partitions]
        return switch(noise.drawn.choice, sweeps, noise, state)

    def _sweep(
        self, partition: PreparedPartition, target: Target, noise: UpdateNoise, state: State
    ) -> tuple[State, Info]:
        """Update the blocks group by group. Slice levels and uniforms are divided in the same order."""
        total: Info | None = None
        first = 0
        for group in partition.groups:
            searches = slice(first, first + group.count * group.searches)
            own = noise.share(noise.drawn.stacks[group.stack], searches)
            run = (
                self._update_one_by_one if isinstance(state.f, np.ndarray) or group.count == 1 else self._update_in_loop
            )
            state, info = run(group, own, state, target)
            total = info if total is None else total.combine(info)
            first = searches.stop
        assert total is not None  # noqa: S101  there is at least one block
        return state, total

    def _update_one_by_one(
        self, group: BlockGroup, noise: UpdateNoise, state: State, target: Target
    ) -> tuple[State, Info]:
        """Update the blocks of a group one after the other."""
        total: Info | None = None
        for i, block in enumerate(group.blocks):
            searches = slice(i * group.searches, (i + 1) * group.searches)
            own = noise.share(take(noise.drawn, block.row), searches)
            state, info = self.update(block, own, state, target)
            total = info if total is None else total.combine(info)
        assert total is not None  # noqa: S101  there is at least one block
        return state, total.common

    def _update_in_loop(
        self, group: BlockGroup, noise: UpdateNoise, state: State, target: Target
    ) -> tuple[State, Info]:
        """Update the blocks of a group in a compiled loop. To compile each block separately would take long."""
        dtype = state.f.dtype

        def one(state: State, item: Any) -> tuple[State, Info]:
            stacked, level, uniforms = item
            block = group.block(stacked)
            own = UpdateNoise(take(noise.drawn, block.row), level, uniforms)
            new, info = self.update(block, own, state, target)
            return State(*(jnp.asarray(part, dtype) for part in new)), info

        each = jax.tree.map(
            lambda part: part.reshape(group.count, group.searches, *part.shape[1:]), (noise.level, noise.uniforms)
        )
        state, infos = jax.lax.scan(one, state, (group.stacked, *each))
        evaluations, nans = (part.sum(dtype=np.int32) for part in (infos.evaluations, infos.nan_evaluations))
        return state, Info(evaluations, nans, infos.search_failed.any(), infos.angle[-1])

    def update(self, block: ConditionalBlock, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Update one block given the rest, by the inner move on g = f[block] - mean."""
        indices, f = block.conditional.block, state.f
        mean = block_mean(block.conditional, f)
        g = f[indices] - mean

        def whole(g: Any) -> Any:
            return set_block(f, indices, g + mean)

        inside = target.with_likelihood(lambda g: target.log_likelihood(whole(g)), block.inner)
        new, info = self.move.step(noise, State(g, state.log_likelihood), inside)
        # f - mean + mean may differ from f in the last bit, but a state that stays must not change.
        stayed = (new.f == g).all()
        return State(where(stayed, f, whole(new.f)), new.log_likelihood), info

    def __repr__(self) -> str:
        inner = "" if self.move == DEFAULT_MOVE else f", {self.move!r}"
        if isinstance(self.blocks, local_blocks.Contiguous):
            chosen = f"size={self.blocks.size}" if self.blocks.size else f"count={self.blocks.count}"
            return f"Local.contiguous({chosen}{inner})"
        if isinstance(self.blocks, local_blocks.Random):
            chosen = f"{self.blocks.size}, partitions={self.blocks.partitions_drawn}, seed={self.blocks.seed}"
            return f"Local.random({chosen}{inner})"
        return f"Local({self.blocks!r}{inner}{', partial=True' if self.partial else ''})"

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash((type(self), *self._settings))

    @property
    def _settings(self) -> tuple[Any, ...]:
        return self.blocks, self.move, self.partial


def _optional_count(name: str, value: int | None) -> int | None:
    """Return a positive whole number, or None. Raise ValueError if it is neither."""
    return None if value is None else whole_number(name, value, 1, "a whole number, at least 1")
