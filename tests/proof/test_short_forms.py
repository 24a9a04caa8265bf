"""The short form of each proof passes. `make proof` runs the full ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.run import PROOFS, RESULTS, prove
from proof.task import merge, parts


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", PROOFS)
def test_the_short_form_passes(name):
    assert prove(name, short=True)["problems"] == []


def test_every_proof_is_listed():
    modules = {path.stem for path in Path(__file__).parent.glob("*.py")}
    assert modules - {"run", "task", "uniform", "test_short_forms"} == set(PROOFS)


def test_stored_results_are_of_proofs():
    assert {path.stem for path in RESULTS.glob("*.json")} <= set(PROOFS)


def test_tasks_make_up_their_cases():
    made = [part for case in (0, 1) for part in parts(60, case)]
    assert [fits for fits, _ in made] == [25, 25, 10] * 2
    used = [seed + fit for fits, seed in made for fit in range(fits + 1)]
    assert len(set(used)) == len(used)


def test_counts_of_the_same_ranks_are_added():
    assert merge([{"a": [1, 2]}, {"b": [5, 0]}, {"a": [0, 3]}]) == {"a": [1, 5], "b": [5, 0]}
