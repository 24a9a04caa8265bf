"""The tasks of a proof: parts of the computation that can run in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from statistical.monte_carlo import SEED

Task = Callable[[], dict[str, Any]]
"""A part of a proof. It returns results by name."""


def parts(fits: int, case: int, most: int = 25) -> list[tuple[int, int]]:
    """Return the number of fits, at most `most`, and the seed of each task of a case.

    The seeds are 1,000 apart, so a task adds the number of a fit to its own. There are at most 100 tasks in a case, and
    100 cases.
    """
    firsts = range(0, fits, most)
    return [(min(most, fits - first), 1000 * (10 * SEED + 100 * case + i)) for i, first in enumerate(firsts)]


def merge(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the results of tasks by name. If several tasks count the same ranks, their counts are added."""
    merged: dict[str, Any] = {}
    for each in found:
        for name, value in each.items():
            merged[name] = [a + b for a, b in zip(merged[name], value, strict=True)] if name in merged else value
    return merged
