"""Choose the move of a run with `reference=`: independent draws, ellipses, or rotations with kicks.

All three sample the same posterior. Independent draws are best if the reference is nearly the posterior, ellipses if it
is a good approximation, and rotations with kicks otherwise. The choice uses numbers of updates and never a clock, so
that it depends on the seed alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ellipslice.engines.base import Checkpoint, Engine, RunSpec
from ellipslice.moves import Move, ReferenceSlice, SplitHamiltonian, State
from ellipslice.moves.reference_slice import Reference, RelativeReference
from ellipslice.moves.split_hamiltonian import SplitPrepared
from ellipslice.noise import generator
from ellipslice.sampling.initial_states import reference_starts

MIN_INDEPENDENCE_ACCEPTANCE = 0.75
"""Acceptance rate of independent draws from the reference above which most updates propose them."""

GOOD_ELLIPSES = 0.5
"""Probability that an ellipse accepts its first proposal above which no pilot run is made."""

DRAWS = 100
"""Number of draws from the reference by which both probabilities are estimated."""

CHAINS = 4
"""Chains of a pilot run: one group in lock step."""

PILOT_UPDATES = 25
"""Updates of a chain by which the acceptance rate of a number of kicks is estimated."""

SETTLING_UPDATES = 100
"""Updates of a chain before the number of kicks is chosen again, in equilibrium."""

KICKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of kicks from which the pilot run chooses."""

KICK_COST = 1.25
"""Cost of a kick of a trajectory, relative to a whole update along an ellipse. Measured with four chains on a CPU."""

TRAJECTORY_EFFICIENCY = 0.5
"""Effective samples per accepted trajectory, of the worst element of f. Measured."""


class ChosenMove(NamedTuple):
    """A move, the result of its `prepare`, and the reason for its choice in one sentence."""

    move: Move
    prepared: Any
    reason: str


def choose_reference_move(
    reference: Reference, relative: RelativeReference, engine: Engine, seed: int, why_no_kicks: str | None
) -> ChosenMove:
    """Return the move around a fitted reference.

    Parameters
    ----------
    reference : Reference
    relative : RelativeReference
        The reference relative to the prior.
    engine : Engine
        Engine that evaluates the log-likelihood, and makes the pilot run.
    seed : int
        Seed of the pilot run.
    why_no_kicks : str or None
        Reason not to use trajectories with kicks. None: they are used if there are gradients and a pilot run shows that
        they are better.
    """
    draws = WeightedDraws(relative, engine, seed)
    independence = draws.independence_acceptance()
    if independence > MIN_INDEPENDENCE_ACCEPTANCE:
        reason = f"independent draws: {independence:.0%} of the draws from the reference would be accepted"
        return ChosenMove(ReferenceSlice(reference, independence=True), relative, reason)
    ellipses = ReferenceSlice(reference)
    why_no_kicks = why_no_kicks or engine.why_no_gradient()
    if why_no_kicks is not None:
        return ChosenMove(ellipses, relative, f"ellipses, because {why_no_kicks}")
    first = draws.ellipse_acceptance()
    if first > GOOD_ELLIPSES:
        return ChosenMove(ellipses, relative, f"ellipses: they accept about {first:.0%} of their first proposals")
    pilot = Pilot(reference, relative, engine, seed)
    tuned = pilot.tune()
    first = pilot.ellipse_acceptance()
    # The effective samples of ellipses per update are about the square of the probability, from 0.05 to 0.65.
    if first**2 >= TRAJECTORY_EFFICIENCY * tuned.moves / (KICK_COST * tuned.kicks):
        reason = (
            f"ellipses: they accept about {first:.0%} of their first proposals, trajectories with {tuned.kicks} kicks "
            f"{tuned.acceptance:.0%}"
        )
        return ChosenMove(ellipses, relative, reason)
    move = SplitHamiltonian(reference, tuned.kicks)
    reason = (
        f"trajectories with {tuned.kicks} kicks: about {tuned.acceptance:.0%} are accepted, and ellipses would accept "
        f"{first:.0%} of their first proposals"
    )
    return ChosenMove(move, pilot.prepared.with_kicks(tuned.kicks), reason)


class WeightedDraws:
    """Draws from a reference with weights posterior / reference, which represent a chain in equilibrium."""

    def __init__(self, relative: RelativeReference, engine: Engine, seed: int):
        self._relative, self._engine, self._seed = relative, engine, seed
        self._x = relative.draw(np.random.default_rng(seed), DRAWS)
        self._log_w = log_weights(relative, engine, self._x)

    @np.errstate(over="ignore", under="ignore")  # a weight that underflows is 0, and a ratio above 1 counts as 1
    def independence_acceptance(self) -> float:
        """Estimate the acceptance rate of independent draws. One of weight w' is accepted with probability w' / w."""
        if not np.isfinite(self._log_w).any():
            return 0.0
        w = self._weights()
        ratio = np.minimum(1.0, w / np.where(w > 0, w, 1.0)[:, None])
        return float(w @ ratio.mean(axis=1) / w.sum())

    def ellipse_acceptance(self) -> float:
        """Estimate the probability that the first proposal on an ellipse is accepted."""
        if not np.isfinite(self._log_w).any():
            return 0.0
        found = first_proposals(self._relative, self._engine, self._x, self._log_w, generator(self._seed, 0))
        return float(np.average(found, weights=self._weights()))

    def _weights(self) -> np.ndarray:
        return np.exp(self._log_w - self._log_w.max())


def log_weights(relative: RelativeReference, engine: Engine, x: np.ndarray) -> np.ndarray:
    """Return log(posterior / reference) at the states centre + x, up to a constant. It is -inf where it is NaN."""
    values = np.array(engine.evaluate_all(list(x + relative.centre)))
    ratios = [relative.log_ratio_on_ellipse(one, 0 * one)(1.0, 0.0) for one in x]
    return np.nan_to_num(values - ratios, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def first_proposals(
    relative: RelativeReference, engine: Engine, x: np.ndarray, log_w: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the probability that the first proposal on an ellipse through each state is accepted."""
    angle = rng.uniform(0.0, 2.0 * np.pi, (len(x), 1))
    proposed = x * np.cos(angle) + relative.draw(rng, len(x)) * np.sin(angle)
    change = log_weights(relative, engine, proposed) - log_w
    return np.where(np.isfinite(log_w), np.minimum(1.0, np.exp(change)), 1.0)


class Tuned(NamedTuple):
    """A number of kicks and the acceptance rate of its trajectories."""

    kicks: int
    acceptance: float

    @property
    def moves(self) -> float:
        """Effective samples per update of a chain that moves to an independent state with this acceptance rate."""
        return self.acceptance / (2.0 - self.acceptance)

    @property
    def score(self) -> float:
        """Effective samples per product with the covariance."""
        return self.moves / (self.kicks + 1)


class Pilot:
    """Short runs that choose the number of kicks. They use the compiled loop of the main run.

    Parameters
    ----------
    reference : Reference
    relative : RelativeReference
    engine : Engine
        An engine with gradients.
    seed : int
        Seed of the pilot runs, which must differ from that of the main run.
    """

    def __init__(self, reference: Reference, relative: RelativeReference, engine: Engine, seed: int):
        self._reference, self._relative, self._engine, self._seed = reference, relative, engine, seed
        self.prepared = SplitPrepared.around(relative, KICKS[0])
        self._states: Sequence[State] = reference_starts(engine, relative, seed, range(CHAINS))
        self._chain, self._x = 0, np.zeros((0, engine.posterior.prior.size))

    def tune(self) -> Tuned:
        """Return the number of kicks with the most effective samples per product."""
        best = Tuned(KICKS[0], 0.0)
        for kicks in KICKS:
            if best.score > 1.0 / (kicks + 1):
                break  # even if every trajectory were accepted
            best = max(best, self._run(kicks, PILOT_UPDATES), key=lambda tuned: tuned.score)
        self._run(best.kicks, SETTLING_UPDATES)
        place = KICKS.index(best.kicks)
        around = KICKS[max(0, place - 1) : place + 2]
        return max((self._run(kicks, PILOT_UPDATES) for kicks in around), key=lambda tuned: tuned.score)

    def ellipse_acceptance(self) -> float:
        """Estimate the probability that the first proposal on an ellipse is accepted, at the states of the last run."""
        log_w = log_weights(self._relative, self._engine, self._x)
        return float(first_proposals(self._relative, self._engine, self._x, log_w, generator(self._seed, 0)).mean())

    def _run(self, kicks: int, updates: int) -> Tuned:
        """Continue all chains for some updates, with new random numbers."""
        move = SplitHamiltonian(self._reference, kicks)
        self._engine.cache_prepared(move, self.prepared.with_kicks(kicks))
        chains = tuple(range(self._chain, self._chain + CHAINS))
        self._chain += CHAINS
        run = self._engine.run(RunSpec(move, self._seed, chains), [Checkpoint(0, one) for one in self._states], updates)
        found: list[list[Any]] = [[] for _ in chains]
        try:
            while not run.finished:
                run.advance()
                for rows in run.take():
                    found[rows.chains.start].append(rows)
        finally:
            run.close()
        self._states = [rows[-1].last[0].state for rows in found]
        f = np.concatenate([part.f[0] for rows in found for part in rows])
        self._x = f - np.asarray(self._relative.centre)
        acceptance = [np.concatenate([part.statistics["acceptance"][0] for part in rows]) for rows in found]
        trajectories = np.arange(updates) % move.plain_every != move.plain_every - 1
        return Tuned(kicks, float(np.mean([values[trajectories] for values in acceptance])))
