"""Assertions of the property tests."""

from __future__ import annotations

from typing import Any

import numpy as np

LEVEL = 1e-6
"""Significance level: the probability that a statistical test fails although the property holds."""


def require(holds: bool, broken: str) -> None:
    """Raise an `AssertionError` with the message `broken` unless `holds` is true."""
    if not holds:
        raise AssertionError(broken)


def require_close(a: Any, b: Any, broken: str) -> None:
    """Raise unless two arrays are equal up to rounding error: 1e-9 relative to the largest finite element of `b`."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    require(a.shape == b.shape, f"{broken}: shapes {a.shape} and {b.shape}")
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    worst = np.abs(np.where(np.isfinite(b), a - b, 0.0)).max(initial=0.0)
    same = np.array_equal(np.isfinite(a), np.isfinite(b))
    require(same and worst <= 1e-9 * scale, f"{broken}: largest difference {worst:.3g}, for values up to {scale:.3g}")


def require_p_value(p: float, broken: str) -> None:
    """Raise if the p-value of a statistical test is at most `LEVEL`."""
    require(p > LEVEL, f"{broken} (p = {p:.2g})")
