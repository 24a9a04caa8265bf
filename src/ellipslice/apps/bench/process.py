"""A process for each contestant on CPUs, so that settings and memory are its own. They take turns."""

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
from ellipslice.apps.bench.contestants import FAST, FLOOR, Contestant, Timing, make
from ellipslice.apps.paper import problem
from ellipslice.diagnostics import effective_sample_size

SHORT = 256
"""Updates of a chain that are too few to say what an effective draw costs."""

LOOKED_AT = 64
"""Chains whose effective draws are counted, at most: each takes a while."""

READABLE = (ImportError, OSError, TypeError, ValueError)
"""Errors that are a user's to mend: they come out of a process as they went in, but for their traceback."""


class Timed(Protocol):
    """A contestant that can be timed, wherever it is."""

    def time(self, updates: int) -> float:
        """Make that many updates of each chain; the seconds they took."""
        ...

    def beyond_speed(self) -> dict[str, float]:
        """What there is to say of the last updates besides their speed."""
        ...


class Here:
    """A contestant in this process."""

    def __init__(self, advance: Contestant, chains: int):
        self._advance, self._chains = advance, chains
        self._updates, self._timing = 0, Timing()

    def time(self, updates: int) -> float:
        self._timing = Timing()  # its memory is free for the next
        began = time.perf_counter()
        outcome = self._advance(updates)
        seconds = time.perf_counter() - began
        self._updates, self._timing = updates, outcome
        return seconds

    def beyond_speed(self) -> dict[str, float]:
        told: dict[str, float] = {}
        evaluations, trace = self._timing
        if evaluations is not None:
            told["evaluations_per_update"] = evaluations / (self._chains * self._updates)
        if trace is not None and self._updates >= SHORT:
            some = trace[:LOOKED_AT]
            told["effective_per_update"] = sum(effective_sample_size(one) for one in some) / some.size
        return told


class Worker:
    """A contestant in a process of its own, which waits while others take their turn."""

    def __init__(self, name: str, problem_name: str, start: np.ndarray, chains: int):
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._connection, theirs = context.Pipe()
        arguments = (theirs, name, problem_name, start, chains)
        self._process = context.Process(target=serve, args=arguments, daemon=True, name=f"ellipslice bench: {name}")
        with deaf_to_interrupts():
            self._process.start()
        theirs.close()  # so that the end of one process is noticed by the other

    def make(self) -> None:
        """Make the contestant: not before all processes are started, and not beside another."""
        self._ask("make")

    def time(self, updates: int) -> float:
        return self._ask("time", updates)

    def beyond_speed(self) -> dict[str, float]:
        return self._ask("beyond_speed")

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.terminate()
        self._process.join()
        self._connection.close()

    def _ask(self, *request: Any) -> Any:
        try:
            self._connection.send(request)
            error, answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            raise ChildProcessError(f"the process of {self.name} has ended by itself, with exit code {code}.") from None
        if error is not None:
            raise error(answer)
        return answer


@contextmanager
def workers(names: Sequence[str], problem_name: str, start: np.ndarray, chains: int) -> Iterator[dict[str, Worker]]:
    """A process for each name, started together, with contestants made one after the other; all end with us."""
    with ExitStack() as ended:
        made = {}
        for name in names:
            made[name] = Worker(name, problem_name, start, chains)
            ended.callback(made[name].close)
        for worker in made.values():
            worker.make()
        yield made


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes started in here leave Ctrl-C to us from their first moment."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def serve(connection: Connection, name: str, problem_name: str, start: np.ndarray, chains: int) -> None:
    """What the process does: answer until nobody asks any more."""
    contestant = _Contestant(name, problem_name, start, chains)
    with suppress(EOFError, ConnectionError):
        while True:
            method, *arguments = connection.recv()
            connection.send(_answer(getattr(contestant, method), *arguments))


def _answer(method: Any, *arguments: Any) -> tuple[type[Exception] | None, Any]:
    try:
        return None, method(*arguments)
    except READABLE as error:
        kind = next(kind for kind in READABLE if isinstance(error, kind))
        return kind, str(error)
    except Exception:  # noqa: BLE001  whatever it is, it goes to whom it concerns
        return RuntimeError, traceback.format_exc()


class _Contestant:
    """What a worker asks for, in the worker's process."""

    def __init__(self, name: str, problem_name: str, start: np.ndarray, chains: int):
        self._name, self._problem, self._start, self._chains = name, problem_name, start, chains

    def make(self) -> None:
        jax.config.update("jax_platforms", "cpu")
        if self._name.endswith(FAST) or self._name == FLOOR:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # too late would be a mistake of ours
                fast_cpu()
        one = problem(self._problem)
        self._before = peak_memory()
        self._here = Here(make(self._name.removesuffix(FAST), one, self._start, self._chains), self._chains)

    def time(self, updates: int) -> float:
        return self._here.time(updates)

    def beyond_speed(self) -> dict[str, float]:
        memory = peak_memory() - self._before  # first: what follows needs memory too
        return {**self._here.beyond_speed(), "peak_memory": memory}


def peak_memory() -> int:
    """The most that this process has ever used, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux starts the other number with that of the process that started this one
        line = next(line for line in status.read_text(encoding="utf8").splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    import resource  # not everywhere

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
