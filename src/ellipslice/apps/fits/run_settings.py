"""Settings that all fits have: the length of the run. Settings are checked field by field when they are read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from ellipslice.sampling.until import Until

RESTORE = "Restore it from a backup, or fit again into another --out."
"""End of messages about a damaged folder."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The length of a run, as given on the command line.

    Attributes
    ----------
    draws : int or None
        Draws per chain. None: until the run has converged, or 100,000 with a stopping rule.
    warmup, chains, seed : int
    effective_sample_size, rhat, max_seconds : float or None
        Goals and budget of the stopping rule `Until`.
    """

    draws: int | None = None
    warmup: int = 500
    chains: int = 4
    seed: int = 0
    effective_sample_size: float | None = None
    rhat: float | None = None
    max_seconds: float | None = None

    @property
    def until(self) -> Until | None:
        """Stopping rule; None without a goal and without `max_seconds`."""
        if self.effective_sample_size is None and self.rhat is None and self.max_seconds is None:
            return None
        return Until(self.effective_sample_size, self.rhat, self.max_seconds, self.draws)

    @property
    def length(self) -> dict[str, Any]:
        """Arguments of `fit` that determine the length of the run."""
        draws = self.draws if self.until is None else None
        return {
            "warmup": self.warmup, "chains": self.chains, "seed": self.seed, "until": self.until, "draws": draws,
        }  # fmt: skip

    def check(self) -> None:
        """Raise if a setting is invalid. Messages name the options of the command line."""
        self.check_run()

    def check_run(self) -> None:
        """Raise if a setting of the length of the run is invalid."""
        check_least(
            [
                ("--draws", self.draws, 1), ("--warmup", self.warmup, 0), ("--chains", self.chains, 1),
                ("--seed", self.seed, 0),
            ]
        )  # fmt: skip
        if self.rhat is not None and self.chains < 2:
            raise ValueError("--rhat compares chains, but there is only one. Give --chains 2 or more.")
        for option, value, least in (
            ("--effective-sample-size", self.effective_sample_size, 0), ("--rhat", self.rhat, 1),
            ("--max-seconds", self.max_seconds, 0),
        ):  # fmt: skip
            if value is not None and not least < value < math.inf:
                raise ValueError(f"{option} must be finite and above {least}, but it is {value:g}.")

    def as_json(self) -> dict[str, Any]:
        """Return all fields as a dictionary."""
        return asdict(self)


def check_least(given: Iterable[tuple[str, int | None, int]]) -> None:
    """Raise if a number is below the least allowed one. `given` are the option, its value, and the least value."""
    for option, value, least in given:
        if value is not None and value < least:
            raise ValueError(f"{option} must be at least {least}, but it is {value}.")


Settings = TypeVar("Settings", bound=RunSettings)


def read_fields(
    kind: type[Settings], readers: Mapping[str, Callable[[Any], Any]], required: Sequence[str], found: Any, path: Path
) -> Settings:
    """Return the settings that `as_json` returned as `found`. Raise ValueError if they are anything else.

    Parameters
    ----------
    kind : type
        The class of the settings.
    readers : mapping of str to function
        One function per own field of the class, which checks its value and converts it.
    required : sequence of str
        Own fields that must not be null.
    found : object
    path : Path
        File that contains the settings.
    """
    of_run = {
        **dict.fromkeys(("draws", "warmup", "chains", "seed"), whole),
        **dict.fromkeys(("effective_sample_size", "rhat", "max_seconds"), number),
    }
    if not isinstance(found, dict) or set(found) != {field.name for field in fields(kind)}:
        raise ValueError(f"{path} is damaged or was edited: its settings are not those of a fit. {RESTORE}")
    values = {}
    for name, value in found.items():
        try:
            values[name] = None if value is None else {**readers, **of_run}[name](value)
        except (TypeError, ValueError):
            raise ValueError(
                f"{path} is damaged or was edited: {name} is {json.dumps(value)[:60]}. {RESTORE}"
            ) from None
    if any(values[name] is None for name in (*required, "warmup", "chains", "seed")):
        raise ValueError(f"{path} is damaged or was edited: a required setting is null. {RESTORE}")
    settings = kind(**values)
    settings.check()
    return settings


def text(value: Any) -> str:
    """Return a text that was read from JSON. Raise TypeError if it is anything else."""
    if not isinstance(value, str):
        raise TypeError
    return value


def whole(value: Any) -> int:
    """Return a whole number that was read from JSON. Raise TypeError if it is anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def number(value: Any) -> float:
    """Return a number that was read from JSON. Raise TypeError if it is anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def names(value: Any) -> tuple[str, ...]:
    """Return a list of texts that was read from JSON. Raise TypeError if it is anything else."""
    return tuple(text(part) for part in _listed(value))


def floats(value: Any) -> tuple[float, ...]:
    """Return a list of numbers that was read from JSON. Raise TypeError if it is anything else."""
    return tuple(number(part) for part in _listed(value))


def whole_numbers(value: Any) -> tuple[int, ...]:
    """Return a list of whole numbers that was read from JSON. Raise TypeError if it is anything else."""
    return tuple(whole(part) for part in _listed(value))


def pairs(value: Any) -> tuple[tuple[float, float], ...]:
    """Return a list of pairs of numbers that was read from JSON. Raise if it is anything else."""
    found = tuple(floats(part) for part in _listed(value))
    if any(len(pair) != 2 for pair in found):
        raise ValueError
    return found  # type: ignore[return-value]


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise TypeError
    return value
