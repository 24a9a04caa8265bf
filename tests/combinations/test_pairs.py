"""The generator of all-pairs tables."""

from __future__ import annotations

from itertools import combinations, product

from combinations.pairs import Refusal, all_pairs, each_value, name, pairs_of, random_rows, refusals_of, refused_rows

OPTIONS = {"a": [0, 1, 2, 3, 4], "b": [0, 1, 2, 3], "c": [0, 1, 2], "d": [0, 1], "e": [0, 1]}
REFUSALS = [
    Refusal("a and b", lambda a, b: a == b == 3),
    Refusal("c and d", lambda c, d: c == 2 and d == 0),
    Refusal("d and e", lambda d, e: d == e == 1),  # together they imply that c=2 never meets e=1
    Refusal("three", lambda a, b, c: a + b + c == 0),
]


def test_all_pairs_but_those_that_must_be_refused():
    rows = all_pairs(OPTIONS, REFUSALS)
    assert not any(refusals_of(row, REFUSALS) for row in rows)
    allowed = [dict(zip(OPTIONS, values, strict=True)) for values in product(*OPTIONS.values())]
    possible = {pair for row in allowed if not refusals_of(row, REFUSALS) for pair in pairs_of(row)}
    assert {pair for row in rows for pair in pairs_of(row)} == possible
    every = sum(len(OPTIONS[one]) * len(OPTIONS[two]) for one, two in combinations(OPTIONS, 2))
    assert len(possible) == every - 4  # three pairs are rejected directly, and c=2 with e=1 indirectly
    assert len(rows) <= 24  # 20 are needed for a and b alone, and all combinations are 240


def test_the_same_rows_each_time_and_older_ones_are_kept():
    rows = all_pairs(OPTIONS, REFUSALS)
    assert all_pairs(OPTIONS, REFUSALS) == rows
    longer = all_pairs({**OPTIONS, "c": [0, 1, 2, 3]}, REFUSALS, begin=rows)
    assert longer[: len(rows)] == rows
    assert all(row["c"] == 3 for row in longer[len(rows) :])


def test_each_refusal_has_rows_that_only_it_covers():
    rows = refused_rows(OPTIONS, REFUSALS)
    assert [[refusal.message for refusal in refusals_of(row, REFUSALS)] for row in rows] == [
        *(["a and b"], ["c and d"], ["d and e"], ["three"])
    ]
    assert rows[1] == {"a": 0, "b": 0, "c": 2, "d": 0, "e": 0}


def test_each_value_and_the_cheapest_rows():
    rows = each_value(OPTIONS, REFUSALS, cost=lambda row: 10 * (row.get("e") == 1))
    assert {item for row in rows for item in row.items()} == {(o, v) for o, values in OPTIONS.items() for v in values}
    assert not any(refusals_of(row, REFUSALS) for row in rows)
    assert sum(row["e"] for row in rows) == 1


def test_names_and_random_rows():
    assert name({"a": 0, "b": 2, "c": 0, "d": 1, "e": 0}, OPTIONS) == "b=2, d=1"
    assert name(dict.fromkeys("abcde", 0), OPTIONS) == "defaults"
    assert random_rows(OPTIONS, 20, seed=3) == random_rows(OPTIONS, 20, seed=3) != random_rows(OPTIONS, 20, seed=4)
    assert any(refusals_of(row, REFUSALS) for row in random_rows(OPTIONS, 20, seed=3))
    assert not any(refusals_of(row, REFUSALS) for row in random_rows(OPTIONS, 20, seed=3, refusals=REFUSALS))
