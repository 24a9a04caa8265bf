"""What every engine does: run some chains, and hand over what they drew."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ellipslice.moves import Info


class Piece(NamedTuple):
    """Consecutive updates of one chain."""

    chain: int
    """Position of the chain in the run."""
    first: int
    """Number of its first update, counted from the start of the chain."""
    f: np.ndarray
    """The states after each update, centred and flat, shape (updates, size)."""
    log_likelihood: np.ndarray
    info: Info


class Run(Protocol):
    """Chains under way. The caller alternates `advance` and `take` until `finished`."""

    @property
    def finished(self) -> bool:
        """Whether every chain has made all its updates."""
        ...

    def advance(self) -> None:
        """Work for about a tenth of a second, or for one block."""
        ...

    def take(self) -> list[Piece]:
        """The updates completed since the last call, whatever interrupted `advance`."""
        ...

    def close(self) -> None:
        """Release what the run holds."""
        ...
