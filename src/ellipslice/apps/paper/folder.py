"""The folder of an experiment: a small file for each finished run, so that a killed experiment goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ellipslice.apps.paper.protocol import Cell, Protocol, RunOutcome
from ellipslice.machine import version


class Folder:
    """Finished runs, under `runs/`, and the settings that all of them were made with.

    Parameters
    ----------
    path : Path
        Made if missing. Refused if its runs were made with other settings, or if it holds something else.
    protocol : Protocol
    """

    def __init__(self, path: Path, protocol: Protocol):
        self.path, self._runs = path, path / "runs"
        settings = {**asdict(protocol), "ellipslice": version("ellipslice")}
        path.mkdir(parents=True, exist_ok=True)
        known = path / "settings.json"
        if known.exists():
            refuse_other(path, json.loads(known.read_text(encoding="utf8")), settings)
        elif any(path.iterdir()):
            raise ValueError(
                f"{path} holds files that are not an experiment's. Give an empty or a new folder with --out."
            )
        self._runs.mkdir(exist_ok=True)
        write(known, json.dumps(settings, indent=1) + "\n")

    def has(self, cell: Cell, run: int) -> bool:
        """Whether that run is finished."""
        return self._file(cell, run).exists()

    def add(self, outcome: RunOutcome) -> None:
        """Keep a finished run."""
        file = self._file(Cell(outcome.problem, outcome.method), outcome.run)
        write(file, json.dumps(asdict(outcome)) + "\n")

    def outcomes(self, cell: Cell | None = None) -> list[RunOutcome]:
        """All finished runs, or those of a cell."""
        pattern = "*.json" if cell is None else f"{cell.problem}-{cell.method}-*.json"
        return [read(file) for file in sorted(self._runs.glob(pattern))]

    def _file(self, cell: Cell, run: int) -> Path:
        return self._runs / f"{cell.problem}-{cell.method}-{run:03d}.json"


def refuse_other(path: Path, before: dict[str, object], now: dict[str, object]) -> None:
    """Say which settings the folder's runs were made with, if they are others."""
    for name, value in now.items():
        if before.get(name) != value:
            raise ValueError(
                f"the runs in {path} were made with {name} {before.get(name)}, and now it is {value}. Runs that are "
                "put together must be alike: give another folder with --out, or the settings of this one."
            )


def write(file: Path, text: str) -> None:
    """Write a file whole or not at all, whenever the process is killed."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf8")
    unfinished.replace(file)


def read(file: Path) -> RunOutcome:
    """A finished run."""
    try:
        noted = json.loads(file.read_text(encoding="utf8"))
        return RunOutcome(**{**noted, "trace": tuple(noted["trace"])})
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is not a finished run ({error}). Delete it, and it will be made again.") from None
