"""Predictions of a fitted latent Gaussian model, at the rows of the data or at new rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.latent.definition import Definition
from ellipslice.latent.predictor import take_rows
from ellipslice.latent.terms import Term

if TYPE_CHECKING:
    import xarray


def predict(definition: Definition, tree: xarray.DataTree, data: Any, draws: int | None, seed: int) -> xarray.Dataset:
    """Return linear predictors, expected responses and draws of responses; see `LatentFit.predict`."""
    import xarray

    posterior = thinned(tree["posterior"].to_dataset(), draws)
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])
    rng = np.random.default_rng([seed, 7])
    rows = definition.predictor.at(data)
    family = definition.family if data is None else definition.family_at(data)
    values = hyperparameter_draws(definition, posterior)
    eta = np.tile(rows.offset, (shape[0] * shape[1], 1))
    for own in rows.terms:
        effects = posterior[own.term.name].values
        eta += (own.rows @ effects.reshape(len(eta), -1).T).T
        if own.unseen.any():
            new = np.flatnonzero(own.unseen)
            flat = effects.reshape(len(eta), -1)
            eta[:, new] += own.term.conditional_effects(take_rows(own.data, new), flat, _own(values, own.term), rng)
    found = {"linear_predictor": eta}
    if family.predicts:
        parameters = {name: values[name][:, None] for name in definition.family.parameters}
        found["expected"] = family.mean(eta, **parameters)
        found["predictive"] = family.simulate(eta, rng, **parameters)
    coords = {"chain": posterior.chain, "draw": posterior.draw}
    if rows.index is not None:
        coords["row"] = np.asarray(rows.index)
    return xarray.Dataset(
        {name: (("chain", "draw", "row"), each.reshape(*shape, -1)) for name, each in found.items()}, coords
    )


def thinned(posterior: xarray.Dataset, draws: int | None) -> xarray.Dataset:
    """Return evenly spaced draws, equally many of each chain: about `draws` in all."""
    if draws is None:
        return posterior
    each = min(posterior.sizes["draw"], max(1, -(-draws // posterior.sizes["chain"])))
    return posterior.isel(draw=np.linspace(0, posterior.sizes["draw"] - 1, each).astype(int))


def hyperparameter_draws(definition: Definition, posterior: xarray.Dataset) -> dict[str, np.ndarray]:
    """Return the draws of each hyperparameter, shape (draws,), chain after chain."""
    return {name: posterior[name].values.reshape(-1) for name in definition.posterior.hyperparameters.names}


def _own(values: Mapping[str, np.ndarray], term: Term) -> dict[str, np.ndarray]:
    """Return the draws of the hyperparameters of a term by its own names."""
    return {name: values[f"{term.name}_{name}"] for name in term.hyperparameters}
