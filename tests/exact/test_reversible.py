"""Section 2.3 of the paper: every search move is reversible, tested without tolerance."""

from __future__ import annotations

from math import pi

import pytest

from catalogue import MOVES
from ellipslice.moves import EllipticalSlice, Search
from ellipslice.testing import check_reversible

SEARCHES = [name for name, make in MOVES.items() if isinstance(make(), Search)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))])
@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_is_reversible(name, seed):
    check_reversible(MOVES[name](), seed=seed)


@pytest.mark.short_cases("0.001-cut", "1.0-halve", "6.28-cut", "6.283185307179586-halve", "1.0-other_half")
@pytest.mark.parametrize("shrinking", ["cut", "halve", "other_half"])
@pytest.mark.parametrize("width", [1e-3, 0.1, 1.0, pi, 5.0, 6.28, 2 * pi])
def test_every_width_is_reversible(width, shrinking):
    check_reversible(EllipticalSlice(width, shrinking), seed=17)
