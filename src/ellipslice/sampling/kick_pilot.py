"""Pilot run that chooses the number of kicks of `SplitHamiltonian`, and compares it with ellipses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ellipslice.engines.base import Checkpoint, Engine, RunSpec
from ellipslice.engines.rows import collect
from ellipslice.moves import SplitHamiltonian, State
from ellipslice.moves.reference_slice import Reference
from ellipslice.moves.split_hamiltonian import SplitPrepared
from ellipslice.noise import generator

CHAINS = 4
"""Chains of a pilot run: one group in lock step."""

SEARCH_UPDATES = 25
"""Updates of each chain by which numbers of kicks are first compared."""

UPDATES = 100
"""Updates of each chain, in equilibrium, by which neighbouring numbers of kicks are compared."""

KICKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of kicks from which the pilot run chooses."""

ELLIPSE_STATES, ELLIPSE_UPDATES = 100, 4
"""Number of states from which updates along ellipses are made, to measure how far they move; and updates of each."""

MAX_SHRINKS = 100
"""Largest number of proposals of such an update."""


class Trajectories(NamedTuple):
    """Result of a pilot run with one number of kicks."""

    kicks: int
    acceptance: float
    """Mean acceptance probability of a trajectory."""
    moves: float
    """Independent states per update, as far as rejections determine it."""
    f: np.ndarray
    """States of the chains, shape (chains, updates, size)."""

    @property
    def score(self) -> float:
        """Independent states per product with the covariance."""
        return self.moves / (self.kicks + 1)


class KickPilot:
    """Short runs that choose the number of kicks. They use the compiled loop of the main run.

    Parameters
    ----------
    reference : Reference or None
        None: the prior itself.
    prepared : SplitPrepared
        Data of the updates, with any number of kicks.
    engine : Engine
        An engine with gradients.
    starts : sequence of State
        Initial states of `CHAINS` chains.
    seed : int
        Seed of the pilot runs, which must differ from that of the main run.
    """

    def __init__(
        self, reference: Reference | None, prepared: SplitPrepared, engine: Engine, starts: Sequence[State], seed: int
    ):
        self._reference, self._prepared, self._engine, self._seed = reference, prepared, engine, seed
        self._states, self._next_chain = starts, 0

    def tune(self) -> Trajectories:
        """Return the pilot run of the number of kicks with the most independent states per product.

        The first search may start far from equilibrium, so that it is repeated from its result, with longer runs.
        """
        best = self._search(Trajectories(KICKS[0], 0.0, 0.0, np.empty(0)), KICKS, SEARCH_UPDATES)
        best = self.run(best.kicks, UPDATES)
        place = KICKS.index(best.kicks)
        larger = self._search(best, KICKS[place + 1 :], UPDATES)
        return larger if larger.kicks > best.kicks else self._search(best, KICKS[:place][::-1], UPDATES, patient=False)

    def _search(
        self, best: Trajectories, candidates: Sequence[int], updates: int, patient: bool = True
    ) -> Trajectories:
        """Return the best of a pilot run and those with other numbers of kicks.

        The search ends where more kicks could not be better even if every trajectory were accepted. With
        `patient=False` it ends at the first one that is worse.
        """
        for kicks in candidates:
            if best.score > 1.0 / (kicks + 1):
                break
            found = self.run(kicks, updates)
            if not patient and found.score <= best.score:
                break
            best = max(best, found, key=lambda one: one.score)
        return best

    @property
    def states(self) -> Sequence[State]:
        """Current states of the chains."""
        return self._states

    def run(self, kicks: int, updates: int) -> Trajectories:
        """Continue all chains for some updates, with new random numbers."""
        move = SplitHamiltonian(self._reference, kicks)
        self._engine.cache_prepared(move, self._prepared.with_kicks(kicks))
        chains = tuple(range(self._next_chain, self._next_chain + CHAINS))
        self._next_chain += CHAINS
        run = self._engine.run(RunSpec(move, self._seed, chains), [Checkpoint(0, one) for one in self._states], updates)
        found = collect(run, len(chains))
        self._states = [rows[-1].last[0].state for rows in found]
        trajectories = np.arange(updates) % move.plain_every != move.plain_every - 1
        acceptance, angle = (
            np.stack([np.concatenate([part.statistics[name][0] for part in rows]) for rows in found])[:, trajectories]
            for name in ("acceptance", "angle")
        )
        mean = float(acceptance.mean())
        moves = min(mean / (2.0 - mean), moves_from_rejections(angle != 0.0))
        f = np.stack([np.concatenate([part.f[0] for part in rows]) for rows in found])
        return Trajectories(kicks, mean, moves, f)


def moves_from_rejections(accepted: np.ndarray) -> float:
    """Return the number of independent states per update, if every accepted proposal is an independent state.

    If a chain stays h updates at each state, it is sum(h) / sum(h^2). This accounts for states that a chain rarely
    leaves, which the mean acceptance rate does not.

    Parameters
    ----------
    accepted : array of bool, shape (chains, updates)
    """
    total = squares = 0
    for row in accepted:
        stays = np.diff(np.concatenate([[0], np.flatnonzero(row), [len(row)]]))
        total, squares = total + int(stays.sum()), squares + int((stays**2).sum())
    return total / squares


def independent_states(jumps: np.ndarray, variance: np.ndarray) -> float:
    """Return the number of independent states per update of the slowest element, from the mean squared jumps.

    The lag-1 autocorrelation of an element is r = 1 - jump / (2 variance). If it decays geometrically, there are
    (1 - r) / (1 + r) independent states per update.
    """
    varies = variance > 0
    if not varies.any():
        return 0.0
    step = np.minimum(jumps[varies] / (2.0 * variance[varies]), 1.0)  # a larger one is not better than independence
    return float((step / (2.0 - step)).min())


def trajectory_mixing(found: Trajectories) -> float:
    """Return the number of independent states per update of the slowest element, if the move is a trajectory."""
    f = found.f
    return min(found.moves, independent_states((np.diff(f, axis=1) ** 2).mean((0, 1)), f.var((0, 1))))


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def ellipse_mixing(found: Trajectories, relative: Any, engine: Engine, seed: int) -> float:
    """Return the number of independent states per update of the slowest element, if the move is an ellipse.

    The ellipses are those of the reference. They begin at some of the states that trajectories reached.
    """
    states = found.f.reshape(-1, found.f.shape[-1])
    variance = states.var(0)
    varies = variance > 0
    if not varies.any():
        return 0.0
    starts = states[:: max(1, len(states) // ELLIPSE_STATES)] - np.asarray(relative.centre)
    x = np.repeat(starts, ELLIPSE_UPDATES, axis=0)
    squares = (ellipse_updates(x, relative, engine, seed) - x) ** 2
    # The harmonic mean over states accounts for those from which ellipses hardly move, which the mean does not.
    moved = (squares[:, varies] / (2.0 * variance[varies])).mean(1).reshape(len(starts), ELLIPSE_UPDATES).mean(1)
    typical = min(1.0, float(1.0 / np.mean(1.0 / np.maximum(moved, np.finfo(float).tiny))))
    return min(typical / (2.0 - typical), independent_states(squares.mean(0), variance))


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def ellipse_updates(x: np.ndarray, relative: Any, engine: Engine, seed: int) -> np.ndarray:
    """Return the states after one update along an ellipse of the reference from each state centre + x."""
    rng = generator(seed, 0)
    nu = np.asarray(relative.draw(rng, len(x)))
    level = log_weights(relative, engine, x) + np.log(rng.uniform(size=len(x)))
    angle = rng.uniform(0.0, 2.0 * np.pi, len(x))
    lower, upper = angle - 2.0 * np.pi, angle.copy()
    open_ = np.arange(len(x))
    new = x.copy()
    for _ in range(MAX_SHRINKS):
        proposed = x[open_] * np.cos(angle[open_])[:, None] + nu[open_] * np.sin(angle[open_])[:, None]
        accepted = log_weights(relative, engine, proposed) > level[open_]
        new[open_[accepted]] = proposed[accepted]
        open_ = open_[~accepted]
        if not len(open_):
            break
        below = angle[open_] < 0.0
        lower[open_[below]], upper[open_[~below]] = angle[open_[below]], angle[open_[~below]]
        angle[open_] = rng.uniform(lower[open_], upper[open_])
    return new


@np.errstate(invalid="ignore")
def log_weights(relative: Any, engine: Engine, x: np.ndarray) -> np.ndarray:
    """Return log(posterior / reference) at the states centre + x, up to a constant. It is -inf where it is NaN."""
    values = np.array(engine.evaluate_all(list(x + np.asarray(relative.centre))))
    ratios = [float(relative.log_ratio(one)) for one in x]
    return np.nan_to_num(values - ratios, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
