"""Reading of the user's table, CSV or Parquet. Errors name the column and the row."""

from __future__ import annotations

import csv
import difflib
import hashlib
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PARQUET_SUFFIXES = (".parquet", ".pq")
DELIMITERS = ",;\t|"
"""Delimiters that are detected, in this order."""

LABEL_VALUES = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
"""Words that are accepted as labels, in lower case."""

Kind = str
"""Expected content of a column, as errors describe it. Dates are accepted if it contains the word "dates"."""

NUMBERS: Kind = "numbers"
LABELS: Kind = "numbers (or yes and no)"
DATES: Kind = "dates such as 2026-01-31"
INPUTS: Kind = f"numbers, or {DATES}"


class Column(NamedTuple):
    """A column, converted to numbers."""

    name: str
    values: np.ndarray
    origin: str | None = None
    """The first date, from which days are counted; None if the column does not hold dates."""


class Table:
    """A table in a file.

    Parameters
    ----------
    path : Path
        Parquet file if it ends in .parquet or .pq, otherwise a CSV file.
    delimiter : str, optional
        Delimiter of a CSV file. Default: the first of comma, semicolon, tab and vertical bar that is in the first line.
    decimal : {".", ","}
        Decimal mark in a CSV file. Default: a point.
    drop_missing : bool
        Drop rows with a missing value in a column that is used. Default: False, which raises.
    """

    def __init__(self, path: Path, *, delimiter: str | None = None, decimal: str = ".", drop_missing: bool = False):
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder. Give a CSV or Parquet file.")
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}. Check the path.")
        self.path, self._drop = path, drop_missing
        self._frame, self._header = _read(path, delimiter, decimal)
        if not len(self._frame):
            raise ValueError(f"{path} has no rows of data. The first line must name the columns, and rows must follow.")

    @property
    def sha256(self) -> str:
        """SHA-256 checksum of the file, as hexadecimal digits."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def columns(self, names: list[str], kinds: Mapping[str, Kind]) -> dict[str, Column]:
        """Return columns as numbers, by name. Dates become days since the first date.

        Parameters
        ----------
        names : list of str
        kinds : mapping of str to str
            Expected content of columns: `INPUTS`, `LABELS` or `DATES`. Default for each column: `NUMBERS`.
        """
        frame = self.frame(names)[list(dict.fromkeys(names))]
        return {name: self._column(frame[name], kinds.get(name, NUMBERS)) for name in frame.columns}

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return [str(column) for column in self._frame.columns]

    def frame(self, names: list[str]) -> Any:
        """Return all columns as a data frame, at the rows in which the columns `names` have values."""
        self.check_names(names)
        frame = self._frame[list(dict.fromkeys(names))]
        missing = frame.isna().any(axis=1).to_numpy()
        if missing.any() and not self._drop:
            row = int(np.argmax(missing))
            where = next(name for name in frame.columns if frame[name].isna().iloc[row])
            raise ValueError(
                f"{self.path}: {missing.sum():,} of {len(frame):,} rows have no value, first in the column {where!r} "
                f"of row {row + 1}. Fill the missing values, or drop these rows with --drop-missing."
            )
        if missing.all():
            raise ValueError(
                f"{self.path} has a missing value in every row of {', '.join(frame.columns)}. Check these columns."
            )
        return self._frame[~missing]

    def check_names(self, names: list[str]) -> None:
        """Raise unless the table has exactly one column of each name."""
        for name in names:
            self._check_name(name)

    def _check_name(self, name: str) -> None:
        known = self.names
        if self._header.count(name) > 1:
            raise ValueError(f"{self.path} has {self._header.count(name)} columns named {name!r}. Rename them.")
        if name in known:
            return
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        parts = [part.strip() for part in name.split(",")]
        if len(parts) > 1 and set(parts) <= set(known):
            hint = " Name one column at a time, and repeat the option for several columns."
        elif len(known) == 1 and any(character in known[0] for character in DELIMITERS):
            hint = " If the columns are separated by another character, give it with --delimiter."
        elif all(_is_number(column) for column in known):
            hint = " These are numbers, so the header may be missing. The first line must name the columns."
        shown = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
        raise ValueError(f"{self.path} has no column {name!r}. Its columns are {shown}.{hint}")

    def _column(self, series: Any, kind: Kind) -> Column:
        import pandas as pd

        name = str(series.name)
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
            return Column(name, self._finite(name, series))
        numbers: Any = pd.to_numeric(series, errors="coerce")
        if numbers.isna().all():  # pandas does not convert yes and no
            numbers = series.map(lambda value: LABEL_VALUES.get(str(value).strip().lower()), na_action="ignore").astype(
                float
            )
        if numbers.notna().all():
            return Column(name, self._finite(name, numbers))
        times = _as_dates(series) if "dates" in kind else None
        if times is not None:
            first = times.min()
            days = (times - first) / pd.Timedelta(days=1)
            return Column(name, days.to_numpy(float), first.isoformat())
        bad = numbers.isna().to_numpy()
        row = int(np.argmax(bad))
        found = str(series.iloc[row]).strip()
        hint = " For decimal commas give --decimal ','." if re.fullmatch(r"[-+]?\d*,\d+", found) else ""
        raise ValueError(
            f"{self.path}: the column {name!r} holds {found[:40]!r} in row {series.index[row] + 1}; expected {kind}."
            f"{hint}"
        )

    def _finite(self, name: str, series: Any) -> np.ndarray:
        values = series.to_numpy(float)
        if not np.isfinite(values).all():
            row = int(np.argmax(~np.isfinite(values)))
            raise ValueError(
                f"{self.path}: the column {name!r} holds {values[row]} in row {series.index[row] + 1}; expected finite "
                "numbers."
            )
        return values


def _as_dates(series: Any) -> Any:
    """Return the column as dates without time zone; None if it does not hold dates."""
    import pandas as pd

    try:
        times: Any = pd.to_datetime(series, utc=True, format=None if series.dtype.kind == "M" else "ISO8601")
    except (ValueError, TypeError, OverflowError):
        return None
    return times.dt.tz_localize(None)


def _read(path: Path, delimiter: str | None, decimal: str) -> tuple[Any, list[str]]:
    """Return a table, and the names of its columns as they are in the file (pandas renames duplicates)."""
    import pandas as pd

    if path.suffix.lower() in PARQUET_SUFFIXES:
        try:
            frame = pd.read_parquet(path)
        except ImportError:
            raise ImportError(
                "Parquet files require pyarrow. Install it with: pip install 'ellipslice[parquet]'."
            ) from None
        except Exception as error:  # noqa: BLE001  pyarrow raises exceptions of its own types
            raise ValueError(f"{path} cannot be read as Parquet ({_first_line(error)}). Check the file.") from None
        frame.columns = [str(name).strip() for name in frame.columns]
        return frame.reset_index(drop=True), list(frame.columns)
    if decimal not in (".", ","):
        raise ValueError(f"--decimal must be a point or a comma, but it is {decimal!r}.")
    mark = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
    if mark is not None and len(mark) != 1:
        raise ValueError(f"--delimiter must be one character, but it is {mark!r}.")
    if mark == decimal:
        raise ValueError(f"--delimiter and --decimal are both {mark!r}. Give two different characters.")
    options: dict[str, Any] = {"index_col": False, "encoding": "utf-8-sig", "skipinitialspace": mark != " "}
    try:
        mark = mark or _detect_delimiter(path, options)
        first = pd.read_csv(path, header=None, nrows=1, dtype=str, sep=mark, **options)  # read_csv renames duplicates
        frame = pd.read_csv(path, sep=mark, decimal=decimal, **options)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8. Save it as CSV with the encoding UTF-8.") from None
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty. Give a table with a header and rows of data.") from None
    except (ValueError, OverflowError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} cannot be read as CSV ({_first_line(error)}). Check the file, and give its --delimiter."
        ) from None
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame, [str(name).strip() for name in first.iloc[0]]


def _detect_delimiter(path: Path, options: dict[str, Any]) -> str:
    """Return the delimiter that the first line contains outside of quotes; a comma if there is none."""
    import pandas as pd

    first_line = {"header": None, "nrows": 1, "dtype": str, "sep": "\x1f", "quoting": csv.QUOTE_NONE}
    header = re.sub('"[^"]*"', "", str(pd.read_csv(path, **first_line, **options).iloc[0, 0]))
    return next((character for character in DELIMITERS if character in header), ",")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
