"""What `evidence` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ellipslice.checks import warn
from ellipslice.marginal.annealing import Cost, Schedule

ENOUGH = 100
"""Effective runs of annealed importance sampling, below which it is too noisy to be a check.

(With 61 it was seen 6 of its own errors too low: the largest weights, which make the mean, were not among them.)"""

FAR = 4.0
"""Standard errors between two estimates that do not agree."""


ALIKE = 0.5
"""Correlation of the log-likelihoods before and after the updates at one power, above which `evidence` warns."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """An estimate of log Z, and how it was made.

    Attributes
    ----------
    log_z, standard_error : float
        The estimate by sequential Monte Carlo, and its standard error.
    replicate_log_z : array
        The estimates of log Z that it is the mean of (of Z, not of log Z), each from particles of its own.
    ais_log_z, ais_standard_error : float
        The same by annealed importance sampling, or NaN if it was not asked for.
    ais_effective_sample_size : float
        To how many independent runs of equal weight its runs amount: below 100 it is too noisy to be a check.
    estimates_agree : bool or None
        Whether the two are within 4 standard errors; None if there is no check, or one that is too noisy.
    draws : array, shape ``(particles, *shape)``, or dict of them for named latents
        The particles at the end: draws from the posterior, nearly independent if `surviving_fraction` is not small.
    inverse_temperatures : array
        The powers of the likelihood, from the first above 0 to 1.
    updates : array
        Elliptical slice updates of every particle at each power.
    correlations : array
        Of log-likelihoods before and after these updates, in the pilot run.
    surviving_fraction : float
        The fraction of first draws with descendants at the end.
    evaluations, nan_evaluations, failed_searches : int
        Of the likelihood, all runs together; those that gave NaN (taken for a likelihood of zero); and searches that
        were given up.
    reference : str
        Where particles came from: "prior", "laplace" or "ep".
    engine : str
        Where particles were moved: "batched" (by compiled code, all together) or "host".
    seed : int
    seconds : float
    """

    log_z: float
    standard_error: float
    replicate_log_z: np.ndarray
    ais_log_z: float
    ais_standard_error: float
    ais_effective_sample_size: float
    estimates_agree: bool | None
    draws: Any
    inverse_temperatures: np.ndarray
    updates: np.ndarray
    correlations: np.ndarray
    surviving_fraction: float
    evaluations: int
    nan_evaluations: int
    failed_searches: int
    reference: str
    engine: str
    seed: int
    seconds: float

    def __repr__(self) -> str:
        steps = len(self.inverse_temperatures)
        path = f"from the {'prior' if self.reference == 'prior' else self.reference + ' approximation'} in {steps} step"
        lines = [
            f"log Z = {_shown(self.log_z, self.standard_error)}  (sequential Monte Carlo, {path}{'s' * (steps > 1)})"
        ]
        if not np.isnan(self.ais_log_z):
            said = {True: "agrees", False: "DOES NOT AGREE", None: "too noisy to be a check"}[self.estimates_agree]
            check = _shown(self.ais_log_z, self.ais_standard_error)
            lines.append(f"        {check}  (annealed importance sampling: {said})")
        return "\n".join(lines)


@np.errstate(under="ignore")  # a weight that underflows is 0
def mean_of(log_values: np.ndarray) -> tuple[float, float]:
    """The logarithm of the mean of independent unbiased estimates of Z, and its standard error, by the delta method."""
    count = len(log_values)
    log_mean = float(np.logaddexp.reduce(log_values)) - float(np.log(count))
    relative = np.exp(log_values - log_mean)
    return log_mean, float(relative.std(ddof=1) / np.sqrt(count))


def weighted_mean(log_weights: np.ndarray) -> tuple[float, float, float]:
    """Of annealed importance sampling: the logarithm of the mean weight, its error, and the effective number."""
    log_mean, error = mean_of(log_weights)
    count = len(log_weights)
    return log_mean, error, count / (1 + error**2 * (count - 1))  # (sum w)^2 / sum w^2


def compare_with_annealing(
    estimate: Sequence[float], log_weights: np.ndarray | None
) -> tuple[list[float], float, bool | None]:
    """Return log Z by annealed importance sampling with its error, its effective sample size, and the agreement.

    Without weights nothing is known: the numbers are NaN, and the agreement is None.
    """
    if log_weights is None:
        return [np.nan, np.nan], np.nan, None
    *annealing, effective = weighted_mean(log_weights)
    return annealing, effective, agreement(estimate, annealing, effective)


def agreement(one: Sequence[float], other: Sequence[float], effective: float) -> bool | None:
    """Whether two estimates with errors agree, if the other one is good enough to say."""
    if not effective >= ENOUGH:
        return None
    rounding = 1e-9 * (1 + abs(one[0]))
    return abs(one[0] - other[0]) <= FAR * float(np.hypot(one[1], other[1])) + rounding


def _shown(value: float, error: float) -> str:
    """A value to the second digit of its error."""
    digits = min(8, max(1, 1 - int(np.floor(np.log10(max(error, 1e-9))))))
    return f"{value:.{digits}f} +/- {error:.{digits}f}"


def warn_of_trouble(
    cost: Cost,
    schedule: Schedule,
    estimate: tuple[float, float],
    annealing: Sequence[float],
    agrees: bool | None,
) -> None:
    """Warn about everything that makes the estimate unreliable."""
    if cost.nan_evaluations:
        warn(
            f"{cost.nan_evaluations:,} of {cost.evaluations:,} log-likelihood evaluations gave NaN. They count as a "
            "likelihood of zero; if it should not be, look for the log of a negative number or inf - inf."
        )
    if cost.failed_searches:
        warn(
            f"{cost.failed_searches:,} of {cost.updates:,} updates found no acceptable point. That is rounding if it "
            "is rare; otherwise the log-likelihood is not a function of f alone."
        )
    worst = float(schedule.correlations.max())
    if worst > ALIKE:
        warn(
            f"particles move little: after {int(schedule.updates.max())} updates at one power their log-likelihoods "
            f"still correlate by {worst:.2f} with those before. The error bar knows, but a mode that no particle began "
            'near would be missed. Take more particles or updates; or, where it can be, reference="ep".'
        )
    if estimate[1] > 1:
        warn(
            f"the replicates differ so much that the error of log Z, {estimate[1]:.2g}, is itself not to be trusted. "
            "Take more particles."
        )
    if agrees is False:
        warn(
            f"annealed importance sampling gives log Z = {annealing[0]:.4g} +/- {annealing[1]:.2g}, and sequential "
            f"Monte Carlo {estimate[0]:.4g} +/- {estimate[1]:.2g}: they do not agree, so trust neither. Take more "
            "particles. (Annealed importance sampling errs downwards, if it errs.)"
        )
