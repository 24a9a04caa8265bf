"""Compare the tempered method with nested sampling, for `evidence(method="auto")`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ellipslice.checks import warn
from ellipslice.marginal.arguments import MIN_LIVE_POINTS, EvidenceProblem
from ellipslice.marginal.estimates import MAX_STANDARD_ERRORS, with_error
from ellipslice.marginal.nested import REMOVED_FRACTION
from ellipslice.marginal.nested_evidence import FIRST_UPDATES, nested_evidence
from ellipslice.marginal.result import Evidence, NestedEvidence, TemperedEvidence

COMPILED_BUDGET = 1e9
"""Number of evaluations of compiled log-likelihoods for the comparison, times the number of elements of f."""

HOST_BUDGET_RATIO = 2.0
"""Number of evaluations of other functions for the comparison, divided by that of the tempered method."""

EVALUATIONS_PER_UPDATE = 5
"""Typical number of evaluations of an update above a fixed level."""

EXTRA_NATS = 7
"""Compression of the prior beyond the information, in nats, after which the rest of Z is negligible."""

MAX_ERROR = 0.25
"""Standard error of nested sampling above which an agreement has no meaning."""


def compare_methods(problem: EvidenceProblem, tempered: TemperedEvidence) -> Evidence:
    """Compare an estimate with nested sampling if that is affordable, and warn if they do not agree.

    Return the tempered estimate. If nested sampling does not agree, return its estimate instead.
    """
    size = problem.posterior.prior.size
    traced = problem.engine.traced
    budget = COMPILED_BUDGET / size if traced else HOST_BUDGET_RATIO * tempered.evaluations
    if reason := _why_not(problem, tempered, budget):
        return replace(tempered, comparison=f"Not compared with nested sampling: {reason}.")
    nested = nested_evidence(problem, budget)
    agree = methods_agree(tempered, nested)
    if agree is False:
        one, other = (with_error(own.log_z, own.standard_error) for own in (nested, tempered))
        warn(
            f"nested sampling gives log Z = {one}, and the tempered method {other}. They do not agree, so neither is "
            "reliable: probably one of them missed a part of the posterior. The result is that of nested sampling, and "
            "its attribute `other` is that of the tempered method. Increase particles."
        )
        return replace(nested, other=tempered, methods_agree=False)
    return replace(tempered, other=nested, methods_agree=agree)


def methods_agree(tempered: TemperedEvidence, nested: NestedEvidence) -> bool | None:
    """Return whether the estimates differ by at most 4 standard errors. None if they do, but nested is too noisy."""
    difference, rounding = abs(tempered.log_z - nested.log_z), 1e-9 * (1 + abs(tempered.log_z))
    if difference > MAX_STANDARD_ERRORS * np.hypot(tempered.standard_error, nested.standard_error) + rounding:
        return False
    return True if nested.standard_error <= MAX_ERROR else None


def _why_not(problem: EvidenceProblem, tempered: TemperedEvidence, budget: float) -> str:
    """Return why nested sampling is not run; an empty string if it is."""
    if problem.posterior.log_concave:
        return "the log-likelihood is log-concave, so the posterior has one mode"
    if problem.particles < MIN_LIVE_POINTS * problem.replicates:
        return f"it needs at least {MIN_LIVE_POINTS} live points in each replicate"
    replacements = problem.particles * REMOVED_FRACTION / -np.log1p(-REMOVED_FRACTION)
    nats = EXTRA_NATS + np.nan_to_num(tempered.information)
    expected = replacements * nats * FIRST_UPDATES * EVALUATIONS_PER_UPDATE
    if expected > budget:
        return (
            f'it would take more than {expected:.1g} evaluations of the log-likelihood. method="nested" runs it anyway'
        )
    return ""
