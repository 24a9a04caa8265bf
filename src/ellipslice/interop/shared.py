"""Functions for several integrations: check the release of the other library, and divide variables into blocks."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Collection, Mapping, Sequence

OLDEST = {"blackjax": "1.5", "numpyro": "0.22", "pymc": "5.28"}
"""Oldest supported release of each library. The extras of the same names in pyproject.toml require these."""


def require(name: str) -> None:
    """Raise an ImportError with advice if the library is not installed, or its release is too old."""
    advice = f"Install it with: pip install 'ellipslice[{name}]'."
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(f"ellipslice.interop.{name} requires {name}, which is not installed. {advice}") from None
    if _numbers(found) < _numbers(OLDEST[name]):
        raise ImportError(
            f"ellipslice.interop.{name} requires {name} {OLDEST[name]} or newer, but {found} is installed. {advice}"
        )


def consecutive_blocks(names: Sequence[str], upstream: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """Divide variables into blocks. Priors within a block do not depend on each other, only on earlier blocks.

    `upstream` maps each name to those that it depends on. In `names`, each variable comes after these.

    >>> consecutive_blocks(["a", "b", "c"], {"a": [], "b": ["a"], "c": []})
    (('a', 'c'), ('b',))
    """
    level: dict[str, int] = {}
    for name in names:
        level[name] = 1 + max((level[other] for other in upstream[name] if other in level and other != name), default=0)
    return tuple(tuple(name for name in names if level[name] == n) for n in range(1, 1 + max(level.values())))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
