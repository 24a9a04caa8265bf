"""The settings of a fit of a Gaussian process, stored as JSON in its folder."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ellipslice.apps.fits.run_settings import (
    RunSettings,
    check_least,
    floats,
    names,
    number,
    pairs,
    read_fields,
    text,
    whole_numbers,
)
from ellipslice.likelihoods import REGISTERED, Likelihood
from ellipslice.likelihoods.command import Command

LIKELIHOODS: dict[str, type[Likelihood]] = {
    name: cls for cls in REGISTERED if cls.command is not None for name in cls.command.names
}
"""Likelihoods, by the names that `--likelihood` accepts."""

KERNELS = ("matern12", "matern32", "matern52", "squared-exponential")

COLUMNS = ("exposure", "trials")
"""Options of likelihoods that name a column. The other options are positive hyperparameters, unknown if not given."""

ALIASES = {
    "rbf": "squared-exponential", "expsquared": "squared-exponential", "exponential": "matern12", "exp": "matern12",
    **{alias: cls.command.name for cls in REGISTERED if cls.command is not None for alias in cls.command.aliases},
}  # fmt: skip
"""Names used by other packages. They are not accepted, but the error suggests ours."""


@dataclass(frozen=True)
class FitSettings(RunSettings):
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
        check_least([("--cells", value, 1) for value in self.cells or ()])
        self._check_applicable()
        self._check_lengths()
        self.check_run()

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
        "inputs": names, "target": text, "likelihood": text, "kernel": text, "exposure": text, "trials": text,
        "length_scale": floats, "window": pairs, "cells": whole_numbers,
        **dict.fromkeys(("amplitude", "noise_scale", "dispersion", "mean"), number),
    }  # fmt: skip
    return read_fields(FitSettings, kinds, ("inputs", "likelihood", "kernel"), found, path)
