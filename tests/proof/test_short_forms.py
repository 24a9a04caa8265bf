"""The short form of each proof passes. `make proof` runs the full ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.run import PROOFS, RESULTS, prove


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
