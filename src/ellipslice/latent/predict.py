"""Predictions of a fitted latent Gaussian model, at the rows of the data or at new rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.latent.definition import Definition
from ellipslice.latent.predictor import Rows, take_rows
from ellipslice.latent.terms import Term
from ellipslice.result_parts import thinned

if TYPE_CHECKING:
    import xarray


def predict(definition: Definition, tree: xarray.DataTree, data: Any, draws: int | None, seed: int) -> xarray.Dataset:
    """Return linear predictors, expected responses and draws of responses; see `LatentFit.predict`."""
    posterior, rows = _thinned(tree, draws), definition.predictor.at(data)
    rng = np.random.default_rng([seed, 7])
    family = definition.family if data is None else definition.family_at(data)
    values = hyperparameter_draws(definition, posterior)
    eta = _predictors(rows, posterior, values, rng)
    found = {"linear_predictor": eta}
    if family.predicts:
        parameters = {name: values[name][:, None] for name in definition.family.parameters}
        found["expected"] = family.mean(eta, **parameters)
        found["predictive"] = family.simulate(eta, rng, **parameters)
    return _labelled(found, posterior, rows)


def linear_predictor(definition: Definition, tree: xarray.DataTree, draws: int | None) -> xarray.DataArray:
    """Return the linear predictors of the rows of the data; see `LatentFit.linear_predictor`."""
    posterior, rows = _thinned(tree, draws), definition.predictor.at()
    eta = _predictors(rows, posterior, {}, np.random.default_rng())  # without new levels, nothing is random
    return _labelled({"linear_predictor": eta}, posterior, rows)["linear_predictor"]


def _thinned(tree: xarray.DataTree, draws: int | None) -> xarray.Dataset:
    posterior = tree["posterior"].to_dataset()
    return posterior if draws is None else thinned(posterior, draws)


def _predictors(
    rows: Rows, posterior: xarray.Dataset, values: Mapping[str, np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Return draws of the linear predictors of rows, shape (draws, rows). `values` are those of hyperparameters."""
    eta = np.tile(rows.offset, (posterior.sizes["chain"] * posterior.sizes["draw"], 1))
    for own in rows.terms:
        effects = posterior[own.term.name].values.reshape(len(eta), -1)
        eta += (own.rows @ effects.T).T
        if own.unseen.any():
            new = np.flatnonzero(own.unseen)
            eta[:, new] += own.term.conditional_effects(take_rows(own.data, new), effects, _own(values, own.term), rng)
    return eta


def _labelled(found: Mapping[str, np.ndarray], posterior: xarray.Dataset, rows: Rows) -> xarray.Dataset:
    """Return arrays of shape (draws, rows) with the dimensions chain, draw and row."""
    import xarray

    coords = {"chain": posterior.chain, "draw": posterior.draw}
    if rows.index is not None:
        coords["row"] = np.asarray(rows.index)
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], -1)
    return xarray.Dataset(
        {name: (("chain", "draw", "row"), each.reshape(shape)) for name, each in found.items()}, coords
    )


def hyperparameter_draws(definition: Definition, posterior: xarray.Dataset) -> dict[str, np.ndarray]:
    """Return the draws of each hyperparameter, shape (draws,), chain after chain."""
    return {name: posterior[name].values.reshape(-1) for name in definition.posterior.hyperparameters.names}


def _own(values: Mapping[str, np.ndarray], term: Term) -> dict[str, np.ndarray]:
    """Return the draws of the hyperparameters of a term by its own names."""
    return {name: values[f"{term.name}_{name}"] for name in term.hyperparameters}
