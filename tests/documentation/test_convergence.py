"""Every run on a page passes `check_convergence`, or the page states that it does not.

The cells of each page are executed here. A cell whose run is meant not to converge has the tag `not-converged`, and the
text of its page says "has not converged" or "have not converged", so that readers do not take its draws for a result.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ellipslice.diagnostics import check_convergence
from pages import CELL, DOCS

ROOT = Path(__file__).parents[2]
TAG = "not-converged"
STATEMENT = re.compile(r"ha(s|ve)\s+not\s+converged")

OWN_TESTS = {
    "how_to/parallel": "test_readme.py",
    "how_to/command_line": "test_readme.py",
    "api/commands": "help texts only",
}
"""Pages whose cells are shell commands, and where these are tested."""

PRELIMINARY = ("ellipslice.parameters.choose_parametrisation", "ellipslice.tuning.steps")
"""Modules that make short runs to choose a setting. Their draws are discarded, so they need not converge."""


class Cell(NamedTuple):
    """A code cell of a page: its code, and whether its runs are meant not to converge."""

    code: str
    not_converged: bool


def cells(text: str) -> Iterator[Cell]:
    """Yield the code cells of a page."""
    for options, code in CELL.findall(text):
        yield Cell(code, TAG in options)


def pages() -> list[str]:
    """Return the names of the pages with cells, relative to `docs` and without their suffix."""
    found = [path for path in sorted(DOCS.rglob("*.md")) if "{code-cell}" in path.read_text(encoding="utf8")]
    names = [str(path.relative_to(DOCS).with_suffix("")) for path in found if "_build" not in path.parts]
    return [name for name in names if name not in OWN_TESTS]


@pytest.fixture
def trees(monkeypatch):
    """Return the list of the results of all runs since the test began, except preliminary ones."""
    found = []
    for module in map(importlib.import_module, PRELIMINARY):
        sample = module.sample

        def discarded(*arguments, sample=sample, **options):
            tree = sample(*arguments, **options)
            found.pop()
            return tree

        monkeypatch.setattr(module, "sample", discarded)
    for module in map(importlib.import_module, ("ellipslice.sampling.sample", "ellipslice.sampling.resume")):
        drive = module.drive

        def recorded(*arguments, drive=drive):
            found.append(drive(*arguments))
            return found[-1]

        monkeypatch.setattr(module, "drive", recorded)
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a function that changes to a copy of the folder of a page, so that relative paths in cells work."""

    def change(name: str) -> None:
        there = (tmp_path / "docs" / name).parent
        there.mkdir(parents=True)
        for other in ("examples", "tests", "benchmarks"):
            (tmp_path / other).symlink_to(ROOT / other)
        monkeypatch.chdir(there)

    return change


def problems(text: str, trees: list) -> Iterator[str]:
    """Run the cells of a page. Yield a sentence for each run whose convergence is not as the page states."""
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell()
    for number, cell in enumerate(cells(text), 1):
        del trees[:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a cell warns of is tested by the build of the pages
            result = shell.run_cell(cell.code)
        assert "raises-exception" in text or result.error_in_exec is None, f"cell {number}: {result.error_in_exec}"
        reports = [check_convergence(tree) for tree in trees]
        if cell.not_converged and all(report.converged for report in reports):
            yield f"cell {number} has the tag {TAG!r}, but its runs have converged"
        if not cell.not_converged:
            yield from (f"cell {number}: {report}" for report in reports if not report.converged)


@pytest.mark.long
@pytest.mark.parametrize("name", pages())
def test_runs_on_pages_converge(name, trees, folder):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    text = (DOCS / f"{name}.md").read_text(encoding="utf8")
    folder(name)
    found = list(problems(text, trees))
    plt.close("all")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", pages())
def test_pages_state_which_runs_have_not_converged(name):
    text = (DOCS / f"{name}.md").read_text(encoding="utf8")
    if any(cell.not_converged for cell in cells(text)):
        assert STATEMENT.search(CELL.sub("", text)), "the page does not state that a run has not converged"


PAGE = """
```{{code-cell}} ipython3
{options}
import numpy as np
import ellipslice as es
tree = es.sample(lambda f: -50 * ((f - 3) ** 2).sum(), es.Diagonal(np.ones(40)), draws={draws}, seed=1, progress=False)
```
"""


def test_a_run_that_has_not_converged_is_found(trees):
    assert list(problems(PAGE.format(options="", draws=5), trees))
    assert not list(problems(PAGE.format(options=f":tags: [{TAG}]\n", draws=5), trees))
