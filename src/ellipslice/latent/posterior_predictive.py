"""Posterior predictive draws of the observed rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ellipslice.latent.predict import predict

if TYPE_CHECKING:
    import xarray

    from ellipslice.latent.definition import Definition
    from ellipslice.latent.family import Family
    from ellipslice.latent.model_checks import ModelChecks


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


def censored_responses(definition: Definition) -> int:
    """Return the number of observed rows whose response is a censored survival time."""
    event = definition.family.at_rows(definition.observed).fixed.get("event", 1.0)
    return int((np.broadcast_to(event, definition.observed.sum()) == 0).sum())
