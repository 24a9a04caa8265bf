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
from ellipslice.sampling.drive import Plan, drive
from ellipslice.sampling.keep import StateSelector
from ellipslice.sampling.sinks import Collector
from ellipslice.sampling.until import StoppingRule, Until, check_goals
from ellipslice.store.store import Store
from ellipslice.store.stored_run import StoredRun, read_run
from ellipslice.store.verify import open_store, refused_if_edited

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
    """Go on with a run that `sample(..., store=...)` began: after a kill, a power cut, a full disk; or for more draws.

    The finished store is bit for bit the one that an uninterrupted run gives, however often it was killed: all draws
    and statistics, and all metadata but the times. (On the same machine with the same versions of NumPy and JAX: others
    may round otherwise.) The store is checked first: everything in it against its checksums, the log-likelihood against
    the values it gave before.

    Parameters
    ----------
    store : path
        As it was given to `sample`.
    log_likelihood : callable
        The same function, with the same data. Code is never stored.
    draws : int, optional
        Draws of each chain, those that are there included: to have more than were asked for at first.
    until : Until, optional
        Other goals than those of the run so far.
    prior, move, seed : optional
        Only if the store could not hold them, and says so: a `FromDraws`, a class of your own. Otherwise they are
        known; given all the same they are checked, and others than the store's refused.
    keep : callable, optional
        Again, if `sample` was given a function.
    executor, timeout : optional
        Workers, as for `sample`. Another executor than before, or none, gives the same draws.
    progress : bool
        Show a progress bar when there is a terminal or notebook to show it in.

    Returns
    -------
    xarray.DataTree
        What `sample` returns, read from the store when it is asked for.

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
            run = engine.run(stored.spec, collector.resume_points, plan.updates)
        except BaseException:
            opened.close(tidy=False)
            raise
        return drive(plan, collector, opened, run, progress)


def _continue(
    store: Store, stored: StoredRun, log_likelihood: Any, workers: Workers | None
) -> tuple[Engine, Collector]:
    """Return the engine of the run, and its collector as it was left. Raise if the run would not be the same."""
    spec, checkpoints = stored.spec, store.checkpoints
    with refused_if_edited(store.path):
        _warn_of_versions(store.setup["attributes"])
    posterior = make_posterior(
        stored.prior, log_likelihood, spec.move, vectorized=stored.vectorized, log_concave=stored.log_concave
    )
    posterior.probe_points(checkpoints[0].state.f)
    first = checkpoints[0].state.f.astype(np.float64)
    if first.shape != (posterior.prior.size,):
        raise ValueError(
            f"{store.path} was made with states of {len(first)} values, but this log-likelihood and the prior have "
            f"{posterior.prior.size}. Give the log-likelihood that it was made with."
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
    """Return the plan of the rest of the run: as it was left, or with other draws or goals."""
    plans = store.journal["plans"]
    if until is None and draws is None and plans["until"] is not None:
        until = Until(**plans["until"])
    draws = int(plans["draws"]) if draws is None else draws
    if draws < max(store.complete):
        raise ValueError(
            f"{store.path} has {max(store.complete):,} draws of each chain already, but {draws:,} were asked for. "
            "(They are counted from the start.)"
        )
    rule, check = None, None
    if until is not None:
        rule = StoppingRule(until, collector.keep.example, len(spec.chains))
        check = plans["look"] if plans["until"] is not None else None
        check = min(until.most, max(check or rule.first_check(), store.draws_safe))
        if until.has_goals:
            store.replay(rule)
    return Plan(engine, spec, draws, rule, check, store.setup["attributes"], began, store.journal["attributes"])


def _warn_of_versions(attributes: dict[str, Any]) -> None:
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
            f"the store was made with {', '.join(others)}. The run goes on, and its draws are right; but they may not "
            "be those of an uninterrupted run to the last bit."
        )


def _check_likelihood(store: Store, engine: Engine) -> None:
    """Refuse a log-likelihood that is not the one the store was made with: where chains are it gives other values."""
    states = [checkpoint.state for checkpoint in store.checkpoints]
    rounding = 1e-7 if engine.dtype == np.float64 else 1e-3
    values = engine.evaluate_all([state.f for state in states])
    for chain, (state, value) in enumerate(zip(states, values, strict=True)):
        before = state.log_likelihood
        if not abs(before - value) <= rounding * (1 + abs(before)):
            raise ValueError(
                f"this log-likelihood is not the one that {store.path} was made with: where chain {chain} (counted "
                f"from 0) is, it gives {value:.10g}, and gave {before:.10g}. Give the same function with the same data."
            )


def _check_kept(store: Store, kept: StateSelector, spec: RunSpec) -> None:
    """Refuse a `keep` that makes something else of the draws."""
    columns = store.columns["posterior"]
    for name in columns.keys() | kept.example.keys():
        had = columns[name].form if name in columns else None
        has = (kept.example[name].dtype, kept.example[name].shape[1:]) if name in kept.example else None
        if had != has:
            raise ValueError(
                f"{store.path} keeps {_form(name, had)}, but this keep returns {_form(name, has)}. Give the function "
                "that it was made with."
            )
    for chain, checkpoint in enumerate(store.checkpoints):
        number, left = divmod(checkpoint.updates - spec.warmup, spec.thin)
        if left or number < 1:
            continue
        for name, values in kept(checkpoint.state.f[None]).items():
            stored = columns[name].read(chain, number - 1, number)
            if not np.allclose(values, stored, rtol=1e-6, atol=1e-9, equal_nan=True):
                raise ValueError(
                    f"{store.path} keeps another {name} than this keep returns for the same state: draw {number - 1} "
                    f"of chain {chain} (both counted from 0). Give the function that it was made with."
                )


def _form(name: str, form: tuple[Any, tuple[int, ...]] | None) -> str:
    return f"no {name}" if form is None else f"{name} as {form[0]} of shape {form[1]}"
