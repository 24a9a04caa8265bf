"""Plots of a fit and of its chains, labelled with the names of the columns and with dates."""

from __future__ import annotations

import datetime as dt
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.apps.fits.folder import RunFolder
from ellipslice.gp import Fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_TRACES = 30
"""Largest number of quantities whose traces are shown."""

BLUE, GREY = "#1b6ca8", "#8a929c"


def draw_process(folder: RunFolder, fit: Fit, what: str | None = None) -> Figure:
    """Return a plot of a Gaussian process: a curve with intervals for one input, two maps for two.

    Parameters
    ----------
    what : {"expected", "predictive", "latent"}, optional
        Quantity to plot. Default: "expected".
    """
    make = figure_class()
    inputs = folder.settings.inputs
    if len(inputs) == 1:
        figure = make(figsize=(9, 4.8), dpi=150, layout="constrained")
        axes = figure.subplots()
        fit.plot(axes, variable=what)
        axes.set(xlabel=inputs[0], ylabel=_label(folder, axes.get_ylabel()))
        _dates(axes.xaxis, folder.origins[0], float(np.ptp(fit.X)))
        axes.set_title(folder.kind.describe(folder), fontsize=10, loc="left")
    else:
        figure = make(figsize=(11, 4.8), dpi=150, layout="constrained")
        for axes in fit.plot(figure.subplots(1, 2), variable=what):
            variable, _, statistic = axes.get_title().partition(", ")
            axes.set(xlabel=inputs[0], ylabel=inputs[1], title="")
            axes.set_title(f"{_label(folder, variable)}: {statistic}", fontsize=10, loc="left")
            for axis, origin, column in zip((axes.xaxis, axes.yaxis), folder.origins, fit.X.T, strict=True):
                _dates(axis, origin, float(np.ptp(column)))
    return figure


def traces(folder: RunFolder, fit: Any) -> Figure:
    """Return trace plots and histograms of each quantity of the summary and of the log-likelihood, one row each."""
    rows = list(folder.kind.parameters(folder, fit).items())[:MOST_TRACES]
    rows.append(("log-likelihood", fit.tree["sample_stats"].to_dataset().total_log_likelihood.values))
    figure = figure_class()(figsize=(9, 1.5 * len(rows) + 0.4), dpi=150, layout="constrained")
    grid = figure.subplots(len(rows), 2, squeeze=False, width_ratios=(3, 1))
    for (name, values), (left, right) in zip(rows, grid, strict=True):
        colours = [(0.1, 0.25 + 0.6 * i / max(1, len(values) - 1), 0.75) for i in range(len(values))]
        for chain, colour in zip(values, colours, strict=True):
            left.plot(chain, color=colour, lw=0.5, alpha=0.8)
            right.hist(chain, bins=40, orientation="horizontal", histtype="step", color=colour, lw=0.9)
        left.set_ylabel(name, fontsize=9)
        left.set_xlim(0, values.shape[1])
        right.set_ylim(left.get_ylim())
        right.set(xticks=[], yticklabels=[])
        for axes in (left, right):
            axes.tick_params(labelsize=8)
            axes.spines[["top", "right"]].set_visible(False)
    grid[-1][0].set_xlabel("draw", fontsize=9)
    return figure


def as_png(figure: Figure) -> bytes:
    """Return the figure as the content of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def figure_class() -> Any:
    """Return the class `Figure` of matplotlib. Raise if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots require matplotlib. Install it with: pip install 'ellipslice[fit]'.") from None
    return Figure


def _label(folder: RunFolder, what: str) -> str:
    """Return the label of an axis, with the names of the columns."""
    settings = folder.settings
    if what == "latent":
        return "latent function"
    if what == "predictive":
        return f"{settings.target}, new observation"
    if settings.events:
        units = [
            "day" if origin else f"unit of {name}" for name, origin in zip(settings.inputs, folder.origins, strict=True)
        ]
        return f"events per {' and '.join(units)}"
    if settings.command.kind in ("label", "share"):
        return f"probability of {settings.target}"
    if settings.exposure is not None:
        return f"{settings.target} per unit of {settings.exposure}"
    return f"{settings.target}, expected"


def _dates(axis: Any, origin: str | None, days: float) -> None:
    """Label an axis of days since `origin` with dates."""
    if origin is None:
        return
    from matplotlib import dates

    first = dt.datetime.fromisoformat(origin)
    locator: Any = dates.AutoDateLocator(minticks=4, maxticks=9)
    ticks = locator.tick_values(first, first + dt.timedelta(days=days))
    inside = [tick for tick in np.asarray(ticks) - dates.date2num(first) if 0 <= tick <= days]
    form = "%Y" if days > 1500 else "%Y-%m" if days > 150 else "%Y-%m-%d" if days > 5 else "%m-%d %H:%M"
    axis.set_ticks(inside, [(first + dt.timedelta(days=tick)).strftime(form) for tick in inside])
