"""The folder of a fit: what was asked for, the data, the draws, and what is made of them.

    run/settings.json      what was asked for, with which versions, and the data's checksum
    run/data.csv           the columns that are used, as numbers
    run/draws.zarr         the store
    run/predictions.csv    at the data's inputs, or at others
    run/plot.png
    run/report.html        when it is asked for

Everything in it is text, JSON, or numbers: opening the folder of somebody else runs none of his code.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ellipslice.apps.fits.model import Problem
from ellipslice.apps.fits.priors import Data
from ellipslice.apps.fits.settings import FORMAT, Asked, read_asked
from ellipslice.apps.fits.table import DATES, INPUTS, LABELS, NUMBERS, Column, Table
from ellipslice.gp import Fit
from ellipslice.sampling.until import Until
from ellipslice.store.journal import replace
from ellipslice.store.store import check_free

PACKAGES = ("ellipslice", "jax", "numpy", "scipy", "tinygp", "numpyro", "xarray", "zarr")


@dataclass(frozen=True)
class RunFolder:
    """A fit in a folder that exists."""

    path: Path

    @property
    def store(self) -> Path:
        """Where the draws are."""
        return self.path / "draws.zarr"

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What settings.json holds."""
        return _read_settings(self.path)

    @cached_property
    def asked(self) -> Asked:
        """What was asked for."""
        return read_asked(self.settings["asked"], self.path / "settings.json")

    @cached_property
    def data(self) -> Data:
        """The columns that are used."""
        return _read_data(self.path / "data.csv", self.asked, self.settings["data"]["kept_sha256"])

    @cached_property
    def problem(self) -> Problem:
        """The model of the data."""
        return Problem(self.asked, self.data)

    @property
    def origins(self) -> list[str | None]:
        """For each input the date from which days are counted, if it is one of dates."""
        return self.settings["data"]["origins"]

    def fit(self) -> Fit:
        """What the store has of it, also while it runs."""
        if not self.store.exists():
            raise ValueError(f"{self.path} has no draws yet. Go on with it: ellipslice resume {self.path}")
        return self.problem.open(self.store)

    def check_at(self, table: Table) -> None:
        """Raise if the inputs in a table cannot be predicted at."""
        self.problem.check_predicts_at(inputs_at(table, self.asked.inputs, self.origins))

    def run(self, *, draws: int | None = None, until: Until | None = None, progress: bool = True) -> Fit:
        """Begin, or go on from where the store is."""
        if not self.store.exists():
            return self.problem.fit(self.store, progress=progress)
        return self.problem.resume(self.store, draws=draws, until=until, progress=progress)


def begin(table: Table, asked: Asked, out: Path, command: str, at: Table | None = None) -> RunFolder:
    """Make the folder of a fit: settings and data; or nothing at all, if there is a mistake in them or in `at`."""
    asked.check()
    names = [*asked.inputs, *filter(None, (asked.target, asked.exposure, asked.trials))]
    kinds = dict.fromkeys(asked.inputs, INPUTS) | ({} if asked.target is None else {asked.target: LABELS})
    columns = table.columns(names, kinds)
    data = _from_columns(asked, columns)
    problem = Problem(asked, data)
    if at is not None:
        problem.check_predicts_at(inputs_at(at, asked.inputs, [columns[name].origin for name in asked.inputs]))
    _check_out(out)
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        check_free(out / "draws.zarr")
        kept = _as_csv(columns)
        replace(out / "data.csv", kept)
        settings = {
            "format": FORMAT,
            "command": command,
            "created_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "versions": _versions(),
            "data": {
                "file": table.path.name,
                "sha256": table.sha256,
                "rows": len(data.inputs),
                "origins": [columns[name].origin for name in asked.inputs],
                "kept_sha256": hashlib.sha256(kept).hexdigest(),
            },
            "asked": asked.as_json(),
        }
        replace(out / "settings.json", (json.dumps(settings, indent=1) + "\n").encode())
    except BaseException:
        if made:
            shutil.rmtree(out, ignore_errors=True)
        raise
    return RunFolder(out)


def inputs_at(table: Table, names: Sequence[str], origins: Sequence[str | None]) -> np.ndarray:
    """Return other inputs than the data's, shape (rows, axes), counted from the same dates."""
    kinds = {name: NUMBERS if origin is None else DATES for name, origin in zip(names, origins, strict=True)}
    columns = table.columns(list(names), kinds)
    values = []
    for name, origin in zip(names, origins, strict=True):
        column = columns[name]
        if origin is not None and column.origin is None:
            raise ValueError(f"{table.path}: the column {name!r} must hold dates, as the data of the fit do.")
        values.append(column.values + (0.0 if origin is None else _days(str(column.origin), origin)))
    return np.stack(values, axis=1)


def _days(later: str, earlier: str) -> float:
    return float((np.datetime64(later, "us") - np.datetime64(earlier, "us")) / np.timedelta64(1, "D"))


def open_folder(path: Path) -> RunFolder:
    """A folder that `ellipslice fit` made; refused if it is anything else."""
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {path}. Make one: ellipslice fit data.csv ... --out {path}")
    if not (path / "settings.json").is_file():
        what = "is a file" if path.is_file() else "has no settings.json"
        raise ValueError(f"{path} is no folder of `ellipslice fit`: it {what}.")
    folder = RunFolder(path)
    _ = folder.asked, folder.data
    return folder


def _check_out(out: Path) -> None:
    if (out / "settings.json").exists():
        raise FileExistsError(
            f"{out} holds a fit already. Go on with it, ellipslice resume {out}; or choose another --out."
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} exists already, and is not an empty folder. Choose another --out.")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _from_columns(asked: Asked, columns: dict[str, Column]) -> Data:
    def of(name: str | None) -> np.ndarray | None:
        return None if name is None else columns[name].values

    inputs = np.stack([columns[name].values for name in asked.inputs], axis=1)
    return Data(inputs, of(asked.target), of(asked.exposure), of(asked.trials))


def _as_csv(columns: dict[str, Column]) -> bytes:
    import pandas as pd

    frame = pd.DataFrame({f"{name}": column.values for name, column in columns.items()})
    return frame.to_csv(index=False).encode()


def _read_settings(path: Path) -> dict[str, Any]:
    where = path / "settings.json"
    try:
        found = json.loads(where.read_bytes())
    except (ValueError, RecursionError):
        raise ValueError(f"{where} is damaged: it is not JSON.") from None
    if not isinstance(found, dict) or "format" not in found:
        raise ValueError(f"{where} is not what `ellipslice fit` writes.")
    if found["format"] != FORMAT:
        raise ValueError(
            f"{path} has format version {found['format']!r}, but this version of ellipslice reads format version "
            f"{FORMAT}. Use the version that made it (versions in settings.json), or fit again into another --out."
        )
    kinds = {"command": str, "created_at": str, "versions": dict, "data": dict, "asked": dict}
    of_data = {"file": str, "sha256": str, "rows": int, "origins": list, "kept_sha256": str}
    for holder, expected in ((found, kinds), (found.get("data"), of_data)):
        for name, kind in expected.items():
            if not isinstance(holder, dict) or not isinstance(holder.get(name), kind):
                raise ValueError(f"{where} is damaged, or was edited: {name} is missing, or not what it should be.")
    _check_origins(found, where)
    return found


def _check_origins(found: dict[str, Any], where: Path) -> None:
    inputs = found["asked"].get("inputs")
    origins = found["data"]["origins"]
    try:
        for origin in origins:
            _ = origin is None or dt.datetime.fromisoformat(origin)
        whole = len(origins) == len(inputs)
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError(f"{where} is damaged, or was edited: origins is not a list of dates, one for each input.")


def _read_data(path: Path, asked: Asked, expected: str) -> Data:
    if not path.is_file():
        raise ValueError(f"{path} is missing: the folder is damaged.")
    if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
        raise ValueError(f"{path} was changed since the fit began. Make a new fit of other data.")
    names = [*asked.inputs, *filter(None, (asked.target, asked.exposure, asked.trials))]
    return _from_columns(asked, Table(path, delimiter=",").columns(names, {}))
