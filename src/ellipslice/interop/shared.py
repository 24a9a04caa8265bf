"""What several integrations share: the supported releases of the other libraries, and the order of variables."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Collection, Mapping, Sequence

OLDEST = {"blackjax": "1.5", "numpyro": "0.22", "pymc": "5.28"}
"""The oldest release the tests were run with. Extras of the same names in pyproject.toml ask for these."""


def require(name: str) -> None:
    """Raise an ImportError that says what to install, unless a supported release is there."""
    advice = f"Install it with: pip install 'ellipslice[{name}]'."
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(f"ellipslice.interop.{name} needs {name}, which is not installed. {advice}") from None
    if _numbers(found) < _numbers(OLDEST[name]):
        raise ImportError(
            f"ellipslice.interop.{name} needs {name} {OLDEST[name]} or newer, but {found} is installed. {advice}"
        )


def consecutive_blocks(names: Sequence[str], upstream: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """Divide variables into blocks. The priors of a block depend on the blocks before it, and not on each other.

    `upstream` has for each name those that it depends on. `names` has each one after all of these.

    >>> consecutive_blocks(["a", "b", "c"], {"a": [], "b": ["a"], "c": []})
    (('a', 'c'), ('b',))
    """
    level: dict[str, int] = {}
    for name in names:
        level[name] = 1 + max((level[other] for other in upstream[name] if other in level and other != name), default=0)
    return tuple(tuple(name for name in names if level[name] == n) for n in range(1, 1 + max(level.values())))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
