"""All-pairs tables: rows of options in which every two values occur together at least once.

A test over fifteen options cannot try all combinations, but most faults need only two options to meet. This module has

- `Refusal`: a condition under which a row must be refused, and the message that must be raised;
- `all_pairs`: rows that must run, which contain every pair of values that such a row can contain;
- `refused_rows`: rows that must be refused, one for each combination that a refusal is about;
- `random_rows`: rows drawn at random.

A row is a dict from the name of an option to one of its values. Values are best short strings, because `name` makes the
id of a test from them. The first value of an option is its default, and should be the simplest.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]
Options = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Refusal:
    """Rows for which `when` is true must raise `error` with `message`, a regular expression.

    The arguments of `when` have the names of the options that it depends on: `lambda prior, move: ...`.
    """

    message: str
    when: Callable[..., bool]
    error: type[Exception] | tuple[type[Exception], ...] = (ValueError, TypeError)
    options: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        re.compile(self.message)
        object.__setattr__(self, "options", tuple(inspect.signature(self.when).parameters))

    def covers(self, row: Mapping[str, Any]) -> bool:
        return bool(self.when(**{option: row[option] for option in self.options}))


def refusals_of(row: Mapping[str, Any], refusals: Sequence[Refusal]) -> list[Refusal]:
    """Return the refusals that cover a row. It must raise the message of one of them, or run if there is none."""
    return [refusal for refusal in refusals if refusal.covers(row)]


def name(row: Mapping[str, Any], options: Options) -> str:
    """Return an id for a test: the values of a row that are not the defaults."""
    others = [f"{option}={row[option]}" for option, values in options.items() if row[option] != values[0]]
    return ", ".join(others) or "defaults"


def all_pairs(
    options: Options, refusals: Sequence[Refusal] = (), begin: Sequence[Row] = (), seed: int = 0
) -> list[Row]:
    """Return rows that no refusal covers, with every pair of values that such a row can contain.

    Greedy: a row begins with a pair that is still missing, and takes for each other option the value that adds most
    missing pairs. `begin` are the first rows of the table: with the rows of an older table, only what a new value
    needs is added after them.
    """
    missing = {pair: None for one, two in combinations(options, 2) for pair in _pairs_between(one, two, options)}
    rows, rng = list(begin), random.Random(seed)
    for row in rows:
        _cover(row, missing)
    while missing:
        pair = next(iter(missing))
        row = _fill(dict(pair), options, refusals, lambda one, row: _gain(one, row, missing), rng)
        if row is None:  # each row with this pair would be refused
            del missing[pair]
        else:
            _cover(row, missing)
            rows.append(row)
    return rows


def refused_rows(options: Options, refusals: Sequence[Refusal]) -> list[Row]:
    """Return a row for each combination of values that a refusal covers; all else has the first value that is allowed.

    A refusal of one or two options has a row for each such combination, one of more options a single row. Where no
    row is covered by this refusal alone, the row has the defaults and is covered by several.
    """
    rows = []
    for refusal in refusals:
        others = [other for other in refusals if other is not refusal]
        cases = [dict(zip(refusal.options, case, strict=True)) for case in product(*map(options.get, refusal.options))]
        cases = [case for case in cases if refusal.covers(case)]
        for case in cases if len(refusal.options) < 3 else cases[:1]:
            row = _fill(case, options, others) or {option: values[0] for option, values in options.items()} | case
            if row not in rows:
                rows.append(row)
    return rows


def random_rows(options: Options, count: int, seed: int) -> list[Row]:
    """Return rows drawn at random, among which some must be refused."""
    rng = random.Random(seed)
    return [{option: rng.choice(values) for option, values in options.items()} for _ in range(count)]


def pairs_of(row: Mapping[str, Any]) -> Iterator[tuple[tuple[str, Any], tuple[str, Any]]]:
    """Yield the pairs of (option, value) that a row contains, in the order of its options."""
    return combinations(row.items(), 2)


def _pairs_between(one: str, two: str, options: Options) -> Iterator[Any]:
    return product([(one, value) for value in options[one]], [(two, value) for value in options[two]])


def _cover(row: Row, missing: dict[Any, None]) -> None:
    for pair in pairs_of(row):
        missing.pop(pair, None)


def _gain(one: tuple[str, Any], row: Row, missing: Mapping[Any, None]) -> int:
    """Return how many missing pairs this (option, value) makes with the values that are in the row already."""
    return sum((one, two) in missing or (two, one) in missing for two in row.items())


def _fill(
    row: Row,
    options: Options,
    refusals: Sequence[Refusal],
    gain: Callable[[tuple[str, Any], Row], int] | None = None,
    rng: random.Random | None = None,
) -> Row | None:
    """Return the row with a value for each option, or None if every such row is refused. A depth-first search.

    Values are tried in the order of `gain`, then at random, options with many values first; without `gain` in their
    own order.
    """
    order = [option for option in options if option not in row]
    if rng:
        rng.shuffle(order)
        order.sort(key=lambda option: -len(options[option]))
    about = {option: [refusal for refusal in refusals if option in refusal.options] for option in options}

    def allowed(option: str, value: Any, row: Row) -> bool:
        known = {**row, option: value}
        return not any(known.keys() >= set(r.options) and r.covers(known) for r in about[option])

    def search(row: Row, order: list[str]) -> Row | None:
        if not order:
            return row
        option, *rest = order
        values = [value for value in options[option] if allowed(option, value, row)]
        if gain and rng:
            rng.shuffle(values)
            values.sort(key=lambda value: -gain((option, value), row))
        for value in values:
            after = {**row, option: value}
            if all(any(allowed(other, v, after) for v in options[other]) for other in rest) and (
                found := search(after, rest)
            ):
                return found
        return None

    if not all(allowed(option, value, row) for option, value in row.items()):
        return None
    found = search(row, order)
    return found and {option: found[option] for option in options}
