"""The interface of engines: `Engine.run` takes the specification of a run, and the `Run` returns rows of draws."""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Mapping, Sequence
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
    """Everything that determines the draws of a run, except the posterior and the initial states of the chains."""

    move: Move
    seed: int
    chains: tuple[int, ...]
    """Indices of the chains. The random numbers of a chain depend on the seed and its index."""
    warmup: int = 0
    """Number of updates that are discarded at the start. Default: 0."""
    thin: int = 1
    """Every `thin`-th update after warm-up is kept as a draw. Default: 1."""
    look_ahead: int | None = None
    """Number of proposals evaluated in parallel. Default: None, the engine's choice. It does not change the draws."""
    precision: str = "double"
    """"double" or "single". Default: "double"."""

    def updates(self, draws: int) -> int:
        """Return the number of updates that a chain needs for `draws` draws, including warm-up."""
        return self.warmup + draws * self.thin


class Counts(NamedTuple):
    """Statistics summed over updates."""

    updates: int = 0
    evaluations: int = 0
    proposals: int = 0
    nan_evaluations: int = 0
    failed_searches: int = 0
    first_accepted: int = 0
    """Number of updates that accepted their first proposal."""

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        """Return the sums over the updates of both, field by field; other tuples would be concatenated."""
        return Counts(*(int(a) + int(b) for a, b in zip(self, other, strict=True)))


class Checkpoint(NamedTuple):
    """A point from which a chain can continue: its state after `updates` updates, and the sums over them."""

    updates: int
    """Number of updates before this point."""
    state: State
    """State after these updates, centred and flat."""
    counts: Counts = Counts()
    """Sums over these updates. If chains run as one batch, the first chain has the sums of all chains."""


class Engine(abc.ABC):
    """Code that runs chains on one posterior."""

    name: str
    traced: bool
    """True if JAX traces the log-likelihood: evaluations are then compiled, and gradients are available."""
    dtype: Any = np.dtype(np.float64)
    """NumPy type of the elements of a state."""
    of_block: Callable[[Any], Mapping[str, Any] | None] | None = None
    """Function of the states of a block, shape (rows, chains, size), which a device computes after each block."""

    def __init__(self, posterior: Posterior):
        self.posterior = posterior
        self._prepared: tuple[Move, Any] | None = None

    def prepared(self, move: Move) -> Any:
        """Return the result of `move.prepare` for the prior. It is cached for the next run of the same move."""
        if self._prepared is None or self._prepared[0] is not move:
            self._prepared = move, move.prepare(self.posterior.prior)
        return self._prepared[1]

    def cache_prepared(self, move: Move, prepared: Any) -> None:
        """Set the cached result of `move.prepare` for the prior, where it has been computed already."""
        self._prepared = move, prepared

    @abc.abstractmethod
    def evaluate(self, f: np.ndarray) -> float:
        """Return the log-likelihood of one centred flat vector."""

    def evaluate_all(self, points: Sequence[np.ndarray]) -> list[float]:
        """Return the log-likelihoods of several centred flat vectors, bit-identical to `evaluate` of each."""
        return [self.evaluate(f) for f in points]

    def evaluate_together(self, points: np.ndarray) -> np.ndarray:
        """Return the log-likelihoods of centred flat vectors, shape (count, size), in one batch where possible.

        The values equal those of `evaluate` up to rounding error.
        """
        return np.array(self.evaluate_all(list(points)))

    def value_and_gradient(self, f: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-likelihood and its gradient at one centred flat vector. Only if `why_no_gradient` is None."""
        raise NotImplementedError(f"the {self.name} engine has no gradients")

    def why_no_gradient(self) -> str | None:
        """Return why this engine has no gradients of the log-likelihood; None if it has."""
        return "the log-likelihood is not compiled"

    @property
    def likelihood_key(self) -> Hashable:
        """Key that is equal for equal log-likelihoods, including their data. None if there is no such key."""
        return None

    def first_points(self, seed: int, chains: Sequence[int]) -> list[np.ndarray] | None:
        """Return a prior draw for each chain to start from, or None if the engine does not draw them itself."""
        return None

    def check(self, spec: RunSpec, by_workers: bool = False) -> None:
        """Raise if this engine cannot run `spec`. The move is prepared here, and `run` uses the cached result.

        `by_workers` is true if the workers of an executor evaluate the proposals.
        """
        move = spec.move
        if spec.look_ahead is not None and spec.look_ahead > 1 and move.path is None:
            raise ValueError(
                f"look_ahead={spec.look_ahead} was given, but an update of {move!r} is not a single search, "
                "which look_ahead requires. Leave look_ahead out."
            )
        if move.gradients and not self.traced:
            raise TypeError(
                f"{move!r} needs gradients, which the {self.name} engine does not provide. Write the log-likelihood "
                "with jax.numpy so that it can be compiled, or use EllipticalSlice."
            )
        move.noise_spec(self.posterior.prior, self.prepared(move))

    @abc.abstractmethod
    def run(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> Run:
        """Return a new `Run`, which has not made any update yet.

        Parameters
        ----------
        spec : RunSpec
        starts : sequence of Checkpoint
            Checkpoint from which each chain starts. A chain that continues from `Rows.resume` is bit-identical to one
            that was never interrupted.
        updates : int
            Total number of updates of each chain, including those before its checkpoint.
        """

    def divisible_chains(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> Sequence[Any] | None:
        """Return a `HostChain` for each chain, so that workers can evaluate its proposals; None if impossible."""
        return None

    @property
    def read_only(self) -> bool:
        """True if the log-likelihood is called with read-only arrays."""
        return False

    def recipe(self) -> Callable[[], Engine]:
        """Return a function that makes this engine again in another process. It can be pickled if the posterior can."""
        return partial(type(self), self.posterior)


class Run(Protocol):
    """Chains in progress. The caller alternates `advance` and `take` until `finished` is true."""

    @property
    def finished(self) -> bool:
        """True if every chain has made all its updates."""
        ...

    def advance(self) -> None:
        """Make updates for about a tenth of a second, or for one block of updates."""
        ...

    def extend(self, updates: int) -> None:
        """Set the total number of updates of every chain, including those that it has made already."""
        ...

    def take(self) -> list[Rows]:
        """Return the rows completed since the last call. It works even after `advance` was interrupted."""
        ...

    def close(self) -> None:
        """Release the threads, workers and memory of the run."""
        ...
