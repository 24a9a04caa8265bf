"""The angles of many updates at once, ahead of any likelihood evaluation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ellipslice.moves.search import Search
from ellipslice.noise import FIRST, Uniforms

WIDTH = FIRST - 1
"""Angles on a sheet: the first uniform of an update places the bracket, each other one an angle."""


class Sheet(NamedTuple):
    """Some angles that an update would try, one after the other."""

    theta: np.ndarray
    """Shape (WIDTH,)."""
    weights: np.ndarray
    """The same as weights of the curve's two vectors, shape (WIDTH, 2)."""


class AngleTable:
    """The first sheet of angles for each update of a block, and more on demand.

    The same arithmetic in the same order as `moves.search.search`: the same angles, to the bit.

    Attributes
    ----------
    here : array, shape (updates,)
        The position of the current state on each update's curve.
    theta, weights : array, shape (updates, WIDTH) and (updates, WIDTH, 2)
        The first sheet of every update.
    """

    def __init__(self, move: Search, uniforms: Uniforms):
        self._move, self._uniforms = move, uniforms
        columns = np.ascontiguousarray(uniforms.first.T)
        self.here = np.broadcast_to(move.here(columns[0]), columns[0].shape)
        theta, theta_min, theta_max = np.broadcast_arrays(*move.begin(self.here, columns[0], columns[1]))
        angles = [theta]
        for u in columns[2:]:
            theta_min, theta_max = move.shrink(theta, theta_min, theta_max, self.here)
            theta = move.propose(theta_min, theta_max, u)
            angles.append(theta)
        self.theta = np.stack(angles, axis=1)
        self.weights = _weights(move, self.theta)
        self._brackets = np.stack([theta_min, theta_max], axis=1)
        self._more: dict[int, list[Sheet]] = {}

    def sheet(self, update: int, number: int) -> Sheet:
        """An update's sheet number `number`, counted from 0."""
        sheets = self._more.setdefault(update, [Sheet(self.theta[update], self.weights[update])])
        while len(sheets) <= number:
            sheets.append(self._next_sheet(update, len(sheets), float(sheets[-1].theta[-1])))
        return sheets[number]

    def angle(self, update: int, number: int) -> float:
        """The angle that an update tries `number`-th, counted from 0, measured from the current state."""
        sheet, column = divmod(number, WIDTH)
        theta = self.sheet(update, sheet).theta[column] if sheet else self.theta[update, column]
        return float(theta - self.here[update])

    def _next_sheet(self, update: int, number: int, theta: float) -> Sheet:
        here, angles = float(self.here[update]), []
        theta_min, theta_max = self._brackets[update].tolist()
        for u in self._uniforms[update].beyond(1 + number * WIDTH + np.arange(WIDTH)).tolist():
            theta_min, theta_max = self._move.shrink(theta, theta_min, theta_max, here)
            theta = self._move.propose(theta_min, theta_max, u)
            angles.append(theta)
        self._brackets[update] = theta_min, theta_max
        return Sheet(np.array(angles), _weights(self._move, np.array(angles)))


def _weights(move: Search, theta: np.ndarray) -> np.ndarray:
    return np.stack(move.weights(theta), axis=-1)
