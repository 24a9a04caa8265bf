"""The docstring of a folder's `__init__.py` has one line for each file and folder in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "ellipslice"
FOLDERS = [path.parent.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*/__init__.py"))]


def listed(folder: str) -> set[str]:
    """Return the names at the beginning of the lines of a list in the docstring: - `name`: what it is."""
    docstring = ast.get_docstring(ast.parse((SOURCE / folder / "__init__.py").read_text(encoding="utf8"))) or ""
    return set(re.findall(r"^- `([\w/]+)(?:\.py)?`:", docstring, flags=re.MULTILINE))


def present(folder: str) -> set[str]:
    """Return the files of a folder, without their ending, and its folders, with a slash."""
    files = {path.stem for path in (SOURCE / folder).glob("*.py")} - {"__init__", "__main__"}
    return files | {f"{path.parent.name}/" for path in (SOURCE / folder).glob("*/__init__.py")}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_has_a_line(folder):
    assert listed(folder) == present(folder)
