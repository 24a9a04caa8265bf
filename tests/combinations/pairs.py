"""All-pairs tables: rows of options in which every two values occur together at least once.

A test over fifteen options cannot try all combinations, but most faults need only two options to meet. This module has

- `Refusal`: a condition under which a row must be rejected, and the message that must be raised;
- `all_pairs`: rows that must run, which contain every pair of values that such a row can contain;
- `each_value`: rows that must run, which contain every value;
- `refused_rows`: rows that must be rejected, one for each combination that a refusal covers;
- `random_rows`: rows drawn at random.

A row is a dict from the name of an option to one of its values. Values should be short strings, because `name` builds
the id of a test from them. The first value of an option is its default, and should be the simplest.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]
Item = tuple[str, Any]
Options = Mapping[str, Sequence[Any]]
Preferred = Callable[[Row, str, list[Any]], list[Any]]


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
    options: Options,
    refusals: Sequence[Refusal] = (),
    begin: Sequence[Row] = (),
    cost: Callable[[Row], float] | None = None,
    seed: int = 0,
    among: Collection[str] | None = None,
) -> list[Row]:
    """Return rows that no refusal covers, with every pair of values that such a row can contain.

    The algorithm is greedy. A row starts with a missing pair. Every other option takes the value that adds most missing
    pairs; ties are broken by `cost`, the cost of an incomplete row, and then at random. `begin` has the first rows of
    the table: with the rows of an older table, only rows for new values are added. With `among`, only pairs of these
    options are required, and the values of others are random.
    """
    rules, rows, rng = _Rules(options, refusals), list(begin), random.Random(seed)
    missing: dict[Item, dict[Item, None]] = {item: {} for item in _items(options)}
    for one, two in combinations(missing, 2):
        if one[0] != two[0] and (among is None or {one[0], two[0]} <= set(among)):
            missing[one][two] = missing[two][one] = None

    def cover(row: Row) -> None:
        for one, two in pairs_of(row):
            missing[one].pop(two, None)
            missing[two].pop(one, None)

    for row in rows:
        cover(row)
    for one, partners in missing.items():
        while partners:
            pair = dict([one, next(iter(partners))])
            row = rules.greedy(pair, lambda item, known: len(missing[item].keys() & known), cost, rng)
            cover(row or pair)  # no row: every row with this pair would be rejected
            rows += [row] if row else []
    return rows


def each_value(
    options: Options,
    refusals: Sequence[Refusal] = (),
    cost: Callable[[Row], float] | None = None,
    seed: int = 0,
) -> list[Row]:
    """Return rows that no refusal covers, with every value that such a row can contain: the small form of a table."""
    rules, rng, rows = _Rules(options, refusals), random.Random(seed), list[Row]()
    missing = dict.fromkeys(_items(options))
    while missing:
        item = next(iter(missing))
        row = rules.greedy(dict([item]), lambda item, known: item in missing, cost, rng)
        rows += [row] if row else []
        for covered in (row or dict([item])).items():
            missing.pop(covered, None)
    return rows


def refused_rows(options: Options, refusals: Sequence[Refusal], *, one_each: bool = False) -> list[Row]:
    """Return a row for each combination of values that a refusal covers. Other options have their first allowed value.

    A refusal of one or two options has a row for each such combination, or a single one with `one_each`; one of more
    options always has a single row. Where no row is covered by this refusal alone, its row is covered by several.
    """
    rows, defaults = [], {option: values[0] for option, values in options.items()}
    covered = [_covered(refusal, options) for refusal in refusals]
    for i, refusal in enumerate(refusals):
        others = _Rules(options, [*refusals[:i], *refusals[i + 1 :]], [*covered[:i], *covered[i + 1 :]])
        for case in covered[i][:1] if one_each or len(refusal.options) > 2 else covered[i]:
            row = others.fill(dict(case)) or defaults | dict(case)
            if row not in rows:
                rows.append(row)
    return rows


def random_rows(options: Options, count: int, seed: int, refusals: Sequence[Refusal] = ()) -> list[Row]:
    """Return rows drawn at random; with `refusals`, only rows that must run; otherwise most must be rejected."""
    rng, rules = random.Random(seed), _Rules(options, refusals)
    rows = (rules.greedy({}, lambda item, known: 0, None, rng) for _ in range(count))
    return [row for row in rows if row]


def pairs_of(row: Mapping[str, Any]) -> Iterator[tuple[Item, Item]]:
    """Yield the pairs of (option, value) that a row contains, in the order of its options."""
    return combinations(row.items(), 2)


def _items(options: Options) -> list[Item]:
    return [(option, value) for option, values in options.items() for value in values]


def _covered(refusal: Refusal, options: Options) -> list[list[Item]]:
    """Return the combinations of values that a refusal covers."""
    cases = product(*([(option, value) for value in options[option]] for option in refusal.options))
    return [list(case) for case in cases if refusal.covers(dict(case))]


class _Rules:
    """The forbidden values, pairs of values and larger combinations."""

    def __init__(self, options: Options, refusals: Sequence[Refusal], covered: Sequence[list[Any]] | None = None):
        self.options = options
        self.pairs: dict[Item, set[Item]] = {item: set() for item in _items(options)}
        for cases in covered or [_covered(refusal, options) for refusal in refusals]:
            for first, *between, last in (case if len(case) > 1 else case * 2 for case in cases):
                if not between:
                    self.pairs[first].add(last)  # a value that is rejected by itself is forbidden with itself
                    self.pairs[last].add(first)
        larger = [refusal for refusal in refusals if len(refusal.options) > 2]
        self.larger = {option: [(r, set(r.options)) for r in larger if option in r.options] for option in options}

    def allowed(self, row: Row, option: str, value: Any) -> bool:
        """Return whether this value can be added to a row with these values."""
        forbidden, item = self.pairs[option, value], (option, value)
        if item in forbidden or not forbidden.isdisjoint(row.items()):
            return False
        known = {**row, option: value}
        return not any(known.keys() >= needed and refusal.covers(known) for refusal, needed in self.larger[option])

    def fill(self, row: Row, order: Sequence[str] | None = None, preferred: Preferred | None = None) -> Row | None:
        """Return the row with a value for each option, or None if every such row is rejected (depth-first search).

        Options are tried in this order, and values in that of `preferred`. Default: their own order.
        """
        if not all(self.allowed(row, option, value) for option, value in row.items()):
            return None
        found = self._search(row, [o for o in order or self.options if o not in row], preferred)
        return found and {option: found[option] for option in self.options}

    def greedy(self, row: Row, gain: Callable[[Item, Any], int], cost: Any, rng: random.Random) -> Row | None:
        """Return the row, filled with values of largest gain, then smallest cost; options with many values first."""

        def preferred(row: Row, option: str, values: list[Any]) -> list[Any]:
            rng.shuffle(values)
            gains = {value: -gain((option, value), row.items()) for value in values}
            return sorted(values, key=lambda v: (gains[v], cost({**row, option: v}) if cost else 0))

        order = sorted(rng.sample(list(self.options), len(self.options)), key=lambda o: -len(self.options[o]))
        return self.fill(row, order, preferred)

    def _search(self, row: Row, order: list[str], preferred: Any) -> Row | None:
        if not order:
            return row
        left = {option: [v for v in self.options[option] if self.allowed(row, option, v)] for option in order}
        if not all(left.values()):
            return None
        option, *rest = order
        for value in preferred(row, option, left[option]) if preferred else left[option]:
            found = self._search({**row, option: value}, rest, preferred)
            if found:
                return found
        return None
