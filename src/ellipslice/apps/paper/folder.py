"""The folder of an experiment. Each finished run has its own file, so that a killed experiment can be continued."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ellipslice.apps.paper.protocol import Cell, Protocol, RunOutcome
from ellipslice.machine import version


class Folder:
    """The folder of an experiment: finished runs in `runs/`, and their common settings.

    Parameters
    ----------
    path : Path
        Created if it does not exist. Raises if its runs have other settings, or if it holds other files.
    protocol : Protocol
    """

    def __init__(self, path: Path, protocol: Protocol):
        self.path, self._runs = path, path / "runs"
        settings = {**asdict(protocol), "ellipslice": version("ellipslice")}
        path.mkdir(parents=True, exist_ok=True)
        known = path / "settings.json"
        if known.exists():
            raise_if_other_settings(path, json.loads(known.read_text(encoding="utf8")), settings)
        elif any(path.iterdir()):
            raise ValueError(
                f"{path} holds files that do not belong to an experiment. Give an empty or a new folder with --out."
            )
        self._runs.mkdir(exist_ok=True)
        write(known, json.dumps(settings, indent=1) + "\n")

    def has(self, cell: Cell, run: int) -> bool:
        """Return True if the run is finished."""
        return self._file(cell, run).exists()

    def add(self, outcome: RunOutcome) -> None:
        """Write the file of a finished run."""
        file = self._file(Cell(outcome.problem, outcome.method), outcome.run)
        write(file, json.dumps(asdict(outcome)) + "\n")

    def outcomes(self, cell: Cell | None = None) -> list[RunOutcome]:
        """Return all finished runs, or those of one cell."""
        pattern = "*.json" if cell is None else f"{cell.problem}-{cell.method}-*.json"
        return [read(file) for file in sorted(self._runs.glob(pattern))]

    def _file(self, cell: Cell, run: int) -> Path:
        return self._runs / f"{cell.problem}-{cell.method}-{run:03d}.json"


def raise_if_other_settings(path: Path, before: dict[str, object], now: dict[str, object]) -> None:
    """Raise if the runs of the folder have other settings."""
    for name, value in now.items():
        if before.get(name) != value:
            raise ValueError(
                f"the runs in {path} were made with {name} {before.get(name)}, but now it is {value}. All runs of a "
                "folder must have the same settings. Give another folder with --out, or the settings of this one."
            )


def write(file: Path, text: str) -> None:
    """Write a file completely or not at all, even if the process is killed."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf8")
    unfinished.replace(file)


def read(file: Path) -> RunOutcome:
    """Return the finished run in a file."""
    try:
        record = json.loads(file.read_text(encoding="utf8"))
        return RunOutcome(**{**record, "trace": tuple(record["trace"])})
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is not a finished run ({error}). Delete it, and the run is repeated.") from None
