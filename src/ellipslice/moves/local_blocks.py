"""Which values are updated together: the blocks of `Local`, as settings and, once the prior is known, as indices."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ellipslice.checks import as_numbers
from ellipslice.priors import Prior
from ellipslice.priors.base import Layout
from ellipslice.priors.parts.conditional import as_block

Partition = list[np.ndarray]
"""Blocks of indices into the flat vector that do not overlap."""


class PartitionRule(abc.ABC):
    """How the values are divided; a value, so that compiled code is used again."""

    @abc.abstractmethod
    def partitions(self, prior: Prior) -> list[Partition]:
        """One partition of this prior's values, or several to choose from at each update."""


@dataclass(frozen=True)
class ExplicitBlocks(PartitionRule):
    """Blocks as the user writes them: names, tuples of names, or indices."""

    stored_as = "Given"

    blocks: tuple[Any, ...]

    def partitions(self, prior: Prior) -> list[Partition]:
        return [[_indices(block, prior) for block in self.blocks]]

    @cached_property
    def _hash(self) -> int:
        return hash(self.blocks)

    def __hash__(self) -> int:
        return self._hash  # a million indices take a while

    def __repr__(self) -> str:
        if len(self.blocks) > 4 or any(len(block) > 6 for block in self.blocks if not isinstance(block, str)):
            return f"{len(self.blocks)} blocks"
        return repr([block if isinstance(block, str) else list(block) for block in self.blocks])


@dataclass(frozen=True)
class Names(PartitionRule):
    """Every latent of a `Stack` in turn."""

    stored_as = "Names"

    def partitions(self, prior: Prior) -> list[Partition]:
        return [[_indices(name, prior) for name, _ in prior.layout]]

    def __repr__(self) -> str:
        return repr("names")


@dataclass(frozen=True)
class Contiguous(PartitionRule):
    """Stretches of the flat vector, as equal as can be."""

    stored_as = "Contiguous"

    size: int | None
    count: int | None

    def partitions(self, prior: Prior) -> list[Partition]:
        count = -(-prior.size // self.size) if self.size else min(self.count or 1, prior.size)
        return [np.array_split(np.arange(prior.size), count)]


@dataclass(frozen=True)
class Random(PartitionRule):
    """A few partitions drawn once, of which each update chooses one."""

    stored_as = "Random"

    size: int
    partitions_drawn: int
    seed: int

    def partitions(self, prior: Prior) -> list[Partition]:
        rng = np.random.default_rng([self.seed, prior.size])
        count = -(-prior.size // self.size)
        drawn = 1 if count in (1, prior.size) else self.partitions_drawn  # else they would all be the same
        orders = [rng.permutation(prior.size) for _ in range(drawn)]
        return [[np.sort(block) for block in np.array_split(order, count)] for order in orders]


def partition_rule(blocks: Any) -> PartitionRule:
    """The blocks that the user means."""
    if isinstance(blocks, PartitionRule):
        return blocks
    if isinstance(blocks, str):
        if blocks != "names":
            raise ValueError(
                f'blocks is {blocks!r}. One latent of a Stack goes in as ["{blocks}"], each in turn as "names".'
            )
        return Names()
    if not isinstance(blocks, Sequence | np.ndarray) or len(blocks) == 0:
        raise TypeError(
            f"blocks must be a list of blocks, each a latent's name or a list of indices, but it is {blocks!r}. Or "
            "have them chosen: Local.contiguous, Local.kmeans, Local.random."
        )
    if any(isinstance(block, int | np.integer) for block in blocks):
        raise TypeError(
            "blocks holds whole numbers. It is a list of blocks: for one block of indices write [[0, 1, 2]]."
        )
    return ExplicitBlocks(tuple(_written(block) for block in blocks))


def by_kmeans(inputs: Any, count: int, seed: int) -> PartitionRule:
    """Inputs near each other are in one block."""
    from scipy.cluster.vq import kmeans2  # slow to import, and needed only here

    points = as_numbers(inputs, "inputs")
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or len(points) == 0:
        raise ValueError(f"inputs has shape {points.shape}; expected (N,) or (N, dimensions), a row for each value.")
    if count > len(points):
        raise ValueError(f"count is {count}, but there are only {len(points)} inputs.")
    distinct, which = np.unique(points, axis=0, return_inverse=True)  # repeated inputs: then there are fewer blocks
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*clusters is empty")
        # Newer releases of SciPy say rng, and still take seed.
        rng = np.random.default_rng(seed)
        found = kmeans2(distinct, min(count, len(distinct)), minit="++", seed=rng)[1]  # pyright: ignore[reportCallIssue]
    labels = found[which.ravel()]
    return ExplicitBlocks(tuple(tuple(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)))


def check_partition(partition: Partition, prior: Prior, partial: bool) -> None:
    """Refuse blocks that overlap, and values in no block unless that is meant."""
    times = np.zeros(prior.size, dtype=np.int64)
    for block in partition:
        times[block] += 1
    if times.max() > 1:
        index = int(np.argmax(times))
        raise ValueError(
            f"blocks overlap: {place(index, prior.layout)} is in {times[index]} of them. Put each value into one "
            "block; for blocks that overlap on purpose use a Cycle of several Locals."
        )
    if not partial and times.min() < 1:
        index, missing = int(np.argmin(times)), int(np.sum(times == 0))
        raise ValueError(
            f"blocks leave out {missing} of {prior.size} values, the first of them {place(index, prior.layout)}: they "
            "would never move. Add them to a block, or say partial=True if another move of a Cycle updates them."
        )


def place(index: int, layout: Layout) -> str:
    """A value of the flat vector, in words."""
    start = 0
    for name, shape in layout:
        size = int(np.prod(shape))
        if index < start + size:
            inside = ", ".join(str(int(i)) for i in np.unravel_index(index - start, shape)) if shape else ""
            return f"{name}[{inside}]" if inside else name
        start += size
    return f"index {index}"


def _written(block: Any) -> Any:
    if isinstance(block, str):
        return block
    if isinstance(block, list | tuple) and block and all(isinstance(name, str) for name in block):
        return tuple(block)
    indices = np.asarray(block)
    if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu":
        raise TypeError(
            f"a block is {block!r}; expected a latent's name, a list of names, or a list of indices into the flat "
            "vector. A mask goes in as np.flatnonzero(mask)."
        )
    return tuple(indices.tolist())


def _indices(block: Any, prior: Prior) -> np.ndarray:
    """A block as the user wrote it, as sorted indices."""
    names = (block,) if isinstance(block, str) else block
    if not isinstance(names[0], str):
        return as_block(block, prior.size)
    spans, start = {}, 0
    for name, shape in prior.layout:
        spans[name] = np.arange(start, start + int(np.prod(shape)))
        start += int(np.prod(shape))
    unknown = [name for name in names if name not in spans]
    if unknown:
        raise ValueError(f"a block names {unknown[0]!r}, but the prior's latents are {', '.join(spans)}.")
    return as_block(np.concatenate([spans[name] for name in names]), prior.size)
