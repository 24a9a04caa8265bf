"""The machine that runs this process: number of cores, and a description that is stored with measurements."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jax

_core_limit: list[int] = []
"""Number of cores that `use_cores` has set; empty if it was not called."""


def machine(*packages: str) -> dict[str, Any]:
    """Return the processor, the number of cores, JAX's device, and versions of Python, this library and `packages`."""
    return {
        "processor": processor(),
        "cores": _cores_of_process(),
        "device": jax.devices()[0].device_kind,
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("ellipslice", "jax", "numpy", *packages)},
    }


def available_cores() -> int:
    """Return the number of cores to use: those available to this process, or fewer after `use_cores`."""
    return min([_cores_of_process(), *_core_limit])


def use_cores(count: int) -> None:
    """Use at most `count` cores from now on, for example in one of many processes."""
    _core_limit[:] = [count]


def _cores_of_process() -> int:
    """Return the number of cores that the operating system lets this process run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def processor() -> str:
    """Return the name of the processor, or its architecture if the name is not available."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


@cache
def version(name: str) -> str:
    """Return the version of an installed package."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed as a package"


def commit() -> str:
    """Return the git commit of this package, with a plus sign if tracked files have changes."""
    folder = Path(__file__).parent
    if folder.parent.name != "src":  # installed, possibly inside the checkout of another project
        return "not a git checkout"
    command = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    try:
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "not a git checkout"
    return answer.stdout.strip()
