"""One value at a time: what the univariate updates share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.moves import blocks
from ellipslice.moves.base import Lots, Move
from ellipslice.moves.local import Local
from ellipslice.priors import Prior

EACH = blocks.Contiguous(1, None)
"""Every value by itself, in the order of the flat vector."""


class OneAtATime(Local):
    """A sweep over all values, each given the rest, by a move for a single value."""

    def __init__(self, move: Axis):
        super().__init__(EACH, move)

    def __repr__(self) -> str:
        return repr(self.move)


class Axis(Move):
    """A move for one value. Its noise is a standard normal, nu[0], and the value's prior deviation, nu[1]."""

    def lots(self, prior: Prior, prepared: Any) -> Lots:
        return Lots(_NormalAndDeviation(prior), 2, 1)


class _NormalAndDeviation:
    def __init__(self, prior: Prior):
        self._deviation = float(np.linalg.norm(prior.color(np.eye(prior.noise_size))))

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """As many rows as asked for, in pairs; shape (count, 1)."""
        rows = np.full((count, 1), self._deviation)
        rows[::2, 0] = rng.standard_normal(count // 2)
        return rows
