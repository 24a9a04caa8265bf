"""A test of reversibility in exact arithmetic, which follows the proof in Section 2.3 of Murray et al. (2010)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ellipslice.moves import Search
from ellipslice.testing.assertions import require


def check_reversible(move: Search, *, turn: float | None = 2 * math.pi, searches: int = 200, seed: int = 0) -> None:
    """Check that a slice search is reversible, in exact arithmetic. Raise an `AssertionError` if it is not.

    The check follows the proof of Murray, Adams & MacKay (2010), Section 2.3, equations (8) to (12). A search from f
    tries certain angles in certain brackets, and ends at f'. The reverse search, from f', must be able to try the same
    points in the same order, from the same brackets, and end at f. Both then have the same probability. The check
    solves for the uniforms of the reverse search, which must lie in [0, 1].

    Parameters
    ----------
    move : Search
    turn : float or None
        Period of the curve. None for a curve that is not periodic. Default: 2 pi.
    searches : int
        Number of random searches. Default: 200.
    seed : int
        Seed of the random searches. Default: 0.

    Examples
    --------
    >>> import ellipslice as es
    >>> es.testing.check_reversible(es.moves.EllipticalSlice(), searches=20)
    """
    rng = np.random.default_rng(seed)
    exact_turn = None if turn is None else ExactNumber(turn)
    for _ in range(searches):
        slice_ = _random_slice(rng, exact_turn)
        forward = _replay(move, slice_, [_random(rng) for _ in range(60)])
        if forward is None:
            continue  # the slice is so narrow that 59 proposals missed it
        positions, brackets = forward
        end = positions[-1]
        reverse = [position - end for position in positions[:-1]] + [-end]  # equation (12)
        shifted = [(low - end, high - end) for low, high in brackets]
        place, u = _solve_begin(move, reverse[0], shifted[0], exact_turn, bracket_used=len(positions) > 1)
        uniforms = [place, u]
        for position, bracket in zip(reverse[1:], shifted[1:], strict=True):
            uniforms.append(_solve_proposal(move, position, bracket, ExactNumber(0) + move.here(place)))
        require(
            all(0 <= v <= 1 for v in uniforms), f"{move!r} is not reversible: the reverse search has probability zero"
        )
        backward = _replay(move, partial(_shifted, slice_, end), uniforms)
        if backward is None:
            raise AssertionError(f"{move!r} is not reversible: the reverse search does not end")
        tried, widths = backward
        require(
            len(tried) == len(positions) and all(_same(a, b, exact_turn) for a, b in zip(tried, reverse, strict=True)),
            f"{move!r} is not reversible: the reverse search tries other points",
        )
        require(
            [high - low for low, high in widths[1:]] == [high - low for low, high in brackets[1:]],
            f"{move!r} is not reversible: the reverse search draws from other brackets",
        )


class ExactNumber(Fraction):
    """A rational number. Its operations with floats convert the float exactly and return an `ExactNumber`."""

    def _with(self, other: Any, operation: Callable[[Fraction, Any], Any]) -> ExactNumber:
        result = operation(Fraction(self), Fraction(other) if isinstance(other, float) else other)
        return ExactNumber(result)

    def __add__(self, other: Any) -> ExactNumber:  # type: ignore[override]
        return self._with(other, Fraction.__add__)

    def __radd__(self, other: Any) -> ExactNumber:  # type: ignore[override]
        return self._with(other, Fraction.__add__)

    def __sub__(self, other: Any) -> ExactNumber:  # type: ignore[override]
        return self._with(other, Fraction.__sub__)

    def __rsub__(self, other: Any) -> ExactNumber:  # type: ignore[override]
        return self._with(other, lambda a, b: Fraction(b) - a)

    def __mul__(self, other: Any) -> ExactNumber:  # type: ignore[override]
        return self._with(other, Fraction.__mul__)

    def __rmul__(self, other: Any) -> ExactNumber:  # type: ignore[override]
        return self._with(other, Fraction.__mul__)

    def __truediv__(self, other: Any) -> ExactNumber:  # type: ignore[override]
        return self._with(other, Fraction.__truediv__)

    def __neg__(self) -> ExactNumber:  # type: ignore[override]
        return ExactNumber(-Fraction(self))

    def __mod__(self, other: Any) -> ExactNumber:  # type: ignore[override]
        return self._with(other, Fraction.__mod__)


def _shifted(acceptable: Callable[[ExactNumber], bool], origin: ExactNumber, at: ExactNumber) -> bool:
    """Return whether a position is acceptable, if it is measured from `origin`."""
    return acceptable(at + origin)


def _random(rng: np.random.Generator) -> ExactNumber:
    """Return a random multiple of 2^-16 in [0, 1)."""
    return ExactNumber(int(rng.integers(0, 2**16)), 2**16)


def _random_slice(rng: np.random.Generator, turn: ExactNumber | None) -> Callable[[ExactNumber], bool]:
    """Return a random slice: a function that is true for acceptable positions, measured from the current state.

    The slice consists of one to three intervals, and contains 0.
    """
    width = ExactNumber(float(rng.choice([0.02, 0.3, 2.0])))
    low = -_random(rng) * width
    edges = [(low, low + width)] + [(c, c + width) for c in (_random(rng) * 6 for _ in range(rng.integers(0, 3)))]

    def acceptable(at: ExactNumber) -> bool:
        return any((at - low) % turn < high - low if turn is not None else low <= at < high for low, high in edges)

    return acceptable


def _replay(
    move: Search, acceptable: Callable[[ExactNumber], bool], uniforms: list[ExactNumber]
) -> tuple[list[ExactNumber], list[tuple[ExactNumber, ExactNumber]]] | None:
    """Return the positions that a search tries and the brackets from which it draws them.

    All are measured from the current state. Return None if the search has not ended after all `uniforms`.
    """
    place = uniforms[0]
    here = ExactNumber(0) + move.here(place)
    theta, theta_min, theta_max = (ExactNumber(0) + part for part in move.begin(here, place, uniforms[1]))
    positions, brackets = [theta - here], [(theta_min - here, theta_max - here)]
    for u in uniforms[2:]:
        if acceptable(positions[-1]):
            return positions, brackets
        theta_min, theta_max = move.shrink(theta, theta_min, theta_max, here)
        require(theta_min <= here <= theta_max, f"{move!r} shrinks its bracket away from the current state")
        theta = move.propose(theta_min, theta_max, u)
        positions.append(theta - here)
        brackets.append((theta_min - here, theta_max - here))
    return (positions, brackets) if acceptable(positions[-1]) else None


def _same(a: ExactNumber, b: ExactNumber, turn: ExactNumber | None) -> bool:
    """Return whether two positions are the same point of a curve with period `turn`."""
    return a == b if turn is None else (a - b) % turn == 0


def _solve_begin(
    move: Search,
    position: ExactNumber,
    bracket: tuple[ExactNumber, ExactNumber],
    turn: ExactNumber | None,
    *,
    bracket_used: bool,
) -> tuple[ExactNumber, ExactNumber]:
    """Return the two uniforms for which a search begins at `position`, with this bracket if `bracket_used` is true.

    `begin` must be affine in its two uniforms, so that three evaluations determine it, or affine in each half of the
    range of the first one.
    """
    zero, one, half = ExactNumber(0), ExactNumber(1), ExactNumber(1, 2)
    pieces = [(zero, one)] if _begin_is_affine(move, zero, one) else [(zero, half), (half, one)]
    require(
        all(_begin_is_affine(move, *piece) for piece in pieces),
        f"{move!r}: begin is not affine in its uniforms, which this check requires",
    )
    for (low, high), shift in itertools.product(pieces, (zero,) if turn is None else (zero, turn, -turn)):
        origin, by_place, by_u = _affine_begin(move, low, high)
        target = np.array([position + shift, bracket[0] + shift], dtype=object) - origin
        solution = _solve(by_place, by_u, target, both=True)
        if solution is None and not bracket_used:
            solution = _solve(by_place, by_u, target, both=False)
        if solution is not None and low <= solution[0] <= high and 0 <= solution[1] <= 1:
            return solution
    raise AssertionError(f"{move!r} is not reversible: the reverse search cannot begin with the same bracket")


def _begin(move: Search, place: ExactNumber, u: ExactNumber) -> np.ndarray:
    """Return the first position and the lower end of the first bracket, measured from the current state."""
    here = ExactNumber(0) + move.here(place)
    theta, theta_min, _ = move.begin(here, place, u)
    return np.array([theta - here, theta_min - here], dtype=object)


def _affine_begin(move: Search, low: ExactNumber, high: ExactNumber) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (origin, by_place, by_u) of `_begin`, if it is origin + place by_place + u by_u for places inside."""
    one, two = low + (high - low) / 4, low + (high - low) * 3 / 4
    by_place = (_begin(move, two, ExactNumber(0)) - _begin(move, one, ExactNumber(0))) / (two - one)
    by_u = _begin(move, one, ExactNumber(1)) - _begin(move, one, ExactNumber(0))
    return _begin(move, one, ExactNumber(0)) - by_place * one, by_place, by_u


def _begin_is_affine(move: Search, low: ExactNumber, high: ExactNumber) -> bool:
    """Return whether `_begin` is affine in its two uniforms, for places between two numbers."""
    origin, by_place, by_u = _affine_begin(move, low, high)
    places = [low + (high - low) * part / 8 for part in (1, 3, 5, 7)]
    uniforms = [ExactNumber(1, 2), ExactNumber(3, 4)]
    return all(
        bool((_begin(move, place, u) == origin + by_place * place + by_u * u).all())
        for place, u in itertools.product(places, uniforms)
    )


def _solve_proposal(
    move: Search, position: ExactNumber, bracket: tuple[ExactNumber, ExactNumber], here: ExactNumber
) -> ExactNumber:
    """Return the uniform for which `position` is proposed in a bracket. Both are measured from the current state."""
    first, last = (move.propose(bracket[0] + here, bracket[1] + here, ExactNumber(u)) - here for u in (0, 1))
    require(last > first, f"{move!r} shrank its bracket to length zero")
    return (position - first) / (last - first)


def _solve(
    by_place: np.ndarray, by_u: np.ndarray, target: np.ndarray, *, both: bool
) -> tuple[ExactNumber, ExactNumber] | None:
    """Return (place, u) with place * by_place + u * by_u = target, or None if there is no solution.

    The equation must hold in both components if `both` is true, else in the first.
    """
    determinant = by_place[0] * by_u[1] - by_place[1] * by_u[0]
    if determinant != 0:
        return (
            (target[0] * by_u[1] - target[1] * by_u[0]) / determinant,
            (target[1] * by_place[0] - target[0] * by_place[1]) / determinant,
        )
    if by_u[0] == 0:
        return None
    u = target[0] / by_u[0]
    return (ExactNumber(0), u) if not both or u * by_u[1] == target[1] else None
