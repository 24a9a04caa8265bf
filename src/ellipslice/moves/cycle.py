"""Several moves in turn."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.moves.base import Info, Lots, Move, State, Target
from ellipslice.moves.reach import Moved, Reach, check_reach
from ellipslice.noise import Noise
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
    Statistics: evaluations and NaNs are summed, `stuck` is true if any move was, `angle` is the last move's.

    Examples
    --------
    >>> from ellipslice.moves import AuxiliaryEllipse, EllipticalSlice
    >>> Cycle(EllipticalSlice(bracket_width=1.0), AuxiliaryEllipse())
    Cycle(EllipticalSlice(bracket_width=1.0, shrinking='cut'), AuxiliaryEllipse())
    """

    def __init__(self, *moves: Move):
        if not moves:
            raise ValueError("Cycle needs at least one move.")
        for move in moves:
            if not isinstance(move, Move):
                raise TypeError(f"Cycle takes moves, but {move!r} is a {type(move).__name__}.")
        self.moves = moves
        self.parts = sum(move.parts for move in moves)
        self.gradients = any(move.gradients for move in moves)
        self.constrained = all(move.constrained for move in moves)

    def prepare(self, prior: Prior) -> Any:
        prepared = self.prepare_part(prior)
        check_reach(self, prior, self.reach(prior, prepared))
        return prepared

    def prepare_part(self, prior: Prior) -> Any:
        prepared = tuple(move.prepare_part(prior) for move in self.moves)
        each = self._each(prior, prepared)
        if all(part is None for part in prepared) and all(lots.source is prior for lots in each):
            return None
        return Prepared(prepared, tuple((lots.draws, lots.parts) for lots in each))

    def reach(self, prior: Prior, prepared: Prepared | None) -> Reach:
        total: list[Moved] = []
        for move, part in zip(
            self.moves, (None,) * len(self.moves) if prepared is None else prepared.moves, strict=True
        ):
            reach = move.reach(prior, part)
            if reach is None:
                return None
            total += reach
        return total

    def lots(self, prior: Prior, prepared: Prepared | None) -> Lots:
        if prepared is None:
            return super().lots(prior, prepared)
        each = self._each(prior, prepared.moves)
        return Lots(InTurn(each), sum(lots.draws for lots in each), sum(lots.parts for lots in each))

    def _each(self, prior: Prior, prepared: tuple[Any, ...]) -> list[Lots]:
        return [move.lots(prior, part) for move, part in zip(self.moves, prepared, strict=True)]

    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """Each move's step in turn."""
        prepared = target.prepared
        if prepared is None:
            prepared = Prepared((None,) * len(self.moves), tuple((move.parts, move.parts) for move in self.moves))
        total: Info | None = None
        nu = lot = 0
        for move, known, (draws, parts) in zip(self.moves, prepared.moves, prepared.counts, strict=True):
            own = Noise(noise.nu[nu : nu + draws], noise.level[lot : lot + parts], noise.uniforms[lot : lot + parts])
            state, info = move.step(own, state, target.within(target.log_likelihood, known))
            total = info if total is None else total.then(info)
            nu, lot = nu + draws, lot + parts
        assert total is not None  # noqa: S101  there is at least one move
        return state, total

    def __repr__(self) -> str:
        return f"Cycle({', '.join(map(repr, self.moves))})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Cycle) and self.moves == other.moves

    def __hash__(self) -> int:
        return hash(("Cycle", self.moves))


@pytree
class Prepared:
    """What each move of a cycle prepared, and how much noise it takes: (draws, parts)."""

    moves: tuple[Any, ...]
    counts: tuple[tuple[int, int], ...] = static()

    def __init__(self, moves: tuple[Any, ...], counts: tuple[tuple[int, int], ...]):
        set_fields(self, moves=moves, counts=counts)


class InTurn:
    """The draws of several moves, for each update one move's after the other's."""

    def __init__(self, each: list[Lots]):
        self._each = each

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """As many as asked for, a whole number of updates'; shape (count, size)."""
        length = count // sum(lots.draws for lots in self._each)
        drawn = [np.asarray(lots.source.draw(rng, length * lots.draws)) for lots in self._each]
        rows = [nu.reshape(length, lots.draws, -1) for nu, lots in zip(drawn, self._each, strict=True)]
        return np.concatenate(rows, axis=1).reshape(count, -1)
