"""How a law is found broken."""

from __future__ import annotations

from typing import Any

import numpy as np

LEVEL = 1e-6
"""Chance that a statistical law fails though it holds."""


def law(holds: bool, broken: str) -> None:
    """A law that is true or false."""
    if not holds:
        raise AssertionError(broken)


def close(a: Any, b: Any, broken: str) -> None:
    """Two arrays are equal to rounding."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    law(a.shape == b.shape, f"{broken}: shapes {a.shape} and {b.shape}")
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    worst = np.abs(np.where(np.isfinite(b), a - b, 0.0)).max(initial=0.0)
    same = np.array_equal(np.isfinite(a), np.isfinite(b))
    law(same and worst <= 1e-9 * scale, f"{broken}: off by {worst:.3g} where values are up to {scale:.3g}")


def likely(p: float, broken: str) -> None:
    """The p-value of a statistical law."""
    law(p > LEVEL, f"{broken} (p = {p:.2g})")
