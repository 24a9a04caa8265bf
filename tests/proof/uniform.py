"""Test whether ranks are uniform, as simulation-based calibration requires (Talts et al. 2018)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-3
"""Probability that a correct sampler fails a proof, shared among the quantities of that proof."""


def rank(truth: Any, draws: np.ndarray) -> int:
    """Return the number of draws below the true value."""
    return int((draws < truth).sum())


def counts(ranks: dict[str, list[int]], draws: int) -> dict[str, list[int]]:
    """Return the number of occurrences of each rank, for each quantity."""
    return {name: np.bincount(values, minlength=draws + 1).tolist() for name, values in ranks.items()}


def not_uniform(found: dict[str, list[int]]) -> list[str]:
    """Return a sentence for each quantity whose ranks are not uniform, by a chi-squared test."""
    p = {name: float(stats.chisquare(values).pvalue) for name, values in found.items()}
    limit = FALSE_ALARM / len(found)
    return [f"{name}: ranks are not uniform (p = {p[name]:.2g}): {found[name]}" for name in found if p[name] < limit]
