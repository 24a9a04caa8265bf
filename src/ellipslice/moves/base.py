"""What a move is.

Every move has one form, step(noise, state, target) -> (state, info). What they ask of it differs:

- A search along an ellipse (`Search`) says where it looks; the engine loops, and may table the angles of a block.
- A search along a line is not valid with the likelihood alone, for the prior changes along it: `Search.log_factor`.
- A Metropolis move has one proposal and no bracket: `target.at(f)` evaluates it, and `metropolis` judges. A rejection
  is no failure, so `stuck` stays false; `angle` is then 0.
- A move with auxiliary variables (`ControlVariables`) draws them anew, given f, at each update: the state is f alone.
- A move of another library (`Hamiltonian`) takes its randomness from the update's key, `noise.uniforms.key`.
- No move adapts while it runs. It is a value, with its settings in it; what tunes them (`tuning.py`) runs chains of its
  own first and returns a move. So a chain is the same transition from its first update to its last, warm-up only
  discards, and a run can be cut anywhere.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ellipslice.moves.arithmetic import where
from ellipslice.moves.reach import Reach
from ellipslice.noise import Draws, Noise
from ellipslice.priors import Prior

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
    """Where on the curve the new state was found, measured from the old one; 0 if the state stayed."""

    def then(self, later: Info) -> Info:
        """Of two updates, one after the other: counts are summed, `stuck` if one was, the angle of the later."""
        return Info(
            self.evaluations + later.evaluations,
            self.nans + later.nans,
            where(self.stuck, True, later.stuck),
            later.angle,
        )


class Lots(NamedTuple):
    """What is drawn for one update."""

    source: Draws
    """Where nu comes from: the prior, as a rule."""
    draws: int
    """How many draws nu has: the length of its leading axis."""
    parts: int
    """How many levels and lots of uniforms."""


class Target(Protocol):
    """The posterior as an engine shows it to a move."""

    prepared: Any
    """What the move's `prepare` returned for this prior."""

    def log_likelihood(self, f: Any, /) -> Any:
        """Log-likelihood of a centred flat vector."""
        ...

    def at(self, f: Any) -> State:
        """A proposal and its log-likelihood, each computed once, so that they belong together to the last bit."""
        ...

    def search(self, move: Search, noise: Noise, state: State) -> tuple[State, Info]:
        """Run a slice search along the move's curve."""
        ...

    def within(self, log_likelihood: Callable[[Any], Any], prepared: Any) -> Target:
        """The same engine with another log-likelihood, for a move inside another."""
        ...


class Move(abc.ABC):
    """One Markov transition that leaves the posterior invariant.

    A subclass is a frozen dataclass of plain settings. All its randomness is in `noise`, so `step` is a deterministic
    function, written with operators and `ellipslice.moves.arithmetic` so that both engines can run it.
    """

    parts: int = 1
    """How many independent lots of noise one update takes."""

    gradients: bool = False
    """Whether it needs gradients of the likelihood, and so runs in compiled code only."""

    elementwise: bool = False
    """Whether a step, `prepare`'s part in it included, treats values one by one but for sums: no products of matrices.

    Then XLA can make one function of the loop around it."""

    constrained: bool = False
    """Whether it keeps to the constraints of a `TruncatedGaussian`. Others would leave them."""

    def prepare(self, prior: Prior) -> Any:
        """What an update needs to know of the prior, worked out once for each run: a pytree, which `target` hands back.

        A move that only needs draws needs nothing. One that needs more asks for it here, so that a prior which cannot
        is refused before the run.
        """
        return None

    def prepare_part(self, prior: Prior) -> Any:
        """Return what `prepare` returns, for a move inside another: the two together may move what one alone cannot."""
        return self.prepare(prior)

    def reach(self, prior: Prior, prepared: Any) -> Reach:
        """Return the blocks that an update changes, each given the rest; None if it moves all values together."""
        return None

    def lots(self, prior: Prior, prepared: Any) -> Lots:
        """What is drawn for one update: `parts` draws of the prior, and as many levels and uniforms, unless it says."""
        return Lots(prior, self.parts, self.parts)

    @abc.abstractmethod
    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """The next state. The fields of `noise` have a leading axis, as long as `lots` says."""
