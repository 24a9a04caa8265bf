"""Run engines directly, without `sample`, and read the rows of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ellipslice.engines.base import Checkpoint, Engine, Run, RunSpec
from ellipslice.engines.rows import Rows
from ellipslice.moves import Move, State


def begin(
    engine: Engine, move: Move, seed: int, chains: Iterable[int], states: Iterable[State], updates: int, **options: Any
) -> Run:
    """Return a run before its first update."""
    starts = [Checkpoint(0, state) for state in states]
    return engine.run(RunSpec(move, seed, tuple(chains), **options), starts, updates)


def finish(run: Run) -> list[Rows]:
    """Advance a run until it is finished, and return its rows. The run is not closed."""
    rows: list[Rows] = []
    while not run.finished:
        run.advance()
        rows += run.take()
    return rows


def columns(rows: list[Rows], chain: int = 0) -> dict[str, np.ndarray]:
    """Return the states `f` and all statistics of one chain, given by its position in the run."""
    own = [each for each in rows if each.chains.start == chain]
    f = np.concatenate([np.asarray(each.f)[0] for each in own])
    return {"f": f} | {name: np.concatenate([each.statistics[name][0] for each in own]) for name in own[0].statistics}
