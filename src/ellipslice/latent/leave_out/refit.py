"""Log predictive density of a left-out case, by a fit without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ellipslice.latent.leave_out.cases import SEED, Cases, log_terms
from ellipslice.latent.leave_out.draws import UsedDraws

if TYPE_CHECKING:
    from ellipslice.latent.model_checks import ModelChecks


class ByRefit(NamedTuple):
    """Log predictive density of a case."""

    value: float
    error: float
    """Monte Carlo standard error."""


def log_density_by_refit(fit: ModelChecks, case: Cases, draws: int) -> ByRefit:
    """Return the log predictive density of one case from draws of the posterior without its responses.

    They have the number of chains, draws and the thinning of the fit. The reference Gaussian is that of the fit, since
    any is valid.
    """
    definition, attributes = fit.model.definition, fit.tree.attrs
    rows = np.flatnonzero(definition.observed)[case.rows[0]]
    sizes = fit.tree["posterior"].sizes
    seed = int(attributes["seed"]) + 1 + int(rows[0])
    again = fit.model.without(rows).fit(
        draws=sizes["draw"], chains=sizes["chain"], thin=int(attributes["thin"]), seed=seed, progress=False
    )
    used = UsedDraws.of(definition, again.tree, draws)
    rng = np.random.default_rng(SEED)
    terms = [log_terms(draw, case, rng, refitted=True) for draw in used.with_references(fit.move.white)]
    density, weight = (np.array([each[part][0] for each in terms]) for part in (0, 1))
    weight = weight - np.logaddexp.reduce(weight)
    value = float(np.logaddexp.reduce(weight + density))
    return ByRefit(value, float(np.sqrt((np.exp(2 * weight) * np.expm1(density - value) ** 2).sum())))
