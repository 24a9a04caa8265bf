"""Several moves in turn."""

from __future__ import annotations

from typing import Any

from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.local_reach import Moved, Reach, check_reach
from ellipslice.noise import NoiseSpec, UpdateNoise
from ellipslice.priors import Prior
from ellipslice.pytree import pytree, set_fields, static


class Cycle(Move):
    """Apply several moves one after the other; one update of the cycle is one update of each.

    Each move leaves the posterior invariant, so the cycle does. (It is not reversible, and need not be.)

    Parameters
    ----------
    *moves : Move

    Notes
    -----
    Statistics: evaluations and NaNs are summed, `search_failed` is true if any move was, `angle` is the last move's.
    Statistics that only one of the moves has are dropped.

    Examples
    --------
    >>> from ellipslice.moves import AuxiliaryEllipse, EllipticalSlice
    >>> Cycle(EllipticalSlice(bracket_width=1.0), AuxiliaryEllipse())
    Cycle(EllipticalSlice(bracket_width=1.0, shrinking='cut'), AuxiliaryEllipse())
    """

    stored_as = "Cycle"

    def __init__(self, *moves: Move):
        if not moves:
            raise ValueError("Cycle needs at least one move.")
        for move in moves:
            if not isinstance(move, Move):
                raise TypeError(f"Cycle takes moves, but {move!r} is a {type(move).__name__}.")
        self.moves = moves
        self.searches = sum(move.searches for move in moves)
        self.gradients = any(move.gradients for move in moves)
        self.constrained = all(move.constrained for move in moves)

    def prepare(self, prior: Prior) -> Any:
        prepared = self.prepare_part(prior)
        check_reach(self, prior, self.reach(prior, prepared))
        return prepared

    def prepare_part(self, prior: Prior) -> CyclePrepared:
        prepared = tuple(move.prepare_part(prior) for move in self.moves)
        specs = self._specs(prior, prepared)
        return CyclePrepared(prepared, tuple(spec.searches for spec in specs), all(spec.of_prior for spec in specs))

    def reach(self, prior: Prior, prepared: CyclePrepared) -> Reach:
        total: list[Moved] = []
        for move, part in zip(self.moves, prepared.moves, strict=True):
            reach = move.reach(prior, part)
            if reach is None:
                return None
            total += reach
        return total

    def noise_spec(self, prior: Prior, prepared: CyclePrepared) -> NoiseSpec:
        if prepared.one_array:  # one matrix product makes the draws of all moves
            return NoiseSpec.from_prior(prior, prior.size, sum(prepared.searches))
        specs = self._specs(prior, prepared.moves)
        return NoiseSpec(
            lambda rng, updates: tuple(spec.draw(rng, updates) for spec in specs),
            searches=sum(prepared.searches),
            numbers=sum(spec.numbers for spec in specs),
        )

    def _specs(self, prior: Prior, prepared: tuple[Any, ...]) -> list[NoiseSpec]:
        return [move.noise_spec(prior, part) for move, part in zip(self.moves, prepared, strict=True)]

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make each move's step in turn."""
        prepared: CyclePrepared = target.prepared
        total: Info | None = None
        first = 0
        for number, (move, part) in enumerate(zip(self.moves, prepared.moves, strict=True)):
            own = slice(first, first + prepared.searches[number])
            drawn = noise.drawn[own] if prepared.one_array else noise.drawn[number]
            state, info = move.step(noise.share(drawn, own), state, target.with_likelihood(target.log_likelihood, part))
            total = info if total is None else total.combine(info)
            first = own.stop
        assert total is not None  # noqa: S101  there is at least one move
        return state, total.common

    def __repr__(self) -> str:
        return f"Cycle({', '.join(map(repr, self.moves))})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Cycle) and self.moves == other.moves

    def __hash__(self) -> int:
        return hash(("Cycle", self.moves))


@pytree
class CyclePrepared:
    """What each move of a cycle prepared, and how the random numbers of an update are divided among them."""

    moves: tuple[Any, ...]
    searches: tuple[int, ...] = static()
    """Number of searches of each move."""
    one_array: bool = static()
    """Whether all moves take draws from the prior and nothing else: one array holds them, shape (searches, size)."""

    def __init__(self, moves: tuple[Any, ...], searches: tuple[int, ...], one_array: bool):
        set_fields(self, moves=moves, searches=searches, one_array=one_array)
