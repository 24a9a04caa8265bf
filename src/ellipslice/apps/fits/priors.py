"""Priors of unknown parameters, and the mean of the latent function, scaled to the data.

What is not given is unknown, with a log-normal prior whose median comes from the data:

| parameter    | median                                             | standard deviation of the logarithm |
|---|---|---|
| amplitude    | the data's standard deviation if they are real numbers; 1 otherwise | 1   |
| length_scale | a fifth of the range of each input                 | 1                                   |
| noise_scale  | half the data's standard deviation                 | 1                                   |
| dispersion   | 5                                                  | 1                                   |

A standard deviation of 1 is a factor of 2.7 either way, of 7 with 95 %. The mean of the latent function is a constant:
the one with which the model gives the data's average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ellipslice.apps.fits.settings import Asked

DEVIATION = 1.0
"""Standard deviation of the logarithm of every unknown parameter, in its prior."""

SMALLEST, LARGEST = 1e-100, 1e100
"""Standard deviations whose squares, and products of the squares, double precision can hold."""


class Data(NamedTuple):
    """The columns of a fit as numbers."""

    inputs: np.ndarray
    """(n, axes)."""
    y: np.ndarray | None = None
    exposure: np.ndarray | None = None
    trials: np.ndarray | None = None

    @property
    def points(self) -> np.ndarray:
        """Inputs as models take them: (n,) for one axis."""
        return self.inputs[:, 0] if self.inputs.shape[1] == 1 else self.inputs


def medians(asked: Asked, data: Data) -> dict[str, Any]:
    """Return the median of each parameter's prior, unknown or not: numbers, and an array for the length scales."""
    spread = float(np.std(data.y)) if data.y is not None and asked.command.kind == "number" else 1.0
    ranges = np.ptp(np.asarray(window(asked, data)), axis=1) if asked.events else np.ptp(data.inputs, axis=0)
    return {"amplitude": spread, "length_scale": ranges / 5, "noise_scale": spread / 2, "dispersion": 5.0}


def latent_mean(asked: Asked, data: Data) -> float:
    """Return the value of the latent function for which the model's average observation is that of the data."""
    command, y = asked.command, data.y
    if y is None:
        area = float(np.prod(np.ptp(np.asarray(window(asked, data)), axis=1)))
        return math.log(len(data.inputs) / area)
    if command.kind == "number":
        return float(command.link(command.average(y)))
    if command.kind == "count":
        exposure = len(y) if data.exposure is None else data.exposure.sum()
        return float(command.link(max(float(y.sum()), 0.5) / float(exposure)))
    tried = len(y) if data.trials is None else float(data.trials.sum())
    share = (float(np.clip((y > 0) * 1.0 if command.kind == "label" else y, 0, None).sum()) + 0.5) / (tried + 1)
    return float(command.link(min(max(share, 1e-6), 1 - 1e-6)))


def window(asked: Asked, data: Data) -> tuple[tuple[float, float], ...]:
    """Return the window of events, a pair for each input: as given, or the range of the data."""
    given = asked.of_each("window")
    if given is not None:
        return given
    return tuple((float(column.min()), float(column.max())) for column in data.inputs.T)


def check_scale(name: str, values: np.ndarray, spread: Callable[[np.ndarray], Any]) -> None:
    """Raise if double precision cannot hold the column's spread, or the square of it."""
    with np.errstate(all="ignore"):
        size = float(spread(values))
    largest = float(np.abs(values).max())
    if not (SMALLEST <= size <= LARGEST and largest <= LARGEST):
        raise ValueError(
            f"the column {name!r} has values up to {largest:.3g} in size that differ by about {size:.3g}, whose "
            "squares are beyond double precision. Rescale the column: multiply or divide it so that they are near 1."
        )
