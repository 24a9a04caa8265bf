"""Run chains on the workers of an executor.

Either each worker advances a chain for about a second at a time, or, for few chains with slow evaluations, workers
evaluate the next proposals of each chain in parallel. All random numbers are drawn beforehand, so the draws are
bit-identical in both modes and without workers.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence

import numpy as np

from ellipslice.engines.base import Checkpoint, Engine, Run, RunSpec
from ellipslice.engines.host.engine import HostRun
from ellipslice.engines.host.search import HostChain, SliceSearch
from ellipslice.engines.rows import Rows
from ellipslice.engines.workers.pool import Task, Workers
from ellipslice.engines.workers.remote import RunPayload

TASK_SECONDS = 1.0
"""Time for which a task advances a chain. This is also the work that is lost if a worker dies."""

TURN_SECONDS = 0.1
"""Longest time for which one call of `advance` waits for results."""

TASKS_PER_WORKER = 8
"""Number of tasks per worker if many points are evaluated. It exceeds 1 because some points take longer than others."""

SLOW_EVALUATION_SECONDS = 0.02
"""Without `look_ahead`, proposals are sent to workers if an evaluation takes longer than this."""


class WorkersEngine(Engine):
    """Engine that sends the work of another engine to the workers of an executor.

    Parameters
    ----------
    engine : Engine
        The engine that each worker runs. It must be able to run single chains.
    workers : Workers
    f : array
        Centred flat vector at which a worker evaluates the log-likelihood, to check its value and to time it.
    spec : RunSpec, optional
        Specification of the next run, if it is known. It is then sent to the workers together with the posterior.
    """

    def __init__(self, engine: Engine, workers: Workers, f: np.ndarray, spec: RunSpec | None = None):
        super().__init__(engine.posterior)
        self.name, self.traced, self._engine, self._workers = engine.name, engine.traced, engine, workers
        self._payload = RunPayload(engine, spec)
        self._seconds = self._time_evaluation(f)

    def evaluate(self, f: np.ndarray) -> float:
        return self._engine.evaluate(f)

    def evaluate_all(self, points: Sequence[np.ndarray]) -> list[float]:
        count = min(len(points), TASKS_PER_WORKER * (self._workers.count or 1))
        tasks = [self._workers.send(self._payload, "evaluate_all", some) for some in np.array_split(points, count)]
        return [value for values in self._workers.answers(tasks) for value in values]

    def run(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> Run:
        if spec is not self._payload.spec:
            self._payload = RunPayload(self._engine, spec)
        ahead = spec.look_ahead or self._ahead(len(starts))
        divisible = self._engine.divisible_chains(spec, starts, updates) if ahead > 1 else None
        if divisible is not None:
            return _ProposalsOnWorkers(divisible, self._workers, self._payload, ahead)
        chains = [_WorkerChain(position, start, updates) for position, start in enumerate(starts)]
        return _ChainsOnWorkers(chains, self._workers, self._payload)

    def _ahead(self, chains: int) -> int:
        """Return the number of proposals of each chain to evaluate in parallel: 1 unless evaluations are slow."""
        return (self._workers.count or 1) // chains if self._seconds > SLOW_EVALUATION_SECONDS else 1

    def _time_evaluation(self, f: np.ndarray) -> float:
        """Return the seconds that one evaluation takes on a worker.

        Raise if the worker cannot evaluate the log-likelihood, or if its value differs from the value in this process.
        """
        try:
            ((value, seconds),) = self._workers.answers([self._workers.send(self._payload, "evaluate", f)])
        except Exception as error:
            problem = self._payload.pickling_problem()
            if problem is None:
                raise
            raise TypeError(problem) from error
        here = self.evaluate(f)
        if not (abs(value - here) <= 1e-7 * (1 + abs(here)) or value == here or (value != value and here != here)):
            raise ValueError(
                f"a worker of the executor computed the log-likelihood {value:.10g}, but at the same f it is "
                f"{here:.10g} in this process. Check that the workers have the same data and the same code, and that "
                "the log-likelihood is not random."
            )
        return seconds


class _WorkerChain:
    """A chain that workers advance, one task after the other. Each task starts at `Rows.resume` of the last one."""

    def __init__(self, position: int, start: Checkpoint, updates: int):
        self._position, self._start, self._done, self.updates = position, start, start.updates, updates
        self.task: Task | None = None
        self._rows: list[Rows] = []

    @property
    def finished(self) -> bool:
        return self._done >= self.updates

    def send(self, workers: Workers, payload: RunPayload) -> None:
        """Send the next task, unless one is running or the chain has finished."""
        if self.task is None and not self.finished:
            arguments = self._position, self._start, self._done, self.updates, TASK_SECONDS
            self.task = workers.send(payload, "advance", *arguments)

    def collect(self) -> None:
        """Keep the rows of the task if it is done."""
        if self.task is None or not self.task.done:
            return
        made, self.task = self.task.answer, None
        self._rows += [rows._replace(chains=slice(self._position, self._position + 1)) for rows in made]
        self._start, self._done = made[-1].resume[0], made[-1].last[0].updates

    def take(self) -> list[Rows]:
        rows, self._rows = self._rows, []
        return rows


class _ChainsOnWorkers:
    """A run in which each chain is advanced by one worker at a time. No chain waits for another."""

    def __init__(self, chains: list[_WorkerChain], workers: Workers, payload: RunPayload):
        self._chains, self._workers, self._payload = chains, workers, payload

    @property
    def finished(self) -> bool:
        return all(chain.finished for chain in self._chains)

    def advance(self) -> None:
        for chain in self._chains:
            chain.send(self._workers, self._payload)
        self._workers.wait([chain.task for chain in self._chains if chain.task is not None], TURN_SECONDS)
        for chain in self._chains:
            chain.collect()

    def extend(self, updates: int) -> None:
        for chain in self._chains:
            chain.updates = updates

    def take(self) -> list[Rows]:
        return [rows for chain in self._chains for rows in chain.take()]

    def close(self) -> None:
        for chain in self._chains:
            if chain.task is not None:
                chain.task.cancel()


class _ProposalsOnWorkers(HostRun):
    """A run whose chains stay in this process, while workers evaluate their next proposals in parallel."""

    def __init__(self, chains: Sequence[HostChain], workers: Workers, payload: RunPayload, ahead: int):
        super().__init__(chains)
        self._workers, self._searches = workers, [_ProposalQueue(chain, workers, payload, ahead) for chain in chains]

    def advance(self) -> None:
        end = time.perf_counter() + TURN_SECONDS
        while (left := end - time.perf_counter()) > 0:
            waiting_for = [task for search in self._searches if (task := search.advance()) is not None]
            if not waiting_for:
                break
            self._workers.wait(waiting_for, left)

    def close(self) -> None:
        for search in self._searches:
            search.cancel()


class _ProposalQueue:
    """The slice searches of one chain, with one task per proposal.

    Up to `ahead` tasks are sent before it is known whether their values are needed. The values are processed in order.
    """

    def __init__(self, chain: HostChain, workers: Workers, payload: RunPayload, ahead: int):
        self._chain, self._workers, self._payload, self._ahead = chain, workers, payload, ahead
        self._sent: deque[tuple[np.ndarray, Task]] = deque()
        self._search: SliceSearch | None = None

    def advance(self) -> Task | None:
        """Accept or reject the proposals whose values have arrived, in order.

        Return the first task that is not done, or None if the chain has finished.
        """
        while self._chain.remaining:
            if self._search is None:
                self._search = SliceSearch(self._chain)
                self._points = self._search.points()
            for f in itertools.islice(self._points, self._ahead - len(self._sent)):
                self._sent.append((f, self._workers.send(self._payload, "evaluate", f)))
            f, task = self._sent[0]
            if not task.done:
                return task
            self._sent.popleft()
            end = self._search.process([f], [task.answer[0]])
            if end is not None:
                self.cancel()
                self._search = None
                self._chain.record(*end)
        return None

    def cancel(self) -> None:
        """Cancel all tasks that were sent, because their values are no longer needed."""
        for _, task in self._sent:
            task.cancel()
        self._sent.clear()
