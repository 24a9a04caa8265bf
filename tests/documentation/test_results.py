"""Stored results contain the commit and the command of their measurement, or the page that quotes them states that not.

`WITHOUT` may only become shorter.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts]
STATEMENT = "before results contained their commit and arguments"

WITHOUT = (
    "cpu_2_of_16_cores",
    "evidence",
    "evidence_from_prior",
    "h200_figure6_elliptical",
    "h200_r10_mine_single",
    "h200_usps_double",
    "h200_usps_single",
    "scaling",
    "unknown_parameters_112",
    "unknown_parameters_811",
)
"""Results that were measured before commits were stored."""


def has_origin(result: dict) -> bool:
    """Return whether a result, or each of its problems, has the commit and the arguments of its measurement."""
    if "commit" not in result and result.get("problems"):
        return all(has_origin(each) for each in result["problems"].values())
    return bool(result.get("commit")) and bool(result.keys() & {"arguments", "command"})


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_results_have_commit_and_arguments(path):
    assert has_origin(json.loads(path.read_text(encoding="utf8"))) != (path.stem in WITHOUT)


@pytest.mark.parametrize("name", WITHOUT)
def test_pages_state_that_the_commit_is_missing(name):
    for page in PAGES:
        text = " ".join(page.read_text(encoding="utf8").split())
        assert f"results/{name}.json" not in text or STATEMENT in text, page.relative_to(ROOT)


def test_a_result_without_commit_is_found():
    assert not has_origin({"machine": {}, "results": []})
    assert not has_origin({"commit": "", "arguments": []})
    assert has_origin({"commit": "0123abc", "arguments": [""]})
    assert has_origin({"problems": {"a": {"commit": "0123abc", "arguments": ""}}})
    assert not has_origin({"problems": {"a": {"commit": "0123abc", "arguments": ""}, "b": {"arguments": ""}}})
