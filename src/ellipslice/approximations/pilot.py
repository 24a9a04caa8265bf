"""Fit a reference Gaussian to pilot runs, for black-box log-likelihoods without gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.engines.base import Checkpoint, Engine, RunSpec
from ellipslice.engines.rows import Rows, collect
from ellipslice.moves import EllipticalSlice, Move, State
from ellipslice.moves.reference_slice import ReferenceSlice
from ellipslice.priors import Dense

CHAINS, UPDATES, ROUNDS = 4, 1000, 8
"""Chains and updates of a round, and number of rounds.

The second half of the states is used. Each round after the first samples around the Gaussian of the one before."""

VARIANCE_INFLATION = 1.2
"""Factor of the estimated covariance, because a reference that is too narrow is worse than one that is too wide."""


def fit_pilot(engine: Engine, rows: np.ndarray, starts: Sequence[State], seed: int) -> WhiteGaussian:
    """Return a Gaussian with the mean and a shrunk covariance of the states of short chains.

    It is fitted in whitened coordinates z, in which the prior is N(0, I). The covariance is shrunk towards the identity
    by an amount that depends on its estimation error (Ledoit & Wolf 2004), so directions with little information stay
    as in the prior.

    Parameters
    ----------
    engine : Engine
        Engine that runs the chains.
    rows : array, shape (rank, size)
        The prior's covariance is rows.T @ rows.
    starts : sequence of State
        Initial states, one for each of `CHAINS` chains.
    seed : int
    """
    move: Move = EllipticalSlice()
    white, reference = Dense(factor=rows.T), None
    for number in range(ROUNDS):
        chains = range(CHAINS * number, CHAINS * (number + 1))
        made = _run(engine, RunSpec(move, seed, tuple(chains)), starts)
        starts = [rows[-1].last[0].state for rows in made]
        f = np.concatenate([np.concatenate([one.f[0] for one in rows])[UPDATES // 2 :] for rows in made])
        z = np.asarray(white.whiten(f))
        reference = WhiteGaussian(z.mean(axis=0), _shrunk_covariance(z))
        move = ReferenceSlice(reference, plain_every=5)
    assert reference is not None  # noqa: S101  ROUNDS is positive
    return reference


def _run(engine: Engine, spec: RunSpec, starts: Sequence[State]) -> list[list[Rows]]:
    """Return the rows of each chain. Their states are on the host, because device engines make no pilot runs."""
    return collect(engine.run(spec, [Checkpoint(0, state) for state in starts], UPDATES), len(starts))


def _shrunk_covariance(z: np.ndarray) -> np.ndarray:
    """Return the covariance of states z, shrunk towards the identity.

    The number of independent states is taken as a tenth of their number, because successive states are autocorrelated.
    """
    count, size = z.shape
    centred = z - z.mean(axis=0)
    covariance = centred.T @ centred / count
    distance = float(np.sum((covariance - np.eye(size)) ** 2))
    noise = float(np.mean(np.sum(centred**2, axis=1) ** 2) - np.sum(covariance**2)) / (count / 10)
    weight = min(1.0, noise / distance) if distance > 0 else 1.0
    return (1 - weight) * VARIANCE_INFLATION * covariance + weight * np.eye(size)
