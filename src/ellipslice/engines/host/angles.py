"""The angles that a block of updates tries, computed before any evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.moves.search import WIDTH, Path, next_angle
from ellipslice.noise import Uniforms


class AngleTable:
    """The angles that each update of a block tries, in sheets of WIDTH angles.

    The first sheet of every update is computed at the start, further ones on demand. The arithmetic and its order are
    those of `moves.search.search`, so the angles are bit-identical.

    Parameters
    ----------
    path : Path
    uniforms : Uniforms, shape (updates,)

    Attributes
    ----------
    here : array, shape (updates,)
        Position of the current state on the curve of each update.
    theta : array, shape (updates, WIDTH)
        First sheet of every update.
    """

    def __init__(self, path: Path, uniforms: Uniforms):
        self._path, self._uniforms = path, uniforms
        self.here, self.theta, self._brackets = _first_sheets(path, uniforms.first)
        self._more: dict[int, list[np.ndarray]] = {}

    def sheet(self, update: int, number: int) -> np.ndarray:
        """Return sheet `number` of an update, counted from 0: array of WIDTH angles."""
        sheets = self._more.setdefault(update, [self.theta[update]])
        while len(sheets) <= number:
            sheets.append(self._next_sheet(update, len(sheets), float(sheets[-1][-1])))
        return sheets[number]

    def angle(self, update: int, number: int) -> float:
        """Return the statistic `angle` of a move to position `number` of an update, counted from 0."""
        sheet, column = divmod(number, WIDTH)
        theta = self.sheet(update, sheet)[column] if sheet else self.theta[update, column]
        return float(self._path.angle(self.here[update], theta))

    def _next_sheet(self, update: int, number: int, theta: float) -> np.ndarray:
        """Return sheet `number`, which follows the angle `theta`, the last one of the sheet before it."""
        last, angles = (theta, *self._brackets[update].tolist()), []
        for u in self._uniforms[update].beyond(1 + number * WIDTH + np.arange(WIDTH)).tolist():
            last = next_angle(self._path, float(self.here[update]), last, u)
            angles.append(last[0])
        self._brackets[update] = last[1:]
        return np.array(angles)


def _first_sheets(path: Path, first: np.ndarray) -> tuple[Any, Any, Any]:
    """Return the positions, the first sheets and the last brackets of many updates.

    `first` are their uniforms, shape (updates, DRAWN_UNIFORMS). The returned arrays have the shapes (updates,),
    (updates, WIDTH) and (updates, 2).
    """
    columns = np.ascontiguousarray(first.T)
    here = np.broadcast_to(path.here(columns[0]), columns[0].shape)
    last = np.broadcast_arrays(*path.begin(here, columns[0], columns[1]))
    angles = [last[0]]
    for u in columns[2:]:
        last = next_angle(path, here, last, u)
        angles.append(last[0])
    return here, np.stack(angles, axis=1), np.stack(last[1:], axis=1)
