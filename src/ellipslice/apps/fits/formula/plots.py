"""Plots of a fit of a formula: its effects, a posterior predictive check, and the error of Laplace's method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ellipslice.apps.fits.plots import figure_class

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ellipslice.latent.compare_laplace import LaplaceComparison
    from ellipslice.latent.fit import LatentFit

MOST_EFFECTS = 12
"""Largest number of terms whose effects are shown in one plot."""


def effects(fit: LatentFit) -> list[str]:
    """Return the variables of the posterior that are effects, not hyperparameters."""
    return [str(name) for name in fit.tree["posterior"].data_vars if name not in fit.model.hyperparameters]


def draw_effects(fit: LatentFit, variable: str | None) -> Figure:
    """Return a plot of the effects of all terms with their intervals, or of one variable of the posterior."""
    known = [*effects(fit), *fit.model.hyperparameters]
    if variable is not None and variable not in known:
        raise ValueError(f"--variable must be one of {', '.join(known)}, but it is {variable!r}.")
    names = effects(fit)[:MOST_EFFECTS] if variable is None else [variable]
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    figure = figure_class()(figsize=(9 if columns == 1 else 12, 4.4 * rows), dpi=150, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for name, axes in zip(names, panels, strict=False):
        fit.plot(name, axes)
    for axes in panels[len(names) :]:
        axes.remove()
    return figure


def draw_check(fit: LatentFit, seed: int) -> Figure:
    """Return the plot of the posterior predictive check."""
    figure = figure_class()(figsize=(9, 4.4), dpi=150, layout="constrained")
    fit.plot_check(figure.subplots(), seed=seed)
    return figure


def draw_comparison(comparison: LaplaceComparison) -> Figure:
    """Return the plot of the errors of the Laplace approximation."""
    rows = min(40, len(comparison.table))
    figure = figure_class()(figsize=(9, 0.25 * rows + 1.2), dpi=150, layout="constrained")
    comparison.plot(figure.subplots())
    return figure
