"""What was asked for, as JSON in the folder of a run: read back field by field, and refused if it is anything else."""

from __future__ import annotations

import difflib
import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ellipslice.likelihoods import REGISTERED, Likelihood
from ellipslice.likelihoods.command import Command
from ellipslice.sampling.until import Until

FORMAT = 2
"""Of a run's folder. To be raised when it changes: folders of another one are refused."""

LIKELIHOODS: dict[str, type[Likelihood]] = {
    name: cls for cls in REGISTERED if cls.command is not None for name in cls.command.names
}
"""Likelihoods by the names that `--likelihood` accepts."""

KERNELS = ("matern12", "matern32", "matern52", "squared-exponential")

COLUMNS = ("exposure", "trials")
"""Options of likelihoods that name a column. The others are positive parameters, unknown if they are not given."""

ALIASES = {
    "rbf": "squared-exponential", "expsquared": "squared-exponential", "exponential": "matern12", "exp": "matern12",
    **{alias: cls.command.name for cls in REGISTERED if cls.command is not None for alias in cls.command.aliases},
}  # fmt: skip
"""Names in other packages, which are suggested."""


@dataclass(frozen=True)
class Asked:
    """A model and a run of it, in the user's words.

    Attributes
    ----------
    inputs : tuple of str
        Columns with where: times, places. For events, the columns with the events themselves.
    target : str or None
        The column with what was seen; None for events.
    likelihood, kernel : str
    amplitude : float or None
        None if unknown.
    length_scale : tuple of float or None
        One for each input; None if unknown.
    noise_scale : float or None
        Of gaussian and student-t; None if unknown.
    dispersion : float or None
        Of negative-binomial; None if unknown.
    mean : float or None
        Of the latent function; None for that of the data.
    exposure, trials : str or None
        Columns.
    window : tuple of (float, float), or None
        Of events, one pair for each input; None for that of the data.
    cells : tuple of int or None
        Of events, along each input.
    draws, warmup, chains, seed : int
    effective_sample_size, rhat, max_seconds : float or None
        Goals and a budget, as for `Until`.
    """

    inputs: tuple[str, ...]
    target: str | None = None
    likelihood: str = "gaussian"
    kernel: str = "matern52"
    amplitude: float | None = None
    length_scale: tuple[float, ...] | None = None
    noise_scale: float | None = None
    dispersion: float | None = None
    mean: float | None = None
    exposure: str | None = None
    trials: str | None = None
    window: tuple[tuple[float, float], ...] | None = None
    cells: tuple[int, ...] | None = None
    draws: int | None = None
    warmup: int = 500
    chains: int = 4
    seed: int = 0
    effective_sample_size: float | None = None
    rhat: float | None = None
    max_seconds: float | None = None

    @property
    def events(self) -> bool:
        """Whether the data are events, to be counted."""
        return self.target is None

    @property
    def command(self) -> Command:
        """The likelihood as the command line knows it."""
        command = LIKELIHOODS[self.likelihood].command
        assert command is not None  # noqa: S101  those without one are not in the table
        return command

    @property
    def own_parameters(self) -> dict[str, float | None]:
        """Parameters of the likelihood itself, None if unknown. (Events are counted; their likelihood has none.)."""
        return {option: getattr(self, option) for option in self.command.options if option not in COLUMNS}

    @property
    def until(self) -> Until | None:
        """Goals and budgets, if there are any but draws."""
        if self.effective_sample_size is None and self.rhat is None and self.max_seconds is None:
            return None
        return Until(self.effective_sample_size, self.rhat, self.max_seconds, self.draws)

    def check(self) -> None:
        """Refuse what makes no sense, in the words of the command line."""
        _among("--likelihood", self.likelihood, tuple(LIKELIHOODS))
        _among("--kernel", self.kernel, KERNELS)
        if not self.inputs:
            raise ValueError("no input is named. Give --x and --y, such as --x time --y count; or --events date.")
        columns = [*self.inputs, *filter(None, (self.target, self.exposure, self.trials))]
        if twice := [name for name in columns if columns.count(name) > 1]:
            raise ValueError(f"the column {twice[0]!r} is named twice.")
        for option, value in (
            ("--amplitude", self.amplitude), ("--noise-scale", self.noise_scale), ("--dispersion", self.dispersion),
            *(("--length-scale", value) for value in self.length_scale or ()),
        ):  # fmt: skip
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{option} must be positive, but it is {value:g}.")
            if value is not None and not 1e-100 <= value <= 1e100:
                raise ValueError(
                    f"{option} is {value:g}, whose square is beyond double precision. Rescale the columns."
                )
        if self.mean is not None and not math.isfinite(self.mean):
            raise ValueError(f"--mean must be a finite number, but it is {self.mean}.")
        for option, value, least in (
            ("--draws", self.draws, 1), ("--warmup", self.warmup, 0), ("--chains", self.chains, 1),
            ("--seed", self.seed, 0), *(("--cells", value, 1) for value in self.cells or ()),
        ):  # fmt: skip
            if value is not None and value < least:
                raise ValueError(f"{option} must be at least {least}, but it is {value}.")
        self._check_what_belongs()
        self._check_lengths()
        for option, value, least in (
            ("--effective-sample-size", self.effective_sample_size, 0), ("--rhat", self.rhat, 1),
            ("--max-seconds", self.max_seconds, 0),
        ):  # fmt: skip
            if value is not None and not least < value < math.inf:
                raise ValueError(f"{option} must be finite and above {least}, but it is {value:g}.")

    def _check_what_belongs(self) -> None:
        """Options that the likelihood does not have would do nothing."""
        commands = [cls.command for cls in REGISTERED if cls.command is not None]
        for option in dict.fromkeys(option for command in commands for option in command.options):
            ours = [command.name for command in commands if option in command.options]
            if getattr(self, option) is not None and (option not in self.command.options or self.events):
                now = "events" if self.events else self.likelihood
                raise ValueError(
                    f"--{option.replace('_', '-')} is for {' and '.join(ours)}; it means nothing for {now}."
                )
        for option in self.command.required:
            if getattr(self, option) is None:
                raise ValueError(f"--likelihood {self.likelihood} needs --{option}, the column with the {option}.")
        if self.events and self.likelihood != "poisson":
            raise ValueError(f"events are counted, and the counts are poisson; not {self.likelihood}.")
        if not self.events and (self.window or self.cells):
            raise ValueError("--window and --cells are for --events; with --x and --y they mean nothing.")
        if self.rhat is not None and self.chains < 2:
            raise ValueError("--rhat compares chains, but there is one. Give --chains 2 or more.")

    def _check_lengths(self) -> None:
        for option, given in (
            ("--length-scale", self.length_scale),
            ("--window", self.window),
            ("--cells", self.cells),
        ):
            if given is not None and len(given) not in (1, len(self.inputs)):
                raise ValueError(
                    f"{option} was given {len(given)} times for {len(self.inputs)} inputs. Give it once for all, or "
                    "once for each."
                )
        for low, high in self.window or ():
            if not -math.inf < low < high < math.inf:
                raise ValueError(f"--window must be LOW,HIGH with LOW < HIGH, but it is {low:g},{high:g}.")

    def of_each(self, name: str) -> tuple[Any, ...] | None:
        """A setting of each input, if it was given."""
        given = getattr(self, name)
        return given * len(self.inputs) if given is not None and len(given) == 1 else given

    def as_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def as_named(given: str) -> str:
    """A name as it is written here: Poisson and negative_binomial are found, too."""
    return given.strip().lower().replace("_", "-").replace(" ", "-")


def _among(option: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        other = ALIASES.get(value.replace("-", ""))
        close = [other] if other in known else difflib.get_close_matches(value, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{option} must be one of {', '.join(known)}, but it is {value!r}.{hint}")


def read_asked(found: Any, path: Path) -> Asked:
    """The settings again. Raises ValueError over anything that `as_json` did not give."""
    kinds: dict[str, Any] = {
        "inputs": _names, "target": str, "likelihood": str, "kernel": str, "exposure": str, "trials": str,
        "length_scale": _floats, "window": _pairs, "cells": _whole_numbers,
        **dict.fromkeys(("draws", "warmup", "chains", "seed"), _whole),
        **dict.fromkeys(("amplitude", "noise_scale", "dispersion", "mean"), _number),
        **dict.fromkeys(("effective_sample_size", "rhat", "max_seconds"), _number),
    }  # fmt: skip
    if not isinstance(found, dict) or set(found) != {field.name for field in fields(Asked)}:
        raise ValueError(f"{path} is damaged, or was edited: its settings are not those of a fit.")
    values = {}
    for name, value in found.items():
        try:
            values[name] = None if value is None else _checked(kinds[name], value)
        except (TypeError, ValueError):
            raise ValueError(f"{path} is damaged, or was edited: {name} is {json.dumps(value)[:60]}.") from None
    if any(values[name] is None for name in ("inputs", "likelihood", "kernel", "warmup", "chains", "seed")):
        raise ValueError(f"{path} is damaged, or was edited: a setting is null that must not be.")
    asked = Asked(**values)
    asked.check()
    return asked


def _checked(kind: Any, value: Any) -> Any:
    if kind is str:
        if not isinstance(value, str):
            raise TypeError
        return value
    return kind(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _names(value: Any) -> tuple[str, ...]:
    return tuple(_checked(str, part) for part in _listed(value))


def _floats(value: Any) -> tuple[float, ...]:
    return tuple(_number(part) for part in _listed(value))


def _whole_numbers(value: Any) -> tuple[int, ...]:
    return tuple(_whole(part) for part in _listed(value))


def _pairs(value: Any) -> tuple[tuple[float, float], ...]:
    pairs = tuple(_floats(part) for part in _listed(value))
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError
    return pairs  # type: ignore[return-value]


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise TypeError
    return value
