"""The interface of a move.

Every move has one form, step(noise, state, target) -> (state, info). Moves differ in what they use of it:

- A search along an ellipse (`Search`) is one search along its own `path`. The engine loops, and may compute the angles
  of a block of updates beforehand.
- A search along a line is not valid with the likelihood alone, because the prior changes along it: `Path.log_factor`.
- A Metropolis move has one proposal and no bracket: `target.at(f)` evaluates it, and `metropolis` accepts or rejects.
  A rejection is not a failure, so `search_failed` stays false; `angle` is then 0.
- A move with auxiliary variables (`ControlVariables`) draws them anew, given f, at each update: the state is f alone.
- A move of another library (`Hamiltonian`) takes its randomness from the update's key, `noise.uniforms.key`.
- No move adapts while it runs. It is a value that holds its settings. `ellipslice.tuning` finds settings by separate
  runs and returns a move. So a chain has the same transition from its first update to its last, warm-up only
  discards, and a run can be interrupted anywhere.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from ellipslice.moves.array_ops import where
from ellipslice.moves.local_reach import Reach
from ellipslice.noise import Noise, NoiseSpec, UpdateNoise
from ellipslice.priors import Prior

if TYPE_CHECKING:
    from ellipslice.moves.search import Path


class State(NamedTuple):
    """Where a chain is: the centred flat latent vector, and its log-likelihood so that it is never computed twice."""

    f: Any
    log_likelihood: Any


class Info(NamedTuple):
    """What an update reports."""

    evaluations: Any
    """Proposals tried, each one likelihood evaluation: the paper's count. (The current state's value is cached.)"""
    nan_evaluations: Any
    """How many of them gave NaN. Such a point is never accepted."""
    search_failed: Any
    """True if the search was given up and the state stayed where it was."""
    angle: Any
    """Where on the curve the new state was found, measured from the old one; 0 if the state stayed."""
    more: tuple[Any, ...] = ()
    """The move's own statistics, in the order of `Move.statistics`."""

    @property
    def common(self) -> Info:
        """What a move reports of another one inside it: the statistics that every move has."""
        return self._replace(more=())

    def combine(self, later: Info) -> Info:
        """Return what two updates report, one after the other.

        Counts are summed, `search_failed` is true if one of them is, the angle is the later one's. The moves' own
        statistics are dropped.
        """
        return Info(
            self.evaluations + later.evaluations,
            self.nan_evaluations + later.nan_evaluations,
            where(self.search_failed, True, later.search_failed),
            later.angle,
        )


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

    def search(self, path: Path, noise: Noise, state: State) -> tuple[State, Info]:
        """Run a slice search along a path."""
        ...

    def with_likelihood(self, log_likelihood: Callable[[Any], Any], prepared: Any) -> Target:
        """The same engine with another log-likelihood, for a move inside another."""
        ...


class Move(abc.ABC):
    """One Markov transition that leaves the posterior invariant.

    A subclass is a frozen dataclass of plain settings. All its randomness is in `noise`, so `step` is a deterministic
    function, written with operators and `ellipslice.moves.array_ops` so that both engines can run it.
    """

    searches: int = 1
    """Number of slice searches, or of accept-reject decisions, in one update: each takes a draw from the prior, a level
    and uniforms, unless `noise_spec` says otherwise."""

    statistics: ClassVar[Mapping[str, type]] = MappingProxyType({})
    """Names and types (float, int or bool) of the statistics in `Info.more`.

    In results they are variables of `sample_stats`, after those that every move has. A move inside another one does not
    report them, and a move with a `path` has none: engines run its search themselves."""

    path: Path | None = None
    """The path, if an update is exactly one search on a draw from the prior; else None.

    With a path, engines can compute angles beforehand, look ahead, and run chains in a batch."""

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

    def noise_spec(self, prior: Prior, prepared: Any) -> NoiseSpec:
        """Return what is drawn for each update. Default: one draw from the prior for each of `searches`."""
        # A move that prepares something draws for itself inside a `Cycle`: that is part of what a seed means.
        return NoiseSpec.from_prior(prior, prior.size, self.searches, of_prior=prepared is None)

    @abc.abstractmethod
    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Return the next state and what the update reports. `noise.drawn` is what `noise_spec` draws."""
