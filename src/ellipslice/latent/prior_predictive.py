"""Draws of hyperparameters, effects and responses from the prior of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ellipslice.checks import warn
from ellipslice.latent.definition import Definition
from ellipslice.latent.family import COUNT

if TYPE_CHECKING:
    import xarray


LARGEST_LOG_MEAN = 35.0
"""Largest linear predictor at which counts are simulated. Much larger means exceed 64-bit integers."""


def prior_predictive(definition: Definition, draws: int, seed: int) -> xarray.Dataset:
    """Return draws from the prior; see `LatentGaussianModel.prior_predictive`."""
    import xarray

    rng = np.random.default_rng([seed, 3])
    posterior, predictor = definition.posterior, definition.predictor
    u = posterior.hyperparameters.parameters.draw(rng, draws)
    values = [posterior.hyperparameters.at(row) for row in u]
    x = np.stack([
        np.concatenate([
            term.simulate(rng, **own) for term, own in zip(predictor.terms, each.of_terms, strict=True)
        ])
        for each in values
    ])  # fmt: skip
    eta = np.tile(predictor.offset, (draws, 1))
    for term, span in zip(predictor.terms, posterior.assembly.spans, strict=True):
        eta += (term.rows() @ x[:, span].T).T
    parameters = {
        name: np.array([each.of_family[name] for each in values])[:, None] for name in posterior.hyperparameters.family
    }
    found = {"linear_predictor": eta}
    if definition.family.predicts:
        found["expected"] = definition.family.mean(eta, **parameters)
        found[definition.response_name] = definition.family.simulate(_limited(eta, definition), rng, **parameters)
    variables = {name: (("draw", "row"), array) for name, array in found.items()}
    names = posterior.hyperparameters.names
    constrained = posterior.hyperparameters.parameters.constrained_rows(u) if names else {}
    effects = {name: (("draw", *definition.dims[name]), value) for name, value in definition.effects(x).items()}
    scalars = {name: (("draw",), value) for name, value in constrained.items()}
    return xarray.Dataset({**scalars, **effects, **variables}, {**definition.coords, "draw": np.arange(draws)})


def _limited(eta: np.ndarray, definition: Definition) -> np.ndarray:
    """Return linear predictors for which responses can be simulated. Warn if some were larger."""
    counts = definition.family.link == "log" and definition.family.response == COUNT
    if not counts or not (eta > LARGEST_LOG_MEAN).any():
        return eta
    share = (eta > LARGEST_LOG_MEAN).any(axis=1).mean()
    warn(
        f"in {share:.1%} of the draws from the prior a log mean is above {LARGEST_LOG_MEAN:g}; responses are simulated "
        "with that value. The priors are very wide: for example, give fixed effects a smaller standard deviation with "
        "fixed_sd=."
    )
    return np.minimum(eta, LARGEST_LOG_MEAN)
