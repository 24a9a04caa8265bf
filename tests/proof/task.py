"""The type of the tasks of a proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Task = Callable[[], dict[str, Any]]
"""A part of a proof that can run in a process of its own. It returns results by name."""
