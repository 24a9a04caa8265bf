"""The blocks of `Local`: rules that divide the elements of a prior into blocks of indices."""

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
    """A rule that divides the elements into blocks. Equal rules compare equal, so that compiled code is reused."""

    @abc.abstractmethod
    def partitions(self, prior: Prior) -> list[Partition]:
        """Return one partition of the elements of the prior, or several, of which each update chooses one."""


@dataclass(frozen=True)
class ExplicitBlocks(PartitionRule):
    """Blocks that the user gives: names, tuples of names, or tuples of indices."""

    stored_as = "Given"

    blocks: tuple[Any, ...]

    def partitions(self, prior: Prior) -> list[Partition]:
        return [[_block_indices(block, prior) for block in self.blocks]]

    @cached_property
    def _hash(self) -> int:
        return hash(self.blocks)

    def __hash__(self) -> int:
        return self._hash  # cached, because hashing a million indices is slow

    def __repr__(self) -> str:
        if len(self.blocks) > 4 or any(len(block) > 6 for block in self.blocks if not isinstance(block, str)):
            return f"{len(self.blocks)} blocks"
        return repr([block if isinstance(block, str) else list(block) for block in self.blocks])


@dataclass(frozen=True)
class Names(PartitionRule):
    """One block for each latent of a `Stack`."""

    stored_as = "Names"

    def partitions(self, prior: Prior) -> list[Partition]:
        return [[_block_indices(name, prior) for name, _ in prior.layout]]

    def __repr__(self) -> str:
        return repr("names")


@dataclass(frozen=True)
class Contiguous(PartitionRule):
    """Contiguous blocks of the flat vector, of sizes that differ by at most 1."""

    stored_as = "Contiguous"

    size: int | None
    count: int | None

    def partitions(self, prior: Prior) -> list[Partition]:
        count = -(-prior.size // self.size) if self.size else min(self.count or 1, prior.size)
        return [np.array_split(np.arange(prior.size), count)]


@dataclass(frozen=True)
class Random(PartitionRule):
    """A few random partitions, drawn once. Each update chooses one of them."""

    stored_as = "Random"

    size: int
    partitions_drawn: int
    seed: int

    def partitions(self, prior: Prior) -> list[Partition]:
        rng = np.random.default_rng([self.seed, prior.size])
        count = -(-prior.size // self.size)
        drawn = 1 if count in (1, prior.size) else self.partitions_drawn  # one block, or one element each: all equal
        orders = [rng.permutation(prior.size) for _ in range(drawn)]
        return [[np.sort(block) for block in np.array_split(order, count)] for order in orders]


def partition_rule(blocks: Any) -> PartitionRule:
    """Return the rule for the argument `blocks` of `Local`. Raise if it is not a list of blocks."""
    if isinstance(blocks, PartitionRule):
        return blocks
    if isinstance(blocks, str):
        if blocks != "names":
            raise ValueError(
                f'blocks is {blocks!r}; expected a list of blocks. For one latent of a Stack write ["{blocks}"], for a '
                'block of each latent "names".'
            )
        return Names()
    if not isinstance(blocks, Sequence | np.ndarray) or len(blocks) == 0:
        raise TypeError(
            f"blocks must be a list of blocks, each the name of a latent or a list of indices, but it is {blocks!r}. "
            "Local.contiguous, Local.kmeans and Local.random choose blocks."
        )
    if any(isinstance(block, int | np.integer) for block in blocks):
        raise TypeError(
            "blocks holds whole numbers; expected a list of blocks. For one block of indices write [[0, 1, 2]]."
        )
    return ExplicitBlocks(tuple(_as_explicit_block(block) for block in blocks))


def by_kmeans(inputs: Any, count: int, seed: int) -> PartitionRule:
    """Return blocks of elements with nearby inputs."""
    from scipy.cluster.vq import kmeans2  # slow to import, and needed only here

    points = as_numbers(inputs, "inputs")
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or len(points) == 0:
        raise ValueError(
            f"inputs has shape {points.shape}; expected (N,) or (N, dimensions), one row per element of f."
        )
    if count > len(points):
        raise ValueError(f"count is {count}, but there are only {len(points)} inputs. Use fewer blocks.")
    distinct, which = np.unique(points, axis=0, return_inverse=True)  # repeated inputs must be in the same block
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*clusters is empty")
        # Newer releases of SciPy name the argument rng, and still accept seed.
        rng = np.random.default_rng(seed)
        found = kmeans2(distinct, min(count, len(distinct)), minit="++", seed=rng)[1]  # pyright: ignore[reportCallIssue]
    labels = found[which.ravel()]
    return ExplicitBlocks(tuple(tuple(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)))


def check_partition(partition: Partition, prior: Prior, partial: bool) -> None:
    """Raise ValueError if blocks overlap or, unless `partial`, if an element is in no block."""
    times = np.zeros(prior.size, dtype=np.int64)
    for block in partition:
        times[block] += 1
    if times.max() > 1:
        index = int(np.argmax(times))
        raise ValueError(
            f"blocks overlap: {describe_index(index, prior.layout)} is in {times[index]} of them. Put each element "
            "into one block. For overlapping blocks use a Cycle of several Locals."
        )
    if not partial and times.min() < 1:
        index, missing = int(np.argmin(times)), int(np.sum(times == 0))
        raise ValueError(
            f"blocks leave out {missing} of {prior.size} elements, the first of them "
            f"{describe_index(index, prior.layout)}, which would never move. Add them to a block, or use partial=True "
            "if another move of a Cycle updates them."
        )


def describe_index(index: int, layout: Layout) -> str:
    """Return the name and index of an element of the flat vector, such as "f[3]", for a message."""
    start = 0
    for name, shape in layout:
        size = int(np.prod(shape))
        if index < start + size:
            inside = ", ".join(str(int(i)) for i in np.unravel_index(index - start, shape)) if shape else ""
            return f"{name}[{inside}]" if inside else name
        start += size
    return f"index {index}"


def _as_explicit_block(block: Any) -> Any:
    """Return a block of the user as a name, a tuple of names, or a tuple of indices. Raise TypeError if it is none."""
    if isinstance(block, str):
        return block
    if isinstance(block, list | tuple) and block and all(isinstance(name, str) for name in block):
        return tuple(block)
    indices = np.asarray(block)
    if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu":
        raise TypeError(
            f"a block is {block!r}; expected the name of a latent, a list of names, or a list of indices into the flat "
            "vector. Pass a mask as np.flatnonzero(mask)."
        )
    return tuple(indices.tolist())


def _block_indices(block: Any, prior: Prior) -> np.ndarray:
    """Return an explicit block as sorted indices into the flat vector."""
    names = (block,) if isinstance(block, str) else block
    if not isinstance(names[0], str):
        return as_block(block, prior.size)
    spans, start = {}, 0
    for name, shape in prior.layout:
        spans[name] = np.arange(start, start + int(np.prod(shape)))
        start += int(np.prod(shape))
    unknown = [name for name in names if name not in spans]
    if unknown:
        raise ValueError(
            f"a block has the name {unknown[0]!r}, but the prior's latents are {', '.join(spans)}. Use their names."
        )
    return as_block(np.concatenate([spans[name] for name in names]), prior.size)
