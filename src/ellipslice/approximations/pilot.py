"""A reference from a pilot run: for black boxes, whose gradients nobody knows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.engines.base import Checkpoint, Engine, RunSpec
from ellipslice.engines.rows import Rows
from ellipslice.moves import EllipticalSlice, Move, State
from ellipslice.moves.reference_slice import ReferenceSlice
from ellipslice.priors import Dense

CHAINS, UPDATES, ROUNDS = 4, 1000, 8
"""Of a round; the second half of its states is used. Each round but the first runs around what the one before found."""

WIDER = 1.2
"""Times the variances: too wide is better than too narrow."""


def pilot(engine: Engine, rows: np.ndarray, starts: Sequence[State], seed: int) -> WhiteGaussian:
    """A Gaussian with the mean and, as far as they can be told, the variances and covariances of short chains.

    In the coordinates z where the prior is white, so that what the chains have not seen is as in the prior: their
    covariance is shrunk towards the identity by as much as its own noise (Ledoit & Wolf 2004).

    Parameters
    ----------
    engine : Engine
    rows : array, shape (rank, size)
        The prior's covariance is rows.T @ rows.
    starts : states, one for each of `CHAINS` chains
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
        reference = WhiteGaussian(z.mean(axis=0), _shrunk(z))
        move = ReferenceSlice(reference, plain_every=5)
    assert reference is not None  # noqa: S101  there is a round
    return reference


def _run(engine: Engine, spec: RunSpec, starts: Sequence[State]) -> list[list[Rows]]:
    """Return the rows of each chain. Their states are on the host, because no engine for a GPU comes here."""
    run = engine.run(spec, [Checkpoint(0, state) for state in starts], UPDATES)
    found: list[list[Rows]] = [[] for _ in starts]
    try:
        while not run.finished:
            run.advance()
            for rows in run.take():
                own = found[rows.chains.start]
                own.append(rows.since(own[-1].first + own[-1].draws if own else 0))
    finally:
        run.close()
    return found


def _shrunk(z: np.ndarray) -> np.ndarray:
    """The covariance of states z, shrunk towards the identity; their number is taken for a tenth, as they are alike."""
    count, size = z.shape
    around = z - z.mean(axis=0)
    covariance = around.T @ around / count
    distance = float(np.sum((covariance - np.eye(size)) ** 2))
    noise = float(np.mean(np.sum(around**2, axis=1) ** 2) - np.sum(covariance**2)) / (count / 10)
    share = min(1.0, noise / distance) if distance > 0 else 1.0
    return (1 - share) * WIDER * covariance + share * np.eye(size)
