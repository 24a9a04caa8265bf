"""The settings of a fit, stored as JSON in its folder. They are checked field by field when they are read."""

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
"""Format version of the folder of a fit. Raise it when the format changes: folders of other versions are rejected."""

LIKELIHOODS: dict[str, type[Likelihood]] = {
    name: cls for cls in REGISTERED if cls.command is not None for name in cls.command.names
}
"""Likelihoods, by the names that `--likelihood` accepts."""

RESTORE = "Restore it from a backup, or fit again into another --out."
"""End of messages about a damaged folder."""

KERNELS = ("matern12", "matern32", "matern52", "squared-exponential")

COLUMNS = ("exposure", "trials")
"""Options of likelihoods that name a column. The other options are positive hyperparameters, unknown if not given."""

ALIASES = {
    "rbf": "squared-exponential", "expsquared": "squared-exponential", "exponential": "matern12", "exp": "matern12",
    **{alias: cls.command.name for cls in REGISTERED if cls.command is not None for alias in cls.command.aliases},
}  # fmt: skip
"""Names used by other packages. They are not accepted, but the error suggests ours."""


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit, as given on the command line.

    Attributes
    ----------
    inputs : tuple of str
        Columns with the inputs. For events, the columns with their times or coordinates.
    target : str or None
        Column with the observations. None for events.
    likelihood, kernel : str
        Names from `LIKELIHOODS` and `KERNELS`.
    amplitude : float or None
        Prior standard deviation of the latent function. None if unknown.
    length_scale : tuple of float or None
        One for all inputs, or one per input. None if unknown.
    noise_scale : float or None
        Noise scale of gaussian and student-t. None if unknown.
    dispersion : float or None
        Dispersion of negative-binomial. None if unknown.
    mean : float or None
        Mean of the latent function. None: computed from the data.
    exposure, trials : str or None
        Columns with the exposure of a count and the number of trials.
    window : tuple of (float, float), or None
        Window of the events: one pair, or one per input. None: the range of the events.
    cells : tuple of int or None
        Number of cells for events: one for all inputs, or one per input. None: the default of `model.CELLS`.
    draws : int or None
        Draws per chain. None: until the run has converged, or 100,000 with a stopping rule.
    warmup, chains, seed : int
    effective_sample_size, rhat, max_seconds : float or None
        Goals and budget of the stopping rule `Until`.
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
        """True if the data are events, which are counted in cells."""
        return self.target is None

    @property
    def command(self) -> Command:
        """Description of the likelihood for the command line."""
        command = LIKELIHOODS[self.likelihood].command
        assert command is not None  # noqa: S101  LIKELIHOODS contains only likelihoods with a command
        return command

    @property
    def own_parameters(self) -> dict[str, float | None]:
        """Hyperparameters of the likelihood, by name; None if unknown. Empty for events, whose counts are Poisson."""
        return {option: getattr(self, option) for option in self.command.options if option not in COLUMNS}

    @property
    def until(self) -> Until | None:
        """Stopping rule; None without a goal and without `max_seconds`."""
        if self.effective_sample_size is None and self.rhat is None and self.max_seconds is None:
            return None
        return Until(self.effective_sample_size, self.rhat, self.max_seconds, self.draws)

    def check(self) -> None:
        """Raise if a setting is invalid. Messages name the options of the command line."""
        _check_choice("--likelihood", self.likelihood, tuple(LIKELIHOODS))
        _check_choice("--kernel", self.kernel, KERNELS)
        if not self.inputs:
            raise ValueError(
                "no input is named. Give --x and --y, for example --x time --y count, or give --events date."
            )
        columns = [*self.inputs, *filter(None, (self.target, self.exposure, self.trials))]
        if twice := [name for name in columns if columns.count(name) > 1]:
            raise ValueError(f"the column {twice[0]!r} is named twice. Name each column once.")
        for option, value in (
            ("--amplitude", self.amplitude), ("--noise-scale", self.noise_scale), ("--dispersion", self.dispersion),
            *(("--length-scale", value) for value in self.length_scale or ()),
        ):  # fmt: skip
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{option} must be positive and finite, but it is {value:g}.")
            if value is not None and not 1e-100 <= value <= 1e100:
                raise ValueError(
                    f"{option} is {value:g}, whose square is beyond double precision. Rescale the columns of the table."
                )
        if self.mean is not None and not math.isfinite(self.mean):
            raise ValueError(f"--mean must be a finite number, but it is {self.mean}.")
        for option, value, least in (
            ("--draws", self.draws, 1), ("--warmup", self.warmup, 0), ("--chains", self.chains, 1),
            ("--seed", self.seed, 0), *(("--cells", value, 1) for value in self.cells or ()),
        ):  # fmt: skip
            if value is not None and value < least:
                raise ValueError(f"{option} must be at least {least}, but it is {value}.")
        self._check_applicable()
        self._check_lengths()
        for option, value, least in (
            ("--effective-sample-size", self.effective_sample_size, 0), ("--rhat", self.rhat, 1),
            ("--max-seconds", self.max_seconds, 0),
        ):  # fmt: skip
            if value is not None and not least < value < math.inf:
                raise ValueError(f"{option} must be finite and above {least}, but it is {value:g}.")

    def _check_applicable(self) -> None:
        """Raise if an option has no effect with this likelihood or these data."""
        commands = [cls.command for cls in REGISTERED if cls.command is not None]
        for option in dict.fromkeys(option for command in commands for option in command.options):
            applicable = [command.name for command in commands if option in command.options]
            if getattr(self, option) is not None and (option not in self.command.options or self.events):
                given = "events" if self.events else f"the likelihood {self.likelihood}"
                raise ValueError(
                    f"--{option.replace('_', '-')} is for {' and '.join(applicable)}, but it was given with {given}. "
                    "Remove it, or choose another --likelihood."
                )
        for option in self.command.required:
            if getattr(self, option) is None:
                raise ValueError(f"--likelihood {self.likelihood} requires --{option}, the column with the {option}.")
        if self.events and self.likelihood != "poisson":
            raise ValueError(
                f"--events counts events, which requires --likelihood poisson, but it is {self.likelihood}. Remove it."
            )
        if not self.events and (self.window or self.cells):
            raise ValueError("--window and --cells are for --events, but --x and --y were given. Remove them.")
        if self.rhat is not None and self.chains < 2:
            raise ValueError("--rhat compares chains, but there is only one. Give --chains 2 or more.")

    def _check_lengths(self) -> None:
        for option, given in (
            ("--length-scale", self.length_scale),
            ("--window", self.window),
            ("--cells", self.cells),
        ):
            if given is not None and len(given) not in (1, len(self.inputs)):
                raise ValueError(
                    f"{option} was given {len(given)} times for {len(self.inputs)} inputs. Give it once, or once per "
                    "input."
                )
        for low, high in self.window or ():
            if not -math.inf < low < high < math.inf:
                raise ValueError(f"--window must be LOW,HIGH with LOW < HIGH, but it is {low:g},{high:g}.")

    def per_input(self, name: str) -> tuple[Any, ...] | None:
        """Return a setting with one value per input; None if it was not given."""
        given = getattr(self, name)
        return given * len(self.inputs) if given is not None and len(given) == 1 else given

    def as_json(self) -> dict[str, Any]:
        """Return all fields as a dictionary."""
        return asdict(self)


def normalise_name(given: str) -> str:
    """Return a name in lower case with hyphens, so that Poisson and negative_binomial are accepted."""
    return given.strip().lower().replace("_", "-").replace(" ", "-")


def _check_choice(option: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        other = ALIASES.get(value.replace("-", ""))
        close = [other] if other in known else difflib.get_close_matches(value, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{option} must be one of {', '.join(known)}, but it is {value!r}.{hint}")


def read_settings(found: Any, path: Path) -> FitSettings:
    """Return the settings that `as_json` returned as `found`. Raise ValueError if they are anything else."""
    kinds: dict[str, Any] = {
        "inputs": _names, "target": str, "likelihood": str, "kernel": str, "exposure": str, "trials": str,
        "length_scale": _floats, "window": _pairs, "cells": _whole_numbers,
        **dict.fromkeys(("draws", "warmup", "chains", "seed"), _whole),
        **dict.fromkeys(("amplitude", "noise_scale", "dispersion", "mean"), _number),
        **dict.fromkeys(("effective_sample_size", "rhat", "max_seconds"), _number),
    }  # fmt: skip
    if not isinstance(found, dict) or set(found) != {field.name for field in fields(FitSettings)}:
        raise ValueError(f"{path} is damaged or was edited: its settings are not those of a fit. {RESTORE}")
    values = {}
    for name, value in found.items():
        try:
            values[name] = None if value is None else _checked(kinds[name], value)
        except (TypeError, ValueError):
            raise ValueError(
                f"{path} is damaged or was edited: {name} is {json.dumps(value)[:60]}. {RESTORE}"
            ) from None
    if any(values[name] is None for name in ("inputs", "likelihood", "kernel", "warmup", "chains", "seed")):
        raise ValueError(f"{path} is damaged or was edited: a required setting is null. {RESTORE}")
    settings = FitSettings(**values)
    settings.check()
    return settings


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
