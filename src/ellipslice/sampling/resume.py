"""`resume`: continue a run from its store."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from ellipslice.checks import as_path, warn, whole_number
from ellipslice.engines.base import Engine, RunSpec
from ellipslice.engines.choose import choose_engine, with_workers
from ellipslice.engines.workers.pool import Workers, open_workers
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import Move
from ellipslice.priors import Prior, TruncatedGaussian
from ellipslice.sampling.arguments import check_draw_limit, check_timeout, make_posterior
from ellipslice.sampling.automatic_length import AutomaticLength
from ellipslice.sampling.drive import Plan, drive
from ellipslice.sampling.keep import StateSelector
from ellipslice.sampling.sinks import Collector
from ellipslice.sampling.until import StoppingRule, Until, check_goals, draw_limit
from ellipslice.store.store import Store
from ellipslice.store.stored_run import StoredRun, read_run
from ellipslice.store.verify import open_store, raise_if_edited

if TYPE_CHECKING:
    import xarray


def resume(
    store: str | os.PathLike[str],
    log_likelihood: Callable[..., Any] | None,
    *,
    draws: int | None = None,
    until: Until | None = None,
    prior: Prior | TruncatedGaussian | None = None,
    move: Move | None = None,
    keep: Callable[..., Any] | Literal[False] | None = None,
    seed: int | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    timeout: float | None = None,
    progress: bool = True,
) -> xarray.DataTree:
    """Continue a run from its store: after a crash, a power cut, a full disk or Ctrl-C, or to get more draws.

    The finished store is bit-identical to that of an uninterrupted run: all draws, statistics and metadata except the
    times. This holds on the same machine with the same versions of NumPy and JAX; others may round differently. The
    store is checked first: its content against the checksums, and the log-likelihood against its earlier values.

    Parameters
    ----------
    store : path
        Folder that was given to `sample(..., store=...)`.
    log_likelihood : callable or None
        The log-likelihood of the run, with the same data. It must be given because code is never stored.
    draws : int, optional
        Total number of draws of each chain, including those in the store. Default: the target of the run so far.
    until : Until, optional
        New stopping rule, instead of `draws`. Default: the stopping rule of the run so far, if it has one.
    prior, move : optional
        Prior and move of the run. Give them if the store cannot contain them, for example a `FromDraws` or a class of
        your own. Otherwise they are read from the store, and it is an error to give different ones.
    seed : int, optional
        Seed of the run. It is read from the store, and it is an error to give a different one.
    keep : callable, optional
        Function `keep` of the run, if `sample` was given one.
    executor : concurrent.futures.Executor or callable, optional
        Workers, as in `sample`. They need not be those of the run so far, and do not change the draws.
    timeout : float, optional
        Seconds without an answer from any worker after which the run raises TimeoutError. Above 0. Default: no limit.
    progress : bool
        Show a progress bar in a terminal or notebook. Default: True.

    Returns
    -------
    xarray.DataTree
        The result, as `sample` returns it. Values are read from the store when they are used.

    Raises
    ------
    FileNotFoundError
        If there is no store.
    BlockingIOError
        If another process writes to the store.
    ValueError
        If the store is damaged, or if an argument differs from that of the run.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import tempfile, numpy as np, jax.numpy as jnp
    >>> import ellipslice as es
    >>> path = tempfile.mkdtemp() + "/run.zarr"
    >>> prior = es.Diagonal(np.ones(3))
    >>> def log_likelihood(f):
    ...     return -jnp.sum((f - 1.0) ** 2)
    >>> tree = es.sample(log_likelihood, prior, draws=100, seed=1, store=path)
    >>> more = es.resume(path, log_likelihood, draws=150)
    >>> more.posterior.f.shape
    (4, 150, 3)
    """
    began = time.perf_counter()
    path = as_path(store)
    draws = None if draws is None else whole_number("draws", draws, 1)
    if until is not None:
        draws = check_draw_limit(draws, until)
    check_timeout(timeout, executor)
    opened = open_store(path)
    with contextlib.ExitStack() as stack:
        try:
            stored = read_run(opened, prior, move, seed, keep)
            check_goals(until, len(stored.spec.chains), log_likelihood, stored.keep)
            workers = stack.enter_context(open_workers(executor, timeout))
            stack.enter_context(jax_settings())
            engine, collector = _continue(opened, stored, log_likelihood, workers)
            plan = _plan(opened, engine, stored.spec, collector, draws, until, began)
            engine.of_block = collector.keep.of_block
            run = engine.run(stored.spec, collector.resume_points, plan.updates)
        except BaseException:
            opened.close(tidy=False)
            raise
        return drive(plan, collector, opened, run, progress)


def _continue(
    store: Store, stored: StoredRun, log_likelihood: Any, workers: Workers | None
) -> tuple[Engine, Collector]:
    """Return the engine and the collector of a stored run. Raise if the run would not be the same."""
    spec, checkpoints = stored.spec, store.checkpoints
    with raise_if_edited(store.path):
        _warn_of_versions(store.setup["attributes"])
    posterior = make_posterior(
        stored.prior, log_likelihood, spec.move, vectorized=stored.vectorized, log_concave=stored.log_concave
    )
    posterior.probe_points(checkpoints[0].state.f)
    first = checkpoints[0].state.f.astype(np.float64)
    if first.shape != (posterior.prior.size,):
        raise ValueError(
            f"{store.path} contains states of {len(first)} elements, but this log-likelihood and prior have "
            f"{posterior.prior.size}. Give the log-likelihood of the run."
        )
    chosen, _ = choose_engine(posterior, stored.engine, first, spec.move, spec.precision == "double", workers)
    engine = with_workers(chosen, workers, first, spec)
    _check_likelihood(store, engine)
    kept = StateSelector(posterior.log_likelihood, stored.keep, checkpoints[0].state.f)
    _check_kept(store, kept, spec)
    return engine, Collector(kept, checkpoints, store.complete)


def _plan(
    store: Store,
    engine: Engine,
    spec: RunSpec,
    collector: Collector,
    draws: int | None,
    until: Until | None,
    began: float,
) -> Plan:
    """Return the plan of the rest of the run: the stored one, or with a new number of draws or stopping rule."""
    resume_state = store.journal["plans"]
    if until is None and draws is None and resume_state["until"] is not None:
        until = Until(**resume_state["until"])
    automatic = None
    if draws is None and until is None and resume_state.get("automatic") is not None:
        automatic = AutomaticLength(resume_state["automatic"])
    draws = int(resume_state["draws"]) if draws is None else draws
    if draws < max(store.complete):
        raise ValueError(
            f"{store.path} has {max(store.complete):,} draws of each chain already, but draws={draws}. Give the total "
            "number, including those in the store."
        )
    rule, check = None, None
    if until is not None:
        rule = StoppingRule(until, collector.keep.example, len(spec.chains))
        # "look" is the key of format 2 for the next check of the stopping rule.
        check = resume_state["look"] if resume_state["until"] is not None else None
        check = min(draw_limit(until), max(check or rule.first_check(), store.draws_committed))
        if until.has_goals:
            store.replay(rule)
    attributes, earlier = store.setup["attributes"], store.journal["attributes"]
    return Plan(engine, spec, draws, rule, check, attributes, began, automatic, earlier)


def _warn_of_versions(attributes: dict[str, Any]) -> None:
    """Warn if the store was created with other versions of the libraries."""
    now = {
        "ellipslice_version": importlib.metadata.version("ellipslice"),
        "jax_version": jax.__version__,
        "numpy_version": np.__version__,
    }
    others = [
        f"{name.removesuffix('_version')} {attributes[name]} (now {version})"
        for name, version in now.items()
        if attributes[name] != version
    ]
    if others:
        warn(
            f"the store was created with {', '.join(others)}. The run continues and its draws are correct, but they "
            "may not be bit-identical to those of an uninterrupted run."
        )


def _check_likelihood(store: Store, engine: Engine) -> None:
    """Raise if the log-likelihood at the current states differs from its stored values."""
    states = [checkpoint.state for checkpoint in store.checkpoints]
    rounding = 1e-7 if engine.dtype == np.float64 else 1e-3
    values = engine.evaluate_all([state.f for state in states])
    for chain, (state, value) in enumerate(zip(states, values, strict=True)):
        before = state.log_likelihood
        if not abs(before - value) <= rounding * (1 + abs(before)):
            raise ValueError(
                f"this log-likelihood is not the one that {store.path} was created with: at the state of chain {chain} "
                f"(counted from 0) it is {value:.10g}, but was {before:.10g}. Give the same function and data."
            )


def _check_kept(store: Store, kept: StateSelector, spec: RunSpec) -> None:
    """Raise if `keep` returns something else than the store contains."""
    arrays = store.arrays["posterior"]
    for name in arrays.keys() | kept.example.keys():
        had = arrays[name].form if name in arrays else None
        has = (kept.example[name].dtype, kept.example[name].shape[1:]) if name in kept.example else None
        if had != has:
            raise ValueError(
                f"{store.path} contains {_form(name, had)}, but this keep returns {_form(name, has)}. Give the keep of "
                "the run."
            )
    for chain, checkpoint in enumerate(store.checkpoints):
        number, left = divmod(checkpoint.updates - spec.warmup, spec.thin)
        if left or number < 1:
            continue
        for name, values in kept(checkpoint.state.f[None]).items():
            stored = arrays[name].read(chain, number - 1, number)
            if not np.allclose(values, stored, rtol=1e-6, atol=1e-9, equal_nan=True):
                raise ValueError(
                    f"{store.path} contains another {name} than this keep returns for the same state: draw "
                    f"{number - 1} of chain {chain} (both counted from 0). Give the keep of the run."
                )


def _form(name: str, form: tuple[Any, tuple[int, ...]] | None) -> str:
    """Return name, type and shape of a variable as text. `form` is None if there is no such variable."""
    return f"no {name}" if form is None else f"{name} as {form[0]} of shape {form[1]}"
