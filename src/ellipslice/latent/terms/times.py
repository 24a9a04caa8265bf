"""Equally spaced times: all times from the first to the last one, also those without data."""

from __future__ import annotations

import numpy as np

from ellipslice.latent.terms.columns import positions_of

MAX_TIMES = 1_000_000
"""Largest number of times, those without data included."""


def equally_spaced(found: np.ndarray, kind: str, argument: str) -> np.ndarray:
    """Return all times from the first to the last one. Raise if the given ones are not multiples of a step.

    Parameters
    ----------
    found : array
        Sorted distinct times, numbers or dates.
    kind, argument : str
        Class of the term and its argument, for messages.
    """
    positions = positions_of(found, argument)
    if len(found) < 2:
        raise ValueError(
            f"{kind}: the column has 1 distinct time, but {kind} requires at least 2. Drop the term, or use IID."
        )
    step = np.diff(positions).min()
    steps = steps_of(positions - positions[0], step)
    bad = steps < 0
    if bad.any():
        raise ValueError(
            f"{kind}: the time {found[bad][0]} is not a whole number of steps of {step:g} after {found[0]}. Expected "
            "equally spaced times. Number the times, or use RW1, which has irregular positions."
        )
    if steps[-1] >= MAX_TIMES:
        raise ValueError(
            f"{kind}: from {found[0]} to {found[-1]} there are {steps[-1] + 1} steps of {step:g}, and at most "
            f"{MAX_TIMES} are possible. Check the times."
        )
    times = found[0] + np.arange(int(steps[-1]) + 1) * (found[1:] - found[:-1]).min()
    times[steps] = found  # without the rounding error of sums of steps
    return times


def extended_times(levels: np.ndarray, values: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return more equally spaced times, which include new ones, the index of each level, and that of each new time.

    Parameters
    ----------
    levels : array
        All times of a term.
    values : array
        New times, before, after or equal to those.
    name : str
        Name of the term, for messages.
    """
    positions = positions_of(np.concatenate([levels, values]), name)
    step = (positions[len(levels) - 1] - positions[0]) / (len(levels) - 1)
    away = positions[len(levels) :] - positions[0]
    steps = np.sign(away).astype(np.int64) * steps_of(np.abs(away), step)
    bad = steps_of(np.abs(away), step) < 0
    if bad.any():
        raise ValueError(
            f"{name} has no effect at the time {values[bad][0]}, which is not a whole number of steps of {step:g} "
            f"after {levels[0]}. Give times of the same steps."
        )
    before, after = max(0, -int(steps.min())), max(0, int(steps.max()) + 1 - len(levels))
    if before + after >= MAX_TIMES:
        raise ValueError(
            f"{name}: the new times are {before + after} steps away, and at most {MAX_TIMES} are possible."
        )
    numbers = np.arange(before + len(levels) + after)
    return numbers, before + np.arange(len(levels)), before + steps


def steps_of(distances: np.ndarray, step: float) -> np.ndarray:
    """Return distances in multiples of a step, as integers, and -1 for a distance that is not a multiple."""
    numbers = distances / step
    steps = np.rint(numbers)
    bad = np.abs(numbers - steps) > 1e-6 * np.maximum(steps, 1.0)
    return np.where(bad, -1, steps).astype(np.int64)
