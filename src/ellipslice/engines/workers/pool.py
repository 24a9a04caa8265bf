"""An executor's workers: errands are sent to them, and sent again if a worker is lost."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future
from typing import Any

import numpy as np

from ellipslice.engines.workers.remote import Job, do, forget
from ellipslice.undocumented import runtime

TRIES = 4
"""How often an errand is sent before it is given up: it may be what workers die of."""

CANNOT_START = (
    " It was the first piece of work: can these workers start at all, and import the log-likelihood? A script that "
    "makes a process pool needs `if __name__ == '__main__':` around it, and functions of a notebook reach the workers "
    "of Dask and loky only."
)


class WorkersLostError(RuntimeError):
    """Workers died, and the executor cannot replace them.

    Attributes
    ----------
    tree : xarray.DataTree or None
        What was drawn before, if it is not in a store.
    """

    tree: Any = None


class Workers:
    """The workers of an executor.

    Parameters
    ----------
    executor : concurrent.futures.Executor or callable
        Or a function that makes one: then it is made anew if it breaks, and shut down in the end.
    timeout : float, optional
        Seconds without any answer after which the workers are given up.
    """

    def __init__(self, executor: Any, timeout: float | None = None):
        is_class = isinstance(executor, type)
        if is_class or not (hasattr(executor, "submit") or callable(executor)):
            raise TypeError(
                f"executor must have a method submit, as those of concurrent.futures have, or be a function that makes "
                f"such a thing; but it is {executor!r}." + (" Make an instance of it." if is_class else "")
            )
        self._make: Callable[[], Any] | None = None if hasattr(executor, "submit") else executor
        self._timeout = timeout
        self._executor: Any = executor if self._make is None else self._make()
        if not hasattr(self._executor, "submit"):
            raise TypeError(f"executor is a function that made {self._executor!r}, which has no method submit.")
        self._generation, self._silent, self._heard, self._answers = 0, False, time.monotonic(), 0
        self._keys: set[str] = set()
        # At once: a pool that forks should do so before JAX has threads, which do not survive it.
        self._check(self._executor.submit(os.getpid))

    @property
    def count(self) -> int | None:
        """How many there are, if the executor says."""
        return runtime.worker_count(self._executor)

    def send(self, job: Job, what: str, *arguments: Any) -> Errand:
        """Send an errand: a method of the job, and its arguments."""
        self._keys.add(job.key)
        return Errand(self, job, what, arguments)

    def wait(self, errands: Sequence[Errand], seconds: float) -> None:
        """Wait until one of them is answered, but not longer; refused if nothing has been heard for too long."""
        concurrent.futures.wait([errand.future for errand in errands], seconds, concurrent.futures.FIRST_COMPLETED)
        silence = time.monotonic() - self._heard
        if self._timeout is not None and silence > self._timeout and not any(e.future.done() for e in errands):
            self._silent = True
            says = "; ".join(sorted({errand.says for errand in errands})[:3])
            raise TimeoutError(
                f"no worker has answered for {silence:.0f} s, and timeout={self._timeout:g}. Waiting for: {says}. Does "
                "the log-likelihood hang there? A piece of work is about a second of updates, or one update if that "
                "takes longer: give more time if it is only slow."
            )

    def answers(self, errands: Sequence[Errand]) -> list[Any]:
        """The answers of all of them."""
        open_errands = [errand for errand in errands if not errand.settled]
        while open_errands:
            self.wait(open_errands, 0.1)
            open_errands = [errand for errand in open_errands if not errand.settled]
        return [errand.answer for errand in errands]

    def close(self) -> None:
        """Let them go, if they are ours."""
        forget(self._keys)
        if self._make is None:
            return
        if self._silent:  # they would be waited for when Python ends
            for process in runtime.processes(self._executor):
                process.kill()
        self._executor.shutdown(wait=False)

    def submit(self, *arguments: Any) -> tuple[Future[Any], int]:
        """Hand something to the executor; the future, and which executor it was."""
        generation = self._generation
        try:
            future = self._executor.submit(do, *arguments)
        except BrokenExecutor as error:
            self.replace(generation, error)
            return self.submit(*arguments)
        self._heard = time.monotonic()
        return future, generation

    def cancel(self, future: Future[Any]) -> None:
        """Take something back, if it can be."""
        if not runtime.is_dask(self._executor):  # its log complains of futures that end in that moment
            future.cancel()

    def heard(self, answered: bool) -> None:
        """Note that a worker has said something: an answer, or that it does not know the job."""
        self._heard, self._answers = time.monotonic(), self._answers + answered

    def replace(self, generation: int, error: BaseException) -> None:
        """Make a new executor in place of a broken one, unless that was done already."""
        if generation != self._generation:
            return
        if self._make is None:
            raise WorkersLostError(
                "a worker died (killed, out of memory, a crash in compiled code?), and the executor is broken: "
                f"{type(error).__name__}. Give a function that makes it, such as executor=lambda: "
                "ProcessPoolExecutor(8), and it is replaced when that happens."
                + (CANNOT_START if not self._answers else "")
            ) from error
        with contextlib.suppress(Exception):
            self._executor.shutdown(wait=False)
        self._executor, self._generation = self._make(), generation + 1

    def give_up(self, errand: Errand, error: BaseException) -> None:
        """Say that workers die of one errand."""
        raise WorkersLostError(
            f"workers were lost {TRIES} times over the same piece of work: {errand.says} ({type(error).__name__}: "
            f"{error}). Does the log-likelihood crash there, or need more memory than they have?"
            + (CANNOT_START if not self._answers else "")
        ) from error

    def _check(self, future: Any) -> None:
        if not isinstance(future, Future):
            hint = " For a Dask client it is client.get_executor()." if hasattr(self._executor, "get_executor") else ""
            raise TypeError(
                f"executor must return futures of concurrent.futures from submit, but {self._executor!r} returned "
                f"{future!r}.{hint}"
            )


class Errand:
    """Work that was sent out, and its answer, however often it has to be sent."""

    answer: Any

    def __init__(self, workers: Workers, job: Job, what: str, arguments: tuple[Any, ...]):
        self._workers, self._job, self._what, self._arguments = workers, job, what, arguments
        self._tries = 0
        self._send(None)

    @property
    def says(self) -> str:
        """What it is, in words."""
        if self._what == "advance":
            _, chain, done, *_ = self._arguments
            return f"chain {chain} from update {done:,} on"
        if self._what == "evaluate_all":
            return f"evaluations at {len(self._arguments[0])} points"
        return f"an evaluation at {np.array2string(self._arguments[0], precision=6, threshold=8)}, the mean left out"

    @property
    def settled(self) -> bool:
        """Whether the answer is there. A worker that was lost, or did not know the job, is noticed here."""
        if hasattr(self, "answer"):
            return True
        if not self.future.done():
            return False
        try:
            answer = self.future.result()
        except Exception as error:
            if not _is_loss(error):
                raise
            self._tries += 1
            if isinstance(error, BrokenExecutor):
                self._workers.replace(self._generation, error)
            if self._tries >= TRIES:
                self._workers.give_up(self, error)
            self._send(self._job)
            return False
        self._workers.heard(answer is not None)
        if answer is None:
            self._send(self._job)
            return False
        self.answer = answer[0]
        return True

    def cancel(self) -> None:
        """No longer wanted."""
        self._workers.cancel(self.future)

    def _send(self, job: Job | None) -> None:
        self.future, self._generation = self._workers.submit(self._job.key, job, self._what, *self._arguments)


def _is_loss(error: BaseException) -> bool:
    """Whether a worker was lost, rather than the errand gone wrong."""
    killed = any(kind.__name__ == "KilledWorker" for kind in type(error).__mro__)  # Dask's, which need not be here
    return killed or isinstance(error, BrokenExecutor | CancelledError)


@contextlib.contextmanager
def hired(executor: Any, timeout: float | None) -> Iterator[Workers | None]:
    """The workers of an executor for as long as they are needed; None if there is none."""
    if executor is None:
        yield None
        return
    workers = Workers(executor, timeout)
    try:
        yield workers
    finally:
        workers.close()
