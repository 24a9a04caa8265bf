"""Local updates: some of the values at a time, given the rest, from the conditional prior (Section 3.3)."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.checks import whole_number
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import local_blocks as choices
from ellipslice.moves.array_ops import set_block, switch, where
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.elliptical import EllipticalSlice
from ellipslice.moves.local_groups import Block, BlockGroup, PreparedBlock, PreparedPartition, draw_blocks, find_places
from ellipslice.moves.local_reach import Moved, Reach, check_reach
from ellipslice.noise import NoiseSpec, UpdateNoise, take
from ellipslice.priors import Prior
from ellipslice.priors.parts.augmented import PredictorPrior
from ellipslice.priors.parts.conditional import BlockConditional

DEFAULT = EllipticalSlice()


class Local(Move):
    """Update blocks of the values in turn, each given all others, by any move; one update is one sweep over the blocks.

    Use it where a latent should move by itself (an offset beside a function, Section 2.5: `Local("names")`), and where
    the data say so much that a whole vector moves little at once. A sweep takes a search for each block, so it costs
    several times the evaluations of one update of the whole vector, and a conditional mean for each block besides.

    Parameters
    ----------
    blocks : "names", or list of blocks
        A block is a list of indices into the flat vector (in C order), the name of a latent of a `Stack`, or a list of
        such names. "names" stands for each latent in turn. `Local.contiguous`, `Local.kmeans` and `Local.random`
        choose.
    move : Move
        What updates a block; `EllipticalSlice()` unless given.
    partial : bool
        Allow values that are in no block, and combinations of values that no block can change. They are then updated
        only by the other moves of a `Cycle`. Default: False, which raises.

    Notes
    -----
    With B the block, m(f) its mean given the rest and S its conditional covariance, g = f[B] - m(f) has the prior
    N(0, S), and the inner move runs on g. Conditionals are factorised once for each run. A mean costs what the prior's
    `condition` says: ``O(N |B|)`` if dense, the block's neighbours if it is a `SparsePrecision`, O(N) if `Markov`,
    nothing for a whole latent of a `Stack`. That needs a prior with `condition`; whole latents of a `Stack` need
    nothing.

    A block that the rest determines is refused: it could not move. Smooth kernels on dense grids make such blocks. If
    the prior's covariance is singular, such as that of a field whose values sum to zero, fixed blocks may each move and
    yet keep a combination of the values, here the sum of each block, for ever. That is refused too; add
    `EllipticalSlice()` in a `Cycle`, or use `Local.random` or overlapping blocks.

    Statistics are those of `Cycle`: evaluations and NaNs summed over the blocks, the angle of the last.

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

    def __init__(self, blocks: Any, move: Move = DEFAULT, *, partial: bool = False):
        if not isinstance(move, Move):
            raise TypeError(f"Local takes a move, such as EllipticalSlice(), but it was given {move!r}.")
        self.blocks, self.move, self.partial = choices.partition_rule(blocks), move, bool(partial)
        self.gradients = move.gradients

    @classmethod
    def contiguous(cls, size: int | None = None, *, count: int | None = None, move: Move = DEFAULT) -> Local:
        """Stretches of the flat vector, as equal as can be: of at most `size` values, or `count` of them."""
        if (size is None) == (count is None):
            raise TypeError("Local.contiguous needs size, the most values in a block, or count, the number of blocks.")
        return cls(choices.Contiguous(_whole("size", size), _whole("count", count)), move)

    @classmethod
    def kmeans(cls, inputs: Any, count: int, *, move: Move = DEFAULT, seed: int = 0) -> Local:
        """Blocks of inputs near each other, found by k-means; at most `count`, fewer if inputs repeat.

        `inputs` has a row, or a number, for each value of the flat vector. The same seed gives the same blocks.
        """
        return cls(choices.by_kmeans(inputs, int(_whole("count", count) or 1), seed), move)

    @classmethod
    def random(cls, size: int, *, partitions: int = 8, seed: int = 0, move: Move = DEFAULT) -> Local:
        """Blocks of `size` values at random, others at each update.

        To have them factorised once, each update chooses among a few `partitions`, drawn once from `seed`. So the
        set-up takes that many times the time and the memory.
        """
        drawn = _whole("partitions", partitions)
        return cls(choices.Random(int(_whole("size", size) or 1), int(drawn or 1), seed), move)

    def prepare(self, prior: Prior) -> Any:
        """The conditionals of every block, for each partition to choose from."""
        prepared = self.prepare_part(prior)
        if not self.partial:
            check_reach(self, prior, self.reach(prior, prepared))
        return prepared

    def prepare_part(self, prior: Prior) -> tuple[PreparedPartition, ...]:
        if isinstance(
            prior, PredictorPrior
        ):  # before blocks are compared with its values, of which the user gave only some
            raise TypeError(
                f"Local needs the prior of a block given the rest. {prior._missing_capability('condition')}"
            )
        return tuple(self._prepare(partition, prior) for partition in self.blocks.partitions(prior))

    def _prepare(self, partition: choices.Partition, prior: Prior) -> PreparedPartition:
        choices.check_partition(partition, prior, self.partial)
        blocks = []
        for block, place in zip(partition, find_places([len(block) for block in partition]), strict=True):
            conditional = _condition(prior, block)
            inner = self.move.prepare_part(conditional.prior)
            blocks.append(PreparedBlock(conditional, inner, self.move.noise_spec(conditional.prior, inner), place))
        return PreparedPartition(blocks)

    def reach(self, prior: Prior, prepared: tuple[PreparedPartition, ...]) -> Reach:
        total: list[Moved] = []
        for block in (block for partition in prepared for block in partition.blocks):
            given_rest = block.conditional.prior
            inner = self.move.reach(given_rest, block.inner)
            if inner is None:
                total.append(Moved(block.indices, _rank(given_rest)))
            else:  # given the rest of its block and all other blocks: given the rest
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
        """Make a sweep over the blocks of the partition that this update has chosen."""
        partitions: tuple[PreparedPartition, ...] = target.prepared
        if len(partitions) == 1:
            return self._sweep(partitions[0], target, noise, state)
        sweeps = [partial(self._sweep, partition, target) for partition in partitions]
        return switch(noise.drawn.choice, sweeps, noise, state)

    def _sweep(
        self, partition: PreparedPartition, target: Target, noise: UpdateNoise, state: State
    ) -> tuple[State, Info]:
        """Update the blocks group by group. The levels and uniforms of an update are divided in the same order."""
        total: Info | None = None
        first = 0
        for group in partition.groups:
            searches = slice(first, first + group.count * group.searches)
            own = noise.share(noise.drawn.stacks[group.stack], searches)
            run = self._in_turn if isinstance(state.f, np.ndarray) or group.count == 1 else self._in_a_loop
            state, info = run(group, own, state, target)
            total = info if total is None else total.combine(info)
            first = searches.stop
        assert total is not None  # noqa: S101  there is at least one block
        return state, total

    def _in_turn(self, group: BlockGroup, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        total: Info | None = None
        for i, block in enumerate(group.blocks):
            searches = slice(i * group.searches, (i + 1) * group.searches)
            own = noise.share(take(noise.drawn, block.row), searches)
            state, info = self.update(block, own, state, target)
            total = info if total is None else total.combine(info)
        assert total is not None  # noqa: S101  there is at least one block
        return state, total.common

    def _in_a_loop(self, group: BlockGroup, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Do as `_in_turn`, in compiled code, where many blocks by themselves would take long to compile."""
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

    def update(self, block: Block, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Update one block given the rest: the inner move on g = f[block] - mean."""
        indices, f = block.conditional.block, state.f
        mean = _mean(block.conditional, f)
        g = f[indices] - mean

        def whole(g: Any) -> Any:
            return set_block(f, indices, g + mean)

        inside = target.with_likelihood(lambda g: target.log_likelihood(whole(g)), block.inner)
        new, info = self.move.step(noise, State(g, state.log_likelihood), inside)
        # f - mean + mean is not f to the last bit, and a state that stays must keep its own.
        stayed = (new.f == g).all()
        return State(where(stayed, f, whole(new.f)), new.log_likelihood), info

    def __repr__(self) -> str:
        inner = "" if self.move == DEFAULT else f", {self.move!r}"
        if isinstance(self.blocks, choices.Contiguous):
            chosen = f"size={self.blocks.size}" if self.blocks.size else f"count={self.blocks.count}"
            return f"Local.contiguous({chosen}{inner})"
        if isinstance(self.blocks, choices.Random):
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


def _condition(prior: Prior, block: np.ndarray) -> BlockConditional:
    try:
        conditional = prior.condition(block)
    except TypeError as error:
        raise TypeError(f"Local needs the prior of a block given the rest. {error}") from None
    if _rank(conditional.prior) == 0:
        first = choices.place(int(conditional.block[0]), prior.layout)
        raise ValueError(
            f"a block of {len(block)} values, the first of them {first}, is determined by the rest: its conditional "
            "has no variance, so it could not move. Use larger blocks, or EllipticalSlice for all values together."
        )
    return conditional


def _rank(prior: Prior) -> int | None:
    """Return the rank; None for a prior that does not know it, such as one that draws by itself."""
    try:
        return prior.rank
    except TypeError:
        return None


_compiled_mean = jax.jit(lambda conditional, f: conditional.mean(f))


def _mean(conditional: BlockConditional, f: Any) -> Any:
    if not isinstance(f, np.ndarray) or conditional.by_numpy:
        return conditional.mean(f)
    with jax_settings():
        return np.asarray(_compiled_mean(conditional, f))


def _whole(name: str, value: int | None) -> int | None:
    return None if value is None else whole_number(name, value, 1, "a whole number, at least 1")
