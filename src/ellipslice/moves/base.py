"""The interface of a move.

Every move has one form, step(noise, state, target) -> (state, info). Moves differ in the parts that they use:

- A search along an ellipse (`Search`) is one search along its own `path`. The engine runs the loop, and may compute the
  angles of a block of updates beforehand.
- A search along a line must include the prior, whose density changes along it: `Path.log_factor`.
- A Metropolis move has one proposal and no bracket: `target.at(f)` evaluates it, and `metropolis` accepts or rejects.
  A rejection is not a failed search, so `search_failed` is False. `angle` is then 0.
- A move with auxiliary variables (`ControlVariables`) draws them given f in each update, so the state is only f.
- A move of another library (`Hamiltonian`) takes its randomness from the key of the update, `noise.uniforms.key`.

No move adapts while it runs. A move is an immutable value that holds its settings. `ellipslice.tuning` finds settings
by separate runs and returns a move. Therefore a chain has the same transition from its first update to its last,
warm-up only discards updates, and a run can be interrupted anywhere.
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
    """The state of a chain. It holds the log-likelihood, so that this is not computed twice."""

    f: Any
    """The centred flat latent vector, shape (size,)."""
    log_likelihood: Any
    """Log-likelihood at f."""


class Info(NamedTuple):
    """Statistics of one update.

    In the result of `sample`, these are variables of the group `sample_stats`.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> rng = np.random.default_rng(1)
    >>> f, log_l, info = es.step(np.zeros(3), rng.standard_normal(3), es.likelihoods.Poisson([2, 0, 1]), rng=rng)
    >>> info.evaluations, info.search_failed
    (1, False)
    """

    evaluations: Any
    """Number of proposals tried, one evaluation each, as in the paper. The value at the current state is cached."""
    nan_evaluations: Any
    """Number of evaluations that returned NaN. Such a proposal is never accepted."""
    search_failed: Any
    """True if the search ended without an acceptable proposal, so that the state did not change."""
    angle: Any
    """Position of the new state on the curve, relative to the old one: radians on an ellipse. 0 if the state stayed."""
    more: tuple[Any, ...] = ()
    """Statistics that only this move has, in the order of `Move.statistics`."""

    @property
    def common(self) -> Info:
        """The statistics that every move has, without `more`. An outer move reports these of an inner one."""
        return self._replace(more=())

    def combine(self, later: Info) -> Info:
        """Return the statistics of this update followed by a later one.

        Counts are summed, `search_failed` is True if either is, and `angle` is that of the later one. `more` is
        dropped.
        """
        return Info(
            self.evaluations + later.evaluations,
            self.nan_evaluations + later.nan_evaluations,
            where(self.search_failed, True, later.search_failed),
            later.angle,
        )


class Target(Protocol):
    """The posterior, as an engine presents it to a move."""

    prepared: Any
    """The value that `Move.prepare` returned for this prior."""

    def log_likelihood(self, f: Any, /) -> Any:
        """Return the log-likelihood of a centred flat vector."""
        ...

    def at(self, f: Any) -> State:
        """Return a proposal and its log-likelihood, each computed once, so that they are consistent to the last bit."""
        ...

    def search(self, path: Path, noise: Noise, state: State) -> tuple[State, Info]:
        """Run a slice search along a path. Return the new state and the statistics of the search."""
        ...

    def with_likelihood(self, log_likelihood: Callable[[Any], Any], prepared: Any) -> Target:
        """Return a target of this engine with another log-likelihood, for a move inside another."""
        ...


class Move(abc.ABC):
    """Base class of all moves: a Markov transition that leaves the posterior invariant.

    A subclass is a frozen dataclass of settings. It defines `step`, which takes all randomness from `noise` and is
    therefore deterministic. `step` uses operators and `ellipslice.moves.array_ops`, so that all engines can run it.
    """

    searches: int = 1
    """Number of slice searches, or of accept-reject decisions, in one update. Default: 1.

    Each takes a slice level and uniforms and, unless `noise_spec` is overridden, a draw from the prior."""

    statistics: ClassVar[Mapping[str, type]] = MappingProxyType({})
    """Names and types (float, int or bool) of the statistics in `Info.more`. Default: none.

    In results they are variables of `sample_stats`, after those that every move has. A move inside another one does not
    report them. A move with a `path` has none, because engines run its search themselves."""

    path: Path | None = None
    """The path, if an update is exactly one search on a draw from the prior; else None.

    With a path, engines can compute angles beforehand, look ahead, and run chains in a batch."""

    gradients: bool = False
    """True if the move needs gradients of the log-likelihood. It then runs in compiled code only."""

    lock_step: bool = False
    """True if updates are mainly matrix products, so that compiled chains run in groups, one product for each group.

    It requires `gradients`, because no other engine than the compiled one forms groups."""

    elementwise: bool = False
    """True if a step acts on each element separately, except for sums, and has no matrix products.

    This includes what the step does with the result of `prepare`. XLA can then compile the loop as one function."""

    constrained: bool = False
    """True if the move keeps to the constraints of a `TruncatedGaussian`. Only such moves can sample one."""

    def prepare(self, prior: Prior) -> Any:
        """Return a pytree that updates need from the prior; `step` finds it in `target.prepared`. Default: None.

        It is computed once per run. A move that needs a capability of the prior uses it here, so that a prior without
        it raises before the run.
        """
        return None

    def prepare_part(self, prior: Prior) -> Any:
        """Return the result of `prepare` for a move inside another, without the check that it reaches all elements.

        The outer move makes that check, because several moves may reach what one alone cannot.
        """
        return self.prepare(prior)

    def reach(self, prior: Prior, prepared: Any) -> Reach:
        """Return the blocks that an update changes, each given the rest; None if it changes all elements jointly."""
        return None

    def noise_spec(self, prior: Prior, prepared: Any) -> NoiseSpec:
        """Return the random numbers of an update. Default: one draw from the prior for each of `searches`."""
        # Inside a `Cycle`, a move that prepares something has its own array of draws. A seed's draws depend on it.
        return NoiseSpec.from_prior(prior, prior.size, self.searches, of_prior=prepared is None)

    @abc.abstractmethod
    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Return the next state and the statistics of the update. `noise.drawn` has the draws of `noise_spec`."""
