"""`LeaveOneOut`: expected log predictive densities of left-out responses, in the form of ArviZ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from arviz_stats import ELPDData  # pyright: ignore[reportPrivateImportUsage]

from ellipslice.checks import warn
from ellipslice.latent.leave_out.cases import SEED, Cases, log_terms
from ellipslice.latent.leave_out.draws import UsedDraws
from ellipslice.latent.leave_out.refit import log_density_by_refit
from ellipslice.latent.leave_out.smoothing import FEWEST_DRAWS, Smoothed, error_of_sum, smoothed
from ellipslice.latent.propriety import unidentified

if TYPE_CHECKING:
    from ellipslice.latent.definition import Definition
    from ellipslice.latent.model_checks import ModelChecks

MOST_NAMED = 5
"""Largest number of cases that the warning names."""


class LeaveOneOut(ELPDData):
    """Expected log predictive density of left-out responses; returned by `LatentFit.loo`.

    It is an `ELPDData` of ArviZ, so `arviz_stats.compare` accepts it.

    Attributes
    ----------
    elpd, se : float
        Sum of the log predictive densities, and its standard error as an estimate for new data.
    p : float
        Difference between the log densities with and without the response, `p_loo` in ArviZ.
    elpd_i : xarray.DataArray
        Log predictive density of each row or group.
    pareto_k : xarray.DataArray
        Shape of the tail of the importance weights. Above `good_k` the value of the row is not reliable. 0 after a
        refit.
    mcse : float
        Monte Carlo standard error of `elpd`.
    refitted : list
        Rows or groups whose value is from a fit without them.
    """

    def __init__(
        self,
        elpd_i: xarray.DataArray,
        pareto_k: xarray.DataArray,
        *,
        p: float,
        draws: int,
        good_k: float,
        mcse: float,
        refitted: list[Any],
    ):
        count, bad = elpd_i.size, bool((~(pareto_k <= good_k)).any())
        se = float(np.sqrt(count * elpd_i.var()))
        super().__init__(
            "loo", float(elpd_i.sum()), se, p, draws, count, "log", bad, good_k, elpd_i=elpd_i, pareto_k=pareto_k
        )
        self.mcse, self.refitted = mcse, refitted

    def __str__(self) -> str:
        text = super().__str__()
        lines = [f"Monte Carlo standard error of elpd_loo: {self.mcse:.2g}."]
        if self.refitted:
            lines.append(f"{len(self.refitted)} computed by fits without them.")
        return "\n".join([text.rstrip(), "", *lines])


def leave_one_out(fit: ModelChecks, draws: int, groups: Any, refit: bool) -> LeaveOneOut:
    """Return the result of `LatentFit.loo`."""
    definition = fit.model.definition
    cases = Cases.of(definition, groups)
    _check_identified(definition, cases)
    used = UsedDraws.of(definition, fit.tree, draws)
    if len(used.u) < FEWEST_DRAWS:
        raise ValueError(
            f"the fit has {len(used.u)} draws in all, but leave-one-out requires at least {FEWEST_DRAWS}. Continue it: "
            "fit.extend()."
        )
    log_density, log_weight, within = _all_terms(fit, used, cases)
    found = smoothed(log_density, log_weight, used.chains)
    good_k = min(1 - 1 / np.log10(max(len(used.u), 11)), 0.7)
    bad = np.flatnonzero(~(found.pareto_k <= good_k))
    variance = 0.0
    if refit:
        for case in bad:
            again = log_density_by_refit(fit, cases.only(int(case)), draws)
            found.elpd[case], found.pareto_k[case] = again.value, 0.0
            variance += again.error**2
        found.influence[:, bad] = 0.0
    elif len(bad):
        _warn(cases, bad, good_k)
    error = float(np.hypot(error_of_sum(found.influence, found.efficiency), np.sqrt(variance)))
    return _result(found, cases, within, len(used.u), good_k, error, bad if refit else bad[:0])


def _result(
    found: Smoothed, cases: Cases, within: np.ndarray, draws: int, good_k: float, error: float, refitted: np.ndarray
) -> LeaveOneOut:
    coords = {cases.dim: cases.labels}
    elpd_i = xarray.DataArray(found.elpd, coords, (cases.dim,), "elpd_i")
    tails = np.where(np.isneginf(found.pareto_k), 0.0, found.pareto_k)
    pareto_k = xarray.DataArray(tails, coords, (cases.dim,), "pareto_k")
    return LeaveOneOut(
        elpd_i, pareto_k, p=float(within.sum() - found.elpd.sum()), draws=draws, good_k=good_k, mcse=error,
        refitted=cases.labels[refitted].tolist(),
    )  # fmt: skip


def _all_terms(fit: ModelChecks, used: UsedDraws, cases: Cases) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log densities and log weights of all draws and cases, and the log densities with the own responses."""
    densities, weights, plain = [], [], []
    rng = np.random.default_rng(SEED)
    for draw in used.with_references(fit.move.white):
        density, weight = log_terms(draw, cases, rng, refitted=False)
        densities.append(density)
        weights.append(weight)
        pointwise = draw.likelihood.pointwise(draw.eta)
        plain.append([pointwise[rows].sum() for rows in cases.rows])
    within = np.logaddexp.reduce(np.array(plain), axis=0) - np.log(len(plain))
    return np.stack(densities), np.stack(weights), within


def _check_identified(definition: Definition, cases: Cases) -> None:
    """Raise if the posterior without a case is improper, because only its responses determine a flat direction."""
    predictors = definition.flat_predictors
    if not predictors.shape[1]:
        return
    for label, rows in zip(cases.labels, cases.rows, strict=True):
        if unidentified(np.delete(predictors, rows, axis=0)) is not None:
            raise ValueError(
                f"{cases.dim} {label} cannot be left out: without it, the responses do not determine a fixed effect "
                "whose prior is flat, so its predictive density is 0. Give fixed effects a proper prior: fixed_sd=..."
            )


def _warn(cases: Cases, bad: np.ndarray, good_k: float) -> None:
    names = ", ".join(str(cases.labels[case]) for case in bad[:MOST_NAMED])
    more = ", ..." if len(bad) > MOST_NAMED else ""
    warn(
        f"Pareto k is above {good_k:.2f} for {len(bad)} of {len(cases.labels)} {cases.dim}s ({names}{more}), whose "
        "values are not reliable. loo(refit=True) fits the model again without each of them; more draws also help."
    )
