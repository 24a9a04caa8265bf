"""Result of `evidence`, and warnings about an unreliable estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ellipslice.checks import warn
from ellipslice.marginal.annealing import Cost, Schedule

MIN_AIS_EFFECTIVE_SAMPLES = 100
"""Effective sample size of annealed importance sampling below which it is too noisy to be a check.

With 61, one estimate was 6 of its standard errors too low, because the largest weights were not among the draws."""

MAX_STANDARD_ERRORS = 4.0
"""Largest difference of two estimates that agree, in standard errors of the difference."""

WARN_CORRELATION = 0.5
"""Correlation of log-likelihoods before and after the updates at one inverse temperature above which to warn."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Estimate of the log marginal likelihood log Z, its check, and statistics of the run.

    Attributes
    ----------
    log_z, standard_error : float
        Estimate by sequential Monte Carlo, and its standard error.
    replicate_log_z : array, shape (replicates,)
        Estimate of log Z of each replicate. `log_z` is the logarithm of the mean of their Z.
    ais_log_z, ais_standard_error : float
        Estimate by annealed importance sampling, and its standard error. NaN if `check=False`.
    ais_effective_sample_size : float
        Effective sample size of the weights of annealed importance sampling. Below 100 it is too noisy to be a check.
        NaN if `check=False`.
    estimates_agree : bool or None
        Whether the two estimates differ by at most 4 standard errors of the difference. None if there is no check, or
        if it is too noisy.
    draws : array, shape ``(particles, *shape)``, or dict of arrays for named latents
        Particles at the end: draws from the posterior, nearly independent unless `surviving_fraction` is small.
    inverse_temperatures : array
        Inverse temperatures in increasing order, without 0; the last is 1.
    updates : array of int
        Number of elliptical slice updates of every particle at each inverse temperature.
    correlations : array
        Correlation of the log-likelihoods before and after these updates, in the pilot run.
    surviving_fraction : float
        Fraction of the first draws that have descendants among the final particles. Between 0 and 1.
    evaluations : int
        Number of evaluations of the log-likelihood, including the pilot run and the check.
    nan_evaluations : int
        Number of evaluations that returned NaN, which counts as a likelihood of zero.
    failed_searches : int
        Number of updates that found no acceptable point and kept the state.
    reference : str
        Gaussian that the particles were first drawn from: "prior", "laplace" or "ep".
    engine : str
        Engine that moved the particles: "batched" (compiled code) or "host".
    seed : int
        Seed of the run.
    seconds : float
        Wall-clock time of the call. Seconds.
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
        estimate = _with_error(self.log_z, self.standard_error)
        lines = [f"log Z = {estimate}  (sequential Monte Carlo, {path}{'s' * (steps > 1)})"]
        if not np.isnan(self.ais_log_z):
            agrees = {True: "agrees", False: "DOES NOT AGREE", None: "too noisy to be a check"}[self.estimates_agree]
            check = _with_error(self.ais_log_z, self.ais_standard_error)
            lines.append(f"        {check}  (annealed importance sampling: {agrees})")
        return "\n".join(lines)


@np.errstate(under="ignore")  # a weight that underflows is 0
def log_mean(log_values: np.ndarray) -> tuple[float, float]:
    """Return the logarithm of the mean of independent estimates of Z, and its standard error by the delta method."""
    count = len(log_values)
    mean = float(np.logaddexp.reduce(log_values)) - float(np.log(count))
    relative = np.exp(log_values - mean)
    return mean, float(relative.std(ddof=1) / np.sqrt(count))


def log_mean_weight(log_weights: np.ndarray) -> tuple[float, float, float]:
    """Return the logarithm of the mean weight, its standard error, and the effective sample size of the weights."""
    mean, error = log_mean(log_weights)
    count = len(log_weights)
    return mean, error, count / (1 + error**2 * (count - 1))  # (sum w)^2 / sum w^2


def compare_with_annealing(
    estimate: Sequence[float], log_weights: np.ndarray | None
) -> tuple[list[float], float, bool | None]:
    """Return log Z by annealed importance sampling with its standard error, its effective sample size, and agreement.

    Without weights the numbers are NaN, and the agreement is None.
    """
    if log_weights is None:
        return [np.nan, np.nan], np.nan, None
    *annealing, effective = log_mean_weight(log_weights)
    return annealing, effective, estimates_agree(estimate, annealing, effective)


def estimates_agree(one: Sequence[float], other: Sequence[float], effective: float) -> bool | None:
    """Return whether two estimates agree. Each is a value and its standard error.

    Return None if `effective`, the effective sample size of the other one, is too small for a comparison.
    """
    if not effective >= MIN_AIS_EFFECTIVE_SAMPLES:
        return None
    rounding = 1e-9 * (1 + abs(one[0]))
    return abs(one[0] - other[0]) <= MAX_STANDARD_ERRORS * float(np.hypot(one[1], other[1])) + rounding


def _with_error(value: float, error: float) -> str:
    """Return a value and its standard error as text, rounded to two significant digits of the error."""
    digits = min(8, max(1, 1 - int(np.floor(np.log10(max(error, 1e-9))))))
    return f"{value:.{digits}f} +/- {error:.{digits}f}"


def warn_if_unreliable(
    cost: Cost,
    schedule: Schedule,
    estimate: tuple[float, float],
    annealing: Sequence[float],
    agrees: bool | None,
) -> None:
    """Warn about everything that makes the estimate unreliable."""
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
    worst = float(schedule.correlations.max())
    if worst > WARN_CORRELATION:
        warn(
            f"the particles mix slowly: after {int(schedule.updates.max())} updates at one inverse temperature, their "
            f"log-likelihoods still have a correlation of {worst:.2f} with those before. The standard error includes "
            "this, but a mode that no particle started near would be missed. Increase particles or "
            'updates_per_temperature, or use reference="ep" if it is possible for this log-likelihood.'
        )
    if estimate[1] > 1:
        warn(
            f"the replicates differ so much that the standard error of log Z, {estimate[1]:.2g}, is itself unreliable. "
            "Increase particles."
        )
    if agrees is False:
        warn(
            f"annealed importance sampling gives log Z = {annealing[0]:.4g} +/- {annealing[1]:.2g}, and sequential "
            f"Monte Carlo {estimate[0]:.4g} +/- {estimate[1]:.2g}. They do not agree, so neither is reliable. Increase "
            "particles. (Errors of annealed importance sampling are usually downwards.)"
        )
