"""Warnings about everything that makes an estimate of log Z unreliable."""

from __future__ import annotations

from collections.abc import Sequence

from ellipslice.checks import warn
from ellipslice.marginal.annealing import Cost, Schedule
from ellipslice.marginal.result import NestedEvidence

WARN_CORRELATION = 0.5
"""Correlation of log-likelihoods before and after the updates at one inverse temperature above which to warn."""

WARN_ERROR = 1.0
"""Standard error of log Z above which to warn."""

WARN_ERROR_RATIO = 4.0
"""Ratio of the standard error to that of independent replacements above which to warn.

With independent replacements it is larger less than once in 10^8 runs, for any number of replicates."""


def warn_about_evaluations(cost: Cost) -> None:
    """Warn about NaN and failed searches."""
    if cost.nan_evaluations:
        warn(
            f"{cost.nan_evaluations:,} of {cost.evaluations:,} log-likelihood evaluations returned NaN, which counts "
            "as a likelihood of zero. If it should not be zero there, check the log-likelihood for the log of a "
            "negative number or inf - inf."
        )
    if cost.failed_searches:
        warn(
            f"{cost.failed_searches:,} of {cost.updates:,} updates found no acceptable point. A few are rounding "
            "errors. If there are many, the log-likelihood is not a function of f alone."
        )


def _warn_about_error(error: float) -> None:
    if error > WARN_ERROR:
        warn(
            f"the replicates differ so much that the standard error of log Z, {error:.2g}, is itself unreliable. "
            "Increase particles."
        )


def warn_if_unreliable(
    cost: Cost,
    schedule: Schedule,
    estimate: tuple[float, float],
    annealing: Sequence[float],
    agrees: bool | None,
) -> None:
    """Warn about an estimate along a tempered path."""
    warn_about_evaluations(cost)
    worst = float(schedule.correlations.max())
    if worst > WARN_CORRELATION:
        warn(
            f"the particles mix slowly: after {int(schedule.updates.max())} updates at one inverse temperature, their "
            f"log-likelihoods still have a correlation of {worst:.2f} with those before. The standard error includes "
            "this, but a mode that no particle started near would be missed. Increase particles or "
            'updates_per_temperature, or use reference="ep" if it is possible for this log-likelihood.'
        )
    _warn_about_error(estimate[1])
    if agrees is False:
        warn(
            f"annealed importance sampling gives log Z = {annealing[0]:.4g} +/- {annealing[1]:.2g}, and sequential "
            f"Monte Carlo {estimate[0]:.4g} +/- {estimate[1]:.2g}. They do not agree, so neither is reliable. Increase "
            "particles. (Errors of annealed importance sampling are usually downwards.)"
        )


def warn_if_nested_unreliable(cost: Cost, result: NestedEvidence, passed: bool) -> None:
    """Warn about an estimate by nested sampling. `passed` states whether its insertion ranks passed their test."""
    warn_about_evaluations(cost)
    if not passed:
        warn(
            f"the replacements of live points are not independent draws after {result.updates} updates: the p-value of "
            f"their insertion ranks is {result.rank_p_value:.2g}. So parts of the posterior that are almost separate "
            "have uncertain shares. The standard error includes this only if several replicates found these parts. "
            "Increase particles."
        )
    _warn_about_error(result.standard_error)
    ratio = result.standard_error / result.ideal_standard_error if result.ideal_standard_error else 0.0
    if result.standard_error <= WARN_ERROR and ratio > WARN_ERROR_RATIO:
        warn(
            f"the replicates differ {ratio:.1f} times as much as with independent replacements. Probably only some of "
            "them found a part of the posterior. Increase particles."
        )
