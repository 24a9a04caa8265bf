"""The interface of engines: a request for a run goes in, rows of draws come out."""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ellipslice.moves import Move, State
from ellipslice.posterior import Posterior

if TYPE_CHECKING:
    from ellipslice.engines.rows import Rows


@dataclass(frozen=True)
class RunSpec:
    """What determines the draws of a run, besides the posterior and the states in which its chains start."""

    move: Move
    seed: int
    chains: tuple[int, ...]
    """Numbers of the chains. With the seed they determine the random numbers."""
    warmup: int = 0
    """Number of updates at the start that leave no draw."""
    thin: int = 1
    """Every `thin`-th update after warm-up leaves a draw."""
    look_ahead: int | None = None
    """Number of proposals evaluated in parallel. Default: the engine's choice. It does not change the draws."""
    precision: str = "double"
    """"double" or "single"."""

    def updates(self, draws: int) -> int:
        """Return the number of updates that give a chain so many draws."""
        return self.warmup + draws * self.thin


class Counts(NamedTuple):
    """Sums over updates."""

    updates: int = 0
    evaluations: int = 0
    proposals: int = 0
    nan_evaluations: int = 0
    failed_searches: int = 0
    first_accepted: int = 0
    """Number of updates that accepted their first proposal."""

    def plus(self, more: Sequence[int]) -> Counts:
        """Return the sums with `more` added to each."""
        return Counts(*(int(a) + int(b) for a, b in zip(self, more, strict=True)))


class Checkpoint(NamedTuple):
    """A point from which a chain can continue: its state after some updates, and the sums over them."""

    updates: int
    """Number of updates that led to the state."""
    state: State
    """Centred and flat."""
    counts: Counts = Counts()
    """Sums over these updates. Of chains that run together the first has the sums of all."""


class Engine(abc.ABC):
    """A posterior, and a way to run chains on it."""

    name: str
    traced: bool
    """Whether JAX traces the log-likelihood. Then there are gradients, and an evaluation is compiled code."""
    dtype: Any = np.dtype(np.float64)
    """Type of the numbers of a state."""

    def __init__(self, posterior: Posterior):
        self.posterior = posterior
        self._prepared: tuple[Move, Any] | None = None

    def prepared(self, move: Move) -> Any:
        """Return what the move prepares for the prior. It is kept for the next run of the same move."""
        if self._prepared is None or self._prepared[0] is not move:
            self._prepared = move, move.prepare(self.posterior.prior)
        return self._prepared[1]

    def cache_prepared(self, move: Move, prepared: Any) -> None:
        """Take what the move would prepare for the prior, where it is known already."""
        self._prepared = move, prepared

    @abc.abstractmethod
    def evaluate(self, f: np.ndarray) -> float:
        """Return the log-likelihood of one centred flat vector."""

    def evaluate_all(self, points: Sequence[np.ndarray]) -> list[float]:
        """Return the log-likelihoods of several centred flat vectors, bit-identical to those of `evaluate`."""
        return [self.evaluate(f) for f in points]

    def evaluate_together(self, points: np.ndarray) -> np.ndarray:
        """Return the log-likelihoods of centred flat vectors, shape (count, size), up to rounding error."""
        return np.array(self.evaluate_all(list(points)))

    @property
    def identity(self) -> Hashable:
        """A key that is equal for equal log-likelihoods, data included; None if this cannot be known."""
        return None

    def first_points(self, seed: int, chains: Sequence[int]) -> list[np.ndarray] | None:
        """Return a prior draw for each chain to start from, if the engine makes them itself; else None."""
        return None

    def check(self, spec: RunSpec, by_workers: bool = False) -> None:
        """Raise if this engine cannot make a run. The move is prepared for that, and `run` does not prepare it again.

        `by_workers` says that the workers of an executor evaluate the proposals.
        """
        move = spec.move
        if spec.look_ahead is not None and spec.look_ahead > 1 and move.path is None:
            raise ValueError(
                f"look_ahead={spec.look_ahead} was asked for, but {move!r} is not a single search. Leave it out."
            )
        if move.gradients and not self.traced:
            raise TypeError(
                f"{move!r} needs gradients, which the {self.name} engine does not have. Write the log-likelihood with "
                "jax.numpy so that it can be compiled, or use EllipticalSlice."
            )
        move.noise_spec(self.posterior.prior, self.prepared(move))

    @abc.abstractmethod
    def run(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> Run:
        """Return a run before its first update.

        Parameters
        ----------
        spec : RunSpec
        starts : sequence of Checkpoint
            Where each chain begins. A chain that continues from a checkpoint (`Rows.resume`) is bit-identical to one
            that never stopped.
        updates : int
            Number of updates that each chain makes, including those before its checkpoint.
        """

    def divisible_chains(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> Sequence[Any] | None:
        """Return chains whose proposals others can evaluate, as `HostChain`s; None if the engine has no such chains."""
        return None

    @property
    def read_only(self) -> bool:
        """Whether the log-likelihood is given read-only arrays."""
        return False

    def recipe(self) -> Callable[[], Engine]:
        """Return a function that makes the same engine in another process. It can be pickled if the posterior can."""
        return partial(type(self), self.posterior)


class Run(Protocol):
    """Chains in progress. The caller alternates `advance` and `take` until `finished`."""

    @property
    def finished(self) -> bool:
        """Whether every chain has made all its updates."""
        ...

    def advance(self) -> None:
        """Work for about a tenth of a second, or for one block."""
        ...

    def extend(self, updates: int) -> None:
        """Let every chain make so many updates, including those that it has made already."""
        ...

    def take(self) -> list[Rows]:
        """Return the rows completed since the last call, even if `advance` was interrupted."""
        ...

    def close(self) -> None:
        """Release what the run holds."""
        ...
