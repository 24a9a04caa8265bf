"""Plots of effects and hyperparameters of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.checks import reject_unknown_names

if TYPE_CHECKING:
    from ellipslice.latent.fit import LatentFit

MOST_LABELS = 40
"""Largest number of levels that are labelled."""


def plot(fit: LatentFit, name: str, axes: Any) -> Any:
    """Plot a variable of the posterior; see `LatentFit.plot`."""
    import matplotlib.pyplot as plt

    posterior = fit.tree["posterior"].to_dataset()
    reject_unknown_names("name", [name], [str(each) for each in posterior.data_vars])
    values = posterior[name]
    axes = axes or plt.subplots(layout="constrained")[1]
    draws = values.values.reshape(values.shape[0] * values.shape[1], -1)
    if values.ndim == 2:
        axes.hist(draws[:, 0], bins=60, density=True, color="C0", alpha=0.6)
        axes.set(xlabel=name, ylabel="posterior density")
        return axes
    if values.ndim == 4:
        return _plot_map(values, axes)
    dim = str(values.dims[-1])
    term = next(term for term in fit.model.definition.predictor.terms if term.dim == dim)
    quantiles = np.quantile(draws, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    labels = values.coords[dim].values
    show = _show_curve if term.connected and labels.dtype.kind in "iufM" else _show_points
    show(axes, labels, quantiles)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)  # above, where it hides no level
    axes.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    axes.set(xlabel=dim.removesuffix("_level").removeprefix("fixed_"), ylabel=f"effect of {name}")
    return axes


def _show_curve(axes: Any, labels: np.ndarray, quantiles: np.ndarray) -> None:
    low, first, middle, third, high = quantiles
    axes.fill_between(labels, low, high, alpha=0.2, color="C0", label="90 % interval")
    axes.fill_between(labels, first, third, alpha=0.35, color="C0", label="50 % interval")
    axes.plot(labels, middle, color="C0", label="median")


def _show_points(axes: Any, labels: np.ndarray, quantiles: np.ndarray) -> None:
    low, first, middle, third, high = quantiles
    position = np.arange(len(labels))
    axes.vlines(position, low, high, color="C0", linewidth=1, label="90 % interval")
    axes.vlines(position, first, third, color="C0", linewidth=3, label="50 % interval")
    axes.plot(position, middle, "o", color="C0", markersize=4, label="median")
    shown = position[:: max(1, -(-len(labels) // MOST_LABELS))]
    axes.set_xticks(shown, [str(labels[i]) for i in shown], rotation=90)


def _plot_map(values: Any, axes: Any) -> Any:
    """Plot the posterior mean of a field on a lattice as a map."""
    first, second = values.dims[2:]
    mean = values.values.mean(axis=(0, 1))
    mesh = axes.pcolormesh(values.coords[first].values, values.coords[second].values, mean.T, shading="nearest")
    axes.figure.colorbar(mesh, ax=axes, label=f"posterior mean of {values.name}")
    axes.set_xlabel(str(first).removeprefix(f"{values.name}_"))
    axes.set_ylabel(str(second).removeprefix(f"{values.name}_"))
    axes.set_aspect("equal")
    return axes
