"""Chains in lock step: groups of four chains, whose matrix products become one product.

A product of a matrix and one vector takes as long as reading the matrix. A product with four vectors takes little
longer. Chain i is member i % 4 of its group. Members that do not run are replaced by copies of another member, so that
the shapes of all arrays, and with them the rounding of a chain, do not depend on which chains run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.compiled.block import BlockRunner, ChainState, Trace
from ellipslice.engines.compiled.chain import BlocksAhead, CompiledChain, GroupNoise
from ellipslice.engines.compiled.scouts import NoScout
from ellipslice.engines.compiled.search import CompiledTarget, Found
from ellipslice.engines.rows import ChainRows, Rows
from ellipslice.moves import Move, State
from ellipslice.noise import NoiseSpec, UpdateNoise
from ellipslice.undocumented.xla_loop import ONE_THREAD

GROUP = 4
"""Number of chains in a group. The draws of a seed depend on it."""


class Group(NamedTuple):
    """Chains of a run that make their updates in parallel."""

    positions: list[int]
    """Positions of the chains in the run."""
    members: list[int]
    """For each of the `GROUP` members, an entry of `positions`. Missing members repeat the first entry."""


def form_groups(chains: Sequence[int], starts: Sequence[Checkpoint]) -> list[Group]:
    """Return the groups of a run. Chains that have made different numbers of updates are in different groups."""

    def key(position: int) -> tuple[int, int]:
        return chains[position] // GROUP, starts[position].updates

    groups = []
    for _, together in groupby(sorted(range(len(chains)), key=key), key):
        group = Group(list(together), [0] * GROUP)
        for entry, position in enumerate(group.positions):
            group.members[chains[position] % GROUP] = entry
        groups.append(group)
    return groups


def run_group_block(
    rows: int,
    move: Move,
    shared: tuple[str, ...],
    likelihood: Any,
    prepared: Any,
    start: ChainState,
    noise: tuple[UpdateNoise, ...],
    span: Any,
) -> tuple[Trace, ChainState]:
    """Make the updates `span[0]` to `span[1] - 1` of a block, of all members of a group, as `run_block` for one chain.

    Parameters
    ----------
    shared : tuple of str
        Fields of the drawn numbers that are equal for all chains. A `lax.cond` on one of them remains a branch.
    start : ChainState
        States of the members along a leading axis.
    noise : tuple of UpdateNoise
        Random numbers of all updates of the block, one entry for each member.
    """
    first, stop = span
    target = CompiledTarget(likelihood, prepared)
    axes = UpdateNoise(_axes(noise[0].drawn, shared), 0, 0)  # type: ignore[arg-type]

    def update(noise: UpdateNoise, state: State) -> tuple[State, Trace]:
        state, info = move.step(noise, state, target)
        return state, Trace.row(Found(state, info, info.evaluations, None), move)

    def write(t: Any, carry: tuple[State, Trace]) -> tuple[State, Trace]:
        states, trace = carry
        now = [one.at(t) for one in noise]
        together = jax.tree.map(lambda *parts: jnp.stack(parts), *now)
        if shared:
            same = {name: getattr(now[0].drawn, name) for name in shared}
            together = together._replace(drawn=together.drawn._replace(**same))
        states, row = jax.vmap(update, in_axes=(axes, 0))(together, states)
        return states, jax.tree.map(lambda column, value: column.at[t - first].set(value), trace, row)

    trace = jax.tree.map(lambda column: jnp.stack([column] * GROUP, 1), Trace.empty(rows, start.state.f[0], move))
    states, trace = lax.fori_loop(first, stop, write, (start.state, trace))
    return trace, ChainState(states, None)


def _axes(drawn: Any, shared: tuple[str, ...]) -> Any:
    """Return the batch axis of the drawn numbers: 0, or a tuple with None for each shared field."""
    if not shared:
        return 0
    return type(drawn)(**{name: None if name in shared else 0 for name in drawn._fields})


class GroupRunner(BlockRunner):
    """Calls the compiled loop for all groups of a run, and reads its results.

    Products use one thread. Several threads would add the terms of a product in an order that depends on their number.
    """

    def __init__(self, move: Move, noise_spec: NoiseSpec, likelihood: Any, prepared: Any, max_updates: int):
        super().__init__(move, NoScout(), likelihood, prepared, max_updates, ONE_THREAD)
        self._loop, self._static = run_group_block, (max_updates, move, noise_spec.shared)

    def group(
        self, group: Group, spec: RunSpec, starts: Sequence[Checkpoint], updates: int, noise: Sequence[BlocksAhead]
    ) -> CompiledChain:
        """Return a group of chains. `starts` and `noise` have an entry for each chain of the run."""
        begun = [self.begin(starts[position].state).state for position in group.positions]
        states = State(*(jnp.stack(parts) for parts in zip(*(begun[entry] for entry in group.members), strict=True)))
        rows = [ChainRows(position, spec, starts[position]) for position in group.positions]

        def to_rows(*columns: Any) -> Iterator[Rows]:
            for entry, own in enumerate(rows):
                member = group.members.index(entry)
                yield own.add(*jax.tree.map(lambda column, member=member: column[:, member], columns))

        own = GroupNoise([noise[position] for position in group.positions], group.members)
        return CompiledChain(ChainState(states, None), starts[group.positions[0]].updates, updates, own, self, to_rows)
