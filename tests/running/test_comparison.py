"""The page of comparisons says what was measured."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "comparison.py"


def test_the_comparison_page_is_made_from_the_results():
    spec = importlib.util.spec_from_file_location("comparison", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    comparison = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(comparison)
    assert comparison.PAGE.read_text(encoding="utf8") == comparison.page()
