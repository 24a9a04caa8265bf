"""The pages of the documentation, for tests that run their code."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
CELL = re.compile(r"```{code-cell} ipython3\n((?::[^\n]*\n)*)(.*?)```", re.DOTALL)
"""A code cell of a page: its options, and its code."""


def cells(name: str) -> list[str]:
    """Return the code of the visible cells of a page, without the options of the cells."""
    page = (DOCS / f"{name}.md").read_text(encoding="utf8")
    return [code.lstrip("\n") for options, code in CELL.findall(page) if "remove-cell" not in options]
