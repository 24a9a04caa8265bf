"""Chains farmed out to the workers of an executor: each chain in stretches, or the proposals of a few slow ones.

Randomness is drawn before it is used, so neither changes a bit of a chain.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ellipslice.engines.base import Engine, Piece
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.host.engine import HostEngine, HostRun
from ellipslice.engines.host.search import HostChain, Judge
from ellipslice.engines.workers.pool import Errand, Workers
from ellipslice.engines.workers.remote import Job
from ellipslice.moves import Info, Move, State

STRETCH = 1.0
"""Seconds of a worker's time that an errand takes: what is lost with a worker, and how often others are heard."""

TURN = 0.1
"""Seconds between two looks at Ctrl-C and the clock."""

SHARES = 8
"""Pieces for each worker that many evaluations are sent in: some points take longer than others."""

SLOW = 0.02
"""Seconds an evaluation takes if it is worth sending out by itself."""


class FarmedEngine(Engine):
    """Another engine, with its work done by an executor's workers.

    Parameters
    ----------
    engine : HostEngine or CompiledEngine
    workers : Workers
    move : Move
    f : array
        A centred flat point to try them at.
    """

    def __init__(self, engine: Engine, workers: Workers, move: Move, f: np.ndarray):
        super().__init__(engine.posterior)
        self.name, self._engine, self._workers = engine.name, engine, workers
        self._job = Job(engine, move)
        self._seconds = self._try_out(f)

    def evaluate(self, f: np.ndarray) -> float:
        return self._engine.evaluate(f)

    def evaluate_all(self, points: Sequence[np.ndarray]) -> list[float]:
        pieces = min(len(points), SHARES * (self._workers.count or 1))
        errands = [self._workers.send(self._job, "evaluate_all", some) for some in np.array_split(points, pieces)]
        return [value for values in self._workers.answers(errands) for value in values]

    def run(
        self,
        move: Move,
        seed: int,
        chains: Sequence[int],
        starts: Sequence[State],
        updates: int,
        look_ahead: int | None = None,
        warmup: int = 0,
        thin: int = 1,
        done: Sequence[int] | None = None,
    ) -> Any:
        if move is not self._job.move:
            self._job = Job(self._engine, move)
        made = done or [0] * len(chains)
        ahead = look_ahead or self._ahead(len(chains))
        if isinstance(self._engine, HostEngine) and move.path is not None and ahead > 1:
            return _Ahead(
                self._engine.chains(move, seed, chains, starts, updates, made), self._workers, self._job, ahead
            )
        # Tangent planes remember a gradient, which is the same only if the update before is made again.
        overlap = isinstance(self._engine, CompiledEngine) and self.posterior.concave
        return _Stretches(
            [
                _Chain(i, number, state, count, updates, seed, look_ahead, overlap)
                for i, (number, state, count) in enumerate(zip(chains, starts, made, strict=True))
            ],
            self._workers,
            self._job,
        )

    def _ahead(self, chains: int) -> int:
        """Proposals of a chain at once, if there are workers to spare and evaluations are slow."""
        return (self._workers.count or 1) // chains if self._seconds > SLOW else 1

    def _try_out(self, f: np.ndarray) -> float:
        """The seconds an evaluation takes; refused if the workers cannot make one, or make another."""
        try:
            ((value, seconds),) = self._workers.answers([self._workers.send(self._job, "evaluate", f)])
        except Exception as error:
            why_not = self._job.why_not_sent()
            if why_not is None:
                raise
            raise TypeError(why_not) from error
        here = self.evaluate(f)
        if not (abs(value - here) <= 1e-7 * (1 + abs(here)) or value == here or (value != value and here != here)):
            raise ValueError(
                f"a worker of the executor says that the log-likelihood is {value:.10g}, and at the same f it is "
                f"{here:.10g} here. Do the workers have the same data and the same code? (Or is it random?)"
            )
        return seconds


class _Chain:
    """A chain that workers advance, a stretch each."""

    def __init__(
        self,
        position: int,
        number: int,
        state: State,
        done: int,
        updates: int,
        seed: int,
        look_ahead: int | None,
        overlap: bool,
    ):
        self._position, self._number, self._seed, self._look_ahead = position, number, seed, look_ahead
        self._overlap, self._begin, self._done = overlap, (state, done), done
        self.updates = updates
        self.errand: Errand | None = None
        self._pieces: list[Piece] = []

    @property
    def finished(self) -> bool:
        return self._done >= self.updates

    def send(self, workers: Workers, job: Job) -> None:
        if self.errand is None and not self.finished:
            arguments = self._seed, self._number, self._done, self._begin, self.updates, self._look_ahead, STRETCH
            self.errand = workers.send(job, "advance", *arguments)

    def collect(self) -> None:
        if self.errand is None or not self.errand.settled:
            return
        pieces, self.errand = self.errand.answer, None
        last = [self._begin[0]]
        for piece in pieces:
            last += [State(f.copy(), float(v)) for f, v in zip(piece.f[-2:], piece.log_likelihood[-2:], strict=True)]
            made_before = max(0, self._done - piece.first)
            piece = _without(made_before, piece)._replace(chain=self._position)
            if len(piece.log_likelihood):
                self._pieces.append(piece)
                self._done = piece.first + len(piece.log_likelihood)
        self._begin = (last[-2], self._done - 1) if self._overlap else (last[-1], self._done)

    def take(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces


def _without(rows: int, piece: Piece) -> Piece:
    """A piece without its first rows."""
    _, first, f, log_likelihood, info, proposals = piece
    info = Info(*(part[rows:] for part in info))
    return Piece(piece.chain, first + rows, f[rows:], log_likelihood[rows:], info, proposals[rows:])


class _Stretches:
    """Chains under way, each with one worker at a time; none waits for another."""

    def __init__(self, chains: list[_Chain], workers: Workers, job: Job):
        self._chains, self._workers, self._job = chains, workers, job

    @property
    def finished(self) -> bool:
        return all(chain.finished for chain in self._chains)

    def advance(self) -> None:
        for chain in self._chains:
            chain.send(self._workers, self._job)
        self._workers.wait([chain.errand for chain in self._chains if chain.errand is not None], TURN)
        for chain in self._chains:
            chain.collect()

    def extend(self, updates: int) -> None:
        for chain in self._chains:
            chain.updates = updates

    def take(self) -> list[Piece]:
        return [piece for chain in self._chains for piece in chain.take()]

    def close(self) -> None:
        for chain in self._chains:
            if chain.errand is not None:
                chain.errand.cancel()


class _Ahead(HostRun):
    """Chains that run here, with their next proposals evaluated by workers, several at a time."""

    def __init__(self, chains: list[HostChain], workers: Workers, job: Job, ahead: int):
        super().__init__(chains)
        self._workers, self._searches = workers, [_ProposalQueue(chain, workers, job, ahead) for chain in chains]

    def advance(self) -> None:
        end = time.perf_counter() + TURN
        while (left := end - time.perf_counter()) > 0:
            waiting_for = [errand for search in self._searches if (errand := search.advance()) is not None]
            if not waiting_for:
                break
            self._workers.wait(waiting_for, left)

    def close(self) -> None:
        for search in self._searches:
            search.cancel()


class _ProposalQueue:
    """The searches of one chain, with a task for each proposal.

    Tasks are sent before it is known whether their values are needed; the judge takes the values in order.
    """

    def __init__(self, chain: HostChain, workers: Workers, job: Job, ahead: int):
        self._chain, self._workers, self._job, self._ahead = chain, workers, job, ahead
        self._sent: deque[tuple[np.ndarray, Errand]] = deque()
        self._judge: Judge | None = None

    def advance(self) -> Errand | None:
        """Judge the proposals whose values are known, in order. Return the first task without one, None at the end."""
        while self._chain.remaining:
            if self._judge is None:
                self._judge = Judge(self._chain)
                self._points = self._judge.points()
            for f in itertools.islice(self._points, self._ahead - len(self._sent)):
                self._sent.append((f, self._workers.send(self._job, "evaluate", f)))
            f, errand = self._sent[0]
            if not errand.settled:
                return errand
            self._sent.popleft()
            end = self._judge.tell([f], [errand.answer[0]])
            if end is not None:
                self.cancel()
                self._judge = None
                self._chain.record(*end)
        return None

    def cancel(self) -> None:
        """Cancel the tasks whose values are not needed any more."""
        for _, errand in self._sent:
            errand.cancel()
        self._sent.clear()
