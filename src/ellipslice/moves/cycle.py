"""Several moves in turn."""

from __future__ import annotations

from typing import Any

from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.local_reach import Moved, Reach, check_reach
from ellipslice.noise import NoiseSpec, UpdateNoise
from ellipslice.priors import Prior
from ellipslice.pytree import pytree, set_fields, static


class Cycle(Move):
    """Several moves, applied one after the other. One update of the cycle is one update of each move.

    Each move leaves the posterior invariant, so the cycle does, too. It is not reversible, which is not required.

    Parameters
    ----------
    *moves : Move
        The moves in order, at least one.

    Raises
    ------
    ValueError
        If there are no moves.
    TypeError
        If an argument is not a move.

    Notes
    -----
    `evaluations` and `nan_evaluations` are summed over the moves, `search_failed` is True if it is True for any move,
    and `angle` is that of the last move. Statistics that only some moves have are dropped.

    An update costs the sum of the moves' updates.

    Examples
    --------
    >>> from ellipslice.moves import AuxiliaryEllipse, EllipticalSlice
    >>> Cycle(EllipticalSlice(bracket_width=1.0), AuxiliaryEllipse())
    Cycle(EllipticalSlice(bracket_width=1.0, shrinking='cut'), AuxiliaryEllipse(concentration=0.0))
    """

    stored_as = "Cycle"

    def __init__(self, *moves: Move):
        if not moves:
            raise ValueError("Cycle got no moves; expected at least one move.")
        for move in moves:
            if not isinstance(move, Move):
                raise TypeError(
                    f"Cycle takes moves, but {move!r} is a {type(move).__name__}. Pass an instance of a move."
                )
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
        if prepared.one_array:  # draws for all moves are then made by one matrix product
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
        """Make one step of each move in turn."""
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
    """Results of `prepare` of each move of a cycle, and the division of the random numbers of an update among them."""

    moves: tuple[Any, ...]
    """The result of `prepare_part` of each move."""
    searches: tuple[int, ...] = static()
    """Number of searches of each move."""
    one_array: bool = static()
    """True if all moves take only draws from the prior. One array then holds them, shape (searches, size)."""

    def __init__(self, moves: tuple[Any, ...], searches: tuple[int, ...], one_array: bool):
        set_fields(self, moves=moves, searches=searches, one_array=one_array)
