"""A table of means, standard deviations, quantiles and diagnostics of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.checks import reject_unknown_names

if TYPE_CHECKING:
    from ellipslice.latent.fit import LatentFit


def summarise(fit: LatentFit, names: Any, quantiles: Sequence[float]) -> Any:
    """Return the table of `LatentFit.summary`."""
    import pandas

    posterior = fit.tree["posterior"].to_dataset()
    own = fit.model.definition
    if names is None:
        chosen = [*own.posterior.hyperparameters.names, *(n for n in posterior.data_vars if _is_fixed(posterior[n]))]
    else:
        chosen = [names] if isinstance(names, str) else list(names)
        reject_unknown_names("names", chosen, [str(name) for name in posterior.data_vars])
    rows = {}
    for name in chosen:
        values = posterior[name]
        flat = values.values.reshape(*values.shape[:2], -1)
        for label, column in zip(_labels(values), np.moveaxis(flat, 2, 0), strict=True):
            rows[label] = _row(column, quantiles)
    columns = ["mean", "sd", *(f"{100 * q:g}%" for q in quantiles), "ess", "rhat"]
    return pandas.DataFrame.from_dict(rows, orient="index", columns=columns)


def _is_fixed(values: Any) -> bool:
    return any(str(dim).endswith("_coefficient") for dim in values.dims)


def _labels(values: Any) -> list[str]:
    """Return the name of each element: of a coefficient its own, otherwise that of the variable with its label."""
    if values.ndim == 2:
        return [str(values.name)]
    labels = [str(label) for label in values.coords[values.dims[-1]].values]
    return labels if _is_fixed(values) else [f"{values.name}[{label}]" for label in labels]


def _row(draws: np.ndarray, quantiles: Sequence[float]) -> list[float]:
    """Return mean, standard deviation, quantiles, bulk effective sample size and R-hat of draws (chains, draws)."""
    from arviz_stats.base import array_stats

    ess = float(array_stats.ess(draws, chain_axis=0, draw_axis=1, method="bulk"))
    rhat = float(array_stats.rhat(draws, chain_axis=0, draw_axis=1))
    return [float(draws.mean()), float(draws.std(ddof=1)), *np.quantile(draws, quantiles).tolist(), ess, rhat]
