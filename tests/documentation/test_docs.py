"""The reference pages list every public name, and pages state what is not run. `test_site.py` builds the site."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

import ellipslice as es
from layout.public_names import documented

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

MODULES = (
    "ellipslice",
    "ellipslice.data",
    "ellipslice.diagnostics",
    "ellipslice.apps.explore",
    "ellipslice.gp",
    "ellipslice.interop.blackjax",
    "ellipslice.interop.numpyro",
    "ellipslice.interop.pymc",
    "ellipslice.likelihoods",
    "ellipslice.marginal",
    "ellipslice.moves",
    "ellipslice.testing",
)


def public(name: str) -> set[str]:
    """Return the public names of a module: those of `__all__`, otherwise the functions and classes defined in it."""
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None) or [
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == name
    ]
    return {f"{name}.{key}" for key in names if not isinstance(getattr(module, key), ModuleType)}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module):
    known = set(documented())
    if module == "ellipslice.marginal":
        known |= {"ellipslice.marginal.evidence"}  # which is `es.evidence`
    assert public(module) - known == set()


def test_public_names_are_seen():
    assert {"ellipslice.sample", "ellipslice.Dense"} <= public("ellipslice")
    assert public("ellipslice.diagnostics") == {
        f"ellipslice.diagnostics.{name}"
        for name in (
            *("check_convergence", "ConvergenceReport", "ConvergenceProblem"),
            *("effective_sample_size", "efficiency", "Efficiency"),
        )
    }


def test_modules_with_public_names_are_known():
    own = {f"ellipslice.{name}" for name in es.__all__ if isinstance(getattr(es, name), ModuleType)}
    assert own <= set(MODULES)


def test_the_reference_has_no_name_that_is_not_there():
    for name in documented():
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_what_is_not_run_says_so(page):
    """Python code is a cell, which is run, or the page contains "not run"."""
    text = page.read_text(encoding="utf8")
    if page.name == "index.md" or "_build" in page.parts:
        return
    if "```python" in text:
        assert re.search(r"not run", text, re.IGNORECASE), "use ```{code-cell} ipython3, which is run"
    assert ("{code-cell}" in text) == text.startswith("---\nfile_format: mystnb\n"), "cells need the header of myst-nb"
