"""The folder of a fit.

    run/settings.json      settings, command, versions of packages and checksum of the data
    run/data.csv           the columns that are used, as numbers; with a formula also text
    run/graphs.json        the graphs of --graph
    run/draws.zarr         the store with the draws
    run/predictions.csv    predictions at the inputs of the data, or at those of --predict-at
    run/plot.png           plot, for one or two inputs; with a formula, of the effects
    run/report.html        written by `ellipslice report`

The files contain only text, JSON and numbers, so opening a folder from an untrusted source runs no code.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import platform
import shutil
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ellipslice.apps.fits.kind import Kind, kind_of
from ellipslice.apps.fits.run_settings import RESTORE, RunSettings
from ellipslice.apps.fits.table import Table
from ellipslice.sampling.until import Until
from ellipslice.store.create import check_free
from ellipslice.store.journal import replace

FORMAT = 2
"""Format version of the folder of a fit. Raise it when the format changes: folders of other versions are rejected."""

PACKAGES = ("ellipslice", "jax", "numpy", "scipy", "tinygp", "numpyro", "numba", "xarray", "zarr")
"""Packages whose versions are recorded in settings.json."""


@dataclass(frozen=True)
class RunFolder:
    """An existing folder of a fit."""

    path: Path

    @property
    def store(self) -> Path:
        """Path of the store."""
        return self.path / "draws.zarr"

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Content of settings.json."""
        return _read_metadata(self.path)

    @cached_property
    def kind(self) -> Kind:
        """Kind of the fit."""
        return kind_of(self.metadata["asked"])

    @cached_property
    def settings(self) -> Any:
        """Settings of the fit: `FitSettings`, or `FormulaSettings` if there is a formula."""
        return self.kind.read_settings(self.metadata["asked"], self.path / "settings.json")

    @cached_property
    def data(self) -> Any:
        """Columns of the fit: `Data` with numbers, or a data frame if there is a formula."""
        _check_unchanged(self.path / "data.csv", self.metadata["data"]["kept_sha256"])
        return self.kind.read_data(self)

    @cached_property
    def problem(self) -> Any:
        """Model of the data, which runs: `Problem`, or `FormulaProblem` if there is a formula."""
        return self.kind.problem(self)

    def other_file(self, name: str) -> bytes:
        """Return the content of a further file of the fit. Raise if it was changed."""
        _check_unchanged(self.path / name, str(self.metadata["data"].get(f"{name}_sha256")))
        return (self.path / name).read_bytes()

    @property
    def origins(self) -> list[str | None]:
        """Date from which the days of each input are counted; None if the input is not a date."""
        return self.metadata["data"]["origins"]

    def fit(self) -> Any:
        """Return the fit, a `gp.Fit` or `LatentFit`, with the draws stored so far. Works while the fit runs."""
        if not self.store.exists():
            raise ValueError(f"{self.path} has no draws yet. To start the run: ellipslice resume {self.path}")
        return self.problem.open(self.store)

    def check_prediction_inputs(self, table: Table) -> None:
        """Raise if predictions at the inputs of `table` are impossible."""
        self.kind.check_prediction_table(self, table)

    def run(self, *, draws: int | None = None, until: Until | None = None, progress: bool = True) -> Any:
        """Start the run, or resume it if there is a store."""
        if not self.store.exists():
            return self.problem.fit(self.store, progress=progress)
        return self.problem.resume(self.store, draws=draws, until=until, progress=progress)


def begin(table: Table, settings: RunSettings, out: Path, command: str, at: Table | None = None) -> RunFolder:
    """Create the folder of a fit with its settings and data.

    Parameters
    ----------
    table : Table
        The data.
    settings : FitSettings or FormulaSettings
    out : Path
        The folder. It must be empty or not exist.
    command : str
        Command line that reproduces the fit.
    at : Table, optional
        Inputs for predictions.

    Raises
    ------
    ValueError
        If there is a mistake in one of the arguments. Nothing is written then.
    """
    settings.check()
    kept = kind_of(settings.as_json()).keep(table, settings, at)
    _check_out(out)
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        check_free(out / "draws.zarr")
        replace(out / "data.csv", kept.content)
        for name, content in kept.others.items():
            replace(out / name, content)
        metadata = {
            "format": FORMAT,
            "command": command,
            "created_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "versions": _versions(),
            "data": {
                "file": table.path.name,
                "sha256": table.sha256,
                "rows": kept.rows,
                "origins": kept.origins,
                "kept_sha256": hashlib.sha256(kept.content).hexdigest(),
                **{f"{name}_sha256": hashlib.sha256(content).hexdigest() for name, content in kept.others.items()},
            },
            "asked": settings.as_json(),
        }
        replace(out / "settings.json", (json.dumps(metadata, indent=1) + "\n").encode())
    except BaseException:
        if is_new:
            shutil.rmtree(out, ignore_errors=True)
        raise
    return RunFolder(out)


def open_folder(path: Path) -> RunFolder:
    """Return a folder written by `ellipslice fit`. Raise if it is anything else."""
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {path}. To create one: ellipslice fit data.csv ... --out {path}")
    if not (path / "settings.json").is_file():
        problem = "is a file" if path.is_file() else "has no settings.json"
        raise ValueError(
            f"{path} {problem}, so it is not a folder of `ellipslice fit`. Give the folder named by --out in the fit."
        )
    folder = RunFolder(path)
    _ = folder.settings, folder.data
    return folder


def _check_out(out: Path) -> None:
    if (out / "settings.json").exists():
        raise FileExistsError(
            f"{out} holds a fit already. To continue it: ellipslice resume {out}. For a new fit, choose another --out."
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} exists already and is not an empty folder. Choose another --out.")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _read_metadata(path: Path) -> dict[str, Any]:
    where = path / "settings.json"
    try:
        found = json.loads(where.read_bytes())
    except (ValueError, RecursionError):
        raise ValueError(f"{where} is damaged: it is not valid JSON. {RESTORE}") from None
    if not isinstance(found, dict) or "format" not in found:
        raise ValueError(f"{where} was not written by `ellipslice fit`. Give the folder of a fit.")
    if found["format"] != FORMAT:
        raise ValueError(
            f"{path} has format version {found['format']!r}, but this version of ellipslice reads format version "
            f"{FORMAT}. Use the version that wrote it (see settings.json), or fit again into another --out."
        )
    kinds = {"command": str, "created_at": str, "versions": dict, "data": dict, "asked": dict}
    data_kinds = {"file": str, "sha256": str, "rows": int, "origins": list, "kept_sha256": str}
    for holder, expected in ((found, kinds), (found.get("data"), data_kinds)):
        for name, kind in expected.items():
            if not isinstance(holder, dict) or not isinstance(holder.get(name), kind):
                raise ValueError(
                    f"{where} is damaged or was edited: {name} is missing or has the wrong type. {RESTORE}"
                )
    _check_origins(found, where)
    return found


def _check_origins(found: dict[str, Any], where: Path) -> None:
    inputs = found["asked"].get("inputs", [])
    origins = found["data"]["origins"]
    try:
        for origin in origins:
            _ = origin is None or dt.datetime.fromisoformat(origin)
        valid = len(origins) == len(inputs)
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f"{where} is damaged or was edited: origins must be a list with a date or null for each input. {RESTORE}"
        )


def _check_unchanged(path: Path, expected: str) -> None:
    if not path.is_file():
        raise ValueError(f"{path} is missing, so the folder is damaged. {RESTORE}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
        raise ValueError(
            f"{path} was changed since the fit started. Restore it, or fit the new data into another --out."
        )
