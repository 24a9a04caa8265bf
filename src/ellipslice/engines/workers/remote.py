"""What a worker of an executor does for a run: updates of one chain, or one evaluation."""

from __future__ import annotations

import os
import pickle
import platform
import secrets
import time
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from ellipslice.engines.base import Engine, Piece
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.host.engine import HostEngine
from ellipslice.engines.threads import use_cores
from ellipslice.moves import Move, State
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior
from ellipslice.settings import jax_settings
from ellipslice.undocumented.runtime import has_started

KEPT = 4
"""Jobs that a worker keeps: those of a run or two, and of what comes before."""

_kept: dict[str, Job] = {}
_forked_beside_jax: list[bool] = []

if hasattr(os, "register_at_fork"):
    # Where it cannot be told whether JAX had started, perhaps it had.
    os.register_at_fork(after_in_child=lambda: _forked_beside_jax.append(has_started() is not False))


class Job:
    """A posterior, a move, and the engine to run them: what all errands of a run have in common.

    It is sent to a worker once, and kept there.
    """

    def __init__(self, engine: Engine, move: Move):
        self.key, self._origin = secrets.token_hex(16), _process()
        self._posterior, self.move, self._compiled = engine.posterior, move, isinstance(engine, CompiledEngine)
        self._read_only = engine.call.read_only if isinstance(engine, HostEngine) else False

    def evaluate(self, f: np.ndarray) -> tuple[float, float]:
        """The log-likelihood of one centred flat vector, and the seconds it took."""
        f = np.array(f)  # Dask's arrays cannot be written to, and some functions want to be able to
        f.flags.writeable = not self._read_only
        began = time.perf_counter()
        value = self._engine.evaluate(f)
        return value, time.perf_counter() - began

    def evaluate_all(self, points: np.ndarray) -> list[float]:
        """The log-likelihoods of some centred flat vectors, one by one."""
        return [self.evaluate(f)[0] for f in points]

    def advance(
        self,
        seed: int,
        chain: int,
        done: int,
        begin: tuple[State, int],
        updates: int,
        look_ahead: int | None,
        seconds: float,
    ) -> list[Piece]:
        """Updates of one chain for about so many seconds, up to number `updates`, and one at least that is new.

        It has made `done`, and begins from a state and the number of updates that led there, which may be less.
        """
        end = time.perf_counter() + seconds
        (f, log_likelihood), made = begin
        start = State(np.array(f), log_likelihood)
        run = self._engine.run(self.move, seed, [chain], [start], updates, look_ahead, done=[made])
        pieces: list[Any] = []
        try:
            while not run.finished and (made <= done or time.perf_counter() < end):
                run.advance()
                for piece in run.take():
                    pieces.append(piece)
                    made += len(piece.log_likelihood)
        finally:
            run.close()
        return pieces

    @cached_property
    def _engine(self) -> Engine:
        if _process() != self._origin:
            use_cores(1)  # there are as many workers as there should be busy cores
        if any(_forked_beside_jax) and (self._compiled or _draws_by_jax(self._posterior.prior)):
            raise RuntimeError(
                f"{'compiled chains' if self._compiled else 'draws from this prior'} cannot be made in workers that "
                "were forked from a process in which JAX was at work: it would wait for threads that are not there. "
                "Let workers start afresh, by ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))."
                + (' Or run the log-likelihood as plain Python, with engine="host".' if self._compiled else "")
            )
        if self._compiled:
            return CompiledEngine(self._posterior)
        engine = HostEngine(self._posterior)
        engine.call.read_only = self._read_only
        return engine

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_engine"}

    def why_not_sent(self) -> str | None:
        """Which part of it Python's pickle cannot send to another process, and what to do; None if it can."""
        likelihood: Posterior | Any = self._posterior.log_likelihood.callable
        parts = {"log-likelihood": likelihood, "prior": self._posterior.prior, "move": self.move}
        for name, part in parts.items():
            try:
                pickle.dumps(part)
            except Exception as error:  # noqa: BLE001  whatever a user's class raises
                return (
                    f"the {name}, {part!r}, cannot be sent to the executor's workers "
                    f"({type(error).__name__}: {error}). Python's pickle sends functions by the name they have in "
                    "their module, so not those made by lambda or inside others: write it with def at the top of a "
                    "module, data as the module's own or by functools.partial. Or use workers that take any function: "
                    "those of Dask, or of loky."
                )
        return None


def do(key: str, job: Job | None, what: str, *arguments: Any) -> tuple[Any] | None:
    """Run an errand in a worker; None if the worker has not met the job, and it was not sent along."""
    job = _kept.get(key, job)
    if job is None:
        return None
    _kept[key] = job
    for old in list(_kept)[:-KEPT]:
        _kept.pop(old, None)
    with jax_settings():
        try:
            return (getattr(job, what)(*arguments),)
        except Exception as error:
            _check_portable(error)
            raise


def forget(keys: Iterable[str]) -> None:
    """Let go of jobs that are over, where workers are threads of this process."""
    for key in keys:
        _kept.pop(key, None)


def _check_portable(error: Exception) -> None:
    """Put an exception that could not travel back into words: a process pool would break down over it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001
        said = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", []):
            said.add_note(note)
        raise said from None


def _draws_by_jax(prior: Prior) -> bool:
    """Whether compiled code makes the draws from a prior, or from one of those it is made of."""
    parts = [part for value in vars(prior).values() for part in (value if isinstance(value, tuple | list) else [value])]
    own = type(prior).draw is Prior.draw and prior.traceable and not prior.by_numpy
    return own or any(_draws_by_jax(part) for part in parts if isinstance(part, Prior))


def _process() -> tuple[str, int]:
    return platform.node(), os.getpid()
