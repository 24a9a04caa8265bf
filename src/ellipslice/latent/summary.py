"""A table of means, standard deviations, quantiles and diagnostics of a fit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.checks import reject_unknown_names
from ellipslice.sampling.measures import TAILS
from ellipslice.sampling.rank_diagnostics import rank_diagnostics

if TYPE_CHECKING:
    from ellipslice.latent.fit import LatentFit
    from ellipslice.latent.fit_checks import FitChecks


def summarise(fit: LatentFit, names: Any, quantiles: Sequence[float]) -> Any:
    """Return the table of `LatentFit.summary`."""
    import pandas as pd

    posterior = fit.tree["posterior"].to_dataset()
    if names is None:
        own = fit.model.definition.posterior.hyperparameters.names
        chosen = [*own, *(str(name) for name in posterior.data_vars if is_fixed(posterior[name]))]
    else:
        chosen = [names] if isinstance(names, str) else list(names)
        reject_unknown_names("names", chosen, [str(name) for name in posterior.data_vars])
    labels = [label for name in chosen for label in element_labels(posterior[name])]
    draws = np.concatenate([_elements(posterior[name]) for name in chosen], axis=2)
    columns: dict[str, Any] = {"mean": draws.mean((0, 1)), "sd": draws.std((0, 1), ddof=1)}
    columns |= {f"{100 * q:g}%": np.quantile(draws, q, axis=(0, 1)) for q in quantiles}
    measures = rank_diagnostics(draws, TAILS)
    columns |= {"ess": measures.bulk, "rhat": measures.rhat}
    return pd.DataFrame(columns, index=labels)


def draws_table(fit: FitChecks, names: Any) -> Any:
    """Return the table of `LatentFit.to_dataframe`."""
    import pandas as pd

    posterior = fit.tree["posterior"].to_dataset()
    every = [str(name) for name in posterior.data_vars]
    chosen = every if names is None else [names] if isinstance(names, str) else list(names)
    reject_unknown_names("names", chosen, every)
    labels = [label for name in chosen for label in element_labels(posterior[name])]
    draws = np.concatenate([_elements(posterior[name]) for name in chosen], axis=2)
    index = pd.MultiIndex.from_product([posterior.chain.values, posterior.draw.values], names=["chain", "draw"])
    return pd.DataFrame(draws.reshape(len(index), -1), index, labels)


def is_fixed(values: Any) -> bool:
    """Return whether a variable of the posterior contains fixed effects."""
    return any(str(dim).endswith("_coefficient") for dim in values.dims)


def element_labels(values: Any) -> list[str]:
    """Return the name of each element: of a coefficient its own, otherwise that of the variable with its label."""
    if values.ndim == 2:
        return [str(values.name)]
    places = itertools.product(*(values.coords[dim].values for dim in values.dims[2:]))
    labels = [", ".join(_label(each, alone=len(place) == 1) for each in place) for place in places]
    return labels if is_fixed(values) else [f"{values.name}[{label}]" for label in labels]


def _label(value: Any, *, alone: bool) -> str:
    return str(value) if alone or isinstance(value, str) else f"{value:.6g}"


def _elements(values: Any) -> np.ndarray:
    """Return the draws of a variable, shape (chains, draws, elements)."""
    return values.values.reshape(*values.shape[:2], -1)
