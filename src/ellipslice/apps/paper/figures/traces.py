"""Figures 4 and 5: trace plots of the log-likelihood, for control variables and elliptical slice sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ellipslice.apps.paper.figures.style import COLOURS, GREY, NAMES, bare
from ellipslice.apps.paper.protocol import RunOutcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE5_NOTE = (
    "The right panel of Figure 5 in the paper shows, by mistake, points of the 1-dimensional run. "
    "This figure shows the 10-dimensional run."
)


def figure4(outcomes: Sequence[RunOutcome]) -> Figure | None:
    """Return Figure 4, the first 1,000 iterations on R01; None if elliptical slice sampling was not run there."""
    return traces(outcomes, "R01", 1_000, 3, "Figure 4   Log-likelihood, 1-dimensional regression", "")


def figure5(outcomes: Sequence[RunOutcome]) -> Figure | None:
    """Return Figure 5, the first 10,000 iterations on R10; None if elliptical slice sampling was not run there."""
    return traces(outcomes, "R10", 10_000, 71, "Figure 5   Log-likelihood, 10-dimensional regression", FIGURE5_NOTE)


def traces(
    outcomes: Sequence[RunOutcome], problem: str, iterations: int, usual: int, title: str, note: str
) -> Figure | None:
    """Return a figure with a panel for control variables and one for elliptical slice sampling.

    There is one point per sweep over the M control variables, and one per M iterations of elliptical slice sampling. If
    control variables were not run, M is `usual`, the number in the paper.
    """
    from matplotlib.figure import Figure

    first = {outcome.method: outcome for outcome in outcomes if outcome.problem == problem and outcome.run == 0}
    if "elliptical" not in first:
        return None
    control = first.get("control")
    sweep = usual if control is None else control.controls or usual
    count = min(iterations, len(first["elliptical"].trace)) // sweep
    figure = Figure(figsize=(9.6, 3.9))
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    figure.subplots_adjust(left=0.075, right=0.965, top=0.8, bottom=0.2, wspace=0.12)
    draw_trace(left, "control", np.array(control.trace[:count] if control else ()), sweep)
    draw_trace(right, "elliptical", np.array(first["elliptical"].trace[sweep - 1 :: sweep][:count]), sweep)
    left.set_ylabel("log-likelihood")
    figure.suptitle(title, x=0.02, ha="left", fontweight="bold")
    whose = "" if control else " in the paper"
    points = f"{count} points after warm-up, one per sweep over the {sweep} control variables{whose}."
    figure.text(0.02, 0.02, f"{points}\n{note}" if note else points, color=GREY, fontsize=8, linespacing=1.4)
    return figure


def draw_trace(axes: Axes, method: str, trace: np.ndarray, sweep: int) -> None:
    """Draw the trace of one method."""
    iterations = sweep * np.arange(1, len(trace) + 1)
    if not len(trace):
        axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", color=GREY)
    axes.plot(iterations, trace, "-", color=COLOURS[method], linewidth=0.8, marker=".", markersize=3)
    axes.set_title(NAMES[method])
    axes.set_xlabel("iteration", labelpad=1)
    axes.margins(x=0.01)
    bare(axes)
