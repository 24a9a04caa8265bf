"""Columns of the user's table: read, checked and classified as numbers or as levels."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

MAX_LISTED = 12
"""Largest number of names or levels that a message lists."""


class Table(NamedTuple):
    """A data frame or a mapping of columns."""

    data: Any
    names: tuple[Any, ...]
    size: int
    """Number of rows."""
    index: Any = None
    """Row labels of a data frame."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    values: np.ndarray
    """Numbers as float64, or labels as Python objects. Shape (rows,)."""
    missing: np.ndarray
    """True for each row without a value."""
    levels: tuple[Any, ...] | None
    """Levels that occur, in order, if the column is categorical. None if it is numeric."""


def as_table(data: Any, used: Sequence[str]) -> Table:
    """Return the user's data as a table. Raise if it is not one, has no rows, or if columns differ in length.

    Parameters
    ----------
    data : DataFrame or mapping of str to array
    used : sequence of str
        Columns whose lengths are compared.
    """
    if isinstance(data, Mapping):
        names = tuple(data)
        sizes = {name: len(np.atleast_1d(_plain(data[name]))) for name in names if name in used or not used}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise ValueError(f"columns of data have different numbers of rows: {listed}. Give one value per row.")
        size = next(iter(sizes.values()), 0)
        if names and not sizes:
            unknown_column(names, used[0])
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):
        names, size = tuple(data.columns), len(data)
    else:
        raise TypeError(
            f"data must be a DataFrame or a mapping of column names to arrays, but it is a {type(data).__name__}."
        )
    if size == 0:
        raise ValueError("data has no rows. Expected at least one row.")
    return Table(data, names, size, getattr(data, "index", None))


def unknown_column(names: Collection[Any], name: str, advice: str = "") -> None:
    """Raise ValueError about a column that the data do not have, with similar names."""
    lower = {str(each).lower(): str(each) for each in names}
    similar = difflib.get_close_matches(name.lower(), lower, n=2)
    meant = f" Did you mean {' or '.join(repr(lower[each]) for each in similar)}?" if similar else ""
    raise ValueError(f"there is no column {name!r} in data.{meant} The columns are: {listed(names)}.{advice}")


def read_column(table: Table, name: str, advice: str = "") -> Column:
    """Return a column of a table. Raise if there is none, or if its values are neither numbers nor labels.

    `advice` is the last sentence of the message about a column that does not exist.
    """
    if name not in table.names:
        unknown_column(table.names, name, f" {advice}" if advice else "")
    if table.names.count(name) > 1:
        raise ValueError(f"data has {table.names.count(name)} columns with the name {name!r}. Rename them.")
    raw = table.data[name]
    values = _plain(raw)
    if values.shape != (table.size,):
        raise ValueError(
            f"column {name!r} has shape {values.shape}. Expected one value per row, shape ({table.size},)."
        )
    mask = np.ma.getmaskarray(raw) if np.ma.isMaskedArray(raw) else np.zeros(table.size, dtype=bool)
    categories = getattr(getattr(raw, "dtype", None), "categories", None)
    if categories is not None:
        column = _objects(name, values.astype(object), mask)
        present = set(column.values[~column.missing].tolist())
        return column._replace(levels=tuple(each for each in np.asarray(categories).tolist() if each in present))
    if values.dtype.kind in "iuf":
        numbers = np.where(mask, np.nan, values.astype(np.float64))
        return Column(name, numbers, mask | np.isnan(numbers), None)
    if values.dtype.kind not in "bUTO":
        raise TypeError(
            f"column {name!r} has dtype {values.dtype}. Expected numbers, text or booleans. Convert it to numbers, "
            "for example days since a date."
        )
    column = _objects(name, values.astype(object), mask)
    present = set(column.values[~column.missing].tolist())
    if all(isinstance(each, bool | np.bool_ | str) for each in present):
        return column._replace(levels=_sorted(name, present))
    return _converted(column)


def check_complete(column: Column, purpose: str = "a predictor") -> None:
    """Raise if a column has missing or infinite values."""
    if column.missing.any():
        raise ValueError(
            f"column {column.name!r}, {purpose}, has missing values in {rows(column.missing)}. Remove these rows or "
            "fill in the values. Only the response may be missing."
        )
    infinite = np.isinf(column.values) if column.values.dtype.kind == "f" else np.zeros(1, dtype=bool)
    if infinite.any():
        raise ValueError(
            f"column {column.name!r}, {purpose}, has infinite values in {rows(infinite)}. Remove these rows."
        )


def as_floats(column: Column, purpose: str) -> np.ndarray:
    """Return a column as numbers; booleans are 0 and 1. Raise if it has other labels. Missing values are NaN."""
    if column.values.dtype.kind == "f":
        return column.values
    present = column.values[~column.missing]
    if not all(isinstance(each, bool | np.bool_ | int | float) for each in present):
        text = next(each for each in present if not isinstance(each, bool | int | float))
        raise TypeError(
            f"column {column.name!r}, {purpose}, has values that are not numbers, for example {text!r}. Expected "
            "numbers. If they are numbers as text, convert them with astype(float)."
        )
    numbers = np.full(column.values.shape, np.nan)
    numbers[~column.missing] = present.astype(np.float64)
    return numbers


def levels_of(column: Column) -> tuple[Any, ...]:
    """Return the levels of a column in order. Those of a numeric column are its different values."""
    return column.levels if column.levels is not None else tuple(np.unique(column.values).tolist())


def codes(column: Column, levels: tuple[Any, ...]) -> np.ndarray:
    """Return the position of each value among some levels. Raise if a value is not among them."""
    position = {level: i for i, level in enumerate(levels)}
    found = np.array([position.get(value, -1) for value in column.values.tolist()])
    if (found < 0).any():
        new = column.values[found < 0][0]
        new = new.item() if isinstance(new, np.generic) else new
        raise ValueError(
            f"column {column.name!r} has the level {new!r} in {rows(found < 0)}, which is not in the data of the fit. "
            f"Known levels: {listed(levels, repr)}. Remove these rows, or fit with data that contain the level."
        )
    return found


def label(level: Any) -> str:
    """Return a level as text: whole numbers without a decimal point."""
    return f"{level:.15g}" if isinstance(level, float) else str(level)


def rows(mask: np.ndarray) -> str:
    """Return the rows where a mask is True as text: "row 3 (counted from 0)"."""
    numbers = np.flatnonzero(mask)
    shown = ", ".join(map(str, numbers[:5]))
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"row{'s' if len(numbers) > 1 else ''} {shown}{more} (counted from 0)"


def listed(names: Collection[Any], text: Any = str) -> str:
    """Return names as text, at most `MAX_LISTED` of them."""
    shown = ", ".join(text(name) for name in list(names)[:MAX_LISTED])
    return f"{shown} and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else shown or "none"


def _plain(raw: Any) -> np.ndarray:
    """Return a column as a NumPy array, without the mask of a masked array."""
    return np.ma.getdata(raw) if np.ma.isMaskedArray(raw) else np.asarray(raw)


def _objects(name: str, values: np.ndarray, mask: np.ndarray) -> Column:
    """Return a column of Python objects. None, NaN and the missing values of pandas are missing."""
    if any(isinstance(each, list | dict | set | np.ndarray) for each in values.tolist()):
        raise TypeError(f"column {name!r} has lists or arrays as values. Expected one number or label per row.")
    gone = [each is None or type(each).__name__ in ("NAType", "NaTType") or each != each for each in values.tolist()]
    return Column(name, values, mask | np.array(gone), None)


def _sorted(name: str, present: Collection[Any]) -> tuple[Any, ...]:
    """Return levels in order. Raise if they are text and booleans."""
    if len({isinstance(each, str) for each in present}) > 1:
        raise TypeError(f"column {name!r} has text and booleans. Expected values of one type.")
    return tuple(sorted(present))


def _converted(column: Column) -> Column:
    """Return a column of Python numbers as float64. Raise if a value is not a number."""
    text = next((each for each in column.values[~column.missing] if isinstance(each, str)), None)
    if text is not None:
        raise TypeError(
            f"column {column.name!r} has text such as {text!r} and other values. Expected numbers, or labels of one "
            "type. Convert it with astype(float) or astype(str)."
        )
    numbers = np.full(column.values.shape, np.nan)
    try:
        numbers[~column.missing] = [float(each) for each in column.values[~column.missing]]
    except (TypeError, ValueError):
        raise TypeError(
            f"column {column.name!r} has values that are neither numbers nor text. Convert it with astype(float) or "
            "astype(str)."
        ) from None
    return Column(column.name, numbers, column.missing, None)
