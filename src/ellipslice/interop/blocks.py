"""Variables in blocks that follow each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def in_turn(names: Sequence[str], upstream: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """Blocks such that the priors of one depend on those before it, and not on each other.

    Names come in an order in which each is after those it depends on, which `upstream` says.

    >>> in_turn(["a", "b", "c"], {"a": [], "b": ["a"], "c": []})
    (('a', 'c'), ('b',))
    """
    level: dict[str, int] = {}
    for name in names:
        level[name] = 1 + max((level[other] for other in upstream[name] if other in level and other != name), default=0)
    return tuple(tuple(name for name in names if level[name] == n) for n in range(1, 1 + max(level.values())))
