"""The angles of many updates at once, ahead of any likelihood evaluation."""

from __future__ import annotations

import jax
import numpy as np

from ellipslice.moves.search import Search
from ellipslice.noise import uniform

TABLED = 32
"""Uniforms tabled for each update of a move that is not a search; the few that need more make them one by one."""

_uniforms = jax.jit(uniform)


def _first_uniforms(key: np.ndarray, count: int) -> np.ndarray:
    return np.asarray(_uniforms(key[..., None, :], np.arange(count, dtype=np.uint32)))


class UniformTable:
    """The uniforms of a block's updates as Python floats: the first few from a table, the rest made when asked for."""

    def __init__(self, key: np.ndarray):
        """`key` has shape (..., 2), and so has the table shape (..., TABLED)."""
        self._key, self._first = key, _first_uniforms(key, TABLED)

    def row(self, *index: int) -> Uniforms:
        """The uniforms of one update."""
        return Uniforms(self._key[index], self._first[index].tolist())


class Uniforms:
    """The uniforms of one update: `uniforms(k)` is number k."""

    def __init__(self, key: np.ndarray, first: list[float]):
        self._key, self._first = key, first

    def __call__(self, number: int) -> float:
        if number < len(self._first):
            return self._first[number]
        return float(uniform(self._key[None], np.array([number], np.uint32))[0])


class AngleTable:
    """The angles that each update of a block would try: the first 16, and more on demand.

    The same arithmetic in the same order as `moves.search.search`: the same angles, to the bit.

    Attributes
    ----------
    here : list
        For each update the position of the current state on its curve.
    """

    WIDTH = 32

    def __init__(self, move: Search, key: np.ndarray, group: int):
        """`key` has shape (updates, 2). Weights are handed out in groups of `group`, which divides WIDTH."""
        self._move, self._key, self._group = move, key, group
        columns = np.ascontiguousarray(_first_uniforms(key, self.WIDTH + 1).T)
        here = np.broadcast_to(move.here(columns[0]), columns[0].shape)
        theta, theta_min, theta_max = np.broadcast_arrays(*move.begin(here, columns[0], columns[1]))
        angles = [theta]
        for u in columns[2:]:
            theta_min, theta_max = move.shrink(theta, theta_min, theta_max, here)
            theta = move.propose(theta_min, theta_max, u)
            angles.append(theta)
        self.here: list[float] = here.tolist()
        self._angles, self._brackets = np.stack(angles, axis=1), np.stack([theta_min, theta_max], axis=1)
        self._weights = self._in_groups(self._angles)
        self._more: dict[int, tuple[list[np.ndarray], list[np.ndarray]]] = {}

    def angle(self, update: int, number: int) -> float:
        """The angle that an update tries `number`-th, counted from 0."""
        sheet, column = divmod(number, self.WIDTH)
        return float(self._more[update][0][sheet - 1][column] if sheet else self._angles[update, column])

    def weights(self, update: int, group: int) -> np.ndarray:
        """A group of angles of an update as weights of its curve's two vectors, shape (group, 2)."""
        sheet, row = divmod(group, self.WIDTH // self._group)
        if not sheet:
            return self._weights[update, row]
        angles, weights = self._more.setdefault(update, ([], []))
        while len(weights) < sheet:
            angles.append(self._extend(update, self.WIDTH * (len(angles) + 1)))
            weights.append(self._in_groups(angles[-1]))
        return weights[sheet - 1][row]

    def _extend(self, update: int, tried: int) -> np.ndarray:
        """The next `WIDTH` angles of an update that has tried all it had."""
        here, theta, angles = self.here[update], self.angle(update, tried - 1), []
        theta_min, theta_max = self._brackets[update].tolist()
        for u in _uniforms(self._key[update], np.arange(tried + 1, tried + self.WIDTH + 1, dtype=np.uint32)).tolist():
            theta_min, theta_max = self._move.shrink(theta, theta_min, theta_max, here)
            theta = self._move.propose(theta_min, theta_max, u)
            angles.append(theta)
        self._brackets[update] = theta_min, theta_max
        return np.array(angles)

    def _in_groups(self, angles: np.ndarray) -> np.ndarray:
        weights = np.stack(self._move.weights(angles), axis=-1)
        return weights.reshape(*angles.shape[:-1], -1, self._group, 2)
