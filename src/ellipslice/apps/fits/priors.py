"""Priors of unknown hyperparameters and mean of the latent function, scaled to the data.

A hyperparameter that is not fixed has a log-normal prior. Its logarithm has standard deviation 1, so the 95 % interval
reaches from a seventh of the median to 7 times the median. The median depends on the data:

| hyperparameter | median |
|---|---|
| amplitude      | standard deviation of the observations if they are real numbers, otherwise 1 |
| length_scale   | a fifth of the range of each input |
| noise_scale    | half the standard deviation of the observations |
| dispersion     | 5 |

The mean of the latent function is a constant. For it, the expected observation equals the average of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ellipslice.apps.fits.settings import FitSettings

PRIOR_LOG_SD = 1.0
"""Prior standard deviation of the logarithm of every unknown hyperparameter."""

MIN_SCALE, MAX_SCALE = 1e-100, 1e100
"""Smallest and largest scale of a column: products of the squares of such numbers fit into double precision."""


class Data(NamedTuple):
    """Columns of a fit, as numbers."""

    inputs: np.ndarray
    """Inputs of the data, shape (n, inputs)."""
    y: np.ndarray | None = None
    exposure: np.ndarray | None = None
    trials: np.ndarray | None = None

    @property
    def points(self) -> np.ndarray:
        """Inputs in the shape that models expect: (n,) for one input, otherwise (n, inputs)."""
        return self.inputs[:, 0] if self.inputs.shape[1] == 1 else self.inputs


def medians(settings: FitSettings, data: Data) -> dict[str, Any]:
    """Return the prior median of every hyperparameter, fixed or not: floats, and an array for the length scales."""
    spread = float(np.std(data.y)) if data.y is not None and settings.command.kind == "number" else 1.0
    ranges = np.ptp(np.asarray(window(settings, data)), axis=1) if settings.events else np.ptp(data.inputs, axis=0)
    return {"amplitude": spread, "length_scale": ranges / 5, "noise_scale": spread / 2, "dispersion": 5.0}


def latent_mean(settings: FitSettings, data: Data) -> float:
    """Return the constant value of the latent function for which the expected observation is the data average."""
    command, y = settings.command, data.y
    if y is None:
        area = float(np.prod(np.ptp(np.asarray(window(settings, data)), axis=1)))
        return math.log(len(data.inputs) / area)
    if command.kind == "number":
        return float(command.link(command.average(y)))
    if command.kind == "count":
        exposure = len(y) if data.exposure is None else data.exposure.sum()
        return float(command.link(max(float(y.sum()), 0.5) / float(exposure)))
    tried = len(y) if data.trials is None else float(data.trials.sum())
    share = (float(np.clip((y > 0) * 1.0 if command.kind == "label" else y, 0, None).sum()) + 0.5) / (tried + 1)
    return float(command.link(min(max(share, 1e-6), 1 - 1e-6)))


def window(settings: FitSettings, data: Data) -> tuple[tuple[float, float], ...]:
    """Return the window of the events, one pair per input: as given, or the range of the events."""
    given = settings.per_input("window")
    if given is not None:
        return given
    return tuple((float(column.min()), float(column.max())) for column in data.inputs.T)


def check_magnitude(name: str, values: np.ndarray, spread: Callable[[np.ndarray], Any]) -> None:
    """Raise if squares of the values of a column, or of their spread, do not fit into double precision."""
    with np.errstate(all="ignore"):
        size = float(spread(values))
    largest = float(np.abs(values).max())
    if not (MIN_SCALE <= size <= MAX_SCALE and largest <= MAX_SCALE):
        raise ValueError(
            f"the column {name!r} has values up to {largest:.3g} in size that differ by about {size:.3g}. Their "
            "squares are beyond double precision. Rescale the column so that its values are near 1."
        )
