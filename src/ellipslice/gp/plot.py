"""Plots of a fit: a curve with intervals, or maps of the posterior mean and standard deviation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.gp.names import fitted_columns
from ellipslice.gp.structure import MAX_DENSE

if TYPE_CHECKING:
    from ellipslice.gp.fit import Fit

CURVE_POINTS, MAP_SIDE_POINTS = 200, 40
"""Number of points of a curve, and of each side of a map."""

MAP_DRAWS = 200
"""Number of posterior draws for a map."""

MAX_SHOWN_INPUTS = 2000
"""Maps of more data do not show the inputs, which would cover the map."""

COLOUR = "#1b6ca8"


def plot(fit: Fit, axes: Any, variable: str | None) -> Any:
    """Plot a fit with one or two input axes; see `Fit.plot`."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots require matplotlib. Install it with: pip install 'ellipslice[plots]'.") from None
    inputs = fit.X.reshape(len(fit.X), -1)
    if inputs.shape[1] == 1:
        return _curve(fit, plt.subplots(figsize=(8, 4.5), layout="constrained")[1] if axes is None else axes, variable)
    if inputs.shape[1] == 2:
        pair = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")[1] if axes is None else axes
        return _maps(fit, pair, variable)
    raise ValueError(
        f"the inputs have {inputs.shape[1]} axes, but only one or two can be plotted. Use fit.predict at points of "
        "your choice, such as a line through the inputs, and plot the result."
    )


def _curve(fit: Fit, axes: Any, variable: str | None) -> Any:
    x = fit.X.reshape(-1)
    new = _plot_inputs(x, CURVE_POINTS, only_known=len(x) > MAX_DENSE)
    predicted = fit.predict(new.reshape(-1, *fit.X.shape[1:]))
    name = _variable_name(predicted, variable)
    values = predicted[name].values.reshape(-1, len(new))
    for inside, alpha in ((0.9, 0.2), (0.5, 0.35)):
        low, high = np.quantile(values, [(1 - inside) / 2, (1 + inside) / 2], axis=0)
        axes.fill_between(new, low, high, color=COLOUR, alpha=alpha, lw=0, label=f"{100 * inside:.0f} % interval")
    axes.plot(new, np.median(values, axis=0), color=COLOUR, lw=1.8, label=f"{name}, median")
    if name in ("expected", "predictive") and fit.shown.size == x.size:
        axes.plot(x, fit.shown.ravel(), ".", color="0.25", ms=4, alpha=0.7, label="data")
    axes.set(xlabel=(*fitted_columns(fit.tree), "input")[0], ylabel=name, xlim=(new[0], new[-1]))
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _maps(fit: Fit, pair: Any, variable: str | None) -> Any:
    across, up = (_plot_inputs(fit.X[:, i], MAP_SIDE_POINTS, only_known=len(fit.X) > MAX_DENSE) for i in range(2))
    grid = np.stack(np.meshgrid(across, up, indexing="xy"), -1).reshape(-1, 2)
    predicted = fit.predict(grid, draws=MAP_DRAWS, joint=False)
    name = _variable_name(predicted, variable)
    values = predicted[name].values.reshape(-1, len(up), len(across))
    shown = fit.shown.ravel()
    labels = len(shown) == len(fit.X) and set(np.unique(shown)) <= {0.0, 1.0}
    for axes, image, title, colours in (
        (pair[0], values.mean(axis=0), f"{name}, mean", "viridis"),
        (pair[1], values.std(axis=0), f"{name}, standard deviation", "magma"),
    ):
        drawn = axes.pcolormesh(across, up, image, cmap=colours, shading="nearest", rasterized=True)
        axes.figure.colorbar(drawn, ax=axes)
        fill = np.where(shown > 0, "white", "black") if labels else "white"
        if fit.scattered and len(fit.X) <= MAX_SHOWN_INPUTS:
            axes.scatter(*fit.X.T, c=fill, s=10, edgecolors="0.3", linewidths=0.5)
        across_label, up_label = fitted_columns(fit.tree) or ("first input", "second input")
        axes.set(title=title, xlabel=across_label, ylabel=up_label)
    return pair


def _plot_inputs(values: np.ndarray, count: int, *, only_known: bool) -> np.ndarray:
    """Return `count` equally spaced values from the smallest to the largest of `values`.

    If `only_known`, return the nearest of `values` instead, each once: with too many data for dense matrices, which are
    time series or grids, predictions are possible only at inputs of the data.
    """
    even = np.linspace(values.min(), values.max(), count)
    if not only_known:
        return even
    known = np.unique(values)
    return known[np.unique(np.abs(known[:, None] - even).argmin(axis=0))]


def _variable_name(predicted: Any, variable: str | None) -> str:
    """Return the variable of a prediction to plot. Raise if there is none of that name."""
    if variable is None:
        return "expected" if "expected" in predicted else str(next(iter(predicted.data_vars)))
    if variable not in predicted:
        names = ", ".join(map(str, predicted.data_vars))
        raise ValueError(f"variable must be one of {names}, but it is {variable!r}.")
    return variable
