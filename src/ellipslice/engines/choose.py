"""Choose an engine for a log-likelihood."""

from __future__ import annotations

import jax
import numpy as np

from ellipslice.engines.base import Engine, RunSpec
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.device.engine import BatchedEngine, FusedEngine, why_not_batched, why_not_fused
from ellipslice.engines.host.engine import HostEngine
from ellipslice.engines.workers.engine import WorkersEngine
from ellipslice.engines.workers.pool import Workers
from ellipslice.moves import Move
from ellipslice.posterior import Posterior

ENGINES = ("compiled", "host", "batched", "fused")


def choose_engine(
    posterior: Posterior,
    engine: str | None,
    f: np.ndarray,
    move: Move,
    double: bool = True,
    workers: Workers | None = None,
) -> tuple[Engine, str]:
    """Return an engine for this process, and the reason for the choice.

    A log-likelihood is compiled if JAX can trace it and the traced function has the same values. (They differ if the
    function draws random numbers, or catches the tracer's exception and returns something else.) On a GPU all chains
    then run in parallel: in one kernel if that is possible, else in one loop.

    Parameters
    ----------
    posterior : Posterior
    engine : str or None
        An element of `ENGINES`. None: choose one.
    f : array
        Centred flat vector at which the traced log-likelihood is compared with the user's function.
    move : Move
    double : bool
        Double precision. Default: True.
    workers : Workers, optional
        If given, the engine is one that workers can run, chain by chain (see `with_workers`).
    """
    if workers is not None and (engine in ("batched", "fused") or not double):
        option = f'engine="{engine}"' if engine in ("batched", "fused") else 'precision="single"'
        raise ValueError(
            f"{option} and executor were both given. {option} runs all chains in parallel on the devices of one "
            "process, but the workers of an executor run chain by chain. Leave one of them out."
        )
    return _inspect(posterior, engine, f, move, double, alone=workers is not None)


def with_workers(engine: Engine, workers: Workers | None, f: np.ndarray, spec: RunSpec | None = None) -> Engine:
    """Return `engine` as run by workers, or `engine` itself if there are none."""
    return engine if workers is None else WorkersEngine(engine, workers, f, spec)


def _inspect(
    posterior: Posterior, engine: str | None, f: np.ndarray, move: Move, double: bool, alone: bool
) -> tuple[Engine, str]:
    """Return the engine and the reason, as `choose_engine` does. If `alone`, workers run chain by chain."""
    if engine not in (None, *ENGINES):
        names = ", ".join(f'"{name}"' for name in ENGINES)
        raise ValueError(f"engine must be one of {names}, or None to choose automatically, but it is {engine!r}.")
    if engine in ("host", "compiled") and not double:
        raise ValueError(
            f'precision="single" was given, but engine="{engine}" works in double precision only. Leave one out.'
        )
    host = HostEngine(posterior)
    value = host.call.first(f)
    if engine == "host":
        return host, "requested"
    compiled = CompiledEngine(posterior)
    why_not = _why_not_compiled(compiled, host, f, value)
    if why_not is not None:
        if engine or not double:
            option = f'engine="{engine}"' if engine else 'precision="single"'
            raise ValueError(
                f"{option} was given, but {why_not}. Write the log-likelihood with jax.numpy, or leave {option} out: "
                "the host engine runs any Python function."
            )
        return host, why_not
    if engine == "compiled":
        return compiled, "requested"
    if engine or not double or (jax.default_backend() == "gpu" and not alone):
        return _choose_batched(posterior, engine, move, double, compiled)
    return compiled, "JAX can trace the log-likelihood"


def _choose_batched(
    posterior: Posterior, engine: str | None, move: Move, double: bool, compiled: CompiledEngine
) -> tuple[Engine, str]:
    """Return the fused engine, else the batched one, else the compiled one, and the reason.

    Raise if `engine` or single precision was requested and is impossible.
    """
    why_not = why_not_batched(posterior, move)
    if why_not is not None:
        if engine or not double:
            option = f'engine="{engine}"' if engine else 'precision="single"'
            raise ValueError(f"{option} was given, but {why_not}. Leave {option} out.")
        return compiled, f"JAX can trace the log-likelihood, but {why_not}"
    if engine == "batched":
        return BatchedEngine(posterior, double=double), "requested"
    fused = FusedEngine(posterior, double=double)
    why_not = why_not_fused(fused, move)
    if why_not is None:
        reason = "there is a GPU, and the log-likelihood factorises over the elements of f"
        return fused, "requested" if engine else reason
    if engine == "fused":
        raise ValueError(f'engine="fused" was given, but {why_not}. Leave it out, or use engine="batched".')
    return BatchedEngine(posterior, double=double), why_not


def _why_not_compiled(compiled: CompiledEngine, host: HostEngine, f: np.ndarray, value: float) -> str | None:
    """Return why the log-likelihood cannot be compiled, or None if it can. `value` is that of the function at `f`."""
    try:
        traced = compiled.evaluate(f)
    except Exception as error:  # noqa: BLE001  a user's function may raise anything when it is called with a tracer
        first_line = (str(error).splitlines() or [""])[0][:120]
        return (
            f"JAX cannot trace the log-likelihood ({type(error).__name__}: {first_line}); "
            "a function written with jax.numpy would be compiled"
        )
    callbacks = sorted(name for name in compiled.properties.operations or () if name.endswith("callback"))
    if callbacks:
        return f"the log-likelihood calls back into Python ({callbacks[0]})"
    if not _values_match(traced, value):
        return f"the function that JAX traced returns {traced:.6g} where the log-likelihood itself returns {value:.6g}"
    # A function that catches the tracer's exception may return a constant, which can equal the value at f by chance.
    points = host.posterior.points(np.random.default_rng(0), 24)
    if all(compiled.evaluate(point) == traced for point in points[:3]) and not all(
        _values_match(compiled.evaluate(point), host.call.first(point)) for point in points
    ):
        return f"the function that JAX traced is constant ({traced:.6g}), but the log-likelihood itself is not"
    return None


def _values_match(traced: float, value: float) -> bool:
    return bool(np.isclose(traced, value, rtol=1e-4, atol=1e-4, equal_nan=True))
