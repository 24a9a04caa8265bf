"""Several moves in turn."""

from __future__ import annotations

from typing import Any

from ellipslice.moves.arithmetic import where
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.noise import Noise


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

    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """Each move's step in turn."""
        total: Info | None = None
        start = 0
        for move in self.moves:
            stop = start + move.parts
            state, info = move.step(Noise(*(part[start:stop] for part in noise)), state, target)
            total = info if total is None else _add(total, info)
            start = stop
        assert total is not None  # noqa: S101  there is at least one move
        return state, total

    def __repr__(self) -> str:
        return f"Cycle({', '.join(map(repr, self.moves))})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Cycle) and self.moves == other.moves

    def __hash__(self) -> int:
        return hash(("Cycle", self.moves))


def _add(one: Info, two: Info) -> Info:
    return Info(
        one.evaluations + two.evaluations,
        one.nans + two.nans,
        where(one.stuck, True, two.stuck),
        two.angle,
    )
