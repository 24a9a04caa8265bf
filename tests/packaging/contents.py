"""Required contents of a wheel and of an sdist: every file of the package, and everything that the tests need."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

BESIDE = ("tests", "docs", "examples", "benchmarks")
"""Folders of an sdist other than the package."""

TOP = ("Makefile", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "pyproject.toml")

LEFT_OUT = ("__pycache__", "_build", "gallery", ".ipynb_checkpoints")


def files(folder: Path) -> set[str]:
    """Return the files of a folder of the repository, as paths from its root, without generated files."""
    found = (path.relative_to(ROOT) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if not set(path.parts) & set(LEFT_OUT)}


def trouble_in_wheel(wheel: Path) -> list[str]:
    """Return the files that are missing in a wheel or do not belong there."""
    with zipfile.ZipFile(wheel) as archive:
        have = {name for name in archive.namelist() if ".dist-info/" not in name}
        info = {name.partition(".dist-info/")[2] for name in archive.namelist() if ".dist-info/" in name}
    want = {name.removeprefix("src/") for name in files(ROOT / "src" / "ellipslice")}
    said = [f"the wheel has no {name}" for name in sorted(want - have)]
    said += [f"the wheel has {name}, which is no part of the package" for name in sorted(have - want)]
    needed = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    return said + [f"the wheel has no {name}" for name in sorted(needed - info)]


def trouble_in_sdist(sdist: Path) -> list[str]:
    """Return the files that are missing in an sdist."""
    with tarfile.open(sdist) as archive:
        have = {name.partition("/")[2] for name in archive.getnames()}
    want = {*TOP, *files(ROOT / "src")}.union(*(files(ROOT / folder) for folder in BESIDE))
    return [f"the sdist has no {name}" for name in sorted(want - have)]
