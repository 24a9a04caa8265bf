"""Terms of positions in one or several columns: reading of the columns, and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ellipslice.checks import as_numbers
from ellipslice.latent.terms.base import Term
from ellipslice.latent.terms.columns import as_index, positions_of, read_column

AXES = ("x", "y", "z")
"""Names of the columns of an array without names."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlacedTerm(Term):
    """A term whose rows have positions: names of columns, or an array of shape (rows,) or (rows, axes)."""

    many_columns: ClassVar[bool] = True

    def _name(self) -> str:
        found = self.name or getattr(self.column, "name", None) or "_".join(self._names or ())
        if not found:
            kind = type(self).__name__
            raise ValueError(f"{kind} was given an array without a name. Give name=, for example name='field'.")
        return found

    @property
    def _names(self) -> list[str] | None:
        """Names of the columns; None for an array without names."""
        if isinstance(self.column, str):
            return [self.column]
        if hasattr(self.column, "columns"):
            return [str(each) for each in self.column.columns]
        if isinstance(self.column, (list, tuple)) and all(isinstance(each, str) for each in self.column):
            return list(self.column)
        return None

    @property
    def axes(self) -> list[str]:
        """Names of the axes: those of the columns, or x, y and z."""
        count = np.shape(self.column)[1] if np.ndim(self.column) == 2 else 1
        return self._names or [AXES[i] if i < len(AXES) else f"axis{i}" for i in range(count)]

    @property
    def _new_column(self) -> Any:
        if self._names is None:
            raise TypeError(
                f"{self.name} was given an array of positions, so its columns in new data are unknown. Give names of "
                f"columns: {type(self).__name__}(('x', 'y'), ...)."
            )
        return self._names

    def _points(self, column: Any, data: Any) -> np.ndarray:
        """Return the positions of the rows, shape (rows, axes). Raise if they are not finite numbers or dates."""
        argument = self._argument()
        if not isinstance(column, str) and not (
            isinstance(column, (list, tuple)) and column and all(isinstance(each, str) for each in column)
        ):
            points: Any = as_numbers(column, argument, advice="Drop or fill such rows.")
            points = points[:, None] if points.ndim == 1 else points
            if points.ndim != 2 or 0 in points.shape:
                raise ValueError(f"{argument} has shape {points.shape}. Expected one row of coordinates per row.")
            return points
        names = [column] if isinstance(column, str) else list(column)
        values = [as_index(read_column(each, data, argument), f"{argument} {each!r}") for each in names]
        return np.column_stack(
            [_coordinate(each, f"{argument} {name!r}") for each, name in zip(values, names, strict=True)]
        )

    def __repr__(self) -> str:
        names = self._names
        column = f"array of {len(self.column)} rows" if names is None else ", ".join(names)
        return f"{type(self).__name__}({column}{f', {self.size} elements' if self._bound is not None else ''})"


def _coordinate(values: np.ndarray, argument: str) -> np.ndarray:
    """Return numbers as float64, and dates as days since 1970."""
    return values.astype(np.float64) / 8.64e13 if values.dtype.kind == "M" else positions_of(values, argument)
