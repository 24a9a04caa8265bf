"""Means of weights with standard errors, and comparisons of estimates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MIN_AIS_EFFECTIVE_SAMPLES = 100
"""Effective sample size of annealed importance sampling below which it is too noisy to be a check.

With 61, one estimate was 6 of its standard errors too low, because the largest weights were not among the draws."""

MAX_STANDARD_ERRORS = 4.0
"""Largest difference of two estimates that agree, in standard errors of the difference."""


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


def with_error(value: float, error: float) -> str:
    """Return a value and its standard error as text, rounded to two significant digits of the error."""
    if not np.isfinite([value, error]).all():
        return f"{value:.4g} +/- {error:.2g}"
    digits = min(8, max(1, 1 - int(np.floor(np.log10(max(error, 1e-9))))))
    return f"{value:.{digits}f} +/- {error:.{digits}f}"
