"""Posterior predictive draws of the observed rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ellipslice.latent.predict import predict

if TYPE_CHECKING:
    import xarray

    from ellipslice.latent.model_checks import ModelChecks


def posterior_predictive(fit: ModelChecks, draws: int | None, seed: int) -> xarray.Dataset:
    """Return draws of responses at the observed rows; see `LatentFit.posterior_predictive`."""
    definition = fit.model.definition
    if not definition.family.predicts:
        raise TypeError(
            f"the family {definition.family.name} is a function, which cannot simulate responses. Write a class that "
            "derives from es.likelihoods.Likelihood."
        )
    drawn = predict(definition, fit.tree, None, draws, seed)[["predictive"]]
    observed = drawn.isel(row=np.flatnonzero(definition.observed))
    return observed.assign_coords(row=definition.row_labels[definition.observed]).rename(
        predictive=definition.response_name
    )
