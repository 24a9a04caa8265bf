"""Local updates: some of the values at a time, given the rest, from the conditional prior (Section 3.3)."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.moves import blocks as choices
from ellipslice.moves.arithmetic import pick, put, where
from ellipslice.moves.base import Info, Lots, Move, State, Target
from ellipslice.moves.elliptical import EllipticalSlice
from ellipslice.moves.reach import Moved, Reach, check_reach
from ellipslice.noise import Noise
from ellipslice.priors import Prior
from ellipslice.priors.carried import Carried
from ellipslice.priors.conditional import Conditional
from ellipslice.pytree import pytree, set_fields, static
from ellipslice.settings import jax_settings

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

    def __init__(self, blocks: Any, move: Move = DEFAULT, *, partial: bool = False):
        if not isinstance(move, Move):
            raise TypeError(f"Local takes a move, such as EllipticalSlice(), but it was given {move!r}.")
        self.blocks, self.move, self.partial = choices.given(blocks), move, bool(partial)
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

    def prepare_part(self, prior: Prior) -> Any:
        if isinstance(prior, Carried):  # before blocks are compared with its values, of which the user gave only some
            raise TypeError(f"Local needs the prior of a block given the rest. {prior.lacks('condition')}")
        return tuple(self._prepare(partition, prior) for partition in self.blocks.partitions(prior))

    def _prepare(self, partition: choices.Partition, prior: Prior) -> Sweep:
        choices.check_partition(partition, prior, self.partial)
        known: list[_Known] = []
        for block in partition:
            conditional = _condition(prior, block)
            inner = self.move.prepare_part(conditional.prior)
            known.append(_Known(conditional, inner, self.move.lots(conditional.prior, inner)))
        return Sweep(known)

    def reach(self, prior: Prior, prepared: tuple[Sweep, ...]) -> Reach:
        total: list[Moved] = []
        for block, whole, known in (of_block for sweep in prepared for of_block in sweep.moved):
            inner = self.move.reach(whole, known)
            if inner is None:
                total.append(Moved(block, _rank(whole)))
            else:  # given the rest of its block and all other blocks: given the rest
                total += [Moved(block[moved.indices], moved.rank) for moved in inner]
        return total

    def lots(self, prior: Prior, prepared: tuple[Sweep, ...]) -> Lots:
        draws = max(sweep.draws for sweep in prepared) + (len(prepared) > 1)
        return Lots(_SideBySide(prepared, draws, prior.size), draws, max(sweep.parts for sweep in prepared))

    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """A sweep over the blocks of the partition that this update has chosen."""
        sweeps: tuple[Sweep, ...] = target.prepared
        if len(sweeps) == 1:
            return self._sweep(sweeps[0], target, noise, state)
        choice = noise.nu[-1, 0]
        return pick(choice, [partial(self._sweep, sweep, target) for sweep in sweeps], noise, state)

    def _sweep(self, sweep: Sweep, target: Target, noise: Noise, state: State) -> tuple[State, Info]:
        total: Info | None = None
        start = 0
        for group in sweep.groups:
            stop = start + group.count * group.parts
            lots = noise._replace(level=noise.level[start:stop], uniforms=noise.uniforms[start:stop])
            run = self._in_turn if isinstance(state.f, np.ndarray) or group.count == 1 else self._in_a_loop
            state, info = run(group, lots, state, target)
            total = info if total is None else total.then(info)
            start = stop
        assert total is not None  # noqa: S101  there is at least one block
        return state, total

    def _in_turn(self, group: Group, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        total: Info | None = None
        for i, block in enumerate(group.blocks):
            own = slice(i * group.parts, (i + 1) * group.parts)
            lots = Noise(noise.nu[: group.draws], noise.level[own], noise.uniforms[own])
            state, info = self.update(block, lots, state, target)
            total = info if total is None else total.then(info)
        assert total is not None  # noqa: S101  there is at least one block
        return state, total

    def _in_a_loop(self, group: Group, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """The same in compiled code, where many blocks by themselves would take long to compile."""
        dtype = state.f.dtype

        def one(state: State, item: Any) -> tuple[State, Info]:
            stacked, level, uniforms = item
            lots = Noise(noise.nu[: group.draws], level, uniforms)
            new, info = self.update(group.block(stacked), lots, state, target)
            return State(*(jnp.asarray(part, dtype) for part in new)), info

        each = jax.tree.map(
            lambda part: part.reshape(group.count, group.parts, *part.shape[1:]), (noise.level, noise.uniforms)
        )
        state, infos = jax.lax.scan(one, state, (group.stacked, *each))
        evaluations, nans = (part.sum(dtype=np.int32) for part in (infos.evaluations, infos.nans))
        return state, Info(evaluations, nans, infos.stuck.any(), infos.angle[-1])

    def update(self, block: Block, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """One block given the rest: the inner move on g = f[block] - mean."""
        indices, f = block.conditional.block, state.f
        mean = _mean(block.conditional, f)
        g = f[indices] - mean

        def whole(g: Any) -> Any:
            return put(f, indices, g + mean)

        inside = target.within(lambda g: target.log_likelihood(whole(g)), block.inner)
        nu = noise.nu[:, indices]
        new, info = self.move.step(noise._replace(nu=nu), State(g, state.log_likelihood), inside)
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


# --- what is known of the blocks once the prior is ------------------------------------------------------------------


class _Known:
    """A block as it was prepared, on the host."""

    def __init__(self, conditional: Conditional, inner: Any, lots: Lots):
        self.conditional, self.inner, self.lots = conditional, inner, lots
        self.block = Block(conditional.only_mean(), inner)
        self.leaves, self.structure = jax.tree.flatten(self.block)
        self.shapes = [np.shape(leaf) for leaf in self.leaves]

    def like(self, other: _Known) -> bool:
        """Whether one compiled program does for both."""
        return (
            self.structure == other.structure
            and self.shapes == other.shapes
            and self.lots.draws == other.lots.draws
            and self.lots.parts == other.lots.parts
        )


@pytree
class Block:
    """What an update of a block needs: its mean given the rest, and what the inner move prepared."""

    conditional: Conditional
    inner: Any

    def __init__(self, conditional: Conditional, inner: Any):
        set_fields(self, conditional=conditional, inner=inner)


@pytree
class Group:
    """Blocks of the same shapes: their arrays are stacked, but for those that they share."""

    stacked: list[Any]
    shared: list[Any]
    structure: Any = static()
    is_shared: tuple[bool, ...] = static()
    count: int = static()
    draws: int = static()
    parts: int = static()

    def __init__(self, members: list[_Known]):
        columns = list(zip(*(known.leaves for known in members), strict=True))
        is_shared = tuple(all(leaf is column[0] for leaf in column) for column in columns)
        set_fields(
            self,
            stacked=[np.stack(column) for column, same in zip(columns, is_shared, strict=True) if not same],
            shared=[column[0] for column, same in zip(columns, is_shared, strict=True) if same],
            structure=members[0].structure,
            is_shared=is_shared,
            count=len(members),
            draws=members[0].lots.draws,
            parts=members[0].lots.parts,
        )

    def block(self, stacked: list[Any]) -> Block:
        """A block from its own rows of the stacked arrays."""
        own, shared = iter(stacked), iter(self.shared)
        return jax.tree.unflatten(self.structure, [next(shared if same else own) for same in self.is_shared])

    @cached_property
    def blocks(self) -> list[Block]:
        """Each block by itself."""
        return [self.block([leaf[i] for leaf in self.stacked]) for i in range(self.count)]


@pytree
class Sweep:
    """All blocks of a partition, in the order of their updates."""

    groups: list[Group]

    # Not fields: used on the host only, and compiled code would keep the priors alive for as long as it lives.
    sources: ClassVar[list[tuple[np.ndarray, Lots]]]
    moved: ClassVar[list[tuple[np.ndarray, Prior, Any]]]
    """Each block, its conditional prior, and what the inner move prepared for that."""
    draws: ClassVar[int]
    parts: ClassVar[int]

    def __init__(self, known: list[_Known]):
        alike: list[list[_Known]] = []
        for block in known:
            for members in alike:
                if block.like(members[0]):
                    members.append(block)
                    break
            else:
                alike.append([block])
        set_fields(
            self,
            groups=[Group(members) for members in alike],
            sources=[(np.asarray(block.conditional.block), block.lots) for block in known],
            moved=[(np.asarray(block.conditional.block), block.conditional.prior, block.inner) for block in known],
            draws=max(block.lots.draws for block in known),
            parts=sum(block.lots.parts for block in known),
        )


class _SideBySide:
    """The draws of a sweep: those of each block's conditional prior at the block's own indices.

    If there are several partitions, the last draw of an update says, in its first value, which one it takes.
    """

    def __init__(self, sweeps: tuple[Sweep, ...], draws: int, size: int):
        self._sweeps, self._draws, self._size = sweeps, draws, size

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """As many as asked for, a whole number of updates'; shape (count, size)."""
        length = count // self._draws
        nu = np.zeros((length, self._draws, self._size))
        choice = np.zeros(length, dtype=np.int64)
        if len(self._sweeps) > 1:
            choice = rng.integers(len(self._sweeps), size=length)
            nu[:, -1, 0] = choice
        for number, sweep in enumerate(self._sweeps):
            rows = np.flatnonzero(choice == number)
            for indices, lots in sweep.sources if len(rows) else ():
                drawn = np.asarray(lots.source.draw(rng, len(rows) * lots.draws))
                for i, part in enumerate(drawn.reshape(len(rows), lots.draws, -1).swapaxes(0, 1)):
                    nu[rows[:, None], i, indices] = part
        return nu.reshape(count, self._size)


def _condition(prior: Prior, block: np.ndarray) -> Conditional:
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


def _mean(conditional: Conditional, f: Any) -> Any:
    if not isinstance(f, np.ndarray) or conditional.by_numpy:
        return conditional.mean(f)
    with jax_settings():
        return np.asarray(_compiled_mean(conditional, f))


def _whole(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number, at least 1, but it is {value!r}.")
    return int(value)
