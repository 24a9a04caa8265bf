"""Posterior predictive draws of the observed rows, and a plot that compares them with the responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.checks import warn
from ellipslice.latent.predict import predict

if TYPE_CHECKING:
    import xarray

    from ellipslice.latent.definition import Definition
    from ellipslice.latent.family import Family
    from ellipslice.latent.model_checks import ModelChecks

MOST_VALUES = 60
"""Largest number of different counts that a rootogram has; for more, densities are shown."""

SHOWN = 50
"""Number of draws whose densities are shown."""


def posterior_predictive(fit: ModelChecks, draws: int | None, seed: int) -> xarray.Dataset:
    """Return draws of responses at the observed rows; see `LatentFit.posterior_predictive`."""
    definition = fit.model.definition
    require_simulation(definition.family)
    drawn = predict(definition, fit.tree, None, draws, seed)[["predictive"]]
    observed = drawn.isel(row=np.flatnonzero(definition.observed))
    return observed.assign_coords(row=definition.row_labels[definition.observed]).rename(
        predictive=definition.response_name
    )


def require_simulation(family: Family) -> None:
    """Raise if a family cannot simulate responses."""
    if not family.predicts:
        raise TypeError(
            f"the family {family.name} cannot simulate responses, because it is a function, or a class without the "
            "methods expected and simulate. Write a class with both that derives from es.likelihoods.Likelihood."
        )


def plot_check(fit: ModelChecks, draws: int, seed: int, axes: Any) -> Any:
    """Plot responses and posterior predictive draws; see `LatentFit.plot_check`."""
    import matplotlib.pyplot as plt

    definition = fit.model.definition
    _warn_if_censored(definition)
    name, y = definition.response_name, definition.y[definition.observed]
    values = posterior_predictive(fit, draws, seed)[name].values.reshape(-1, len(y))
    axes = axes or plt.subplots(layout="constrained")[1]
    whole = bool((y == np.floor(y)).all() and (values == np.floor(values)).all())
    if whole and max(y.max(), np.quantile(values, 0.999)) - min(y.min(), values.min()) < MOST_VALUES:
        _rootogram(axes, y, values)
    else:
        _densities(axes, y, values)
    axes.set_xlabel(name)
    axes.legend()
    return axes


def _warn_if_censored(definition: Definition) -> None:
    event = definition.family.at_rows(definition.observed).fixed.get("event", 1.0)
    censored = int((np.broadcast_to(event, definition.observed.sum()) == 0).sum())
    if censored:
        warn(
            f"{censored} of {definition.observed.sum()} responses are censored, but predictive draws are not, so the "
            "plot shows a difference even if the model is right. Apply the censoring to the draws of "
            "fit.posterior_predictive() before you compare them."
        )


def frequencies(y: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return whole numbers, how many responses have each, and how many of each draw, shape (draws, numbers)."""
    last = max(y.max(), np.quantile(values, 0.999))
    support = np.arange(min(y.min(), values.min()), last + 1)
    of_draws = np.stack([(values == each).sum(1) for each in support], axis=1)
    return support, np.array([(y == each).sum() for each in support]), of_draws


def _rootogram(axes: Any, y: np.ndarray, values: np.ndarray) -> None:
    support, observed, of_draws = frequencies(y, values)
    low, high = np.sqrt(np.quantile(of_draws, [0.05, 0.95], axis=0))
    axes.bar(support, np.sqrt(observed), color="0.8", label="responses")
    axes.plot(support, np.sqrt(of_draws.mean(0)), "o-", color="C0", markersize=4, label="predictive mean")
    axes.vlines(support, low, high, color="C0", label="90 % interval of predictive draws")
    axes.set_ylabel("square root of the number of responses")


def _densities(axes: Any, y: np.ndarray, values: np.ndarray) -> None:
    from scipy.stats import gaussian_kde

    low, high = np.quantile(np.concatenate([y, values.ravel()]), [0.001, 0.999])
    grid = np.linspace(min(low, y.min()), max(high, y.max()), 300)
    shown = values[np.linspace(0, len(values) - 1, min(SHOWN, len(values))).astype(int)]
    for number, each in enumerate(shown):
        if np.ptp(each) > 0:
            label = None if number else "predictive draws"
            axes.plot(grid, gaussian_kde(each)(grid), color="C0", alpha=0.25, linewidth=0.7, label=label)
    if np.ptp(y) > 0:
        axes.plot(grid, gaussian_kde(y)(grid), color="0.1", label="responses")
    axes.set_ylabel("density")
