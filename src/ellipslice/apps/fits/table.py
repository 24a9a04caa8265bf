"""Reading a user's table: CSV or Parquet, columns by name, numbers or dates, with errors that name the row."""

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

PARQUET = (".parquet", ".pq")
MARKS = ",;\t|"
"""That may be between columns."""

WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
"""Labels that say which is 1."""


Kind = str
"""What a column may hold, in words for errors. Dates are accepted if the word is in it."""

NUMBERS: Kind = "numbers"
LABELS: Kind = "numbers (or yes and no)"
DATES: Kind = "dates such as 2026-01-31"
INPUTS: Kind = f"numbers, or {DATES}"


class Column(NamedTuple):
    """A column as numbers."""

    name: str
    values: np.ndarray
    origin: str | None = None
    """Of dates: the first one, from which days are counted."""


class Table:
    """A file's columns.

    Parameters
    ----------
    path : Path
        A CSV file, or a Parquet file by its ending.
    delimiter : str, optional
        Between the columns of a CSV file. Unless given it is a comma, or, if there is none in the first line, a
        semicolon, a tab or a bar that is.
    decimal : str
        Between the whole and the rest of a number in a CSV file: a point or a comma.
    drop_missing : bool
        Leave out rows in which a column that is used has no value, in place of refusing them.
    """

    def __init__(self, path: Path, *, delimiter: str | None = None, decimal: str = ".", drop_missing: bool = False):
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder; expected a CSV or Parquet file.")
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}.")
        self.path, self._drop = path, drop_missing
        self._frame, self._header = _read(path, delimiter, decimal)
        if not len(self._frame):
            raise ValueError(f"{path} has no rows of data.")

    @property
    def sha256(self) -> str:
        """Of the file."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def columns(self, names: list[str], kinds: Mapping[str, Kind]) -> dict[str, Column]:
        """Return some columns as numbers. Dates become days since the first. `kinds` says what a column may hold.

        A column that is not in `kinds` holds numbers.
        """
        for name in names:
            self._check_name(name)
        frame = self._frame[list(dict.fromkeys(names))]
        missing = frame.isna().any(axis=1).to_numpy()
        if missing.any() and not self._drop:
            row = int(np.argmax(missing))
            where = next(name for name in frame.columns if frame[name].isna().iloc[row])
            raise ValueError(
                f"{self.path}: {missing.sum():,} of {len(frame):,} rows have no value, the first in the column "
                f"{where!r} of row {row + 1}. Fill them, or leave those rows out with --drop-missing."
            )
        frame = frame[~missing]
        if not len(frame):
            raise ValueError(f"{self.path} has no row without a missing value in {', '.join(frame.columns)}.")
        return {name: self._column(frame[name], kinds.get(name, NUMBERS)) for name in frame.columns}

    def _check_name(self, name: str) -> None:
        known = [str(column) for column in self._frame.columns]
        if self._header.count(name) > 1:
            raise ValueError(f"{self.path} has {self._header.count(name)} columns of the name {name!r}. Rename them.")
        if name in known:
            return
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        parts = [part.strip() for part in name.split(",")]
        if len(parts) > 1 and set(parts) <= set(known):
            hint = " Name one column at a time, and repeat the option for others."
        elif len(known) == 1 and any(mark in known[0] for mark in MARKS):
            hint = " Is there another mark between the columns? Say which: --delimiter."
        elif all(_is_number(column) for column in known):
            hint = " These are numbers: is there no header? The first line must name the columns."
        shown = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
        raise ValueError(f"{self.path} has no column {name!r}. Its columns are {shown}.{hint}")

    def _column(self, series: Any, kind: Kind) -> Column:
        import pandas as pd

        name = str(series.name)
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
            return Column(name, self._finite(name, series))
        numbers: Any = pd.to_numeric(series, errors="coerce")
        if numbers.isna().all():  # yes and no, which pandas leaves as they are
            numbers = series.map(lambda value: WORDS.get(str(value).strip().lower()), na_action="ignore").astype(float)
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
        hint = " If that is a decimal comma, say so: --decimal ','." if re.fullmatch(r"[-+]?\d*,\d+", found) else ""
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
    """Dates without a time zone, if that is what the column holds."""
    import pandas as pd

    try:
        times: Any = pd.to_datetime(series, utc=True, format=None if series.dtype.kind == "M" else "ISO8601")
    except (ValueError, TypeError, OverflowError):
        return None
    return times.dt.tz_localize(None)


def _read(path: Path, delimiter: str | None, decimal: str) -> tuple[Any, list[str]]:
    """A table, and the names of its columns as they are in the file."""
    import pandas as pd

    if path.suffix.lower() in PARQUET:
        try:
            frame = pd.read_parquet(path)
        except ImportError:
            raise ImportError("Parquet files need pyarrow: pip install 'ellipslice[parquet]'.") from None
        except Exception as error:  # noqa: BLE001  of pyarrow's own kinds
            raise ValueError(f"{path} cannot be read as Parquet: {_first_line(error)}") from None
        frame.columns = [str(name).strip() for name in frame.columns]
        return frame.reset_index(drop=True), list(frame.columns)
    if decimal not in (".", ","):
        raise ValueError(f"--decimal must be a point or a comma, but it is {decimal!r}.")
    mark = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
    if mark is not None and len(mark) != 1:
        raise ValueError(f"--delimiter must be one character, but it is {mark!r}.")
    if mark == decimal:
        raise ValueError(f"--delimiter and --decimal are both {mark!r}. Columns must be told apart from numbers.")
    options: dict[str, Any] = {"index_col": False, "encoding": "utf-8-sig", "skipinitialspace": mark != " "}
    try:
        mark = mark or _mark(path, options)
        first = pd.read_csv(path, header=None, nrows=1, dtype=str, sep=mark, **options)  # pandas renames doubles
        frame = pd.read_csv(path, sep=mark, decimal=decimal, **options)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8. Save it as CSV in UTF-8.") from None
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty.") from None
    except (ValueError, OverflowError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as CSV: {_first_line(error)}") from None
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame, [str(name).strip() for name in first.iloc[0]]


def _mark(path: Path, options: dict[str, Any]) -> str:
    """What is between the names of columns, in the first line."""
    import pandas as pd

    whole = {"header": None, "nrows": 1, "dtype": str, "sep": "\x1f", "quoting": csv.QUOTE_NONE}
    header = re.sub('"[^"]*"', "", str(pd.read_csv(path, **whole, **options).iloc[0, 0]))
    return next((mark for mark in MARKS if mark in header), ",")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
