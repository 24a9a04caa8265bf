"""Columns of the data: reading, missing values, levels and their codes."""

from __future__ import annotations

import datetime as dt
import difflib
from typing import Any

import numpy as np

from ellipslice.checks import as_numbers

MAX_SHOWN = 8
"""Number of values that an error message lists."""


def read_column(column: Any, data: Any, argument: str) -> Any:
    """Return a column: `data[column]` for a name, else `column` itself. Raise if there is no such column.

    Parameters
    ----------
    column : str or array, shape (rows,)
        Name of a column, or its values.
    data : DataFrame, mapping of columns, or None
    argument : str
        Term and argument for messages, for example "RW2: column".
    """
    if not isinstance(column, str):
        values = column if hasattr(column, "dtype") and np.ndim(column) == 1 else np.asarray(column)
        if np.ndim(values) != 1 or not len(values):
            raise ValueError(f"{argument} has shape {np.shape(values)}. Expected one value per row, shape (rows,).")
        return values
    if data is None:
        raise TypeError(f"{argument} is the name {column!r}, but no data were given. Give data, or an array.")
    names = column_names(data)
    if column not in names:
        similar = difflib.get_close_matches(column, [str(name) for name in names], n=1)
        meant = f" Did you mean {similar[0]!r}?" if similar else ""
        raise ValueError(f"{argument} {column!r} is not a column of the data.{meant} The columns are: {listed(names)}.")
    return read_column(data[column], None, f"{argument} {column!r}")


def column_names(data: Any) -> list[Any]:
    """Return the names of the columns of a data frame or a mapping."""
    return list(getattr(data, "columns", data))


def column_name(column: Any, name: str | None, term: str) -> str:
    """Return the name of a term: `name`, else that of its column. Raise if neither is given."""
    found = name or (column if isinstance(column, str) else getattr(column, "name", None))
    if not found or not isinstance(found, str):
        raise ValueError(f"{term} was given an array without a name. Give name=, for example name='age'.")
    return found


def as_index(values: Any, argument: str) -> np.ndarray:
    """Return the values of an index column as an array. Raise if any is missing, with the rows."""
    array = np.asarray(values)
    if array.dtype.kind == "M" or (len(array) and all(type(each) is dt.date for each in array)):
        array = array.astype("datetime64[ns]")
    missing = _missing(array)
    if missing.any():
        rows = np.flatnonzero(missing)
        number = "row" if len(rows) == 1 else "rows"
        raise ValueError(
            f"{argument} has missing values in {number} {listed(rows)}. Drop these rows, or replace the values."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{argument} is not finite in rows {listed(np.flatnonzero(~np.isfinite(array)))}.")
    return array


def _missing(array: np.ndarray) -> np.ndarray:
    """Return where an array has NaN, None, NaT or pandas' NA."""
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype.kind == "M":
        return np.isnat(array)
    if array.dtype.kind != "O":
        return np.zeros(array.shape, dtype=bool)
    names = ("NAType", "NaTType")
    return np.array([each is None or type(each).__name__ in names or bool(each != each) for each in array], dtype=bool)


def levels_of(values: Any, argument: str) -> np.ndarray:
    """Return the distinct values of a column: sorted, or in the order of its categories."""
    index = as_index(values, argument)
    categories = getattr(getattr(values, "cat", values), "categories", None)
    if categories is not None:
        present = set(index.tolist())
        return as_index([each for each in np.asarray(categories) if each in present], argument)
    try:
        return np.unique(index)
    except TypeError:
        raise TypeError(f"{argument} has values of several types, which cannot be sorted. Use one type.") from None


def codes_of(values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the position of each value in `levels`, and -1 for a value that is not a level."""
    if values.dtype.kind in "US" and levels.dtype.kind not in "USO":
        return np.full(len(values), -1)
    position = {each: i for i, each in enumerate(levels)}
    try:
        distinct, inverse = np.unique(values, return_inverse=True)
    except TypeError:
        distinct, inverse = values, np.arange(len(values))
    return np.array([position.get(each, -1) for each in distinct], dtype=np.int64)[inverse]


def positions_of(levels: np.ndarray, argument: str) -> np.ndarray:
    """Return levels as positions on a line, float64. Dates are days. Raise if they are not numbers or dates."""
    if levels.dtype.kind == "M":
        return (levels - levels.min()).astype(np.float64) / 8.64e13
    if levels.dtype.kind not in "iuf":
        raise TypeError(
            f"{argument} has the values {listed(levels)}. Expected numbers or dates. Use IID for groups without order."
        )
    return as_numbers(levels, argument)


def listed(values: Any) -> str:
    """Return up to eight values as text, and the number of others."""
    values = list(values)
    text = ", ".join(str(each) for each in values[:MAX_SHOWN])
    return f"{text} and {len(values) - MAX_SHOWN} more" if len(values) > MAX_SHOWN else text
