"""Forecasts for slow log-likelihoods: the time of pilot runs, and of a run whose length is chosen automatically."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from ellipslice.engines.base import Engine
from ellipslice.machine import available_cores
from ellipslice.sampling.automatic_length import AutomaticLength
from ellipslice.sampling.progress import RunProgress, Show

if TYPE_CHECKING:
    from ellipslice.sampling.drive import Plan

AFTER_SECONDS = 5.0
"""Seconds of sampling after which the forecast is made."""

MIN_SECONDS = 60.0
"""Shortest time of pilot runs, or until the first convergence check, for which a message is printed."""

EVALUATIONS_PER_UPDATE = 3.0
"""Evaluations of an update, roughly, for a forecast before the first update."""


def forecast_pilot_runs(engine: Engine, f: np.ndarray, updates: int, chains: int, instead: str) -> None:
    """Print how long pilot runs will take, if that is long.

    Parameters
    ----------
    engine : Engine
        Engine that makes the pilot runs.
    f : array
        Point at which the log-likelihood is timed.
    updates : int
        Largest number of updates of each chain.
    chains : int
        Number of chains.
    instead : str
        How to avoid the pilot runs, in one sentence.
    """
    engine.evaluate(f)  # the first evaluation may compile
    began = time.perf_counter()
    engine.evaluate(f)
    in_turn = -(-chains // available_cores()) if engine.traced else chains
    seconds = (time.perf_counter() - began) * EVALUATIONS_PER_UPDATE * updates * in_turn
    if seconds > MIN_SECONDS:
        print(  # noqa: T201  as below
            f"ellipslice: pilot runs, which choose how to sample, may take about {_duration(seconds)}. {instead}",
            file=sys.stderr,
        )


class Forecast:
    """A message about the time that a run will take. It is printed once, and only if the run is slow."""

    def __init__(self, length: AutomaticLength):
        self._length = length
        self._began: tuple[float, int] | None = None
        self._done = False

    def after(self, show: Show, plan: Plan) -> Show:
        """Return a function that shows the progress, and prints the forecast when it is due."""

        def both(now: RunProgress) -> None:
            show(now)
            if not self._done and now.updates:
                self._update(now.updates, plan)

        return both

    def _update(self, updates: int, plan: Plan) -> None:
        clock = time.perf_counter()
        if self._began is None:
            self._began = clock, updates  # from the first updates on, without compilation
        since, before = self._began
        if clock - since < AFTER_SECONDS or updates == before:
            return
        self._done = True
        chains = len(plan.spec.chains)
        seconds = (clock - since) / (updates - before) * chains  # for an update of every chain
        first, longest = (seconds * count for count in (plan.updates, self._length.budget(plan.spec)))
        if first > MIN_SECONDS:
            print(  # noqa: T201  it is not a warning, which filters may turn into an error
                f"ellipslice: the first convergence check will be after about {_duration(first)}, and the run ends "
                f"after at most {_duration(longest)}. Ctrl-C returns the draws so far. Choose the length with draws= "
                "or until=, or evaluate the log-likelihood in parallel with executor=.",
                file=sys.stderr,
            )


def _duration(seconds: float) -> str:
    """Return a duration as text, for example "3 minutes"."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.0f} seconds"
