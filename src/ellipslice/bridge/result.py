"""Result of `log_evidence`, and the error for an estimate that is not reliable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ellipslice.bridge.estimator import bridge
from ellipslice.checks import whole_number
from ellipslice.marginal.estimates import estimates_agree, log_mean_weight, with_error

SUFFICIENT_OVERLAP = 0.5
"""Overlap above which the estimate is reliable for any tail index: no term is much larger than the average of all."""

MAX_PARETO_K = 0.7
"""Largest tail index of the terms of a reliable estimate with a smaller overlap (Vehtari et al. 2024)."""

MIN_EFFECTIVE_SAMPLES = 50
"""Smallest effective sample size of the posterior draws of a reliable estimate."""

MAX_UNVISITED = 0.1
"""Largest share of Z that the posterior draws may have missed in a reliable estimate, or 20 / (effective sample size)
if that is larger. By chance, the share is on average 1 / (effective sample size)."""

MIN_DRAWS = 100
"""Smallest value of the argument `draws`."""


MIN_PER_CHAIN = 20
"""Smallest number of draws of a chain: an effective sample size is not estimated from fewer."""


class UnreliableEvidenceError(RuntimeError):
    """The draws do not determine the log marginal likelihood. The message states why, and what to do.

    Attributes
    ----------
    estimate : LogEvidence
        The unreliable estimate, with its diagnostics.
    """

    def __init__(self, message: str, estimate: LogEvidence):
        super().__init__(message, estimate)
        self.estimate = estimate

    def __str__(self) -> str:
        return self.args[0]


@dataclass(frozen=True)
class LogEvidence:
    """Log marginal likelihood log Z of a model, with its hyperparameters integrated out, by bridge sampling.

    Draws of the posterior are combined with independent draws of a proposal distribution, whose density is known (Meng
    & Wong 1996).

    Attributes
    ----------
    log_z, standard_error : float
        Estimate of log Z, and its standard error. It includes the correlation of the posterior draws.
    overlap : float
        Share that the posterior and the proposal have in common, between 0 and 1: 1 if they are equal.
    pareto_k : float
        Tail index of the terms that the estimate averages. If it is above 0.7 and the overlap below 0.5, the standard
        error is not reliable, and an error is raised.
    effective_sample_size : float
        Effective sample size of the posterior draws for this estimate.
    importance_log_z, importance_standard_error : float
        Estimate by importance sampling from the same proposals, a check: it does not use the posterior draws.
    estimates_agree : bool or None
        Whether the two estimates differ by at most 4 standard errors of the difference. None if importance sampling is
        too noisy to be a check.
    unvisited : float
        Share of Z, by importance sampling, of proposals with a larger weight than every posterior draw. The chains may
        have missed that part of the posterior. Above 0.1 an error is raised.
    posterior_draws, proposal_draws : int
        Numbers of draws.

    Notes
    -----
    A tenth of the proposals are draws of the prior of the hyperparameters, if there are any. They can find a mode that
    the chains have missed, unless the prior probability of its hyperparameters is below about 30 / (number of
    proposals).

    References
    ----------
    Meng & Wong (1996), Statistica Sinica 6. Frühwirth-Schnatter (2004), The Econometrics Journal 7, for the standard
    error. Micaletto & Vehtari (2025), arXiv:2508.14487, for the diagnostic.
    """

    log_z: float
    standard_error: float
    overlap: float
    pareto_k: float
    effective_sample_size: float
    importance_log_z: float
    importance_standard_error: float
    estimates_agree: bool | None
    unvisited: float
    posterior_draws: int
    proposal_draws: int

    def __repr__(self) -> str:
        check = {True: "agrees", False: "DOES NOT AGREE", None: "too noisy to be a check"}[self.estimates_agree]
        importance = with_error(self.importance_log_z, self.importance_standard_error)
        size = self.effective_sample_size
        return (
            f"log Z = {with_error(self.log_z, self.standard_error)}  (bridge sampling, hyperparameters integrated)\n"
            f"        {importance}  (importance sampling: {check})\n"
            f"Overlap of posterior and proposal {self.overlap:.2f}, Pareto k {self.pareto_k:.2f} (reliable: overlap "
            f"above {SUFFICIENT_OVERLAP}, or k below {MAX_PARETO_K}).\n"
            f"Effective sample size {size:,.0f} of {self.posterior_draws:,} posterior draws. Share of Z that they may "
            f"have missed: {self.unvisited:.3f}."
        )


def number_of_draws(draws: int) -> int:
    """Return the argument `draws`. Raise if it is too small."""
    return whole_number("draws", draws, MIN_DRAWS)


def draws_per_chain(draws: int, chains: int) -> int:
    """Return the number of draws of each chain for about `draws` in all."""
    return max(MIN_PER_CHAIN, -(-draws // chains))


def log_evidence_of(at_posterior: np.ndarray, at_proposal: np.ndarray) -> LogEvidence:
    """Return the log marginal likelihood. Raise if it is not reliable.

    Parameters
    ----------
    at_posterior : array, shape (chains, draws)
        Log density of the joint distribution of data and all unknowns, with all constants, minus the log density of
        the proposal, at draws of the posterior.
    at_proposal : array, shape (count,)
        The same at independent draws of the proposal. Values that are not finite count as a density of 0.
    """
    weights = np.where(np.isfinite(at_proposal), at_proposal, -np.inf)
    found = bridge(np.where(np.isfinite(at_posterior), at_posterior, np.nan), weights)
    with np.errstate(all="ignore"):
        importance, error, effective = log_mean_weight(weights)
        unvisited = float(np.exp(weights[weights > at_posterior.max()] - found.log_z).sum() / len(weights))
    agree = estimates_agree((found.log_z, found.standard_error), (importance, error), effective)
    numbers = at_posterior.size, len(weights)
    estimate = LogEvidence(*found, importance, error, agree, unvisited, *numbers)
    if reasons := _why_unreliable(estimate, int((~np.isfinite(at_posterior)).sum())):
        raise UnreliableEvidenceError(_message(estimate, reasons), estimate)
    return estimate


def _why_unreliable(estimate: LogEvidence, impossible: int) -> list[str]:
    """Return the reasons why an estimate is not reliable. `impossible` posterior draws have no finite density."""
    if impossible:
        return [f"{impossible} of the posterior draws have no finite density, such as a hyperparameter at its bound"]
    if not np.isfinite([estimate.log_z, estimate.standard_error]).all():
        return ["no draw of the proposal is in the range of the posterior"]
    reasons = []
    if estimate.overlap < SUFFICIENT_OVERLAP and estimate.pareto_k > MAX_PARETO_K:
        reasons.append(
            f"the overlap of posterior and proposal is {estimate.overlap:.2g}, so that few draws determine the "
            f"estimate: Pareto k is {estimate.pareto_k:.2g}, and at most {MAX_PARETO_K} is reliable"
        )
    if estimate.effective_sample_size < MIN_EFFECTIVE_SAMPLES:
        reasons.append(
            f"the {estimate.posterior_draws:,} posterior draws have an effective sample size of "
            f"{estimate.effective_sample_size:.0f}, and at least {MIN_EFFECTIVE_SAMPLES} is required"
        )
    if estimate.estimates_agree is False:
        reasons.append(
            f"importance sampling gives {estimate.importance_log_z:.4g} +/- {estimate.importance_standard_error:.2g}, "
            "which does not agree: the chains may have missed a part of the posterior"
        )
    if estimate.unvisited > max(MAX_UNVISITED, 20 / estimate.effective_sample_size):
        reasons.append(
            f"a share of {estimate.unvisited:.2g} of Z is at proposals with larger weights than all posterior draws: "
            "the chains may have missed a mode"
        )
    return reasons


def _message(estimate: LogEvidence, reasons: Sequence[str]) -> str:
    """Return the message of an error."""
    return (
        f"the log marginal likelihood {estimate.log_z:.4g} +/- {estimate.standard_error:.2g} is not reliable here: "
        f"{'; and '.join(reasons)}. Check the convergence of the fit, and give more draws=. If that does not help, use "
        "es.evidence with fixed hyperparameters, or compare models by their predictions."
    )
