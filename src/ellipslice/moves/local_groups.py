"""Blocks of `Local` as an update needs them: blocks of the same shapes are stacked, so that compiled code can loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ellipslice.noise import NoiseSpec, aligned_empty
from ellipslice.priors.parts.conditional import BlockConditional
from ellipslice.pytree import HostOnly, pytree, set_fields, static


class Place(NamedTuple):
    """Where the random numbers of a block are: a stack for each block size, and a row in it."""

    stack: int
    row: int


def find_places(sizes: Sequence[int]) -> list[Place]:
    """Return the place of each block, by the sizes of the blocks."""
    stacks = {size: stack for stack, size in enumerate(dict.fromkeys(sizes))}
    rows: Counter[int] = Counter()
    places = []
    for size in sizes:
        places.append(Place(stacks[size], rows[size]))
        rows[size] += 1
    return places


class PreparedBlock(NamedTuple):
    """A block on the host: its conditional distribution, what the inner move prepared for it, and what that draws."""

    conditional: BlockConditional
    inner: Any
    spec: NoiseSpec
    place: Place

    @property
    def indices(self) -> np.ndarray:
        """Indices of the block in the flat vector."""
        return np.asarray(self.conditional.block)

    @property
    def draws(self) -> int:
        """Random numbers of an update for each value of the block."""
        return self.spec.numbers // len(self.indices)


@pytree
class Block:
    """What an update of one block needs."""

    conditional: BlockConditional
    """The mean of the block given the rest."""
    inner: Any
    """What the inner move prepared."""
    row: Any
    """The block's row in its stack of random numbers."""

    def __init__(self, prepared: PreparedBlock):
        row = np.array(prepared.place.row)
        set_fields(self, conditional=prepared.conditional.only_mean(), inner=prepared.inner, row=row)


@pytree
class BlockGroup:
    """Blocks whose arrays have the same shapes: the arrays are stacked, except those that all blocks share."""

    stacked: list[Any]
    shared: list[Any]
    structure: Any = static()
    is_shared: tuple[bool, ...] = static()
    count: int = static()
    searches: int = static()
    """Number of searches in an update of one block."""
    stack: int = static()
    """Number of the stack of random numbers that the blocks have their rows in."""

    def __init__(self, members: list[PreparedBlock], structure: Any, leaves: list[list[Any]]):
        columns = list(zip(*leaves, strict=True))
        # By identity: conditionals of one prior hold the same array object where they share one, such as its factor.
        # Stacking would copy it for each block. Arrays that are equal by chance may be stacked.
        is_shared = tuple(all(leaf is column[0] for leaf in column) for column in columns)
        set_fields(
            self,
            stacked=[np.stack(column) for column, same in zip(columns, is_shared, strict=True) if not same],
            shared=[column[0] for column, same in zip(columns, is_shared, strict=True) if same],
            structure=structure,
            is_shared=is_shared,
            count=len(members),
            searches=members[0].spec.searches,
            stack=members[0].place.stack,
        )

    def block(self, stacked: list[Any]) -> Block:
        """Return a block, from its own rows of the stacked arrays."""
        own, shared = iter(stacked), iter(self.shared)
        return jax.tree.unflatten(self.structure, [next(shared if same else own) for same in self.is_shared])

    @cached_property
    def blocks(self) -> list[Block]:
        """Each block by itself."""
        return [self.block([leaf[i] for leaf in self.stacked]) for i in range(self.count)]


@pytree
class PreparedPartition:
    """All blocks of a partition, in groups."""

    groups: list[BlockGroup]
    host: HostOnly
    """A list of `PreparedBlock`, in the order of the partition."""

    def __init__(self, blocks: list[PreparedBlock]):
        set_fields(self, groups=group_blocks(blocks), host=HostOnly(blocks))

    @property
    def blocks(self) -> list[PreparedBlock]:
        """The blocks on the host, in the order of the partition."""
        return self.host.value


def group_blocks(blocks: list[PreparedBlock]) -> list[BlockGroup]:
    """Return groups of blocks that one compiled program can update, in the order of their first members."""
    groups: dict[Any, tuple[list[PreparedBlock], list[list[Any]]]] = {}
    for block in blocks:
        leaves, structure = jax.tree.flatten(Block(block))
        key = (structure, tuple(np.shape(leaf) for leaf in leaves), block.spec.searches, block.place.stack)
        members, all_leaves = groups.setdefault(key, ([], []))
        members.append(block)
        all_leaves.append(leaves)
    return [BlockGroup(members, structure, leaves) for (structure, *_), (members, leaves) in groups.items()]


class LocalDraws(NamedTuple):
    """What is drawn for one sweep over the blocks of a partition."""

    choice: Any
    """The number of the partition; None if there is only one."""
    stacks: tuple[Any, ...]
    """For each block size, what the blocks of that size draw: arrays with a leading axis of blocks."""


def draw_blocks(partitions: Sequence[list[PreparedBlock]], rng: np.random.Generator, updates: int) -> LocalDraws:
    """Return the random numbers of `updates` sweeps, each over one of the partitions, chosen at random.

    The choice is drawn first, then what each block draws, partition by partition. This order is part of what a seed
    means.
    """
    choice = rng.integers(len(partitions), size=updates) if len(partitions) > 1 else None
    stacks = Stacks(updates, [len(block.indices) for block in partitions[0]])
    for number, blocks in enumerate(partitions):
        rows = np.arange(updates) if choice is None else np.flatnonzero(choice == number)
        for block in blocks if len(rows) else ():
            stacks.put(block.place, slice(None) if choice is None else rows, block.spec.draw(rng, len(rows)))
    return LocalDraws(choice, tuple(stacks.arrays))


class Stacks:
    """Arrays under construction: what blocks of the same size draw, shape (updates, blocks, ...)."""

    def __init__(self, updates: int, sizes: Sequence[int]):
        self._shapes = [(updates, count) for count in Counter(sizes).values()]
        self.arrays: list[Any] = [None] * len(self._shapes)

    def put(self, place: Place, rows: Any, drawn: Any) -> None:
        """Store what one block draws for the updates `rows`."""
        if self.arrays[place.stack] is None:
            self.arrays[place.stack] = jax.tree.map(partial(_empty_stack, self._shapes[place.stack]), drawn)
        try:
            jax.tree.map(
                lambda stack, part: stack.__setitem__((rows, place.row), part), self.arrays[place.stack], drawn
            )
        except ValueError:
            raise ValueError(
                "Local was given a move that draws arrays of different shapes for blocks of the same size. Use blocks "
                "of different sizes, or a Cycle of several Locals."
            ) from None


def _empty_stack(shape: tuple[int, int], part: Any) -> np.ndarray:
    part = np.asarray(part)
    whole = (*shape, *part.shape[1:])
    return aligned_empty(whole) if part.dtype == np.float64 else np.empty(whole, part.dtype)
