"""Pictures of a fit: a function with intervals, or maps of its mean and its uncertainty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.gp.structure import MAX_DENSE

if TYPE_CHECKING:
    from ellipslice.gp.fit import Fit

POINTS, SIDE = 200, 40
"""Of a curve; of each side of a map."""

COLOUR = "#1b6ca8"


def plot(fit: Fit, axes: Any, what: str | None) -> Any:
    """Draw a fit of one or two inputs."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('pictures need matplotlib: pip install "ellipslice[plots]".') from None
    inputs = fit.X.reshape(len(fit.X), -1)
    if inputs.shape[1] == 1:
        return _curve(fit, plt.subplots(figsize=(8, 4.5), layout="constrained")[1] if axes is None else axes, what)
    if inputs.shape[1] == 2:
        pair = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")[1] if axes is None else axes
        return _maps(fit, pair, what)
    raise ValueError(
        f"there are {inputs.shape[1]} inputs, and a picture has one or two. Use fit.predict along a line of your own."
    )


def _curve(fit: Fit, axes: Any, what: str | None) -> Any:
    x = fit.X.reshape(-1)
    new = _along(x, POINTS, among=len(x) > MAX_DENSE)
    predicted = fit.predict(new.reshape(-1, *fit.X.shape[1:]))
    what = _chosen(predicted, what)
    values = predicted[what].values.reshape(-1, len(new))
    for inside, alpha in ((0.9, 0.2), (0.5, 0.35)):
        low, high = np.quantile(values, [(1 - inside) / 2, (1 + inside) / 2], axis=0)
        axes.fill_between(new, low, high, color=COLOUR, alpha=alpha, lw=0, label=f"{inside:.0%} interval")
    axes.plot(new, np.median(values, axis=0), color=COLOUR, lw=1.8, label=f"{what}, median")
    if what in ("expected", "predictive") and fit.shown.size == x.size:
        axes.plot(x, fit.shown.ravel(), ".", color="0.25", ms=4, alpha=0.7, label="data")
    axes.set(xlabel="input", ylabel=what, xlim=(new[0], new[-1]))
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _maps(fit: Fit, pair: Any, what: str | None) -> Any:
    across, up = (_along(fit.X[:, i], SIDE, among=len(fit.X) > MAX_DENSE) for i in range(2))
    grid = np.stack(np.meshgrid(across, up, indexing="xy"), -1).reshape(-1, 2)
    predicted = fit.predict(grid, draws=200, joint=False)
    what = _chosen(predicted, what)
    values = predicted[what].values.reshape(-1, len(up), len(across))
    shown = fit.shown.ravel()
    labels = len(shown) == len(fit.X) and set(np.unique(shown)) <= {0.0, 1.0}
    for axes, image, title, colours in (
        (pair[0], values.mean(axis=0), f"{what}, mean", "viridis"),
        (pair[1], values.std(axis=0), f"{what}, standard deviation", "magma"),
    ):
        drawn = axes.pcolormesh(across, up, image, cmap=colours, shading="nearest", rasterized=True)
        axes.figure.colorbar(drawn, ax=axes)
        fill = np.where(shown > 0, "white", "black") if labels else "white"
        if fit.scattered and len(fit.X) <= 2000:
            axes.scatter(*fit.X.T, c=fill, s=10, edgecolors="0.3", linewidths=0.5)
        axes.set(title=title, xlabel="first input", ylabel="second input")
    return pair


def _along(values: np.ndarray, count: int, *, among: bool) -> np.ndarray:
    """So many values from the least to the largest, equally spaced; or about so, `among` those that are there.

    (Of large data, which are time series or whole grids, nothing is predicted elsewhere.)
    """
    even = np.linspace(values.min(), values.max(), count)
    if not among:
        return even
    known = np.unique(values)
    return known[np.unique(np.abs(known[:, None] - even).argmin(axis=0))]


def _chosen(predicted: Any, what: str | None) -> str:
    if what is None:
        return "expected" if "expected" in predicted else str(next(iter(predicted.data_vars)))
    if what not in predicted:
        raise ValueError(f"what must be one of {', '.join(map(str, predicted.data_vars))}, but it is {what!r}.")
    return what
