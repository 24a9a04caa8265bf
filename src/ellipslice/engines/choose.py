"""A first look at a log-likelihood: which engine can run it."""

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
    """Return an engine for this process, and why this one. `f` is the point at which likelihoods are compared.

    With `workers` it is an engine that they can run: see `with_workers`.

    A likelihood is compiled if JAX can trace it and what it traced agrees with the function. (It would not if the
    function caught the tracer's exception and returned something else, or drew random numbers.) On a GPU, chains then
    run together: in one kernel if that can be, else in one loop. Workers run them one by one.
    """
    if workers is not None and (engine in ("batched", "fused") or not double):
        asked = f'engine="{engine}"' if engine in ("batched", "fused") else 'precision="single"'
        raise ValueError(
            f"{asked} was asked for, which runs all chains together on the devices of one process, but executor was "
            "given too, whose workers run them one by one. Leave one out."
        )
    return _inspect(posterior, engine, f, move, double, alone=workers is not None)


def with_workers(engine: Engine, workers: Workers | None, f: np.ndarray, spec: RunSpec | None = None) -> Engine:
    """Return an engine whose work is done by workers, or the engine itself if there are none."""
    return engine if workers is None else WorkersEngine(engine, workers, f, spec)


def _inspect(
    posterior: Posterior, engine: str | None, f: np.ndarray, move: Move, double: bool, alone: bool
) -> tuple[Engine, str]:
    if engine not in (None, *ENGINES):
        names = ", ".join(f'"{name}"' for name in ENGINES)
        raise ValueError(f"engine must be one of {names} or None (look and choose), but it is {engine!r}.")
    if engine in ("host", "compiled") and not double:
        raise ValueError(f'precision="single" was asked for, but engine="{engine}" works in double. Leave one out.')
    host = HostEngine(posterior)
    value = host.call.first(f)
    if engine == "host":
        return host, "asked for"
    compiled = CompiledEngine(posterior)
    why_not = _why_not_compiled(compiled, host, f, value)
    if why_not is not None:
        if engine or not double:
            asked = f'engine="{engine}"' if engine else 'precision="single"'
            raise ValueError(
                f"{asked} was asked for, but {why_not}. Write the log-likelihood with jax.numpy, or leave it out: the "
                "host engine runs any Python."
            )
        return host, why_not
    if engine == "compiled":
        return compiled, "asked for"
    if engine or not double or (jax.default_backend() == "gpu" and not alone):
        return _choose_batched(posterior, engine, move, double, compiled)
    return compiled, "JAX can trace the log-likelihood"


def _choose_batched(
    posterior: Posterior, engine: str | None, move: Move, double: bool, compiled: CompiledEngine
) -> tuple[Engine, str]:
    """Chains together: in one kernel, in one loop, or, if that cannot be and nobody insists, apart after all."""
    why_not = why_not_batched(posterior, move)
    if why_not is not None:
        if engine or not double:
            asked = f'engine="{engine}"' if engine else 'precision="single"'
            raise ValueError(f"{asked} was asked for, but {why_not}. Leave it out.")
        return compiled, f"JAX can trace the log-likelihood, but {why_not}"
    if engine == "batched":
        return BatchedEngine(posterior, double=double), "asked for"
    fused = FusedEngine(posterior, double=double)
    assert move.path is not None  # noqa: S101  or there had been a reason why not
    why_not = why_not_fused(fused, move.path)
    if why_not is None:
        return fused, "asked for" if engine else "there is a GPU, and the log-likelihood is a sum over values of f"
    if engine == "fused":
        raise ValueError(f'engine="fused" was asked for, but {why_not}. Leave it out, or take "batched".')
    return BatchedEngine(posterior, double=double), why_not


def _why_not_compiled(compiled: CompiledEngine, host: HostEngine, f: np.ndarray, value: float) -> str | None:
    try:
        traced = compiled.evaluate(f)
    except Exception as error:  # noqa: BLE001  whatever a user's function raises when it meets a tracer
        first_line = (str(error).splitlines() or [""])[0][:120]
        return (
            f"JAX cannot trace the log-likelihood ({type(error).__name__}: {first_line}); "
            "written with jax.numpy it would be compiled"
        )
    callbacks = sorted(name for name in compiled.look.operations or () if name.endswith("callback"))
    if callbacks:
        return f"the log-likelihood calls back into Python ({callbacks[0]})"
    if not _agree(traced, value):
        return f"what JAX traced gives {traced:.6g} where the log-likelihood itself gives {value:.6g}"
    # A function that gave up when it met the tracer returned a constant, which may agree with it here by chance.
    points = host.posterior.points(np.random.default_rng(0), 24)
    if all(compiled.evaluate(point) == traced for point in points[:3]) and not all(
        _agree(compiled.evaluate(point), host.call.first(point)) for point in points
    ):
        return f"what JAX traced is {traced:.6g} everywhere, and the log-likelihood itself is not"
    return None


def _agree(traced: float, value: float) -> bool:
    return bool(np.isclose(traced, value, rtol=1e-4, atol=1e-4, equal_nan=True))
