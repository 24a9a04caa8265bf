"""The groups of a result that ArviZ reads: pointwise log-likelihood, predictive draws, prior draws and data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.latent.leave_out.draws import UsedDraws
from ellipslice.latent.posterior_predictive import posterior_predictive, require_simulation
from ellipslice.latent.prior_predictive import prior_predictive
from ellipslice.result_parts import thinned

if TYPE_CHECKING:
    import xarray

    from ellipslice.latent.definition import Definition
    from ellipslice.latent.model_checks import ModelChecks

DEFAULT = ("log_likelihood", "posterior_predictive", "observed_data", "constant_data")
"""Groups that `to_arviz` adds by default, if the family can simulate."""


def default_groups(fit: ModelChecks) -> list[str]:
    """Return the groups that `to_arviz` adds by default."""
    return [name for name in DEFAULT if fit.model.definition.family.predicts or name != "posterior_predictive"]


def log_likelihood(fit: ModelChecks, draws: int | None, seed: int) -> xarray.Dataset:
    """Return the log-likelihood of each response given its linear predictor, with dimensions (chain, draw, row)."""
    definition = fit.model.definition
    used = UsedDraws.of(definition, fit.tree, draws)
    values = []
    for u, eta in zip(used.u, used.eta, strict=True):
        at = definition.posterior.at(u)
        values.append(np.full(eta.shape, np.nan) if at is None else at.likelihood.pointwise(eta))
    posterior = fit.tree["posterior"].to_dataset()
    posterior = posterior if draws is None else thinned(posterior, draws)
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], -1)
    coords = {"chain": posterior.chain, "draw": posterior.draw}
    return _of_rows(definition, ("chain", "draw", "row"), np.stack(values).reshape(shape), coords)


def observed_data(fit: ModelChecks, draws: int | None, seed: int) -> xarray.Dataset:
    """Return the responses that are not missing."""
    definition = fit.model.definition
    return _of_rows(definition, ("row",), definition.y[definition.observed], {})


def constant_data(fit: ModelChecks, draws: int | None, seed: int) -> xarray.Dataset:
    """Return known values of the observed rows: the offset, and exposures, trials or others of the family."""
    import xarray

    definition = fit.model.definition
    observed = definition.observed
    values = {"offset": definition.predictor.offset[observed]}
    own = {argument: name for name, argument in definition.family.columns.items()}
    for argument, value in definition.family.at_rows(observed).fixed.items():
        name = own.get(argument, argument)
        values[name] = np.broadcast_to(np.exp(value) if name == "exposure" else value, values["offset"].shape)
    variables = {name: (("row",), np.array(each, dtype=float)) for name, each in values.items()}
    return xarray.Dataset(variables, {"row": definition.row_labels[observed]})


def prior(fit: ModelChecks, draws: int | None, seed: int) -> xarray.Dataset:
    """Return draws of hyperparameters and effects from the prior."""
    found = _from_prior(fit, draws, seed)
    return found.drop_vars([name for name in found.data_vars if "row" in found[name].dims])


def prior_predictive_group(fit: ModelChecks, draws: int | None, seed: int) -> xarray.Dataset:
    """Return draws of the responses of the observed rows from the prior."""
    definition = fit.model.definition
    require_simulation(definition.family)
    found = _from_prior(fit, draws, seed)[[definition.response_name]]
    found = found.isel(row=np.flatnonzero(definition.observed))
    return found.assign_coords(row=definition.row_labels[definition.observed])


def _from_prior(fit: ModelChecks, draws: int | None, seed: int) -> xarray.Dataset:
    """Return draws from the prior with the dimensions chain, which has length 1, and draw."""
    count = fit.tree["posterior"].sizes["draw"] if draws is None else draws
    return prior_predictive(fit.model.definition, count, seed).expand_dims(chain=[0])


def _of_rows(definition: Definition, dims: tuple[str, ...], values: np.ndarray, coords: dict[str, Any]) -> Any:
    """Return a dataset with the name of the response and the labels of the observed rows."""
    import xarray

    coords = {**coords, "row": definition.row_labels[definition.observed]}
    return xarray.Dataset({definition.response_name: (dims, values)}, coords)


GROUPS: dict[str, Callable[[Any, int | None, int], Any]] = {
    "log_likelihood": log_likelihood,
    "posterior_predictive": posterior_predictive,
    "prior": prior,
    "prior_predictive": prior_predictive_group,
    "observed_data": observed_data,
    "constant_data": constant_data,
}
"""Functions of a fit, a number of draws and a seed, by the name of the group."""
