"""The code that runs on a worker of an executor: it makes updates of one chain, or evaluations."""

from __future__ import annotations

import os
import pickle
import platform
import secrets
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ellipslice.engines.base import Checkpoint, Engine, RunSpec
from ellipslice.engines.rows import Rows
from ellipslice.jax_settings import jax_settings
from ellipslice.machine import use_cores
from ellipslice.moves import State
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior
from ellipslice.undocumented.runtime import has_started

MAX_PAYLOADS = 4
"""Largest number of payloads that a worker keeps: those of one or two runs, and of the pilot runs before them."""

_payloads: dict[str, RunPayload] = {}
_forked_after_jax: list[bool] = []

if hasattr(os, "register_at_fork"):
    # `has_started` returns None if it cannot determine whether JAX has threads. Then assume that it has.
    os.register_at_fork(after_in_child=lambda: _forked_after_jax.append(has_started() is not False))


class RunPayload:
    """Data that all tasks of a run share: the engine with its posterior, and the specification of the run.

    It is pickled and sent to each worker once. Tasks then refer to it by its key.

    Parameters
    ----------
    engine : Engine
        The engine, which each worker makes again.
    spec : RunSpec, optional
        Specification of the run. Default: None, for tasks that only evaluate the log-likelihood.
    """

    def __init__(self, engine: Engine, spec: RunSpec | None = None):
        self.key, self._origin = secrets.token_hex(16), _process()
        self._posterior, self._recipe, self._traced = engine.posterior, engine.recipe(), engine.traced
        self.spec = spec

    def evaluate(self, f: np.ndarray) -> tuple[float, float]:
        """Return the log-likelihood of one centred flat vector, and the seconds that the evaluation took."""
        f = np.array(f)  # a copy, because Dask's arrays are read-only and some functions require a writable array
        f.flags.writeable = not self._engine.read_only
        began = time.perf_counter()
        value = self._engine.evaluate(f)
        return value, time.perf_counter() - began

    def evaluate_all(self, points: np.ndarray) -> list[float]:
        """Return the log-likelihoods of centred flat vectors, evaluated one by one."""
        return [self.evaluate(f)[0] for f in points]

    def advance(self, position: int, start: Checkpoint, done: int, updates: int, seconds: float) -> list[Rows]:
        """Advance one chain for about `seconds`, and return its rows.

        Parameters
        ----------
        position : int
            Position of the chain in the run.
        start : Checkpoint
        done : int
            Number of updates whose rows have been returned. The task makes at least one update more.
        updates : int
            Total number of updates of the chain.
        seconds : float
            Approximate duration. Seconds.
        """
        assert self.spec is not None  # noqa: S101  a payload for chains has a specification
        end = time.perf_counter() + seconds
        spec = replace(self.spec, chains=(self.spec.chains[position],))
        own = start._replace(state=State(np.array(start.state.f), start.state.log_likelihood))
        run = self._engine.run(spec, [own], updates)
        rows: list[Rows] = []
        try:
            while not run.finished and (_updates(rows) <= done or time.perf_counter() < end):
                run.advance()
                rows += run.take()
        finally:
            run.close()
        return rows

    @cached_property
    def _engine(self) -> Engine:
        """The engine, made at the first access in this process. Raise if it cannot work after a fork."""
        if _process() != self._origin:
            use_cores(1)  # the executor has one worker for each core that should be busy
        if any(_forked_after_jax) and (self._traced or _prior_uses_jax(self._posterior.prior)):
            raise RuntimeError(
                f"{'compiled chains' if self._traced else 'updates with this prior'} cannot be made in workers that "
                "were forked from a process in which JAX was running, because JAX's threads do not exist in a forked "
                "process. Start new processes instead, by "
                "ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))."
                + (' Or run the log-likelihood as plain Python, with engine="host".' if self._traced else "")
            )
        return self._recipe()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_engine"}

    def pickling_problem(self) -> str | None:
        """Return a message about the part that cannot be pickled, or None if all parts can."""
        likelihood: Posterior | Any = self._posterior.log_likelihood.callable
        parts = {"log-likelihood": likelihood, "prior": self._posterior.prior}
        if self.spec is not None:
            parts["move"] = self.spec.move
        for name, part in parts.items():
            try:
                pickle.dumps(part)
            except Exception as error:  # noqa: BLE001  a user's class may raise anything
                return (
                    f"the {name}, {part!r}, cannot be sent to the executor's workers "
                    f"({type(error).__name__}: {error}). Python's pickle sends a function by its name in its module, "
                    "so it cannot send a lambda or a function defined inside another one. Define it with def at the "
                    "top level of a module, and pass data as variables of that module or by functools.partial. Or use "
                    "the workers of Dask or loky, which take any function."
                )
        return None


def _updates(rows: list[Rows]) -> int:
    """Return the number of updates that the chain has made at the end of these rows, or 0 if there are no rows."""
    return rows[-1].last[0].updates if rows else 0


def run_task(key: str, payload: RunPayload | None, method: str, *arguments: Any) -> tuple[Any] | None:
    """Call a method of a payload on a worker.

    Return a tuple with the result, or None if the worker does not have the payload. The sender then sends it, too.
    """
    payload = _payloads.get(key, payload)
    if payload is None:
        return None
    _payloads[key] = payload
    for old in list(_payloads)[:-MAX_PAYLOADS]:
        _payloads.pop(old, None)
    with jax_settings():
        try:
            return (getattr(payload, method)(*arguments),)
        except Exception as error:
            _check_portable(error)
            raise


def drop_payloads(keys: Iterable[str]) -> None:
    """Drop the payloads with these keys. It has an effect only if the workers are threads of this process."""
    for key in keys:
        _payloads.pop(key, None)


def _check_portable(error: Exception) -> None:
    """Raise a `RuntimeError` with the same text if `error` cannot be pickled, because it would break a process pool."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001
        portable = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", []):
            portable.add_note(note)
        raise portable from None


def _prior_uses_jax(prior: Prior) -> bool:
    """Return True if JAX computes the draws of a prior or of one of its parts, or is used by its own move."""
    parts = [part for value in vars(prior).values() for part in (value if isinstance(value, tuple | list) else [value])]
    own = type(prior).draw_zero_mean is Prior.draw_zero_mean and prior.traceable and not prior.by_numpy
    return own or prior.move_uses_jax or any(_prior_uses_jax(part) for part in parts if isinstance(part, Prior))


def _process() -> tuple[str, int]:
    """Return the computer and the process id, which identify this process."""
    return platform.node(), os.getpid()
