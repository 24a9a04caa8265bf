"""Warnings that point at the user's line, not at ours."""

from __future__ import annotations

import sys
import warnings


def warn(message: str) -> None:
    """Issue a `UserWarning` at the nearest caller outside this package."""
    level, frame = 1, sys._getframe(0)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "ellipslice":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
