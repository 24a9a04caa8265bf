"""The options of `sample` and `resume` in combination.

Each row of the table runs and is correct, or is rejected with a message that is listed in `refusals.py`.
`combined.check` defines "correct". The short form has every value of every option, the long one every pair of values.
For random rows: `python tests/combinations/random_rows.py --rows 50 --seed 3`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import ellipslice as es
from combinations.combined import DEFAULTS, OPTIONS, check, cost
from combinations.pairs import all_pairs, each_value, name, refusals_of, refused_rows
from combinations.problems import LIKELIHOODS, MOVES, PRIORS, REPRESENTED
from combinations.refusals import REFUSALS
from combinations.watchdog import watchdog

SHORT = each_value(OPTIONS, REFUSALS, cost)
LONG = all_pairs(OPTIONS, REFUSALS, SHORT, cost)[len(SHORT) :]
REFUSED = refused_rows(OPTIONS, REFUSALS, one_each=True)
ALSO_REFUSED = [row for row in refused_rows(OPTIONS, REFUSALS) if row not in REFUSED]

EXTRA = [
    DEFAULTS | row
    for row in (
        {"move": "NUTS", "engine": "compiled", "likelihood": "Poisson", "store": "resume", "thin": "3"},
        {"move": "NUTS", "engine": "chosen", "prior": "Kronecker", "executor": "threads", "keep": "booleans"},
        {"move": "Local by k-means", "likelihood": "python float", "store": "resume", "prior": "Markov"},
        {"move": "Local by k-means", "engine": "compiled", "likelihood": "StudentT", "prior": "Kronecker"},
        {"executor": "processes", "likelihood": "python float", "store": "resume"},
        {"executor": "processes", "likelihood": "numpy batch", "look_ahead": "4", "chains": "one"},
        {"executor": "processes", "likelihood": "Poisson", "engine": "compiled", "until": "effective sample size"},
    )
]
"""Values that are too slow for a table: NUTS takes long to compile, and processes take long to start."""


@pytest.mark.parametrize("row", SHORT, ids=lambda row: name(row, OPTIONS))
def test_row(row: dict[str, str], tmp_path: Path):
    with watchdog():
        assert check(row, tmp_path) == "ran"


@pytest.mark.long
@pytest.mark.parametrize("row", LONG + EXTRA, ids=lambda row: name(row, OPTIONS))
def test_row_of_all_pairs(row: dict[str, str], tmp_path: Path):
    with watchdog():
        assert check(row, tmp_path) == "ran"


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: name(row, OPTIONS))
def test_refused(row: dict[str, str], tmp_path: Path):
    with watchdog():
        assert check({**row, "store": "store"}, tmp_path) == "refused"


@pytest.mark.long
@pytest.mark.parametrize("row", ALSO_REFUSED, ids=lambda row: name(row, OPTIONS))
def test_refused_of_all_pairs(row: dict[str, str], tmp_path: Path):
    with watchdog():
        assert check({**row, "store": "store"}, tmp_path) == "refused"


def test_every_class_is_in_the_table():
    """A new prior, likelihood or move must be added to `problems.py`."""
    tables = {
        es.priors: [case.make() for case in PRIORS.values()],
        es.likelihoods: [case.make(PRIORS["Dense"]) for case in LIKELIHOODS.values()],
        es.moves: [make() or es.moves.EllipticalSlice() for make in MOVES.values()],
    }
    for module, used in tables.items():
        public = {value for value in map(vars(module).get, module.__all__) if isinstance(value, type)}
        kinds = public - {es.priors.Prior, es.likelihoods.Likelihood, es.moves.Move, es.moves.Path, es.moves.Search}
        assert kinds - {type(item) for item in used} - REPRESENTED <= {es.moves.Info, es.moves.State}


def test_each_refusal_can_be_met_by_itself():
    """A refusal whose rows are all covered by another one would not be tested, whatever its message."""
    alone = {id(found[0]) for row in REFUSED if len(found := refusals_of(row, REFUSALS)) == 1}
    covered = [refusal.message for refusal in REFUSALS if id(refusal) not in alone]
    assert covered == []
