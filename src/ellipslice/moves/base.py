"""What a move is."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ellipslice.noise import Noise

if TYPE_CHECKING:
    from ellipslice.moves.search import Search


class State(NamedTuple):
    """Where a chain is: the centred flat latent vector, and its log-likelihood so that it is never computed twice."""

    f: Any
    log_likelihood: Any


class Info(NamedTuple):
    """What an update reports."""

    evaluations: Any
    """Proposals tried, each one likelihood evaluation: the paper's count. (The current state's value is cached.)"""
    nans: Any
    """How many of them gave NaN. Such a point is never accepted."""
    stuck: Any
    """True if the search was given up and the state stayed where it was."""
    angle: Any
    """Where on the curve the new state was found, measured from the old one."""


class Target(Protocol):
    """The posterior as an engine shows it to a move."""

    def log_likelihood(self, f: Any, /) -> Any:
        """Log-likelihood of a centred flat vector."""
        ...

    def search(self, move: Search, noise: Noise, state: State) -> tuple[State, Info]:
        """Run a slice search along the move's curve."""
        ...


class Move(abc.ABC):
    """One Markov transition that leaves the posterior invariant.

    A subclass is a frozen dataclass of plain settings. All its randomness is in `noise`, so `step` is a deterministic
    function, written with operators and `ellipslice.moves.arithmetic` so that both engines can run it.
    """

    parts: int = 1
    """How many independent lots of noise one update takes."""

    @abc.abstractmethod
    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """The next state. The fields of `noise` have a leading axis of length `parts`."""
