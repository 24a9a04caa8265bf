"""The angles of many updates at once, ahead of any likelihood evaluation."""

from __future__ import annotations

import jax
import numpy as np

from ellipslice.moves.search import Search
from ellipslice.noise import uniform

TABLED = 32
"""Uniforms tabled for each update; the few searches that need more make them one by one."""

_table = jax.jit(uniform)


class UniformTable:
    """The uniforms of a block's updates as Python floats: the first few from a table, the rest made when asked for."""

    def __init__(self, key: np.ndarray):
        """`key` has shape (..., 2), and so has the table shape (..., TABLED)."""
        self._key = key
        self.first = np.asarray(_table(key[..., None, :], np.arange(TABLED, dtype=np.uint32)))

    def row(self, *index: int) -> Uniforms:
        """The uniforms of one update."""
        return Uniforms(self._key[index], self.first[index].tolist())


class Uniforms:
    """The uniforms of one update: `uniforms(k)` is number k."""

    def __init__(self, key: np.ndarray, first: list[float]):
        self._key, self._first = key, first

    def __call__(self, number: int) -> float:
        if number < len(self._first):
            return self._first[number]
        return float(uniform(self._key[None], np.array([number], np.uint32))[0])


class AngleTable:
    """The first angles that each update of a block would try, and more on demand.

    The same arithmetic in the same order as `moves.search.search`: the same angles, to the bit.

    Attributes
    ----------
    here : list
        For each update the position of the current state on its curve.
    """

    WIDTH = 16

    def __init__(self, move: Search, uniforms: UniformTable):
        self._move, self._uniforms = move, uniforms
        columns = np.ascontiguousarray(uniforms.first.T)
        place = columns[0]
        here = np.broadcast_to(move.here(place), place.shape)
        theta, theta_min, theta_max = move.begin(here, place, columns[1])
        angles = [theta]
        for u in columns[2 : self.WIDTH + 1]:
            theta_min, theta_max = move.shrink(theta, theta_min, theta_max, here)
            theta = move.propose(theta_min, theta_max, u)
            angles.append(theta)
        self._angles = np.stack(angles, axis=1)
        self._brackets = np.stack(np.broadcast_arrays(theta_min, theta_max), axis=1)
        self._more: dict[int, list[float]] = {}
        self.here: list[float] = here.tolist()
        # Flat lists: thousands of short ones would set off Python's garbage collector.
        self._weights_a, self._weights_b = (weights.ravel().tolist() for weights in move.weights(self._angles))

    def angle(self, update: int, number: int) -> float:
        """The angle that an update tries `number`-th, counted from 0."""
        if number < self.WIDTH:
            return float(self._angles[update, number])
        return self._more[update][number - self.WIDTH]

    def weights(self, update: int, tried: int) -> tuple[list[float], list[float]]:
        """The next few angles of an update that has tried some, as weights of its curve's two vectors."""
        if tried < self.WIDTH:
            ahead = slice(update * self.WIDTH + tried, (update + 1) * self.WIDTH)
            return self._weights_a[ahead], self._weights_b[ahead]
        if tried == self.WIDTH + len(self._more.get(update, ())):
            self._extend(update, tried)
        w_a, w_b = zip(*map(self._move.weights, self._more[update][tried - self.WIDTH :]), strict=True)
        return list(w_a), list(w_b)

    def _extend(self, update: int, tried: int) -> None:
        here, uniforms, more = self.here[update], self._uniforms.row(update), self._more.setdefault(update, [])
        theta, (theta_min, theta_max) = self.angle(update, tried - 1), self._brackets[update].tolist()
        for number in range(tried + 1, tried + 9):
            theta_min, theta_max = self._move.shrink(theta, theta_min, theta_max, here)
            theta = self._move.propose(theta_min, theta_max, uniforms(number))
            more.append(theta)
        self._brackets[update] = (theta_min, theta_max)
