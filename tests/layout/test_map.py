"""ARCHITECTURE.md, docs/decisions, CONTRIBUTING.md and the docstrings of folders agree with the code.

The docstring of a folder's `__init__.py` has one line per file and folder.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ellipslice"
MAP = ROOT / "ARCHITECTURE.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [MAP, ROOT / "CONTRIBUTING.md", *DECISIONS]
MAX_WORDS = 1500
MAX_GLOSSARY = 12
FOLDERS = [path.parent.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*/__init__.py"))]


def listed(folder: str) -> set[str]:
    """Return the names at the beginning of the lines of a list in the docstring: - `name`: description."""
    docstring = ast.get_docstring(ast.parse((SOURCE / folder / "__init__.py").read_text(encoding="utf8"))) or ""
    return set(re.findall(r"^- `([\w/]+)(?:\.py)?`:", docstring, flags=re.MULTILINE))


def present(folder: str) -> set[str]:
    """Return the files of a folder, without their ending, and its folders, with a slash."""
    files = {path.stem for path in (SOURCE / folder).glob("*.py")} - {"__init__", "__main__"}
    return files | {f"{path.parent.name}/" for path in (SOURCE / folder).glob("*/__init__.py")}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_has_a_line(folder):
    assert listed(folder) == present(folder)


# --- ARCHITECTURE.md and docs/decisions -------------------------------------------------------------------------------


def section(title: str) -> str:
    """Return the text of ARCHITECTURE.md under a title."""
    return re.split(r"^## ", MAP.read_text(encoding="utf8").split(f"\n## {title}\n")[1], flags=re.MULTILINE)[0]


def paths_in(text: str) -> set[str]:
    """Return the paths in code, diagrams and links of a page."""
    code = re.findall(r"```.*?```|`[^`\n]+`|\]\([^)#\s]+", text, flags=re.DOTALL)
    folder_or_file = r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|toml|rst|json|html|js|txt)\b"
    return {path for part in code for path in re.findall(rf"(?<![\w/.:-])(?:\.\./)*(?:{folder_or_file})", part)}


def test_the_map_is_one_page():
    assert len(MAP.read_text(encoding="utf8").split()) <= MAX_WORDS


def test_every_folder_is_on_the_map():
    named = set(re.findall(r"`([\w/]+)/`", section("Folders")))
    assert named - set(FOLDERS) == {"tests", "benchmarks", "docs", "examples"}
    assert set(FOLDERS) - named == set()


def test_every_file_at_the_top_level_is_on_the_map():
    files = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert files - set(re.findall(r"`(\w+\.py)`", section("Folders"))) == set()


def test_the_layers_are_those_that_are_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["name"] == "layers")
    assert section("Layers").split("```")[1].split("\n")[1:-1] == [f" {layer}" for layer in layers]


def test_the_glossary_is_short():
    rows = re.findall(r"^\| [^|]+ \|", section("Glossary"), flags=re.MULTILINE)
    assert 0 < len(rows) - 1 <= MAX_GLOSSARY  # without the header


def test_paths_are_found():
    text = "`moves/search.py`, [a](b/c.md#d), `N(0, S)`, ``\n```\n x -> y   store/, noise.py\n```\n p(u)/q(u) `es.step`"
    assert paths_in(text) == {"moves/search.py", "b/c.md", "store/", "noise.py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_on_a_page_exists(page):
    bases = (ROOT, SOURCE, page.parent)
    found = paths_in(page.read_text(encoding="utf8"))
    assert [path for path in sorted(found) if not any((base / path).exists() for base in bases)] == []


def test_every_page_of_decisions_is_in_the_index():
    index = (ROOT / "docs" / "decisions" / "index.md").read_text(encoding="utf8")
    for page in DECISIONS:
        assert page.name == "index.md" or (f"]({page.name})" in index and f"\n{page.stem}\n" in index), page.name
