"""Send tasks to the workers of an executor, and send them again if a worker is lost."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future
from typing import Any

import numpy as np

from ellipslice.engines.workers.remote import RunPayload, drop_payloads, run_task
from ellipslice.undocumented import runtime

MAX_ATTEMPTS = 4
"""Largest number of times that a task is sent. A task that loses its worker every time is probably the cause."""

FIRST_TASK_HINT = (
    " No task has succeeded so far. Check that the workers can start and can import the log-likelihood. A script that "
    "makes a process pool needs `if __name__ == '__main__':` around it. Functions defined in a notebook can be sent "
    "only to the workers of Dask and loky."
)


class WorkersLostError(RuntimeError):
    """Error that is raised if workers died and the executor cannot replace them.

    Attributes
    ----------
    tree : xarray.DataTree or None
        The draws made so far, as `sample` returns them. None if they are in a store.
    """

    tree: Any = None


class Workers:
    """The workers of an executor.

    Parameters
    ----------
    executor : concurrent.futures.Executor or callable
        An executor, or a function that makes one. An executor made by the function is replaced if it breaks, and shut
        down at the end.
    timeout : float, optional
        Seconds without an answer from any worker after which `wait` raises. Default: no limit.
    """

    def __init__(self, executor: Any, timeout: float | None = None):
        is_class = isinstance(executor, type)
        if is_class or not (hasattr(executor, "submit") or callable(executor)):
            raise TypeError(
                "executor must be an executor with a method submit, such as those of concurrent.futures, or a function "
                f"that makes one, but it is {executor!r}." + (" Make an instance of it." if is_class else "")
            )
        self._make: Callable[[], Any] | None = None if hasattr(executor, "submit") else executor
        self._timeout = timeout
        self._executor: Any = executor if self._make is None else self._make()
        if not hasattr(self._executor, "submit"):
            raise TypeError(
                f"executor is a function that returned {self._executor!r}, which has no method submit. It must return "
                "an executor."
            )
        self._generation, self._silent, self._last_answer, self._answers = 0, False, time.monotonic(), 0
        self._keys: set[str] = set()
        # This starts the workers of a pool that forks before JAX has threads, because threads do not survive a fork.
        self._check(self._executor.submit(os.getpid))

    @property
    def count(self) -> int | None:
        """Number of workers, or None if it cannot be determined."""
        return runtime.worker_count(self._executor)

    def send(self, payload: RunPayload, method: str, *arguments: Any) -> Task:
        """Send a task, which calls a method of the payload with the arguments. Return the task."""
        self._keys.add(payload.key)
        return Task(self, payload, method, arguments)

    def wait(self, tasks: Sequence[Task], seconds: float) -> None:
        """Wait until one of the tasks is done, for at most `seconds`. Raise if no worker answers within `timeout`."""
        concurrent.futures.wait([task.future for task in tasks], seconds, concurrent.futures.FIRST_COMPLETED)
        silence = time.monotonic() - self._last_answer
        if self._timeout is not None and silence > self._timeout and not any(e.future.done() for e in tasks):
            self._silent = True
            waiting_for = "; ".join(sorted({task.description for task in tasks})[:3])
            raise TimeoutError(
                f"no worker has answered for {silence:.0f} s, and timeout={self._timeout:g}. Waiting for: "
                f"{waiting_for}. Check whether the log-likelihood hangs there. A task is about a second of updates, or "
                "one update if that takes longer: increase timeout if the log-likelihood is only slow."
            )

    def answers(self, tasks: Sequence[Task]) -> list[Any]:
        """Wait for all tasks, and return their answers."""
        open_tasks = [task for task in tasks if not task.done]
        while open_tasks:
            self.wait(open_tasks, 0.1)
            open_tasks = [task for task in open_tasks if not task.done]
        return [task.answer for task in tasks]

    def close(self) -> None:
        """Shut the executor down if it was made by the user's function."""
        drop_payloads(self._keys)
        if self._make is None:
            return
        if self._silent:  # Python would wait at exit for workers that hang
            for process in runtime.processes(self._executor):
                process.kill()
        self._executor.shutdown(wait=False)

    def submit(self, *arguments: Any) -> tuple[Future[Any], int]:
        """Submit `run_task` to the executor. Return its future, and the generation of the executor.

        The generation is the number of times that a broken executor has been replaced.
        """
        generation = self._generation
        try:
            future = self._executor.submit(run_task, *arguments)
        except BrokenExecutor as error:
            self.replace(generation, error)
            return self.submit(*arguments)
        self._last_answer = time.monotonic()
        return future, generation

    def cancel(self, future: Future[Any]) -> None:
        """Cancel a future if it has not started."""
        if not runtime.is_dask(self._executor):  # Dask logs an error if a future ends while it is being cancelled
            future.cancel()

    def record_answer(self, answered: bool) -> None:
        """Record that a worker has replied. `answered` is false if it replied that it does not have the payload."""
        self._last_answer, self._answers = time.monotonic(), self._answers + answered

    def replace(self, generation: int, error: BaseException) -> None:
        """Replace the broken executor of this generation, unless that was done already.

        Raise if the user gave an executor and not a function that makes one.
        """
        if generation != self._generation:
            return
        if self._make is None:
            raise WorkersLostError(
                "a worker died (possibly killed, out of memory, or by a crash in compiled code), and the executor is "
                f"broken: {type(error).__name__}. To have a broken executor replaced, give a function that makes it, "
                "such as executor=lambda: ProcessPoolExecutor(8)." + (FIRST_TASK_HINT if not self._answers else "")
            ) from error
        with contextlib.suppress(Exception):
            self._executor.shutdown(wait=False)
        self._executor, self._generation = self._make(), generation + 1

    def give_up(self, task: Task, error: BaseException) -> None:
        """Raise because a task was sent MAX_ATTEMPTS times and lost its worker each time."""
        raise WorkersLostError(
            f"workers were lost {MAX_ATTEMPTS} times over the same task: {task.description} "
            f"({type(error).__name__}: {error}). Check whether the log-likelihood crashes there, or needs more memory "
            "than the workers have." + (FIRST_TASK_HINT if not self._answers else "")
        ) from error

    def _check(self, future: Any) -> None:
        """Raise if the executor does not return futures of concurrent.futures."""
        if not isinstance(future, Future):
            hint = " For a Dask client, use client.get_executor()." if hasattr(self._executor, "get_executor") else ""
            raise TypeError(
                f"executor must return futures of concurrent.futures from submit, but {self._executor!r} returned "
                f"{future!r}.{hint}"
            )


class Task:
    """A task for a worker, and its answer. `done` sends the task again if the worker was lost."""

    answer: Any

    def __init__(self, workers: Workers, payload: RunPayload, method: str, arguments: tuple[Any, ...]):
        self._workers, self._payload, self._method, self._arguments = workers, payload, method, arguments
        self._attempts = 0
        self._send(None)

    @property
    def description(self) -> str:
        """Description of the task for messages."""
        if self._method == "advance":
            position, _, done, *_ = self._arguments
            spec = self._payload.spec
            assert spec is not None  # noqa: S101  a payload for chains has a specification
            return f"chain {spec.chains[position]} from update {done:,} on"
        if self._method == "evaluate_all":
            return f"evaluations at {len(self._arguments[0])} points"
        return f"an evaluation at f - mean = {np.array2string(self._arguments[0], precision=6, threshold=8)}"

    @property
    def done(self) -> bool:
        """True if the answer has arrived. Sends the task again if its worker was lost or did not have the payload."""
        if hasattr(self, "answer"):
            return True
        if not self.future.done():
            return False
        try:
            answer = self.future.result()
        except Exception as error:
            if not _is_worker_loss(error):
                raise
            self._attempts += 1
            if isinstance(error, BrokenExecutor):
                self._workers.replace(self._generation, error)
            if self._attempts >= MAX_ATTEMPTS:
                self._workers.give_up(self, error)
            self._send(self._payload)
            return False
        self._workers.record_answer(answer is not None)
        if answer is None:
            self._send(self._payload)
            return False
        self.answer = answer[0]
        return True

    def cancel(self) -> None:
        """Cancel the task if it has not started."""
        self._workers.cancel(self.future)

    def _send(self, payload: RunPayload | None) -> None:
        self.future, self._generation = self._workers.submit(self._payload.key, payload, self._method, *self._arguments)


def _is_worker_loss(error: BaseException) -> bool:
    """Return True if an error means that a worker was lost, and not that the task itself failed."""
    # Dask's class is recognised by its name, because Dask may not be installed.
    killed = any(kind.__name__ == "KilledWorker" for kind in type(error).__mro__)
    return killed or isinstance(error, BrokenExecutor | CancelledError)


@contextlib.contextmanager
def open_workers(executor: Any, timeout: float | None) -> Iterator[Workers | None]:
    """Yield the workers of an executor, or None if `executor` is None, and close them at the end."""
    if executor is None:
        yield None
        return
    workers = Workers(executor, timeout)
    try:
        yield workers
    finally:
        workers.close()
