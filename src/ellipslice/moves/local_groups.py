"""The blocks of `Local`, prepared for updates. Blocks of the same shapes are stacked, so compiled code can loop."""

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


class StackRow(NamedTuple):
    """Position of the random numbers of a block. There is one stack per block size, and one row per block in it."""

    stack: int
    """Number of the stack."""
    row: int
    """Row in the stack."""


def assign_stack_rows(sizes: Sequence[int]) -> list[StackRow]:
    """Return the position of each block in the stacks, from the sizes of the blocks."""
    stacks = {size: stack for stack, size in enumerate(dict.fromkeys(sizes))}
    rows: Counter[int] = Counter()
    assigned = []
    for size in sizes:
        assigned.append(StackRow(stacks[size], rows[size]))
        rows[size] += 1
    return assigned


class PreparedBlock(NamedTuple):
    """A block on the host."""

    conditional: BlockConditional
    """Conditional distribution of the block given the rest."""
    inner: Any
    """Result of `prepare_part` of the inner move."""
    spec: NoiseSpec
    """Random numbers of an update of the block."""
    stack_row: StackRow

    @property
    def indices(self) -> np.ndarray:
        """Indices of the block in the flat vector."""
        return np.asarray(self.conditional.block)

    @property
    def draws(self) -> int:
        """Number of random numbers of an update per element of the block."""
        return self.spec.numbers // len(self.indices)


@pytree
class ConditionalBlock:
    """The inputs of an update of one block given the rest."""

    conditional: BlockConditional
    """The conditional of the block, without its prior."""
    inner: Any
    """Result of `prepare_part` of the inner move."""
    row: Any
    """Row of the block in its stack of random numbers."""

    def __init__(self, prepared: PreparedBlock):
        row = np.array(prepared.stack_row.row)
        set_fields(self, conditional=prepared.conditional.only_mean(), inner=prepared.inner, row=row)


@pytree
class BlockGroup:
    """Blocks whose arrays have the same shapes. The arrays are stacked, except those that all blocks share."""

    stacked: list[Any]
    shared: list[Any]
    structure: Any = static()
    is_shared: tuple[bool, ...] = static()
    count: int = static()
    searches: int = static()
    """Number of searches in an update of one block."""
    stack: int = static()
    """Number of the stack that holds the random numbers of the blocks."""

    def __init__(self, members: list[PreparedBlock], structure: Any, leaves: list[list[Any]]):
        columns = list(zip(*leaves, strict=True))
        # By identity: conditionals of one prior share array objects, such as its factor, and stacking would copy them
        # for each block. Arrays that are equal by chance may be stacked.
        is_shared = tuple(all(leaf is column[0] for leaf in column) for column in columns)
        set_fields(
            self,
            stacked=[np.stack(column) for column, same in zip(columns, is_shared, strict=True) if not same],
            shared=[column[0] for column, same in zip(columns, is_shared, strict=True) if same],
            structure=structure,
            is_shared=is_shared,
            count=len(members),
            searches=members[0].spec.searches,
            stack=members[0].stack_row.stack,
        )

    def block(self, stacked: list[Any]) -> ConditionalBlock:
        """Return a block from its rows of the stacked arrays."""
        own, shared = iter(stacked), iter(self.shared)
        return jax.tree.unflatten(self.structure, [next(shared if same else own) for same in self.is_shared])

    @cached_property
    def blocks(self) -> list[ConditionalBlock]:
        """The blocks of the group, as a list."""
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
        leaves, structure = jax.tree.flatten(ConditionalBlock(block))
        key = (structure, tuple(np.shape(leaf) for leaf in leaves), block.spec.searches, block.stack_row.stack)
        members, all_leaves = groups.setdefault(key, ([], []))
        members.append(block)
        all_leaves.append(leaves)
    return [BlockGroup(members, structure, leaves) for (structure, *_), (members, leaves) in groups.items()]


class LocalDraws(NamedTuple):
    """The random numbers of one sweep over the blocks of a partition."""

    choice: Any
    """Number of the partition; None if there is only one."""
    stacks: tuple[Any, ...]
    """For each block size, the random numbers of the blocks of that size: arrays with a leading axis of blocks."""


def draw_blocks(partitions: Sequence[list[PreparedBlock]], rng: np.random.Generator, updates: int) -> LocalDraws:
    """Return the random numbers of `updates` sweeps, each over one of the partitions, chosen at random.

    The choices are drawn first, then the random numbers of each block, partition by partition. The draws for a seed
    depend on this order.
    """
    choice = rng.integers(len(partitions), size=updates) if len(partitions) > 1 else None
    stacks = Stacks(updates, [len(block.indices) for block in partitions[0]])
    for number, blocks in enumerate(partitions):
        rows = np.arange(updates) if choice is None else np.flatnonzero(choice == number)
        for block in blocks if len(rows) else ():
            stacks.put(block.stack_row, slice(None) if choice is None else rows, block.spec.draw(rng, len(rows)))
    return LocalDraws(choice, tuple(stacks.arrays))


class Stacks:
    """Arrays of the random numbers of blocks of the same size, shape (updates, blocks, ...), while they are filled."""

    def __init__(self, updates: int, sizes: Sequence[int]):
        self._shapes = [(updates, count) for count in Counter(sizes).values()]
        self.arrays: list[Any] = [None] * len(self._shapes)

    def put(self, stack_row: StackRow, rows: Any, drawn: Any) -> None:
        """Store the random numbers of one block for the updates `rows`."""
        if self.arrays[stack_row.stack] is None:
            self.arrays[stack_row.stack] = jax.tree.map(partial(_empty_stack, self._shapes[stack_row.stack]), drawn)
        try:
            jax.tree.map(
                lambda stack, part: stack.__setitem__((rows, stack_row.row), part), self.arrays[stack_row.stack], drawn
            )
        except ValueError:
            raise ValueError(
                "the move of Local draws arrays of different shapes for blocks of the same size; expected the same "
                "shapes. Use blocks of different sizes, or a Cycle of several Locals."
            ) from None


def _empty_stack(shape: tuple[int, int], part: Any) -> np.ndarray:
    """Return an empty array for all updates and blocks, (*shape, ...), with the trailing shape and dtype of `part`."""
    part = np.asarray(part)
    whole = (*shape, *part.shape[1:])
    return aligned_empty(whole) if part.dtype == np.float64 else np.empty(whole, part.dtype)
