"""The page of comparisons says what was measured."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "comparison.py"


def comparison():
    spec = importlib.util.spec_from_file_location("comparison", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_comparison_page_is_made_from_the_results():
    assert comparison().PAGE.read_text(encoding="utf8") == comparison().page()


def test_memory_and_both_settings_are_told_where_they_were_measured():
    machine = {"device": "cpu", "cores": 2, "load": [1.25, 1, 1], "load_after": [2.0, 1, 1], "xla_flags": ""}
    shared = {"problem": "R01", "chains": 4, "precision": "double", "effective_per_second": 10.0, "updates": 256}
    rows = [
        {**shared, "contestant": "blackjax", "ratio": 1.0, "ratio_range": [1.0, 1.0], "peak_memory": 2 * 10**8},
        {**shared, "contestant": "blackjax + fast_cpu", "ratio": 2.0, "ratio_range": [1.5, 3.0], "peak_memory": 10**9},
    ]
    told = comparison()._timings({"machine": {**machine, "jax": "1", "blackjax": "1"}, "results": rows})
    assert "2 CPU cores (load 1.2 before, 2.0 after), double" in told
    assert "| blackjax + fast_cpu | 2 (1.5 to 3) |" in told
    assert "| blackjax + fast_cpu | 1,000 |" in told
    for row in rows:
        del row["peak_memory"]
    assert "memory" not in comparison()._timings({"machine": {**machine, "jax": "1", "blackjax": "1"}, "results": rows})
