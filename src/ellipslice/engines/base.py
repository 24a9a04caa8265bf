"""What every engine does: evaluate a likelihood, run chains, and hand over what they drew."""

from __future__ import annotations

import abc
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ellipslice.moves import Info, Move, State
from ellipslice.posterior import Posterior


class Engine(abc.ABC):
    """A posterior, and a way to run chains on it."""

    name: str

    def __init__(self, posterior: Posterior):
        self.posterior = posterior
        self._prepared: tuple[Move, Any] | None = None

    def prepared(self, move: Move) -> Any:
        """What a move works out once for a prior; kept for the next run of the same move."""
        if self._prepared is None or self._prepared[0] is not move:
            self._prepared = move, move.prepare(self.posterior.prior)
        return self._prepared[1]

    def remember(self, move: Move, prepared: Any) -> None:
        """What the move would work out for the prior is known already."""
        self._prepared = move, prepared

    @abc.abstractmethod
    def evaluate(self, f: np.ndarray) -> float:
        """The log-likelihood of one centred flat vector."""

    def evaluate_all(self, points: Sequence[np.ndarray]) -> list[float]:
        """The log-likelihoods of several, to the same bits."""
        return [self.evaluate(f) for f in points]

    @property
    def identity(self) -> Hashable:
        """Equal where log-likelihoods are the same, data included; None if there is no telling."""
        return None

    dtype: Any = np.dtype(np.float64)
    """The type of the numbers that chains are made of."""

    def first_points(self, seed: int, chains: Sequence[int]) -> list[np.ndarray] | None:
        """A prior draw for each chain to start from, if the engine makes them; else None."""
        return None

    @abc.abstractmethod
    def run(
        self,
        move: Move,
        seed: int,
        chains: Sequence[int],
        starts: Sequence[State],
        updates: int,
        look_ahead: int | None = None,
        warmup: int = 0,
        thin: int = 1,
        done: Sequence[int] | None = None,
    ) -> Run:
        """Set out on chains.

        Parameters
        ----------
        move : Move
        seed : int
        chains : sequence of int
            Numbers of the chains, which with the seed decide their noise.
        starts : sequence of State
        updates : int
            How many each chain makes, those it has made already included.
        look_ahead : int, optional
            Angles evaluated at once. Changes the speed, never the chain.
        warmup, thin : int
            Which updates leave a draw, for engines that hand over no others.
        done : sequence of int, optional
            How many updates each chain has made already, the last of which left it at its start; none unless given. The
            chain is then the same as if it had never stopped. (Together on a device chains go on from the start of a
            block, all from the same: `Batch.before`.)
        """

    def check(self, move: Move, look_ahead: int | None, by_workers: bool = False) -> None:
        """Refuse a move that cannot run here. It is prepared for that, which `run` need not do again."""
        if by_workers and self.name == "host":
            Engine.check_look_ahead(self, move, look_ahead)  # workers evaluate several proposals, one by one
        else:
            self.check_look_ahead(move, look_ahead)
        if move.gradients and self.name == "host":
            raise TypeError(
                f"{move!r} needs gradients, which the host engine does not have. Write the log-likelihood with "
                "jax.numpy so that it can be compiled, or use EllipticalSlice."
            )
        move.noise_spec(self.posterior.prior, self.prepared(move))

    def check_look_ahead(self, move: Move, look_ahead: int | None) -> None:
        """Refuse to look ahead where it would do nothing."""
        if look_ahead is not None and look_ahead > 1 and move.path is None:
            raise ValueError(
                f"look_ahead={look_ahead} was asked for, but {move!r} is not a single search. Leave it out."
            )


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
    proposals: np.ndarray
    """Angles tried by each update, the paper's count; more than its evaluations if some were ruled out without one."""


class Totals(NamedTuple):
    """Sums over the updates of all chains."""

    updates: Any
    proposals: Any
    nans: Any
    stuck: Any
    highest: Any
    """The largest log-likelihood."""


class Batch(NamedTuple):
    """Draws of all chains together, without the updates between them."""

    first: int
    """Number of the first draw, warm-up left out."""
    f: Any
    """The states, centred and flat: shape (draws or more, chains, size), on the device."""
    log_likelihood: np.ndarray
    """Shape (draws, chains), as the fields of `info` are."""
    info: Info
    totals: Totals
    """Of all updates behind it, also those that left no draw."""
    updates: int
    """How many updates each chain had made before them."""
    before: State
    """The chains' states before them, on the device: where a run can begin."""


class Run(Protocol):
    """Chains under way. The caller alternates `advance` and `take` until `finished`."""

    @property
    def finished(self) -> bool:
        """Whether every chain has made all its updates."""
        ...

    def advance(self) -> None:
        """Work for about a tenth of a second, or for one block."""
        ...

    def extend(self, updates: int) -> None:
        """Let every chain make so many updates, those it has made already included."""
        ...

    def take(self) -> Sequence[Piece | Batch]:
        """The updates completed since the last call, whatever interrupted `advance`."""
        ...

    def close(self) -> None:
        """Release what the run holds."""
        ...
