"""Which releases of the other libraries are supported, checked when a module that needs one is imported."""

from __future__ import annotations

import importlib.metadata
import re

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


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
