"""The angles of many updates at once, ahead of any likelihood evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.moves.search import Search
from ellipslice.noise import uniform

WIDTH = 16


class AngleTable:
    """The first angles that each update of a block would try, and more on demand.

    The same arithmetic in the same order as `moves.search.search`, so the same bits.
    """

    def __init__(self, move: Search, key: np.ndarray):
        self._move, self._key = move, key
        place, first = _uniforms(key, 0), _uniforms(key, 1)
        here = np.broadcast_to(move.here(place), len(key))
        self.here: list[float] = here.tolist()
        start = (np.broadcast_to(part, len(key)) for part in move.begin(here, place, first))
        columns, self._last = _follow(move, key, here, start, 1, WIDTH)
        self.rows: list[list[float]] = np.stack(columns, axis=1).tolist()

    def extend(self, update: int) -> None:
        """Add angles to the row of one update."""
        row, only = self.rows[update], slice(update, update + 1)
        here = np.array(self.here[only])
        theta, theta_min, theta_max = (part[only] for part in self._last)
        theta_min, theta_max = self._move.shrink(theta, theta_min, theta_max, here)
        theta = self._move.propose(theta_min, theta_max, _uniforms(self._key[only], len(row) + 1))
        columns, last = _follow(self._move, self._key[only], here, (theta, theta_min, theta_max), len(row) + 1, WIDTH)
        for part, new in zip(self._last, last, strict=True):
            part[only] = new
        row += [float(column[0]) for column in columns]


def _follow(move: Search, key: np.ndarray, here: Any, start: Any, number: int, count: int) -> tuple[list[Any], Any]:
    """The next `count` angles, the first of which is given and used uniform `number`."""
    theta, theta_min, theta_max = start
    columns = [theta]
    for k in range(number + 1, number + count):
        theta_min, theta_max = move.shrink(theta, theta_min, theta_max, here)
        theta = move.propose(theta_min, theta_max, _uniforms(key, k))
        columns.append(theta)
    return columns, tuple(np.array(part) for part in (theta, theta_min, theta_max))


def _uniforms(key: np.ndarray, number: int) -> np.ndarray:
    return uniform(key, np.full(len(key), number, np.uint32))
