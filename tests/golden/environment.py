"""The environment of golden bits: versions and processor, which determine how results round."""

from __future__ import annotations

import hashlib
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from ellipslice.machine import processor

PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "blackjax", "numpyro", "tinygp")


def environment() -> dict[str, str]:
    """Return what the last bits of a run depend on, besides the code of this library."""
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        **{name: version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "processor_flags": _flags(),
    }


def _flags() -> str:
    """Return a hash of the instruction sets, by which compilers and BLAS choose code.

    Virtual machines hide some of them.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
    except OSError:
        return "unknown"
    found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(found.encode()).hexdigest()[:16]
