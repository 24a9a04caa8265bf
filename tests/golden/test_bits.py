"""Golden bits: for a given seed every move gives the recorded draws on every engine.

The tests of tests/exact compare runs with each other. They would still pass if all runs changed in the same manner.
"""

from __future__ import annotations

import warnings

import pytest

from golden.check import check_noise, check_run, is_comparable, record
from golden.record import key
from golden.runs import OTHERS, SHORT, cases, run

LONG_OTHERS = ("LatentGP, unknown hyperparameters",)


def is_long(move: str, problem: str, engine: str) -> bool:
    """Return True for runs that take long: compiled ones, except a few moves, and conditionals of a Markov prior."""
    quick = engine.startswith("host") or (engine.startswith("compiled") and move in SHORT)
    return not quick or (problem == "Markov, 7" and move.startswith("Local"))


ALLOWED = [
    pytest.param(*case, marks=[pytest.mark.long] if is_long(*case) else [], id=key(*case))
    for case in cases()
    if key(*case) not in record()["not_allowed"]
]


def test_random_numbers_are_the_recorded_ones():
    check_noise()


@pytest.mark.parametrize(("move", "problem", "engine"), ALLOWED)
def test_a_seed_gives_the_recorded_draws(move, problem, engine):
    if not is_comparable(key(move, problem, engine)):
        pytest.skip("these draws depend on the processor, and they were recorded on another one")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*updates found no acceptable point")
        check_run(key(move, problem, engine), run(move, problem, engine))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG_OTHERS else []) for name in OTHERS]
)
def test_a_seed_gives_the_recorded_fit(name):
    if name.startswith("EllipticalGP"):
        pytest.importorskip("sklearn")
    check_run(name, OTHERS[name]())


def test_every_move_of_the_catalogue_is_on_record():
    known = set(record()["runs"]) | set(record()["not_allowed"])
    assert known == {key(*case) for case in cases()} | set(OTHERS), "python tests/golden/record.py NAME adds a move"
    assert {case.id.split(" | ")[0] for case in ALLOWED} == {case[0] for case in cases()}  # each move on some engine
