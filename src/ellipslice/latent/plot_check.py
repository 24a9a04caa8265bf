"""A plot that compares responses with posterior predictive draws."""

from __future__ import annotations

from typing import Any

import numpy as np

MOST_VALUES = 60
"""Largest number of different counts that a rootogram has; for more, densities are shown."""

SHOWN = 50
"""Number of draws whose densities are shown."""


def plot_check(name: str, y: np.ndarray, values: np.ndarray, axes: Any) -> Any:
    """Plot responses and posterior predictive draws, shape (draws, responses); see `FitChecks.plot_check`."""
    import matplotlib.pyplot as plt

    axes = axes or plt.subplots(layout="constrained")[1]
    whole = bool((y == np.floor(y)).all() and (values == np.floor(values)).all())
    if whole and max(y.max(), np.quantile(values, 0.999)) - min(y.min(), values.min()) < MOST_VALUES:
        _rootogram(axes, y, values)
    else:
        _densities(axes, y, values)
    axes.set_xlabel(name)
    axes.legend()
    return axes


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
