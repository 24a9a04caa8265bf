"""The pages of the documentation, for tests that run what they show."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def cells(name: str) -> list[str]:
    """The code in the cells of a page that readers see, without their options."""
    page = (DOCS / f"{name}.md").read_text(encoding="utf8")
    found = re.findall(r"```{code-cell} ipython3\n((?::[^\n]*\n)*)(.*?)```", page, re.DOTALL)
    return [code.lstrip("\n") for options, code in found if "remove-cell" not in options]
