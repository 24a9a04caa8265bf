"""One process per sampler on a CPU, so that each has its own settings and memory. The processes take turns."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from ellipslice import fast_cpu
from ellipslice.apps.bench.samplers import FAST_CPU_SUFFIX, FLOOR, Sampler, Timing, make
from ellipslice.apps.paper import problem
from ellipslice.diagnostics import effective_sample_size

MIN_UPDATES_FOR_ESS = 256
"""Smallest number of updates per chain for which an effective sample size is computed."""

MAX_CHAINS_FOR_ESS = 64
"""Largest number of chains whose effective sample size is computed, because each takes time."""

USER_ERRORS = (ImportError, OSError, TypeError, ValueError)
"""Errors that the user can correct. They are raised again in the main process, without the worker's traceback."""


class TimedSampler(Protocol):
    """A sampler that can be timed, in this process or in another."""

    def time(self, updates: int) -> float:
        """Run `updates` updates of each chain and return the time in seconds."""
        ...

    def measures(self) -> dict[str, float]:
        """Return measures of the last updates other than their speed: evaluations, effective samples, memory."""
        ...


class LocalSampler:
    """A sampler in this process."""

    def __init__(self, advance: Sampler, chains: int):
        self._advance, self._chains = advance, chains
        self._updates, self._timing = 0, Timing()

    def time(self, updates: int) -> float:
        self._timing = Timing()  # free the memory of the previous trace first
        began = time.perf_counter()
        outcome = self._advance(updates)
        seconds = time.perf_counter() - began
        self._updates, self._timing = updates, outcome
        return seconds

    def measures(self) -> dict[str, float]:
        found: dict[str, float] = {}
        evaluations, trace = self._timing
        if evaluations is not None:
            found["evaluations_per_update"] = evaluations / (self._chains * self._updates)
        if trace is not None and self._updates >= MIN_UPDATES_FOR_ESS:
            some = trace[:MAX_CHAINS_FOR_ESS]
            found["effective_per_update"] = sum(effective_sample_size(one) for one in some) / some.size
        return found


class Worker:
    """A sampler in its own process, which is idle while others are timed."""

    def __init__(self, name: str, problem_name: str, start: np.ndarray, chains: int):
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._connection, theirs = context.Pipe()
        arguments = (theirs, name, problem_name, start, chains)
        self._process = context.Process(target=serve, args=arguments, daemon=True, name=f"ellipslice bench: {name}")
        with ignore_interrupts():
            self._process.start()
        theirs.close()  # so that each process notices the end of the other

    def make(self) -> None:
        """Build the sampler. Called after all processes have started, and for one process at a time."""
        self._request("make")

    def time(self, updates: int) -> float:
        return self._request("time", updates)

    def measures(self) -> dict[str, float]:
        return self._request("measures")

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.terminate()
        self._process.join()
        self._connection.close()

    def _request(self, *request: Any) -> Any:
        try:
            self._connection.send(request)
            error, answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            raise ChildProcessError(f"the process of {self.name} ended unexpectedly with exit code {code}.") from None
        if error is not None:
            raise error(answer)
        return answer


@contextmanager
def workers(names: Sequence[str], problem_name: str, start: np.ndarray, chains: int) -> Iterator[dict[str, Worker]]:
    """Start one process per sampler, build the samplers one after the other, and end all processes on exit."""
    with ExitStack() as ended:
        made = {}
        for name in names:
            made[name] = Worker(name, problem_name, start, chains)
            ended.callback(made[name].close)
        for worker in made.values():
            worker.make()
        yield made


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Start processes inside this context so that they ignore Ctrl-C, which the main process handles."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def serve(connection: Connection, name: str, problem_name: str, start: np.ndarray, chains: int) -> None:
    """Answer requests in a worker process until the connection is closed."""
    sampler = _SamplerInWorker(name, problem_name, start, chains)
    with suppress(EOFError, ConnectionError):
        while True:
            method, *arguments = connection.recv()
            connection.send(_answer(getattr(sampler, method), *arguments))


def _answer(method: Any, *arguments: Any) -> tuple[type[Exception] | None, Any]:
    try:
        return None, method(*arguments)
    except USER_ERRORS as error:
        kind = next(kind for kind in USER_ERRORS if isinstance(error, kind))
        return kind, str(error)
    except Exception:  # noqa: BLE001  the main process raises it
        return RuntimeError, traceback.format_exc()


class _SamplerInWorker:
    """The methods of a `Worker`, inside its process."""

    def __init__(self, name: str, problem_name: str, start: np.ndarray, chains: int):
        self._name, self._problem, self._start, self._chains = name, problem_name, start, chains

    def make(self) -> None:
        jax.config.update("jax_platforms", "cpu")
        if self._name.endswith(FAST_CPU_SUFFIX) or self._name == FLOOR:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # fast_cpu warns if it is called too late, which would be a bug
                fast_cpu()
        one = problem(self._problem)
        self._before = peak_memory()
        self._sampler = LocalSampler(
            make(self._name.removesuffix(FAST_CPU_SUFFIX), one, self._start, self._chains), self._chains
        )

    def time(self, updates: int) -> float:
        return self._sampler.time(updates)

    def measures(self) -> dict[str, float]:
        memory = peak_memory() - self._before  # first, because the other measures allocate memory
        return {**self._sampler.measures(), "peak_memory": memory}


def peak_memory() -> int:
    """Return the peak memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, ru_maxrss starts at the value of the parent process
        line = next(line for line in status.read_text(encoding="utf8").splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    import resource  # not available on every platform

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
