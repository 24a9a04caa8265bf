"""`sample`: run moves on a posterior and return the draws."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ellipslice.checks import as_path, whole_number
from ellipslice.engines.base import Checkpoint, Engine, Run, RunSpec
from ellipslice.engines.choose import choose_engine, with_workers
from ellipslice.engines.rows import statistics_of
from ellipslice.engines.workers.pool import Workers, open_workers
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import Move
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior, TruncatedGaussian
from ellipslice.sampling.arguments import (
    as_move,
    chain_indices,
    check_draw_limit,
    check_precision,
    check_timeout,
    make_posterior,
)
from ellipslice.sampling.drive import Plan, drive, snapshot
from ellipslice.sampling.initial_states import first_states, given_points, trial_point
from ellipslice.sampling.keep import StateSelector
from ellipslice.sampling.likelihood_checks import check_concave, warn_if_not_deterministic, warn_if_prior_counted_twice
from ellipslice.sampling.reference_move import ReferenceMove, check_reference, fit_reference_move
from ellipslice.sampling.report import first_attributes
from ellipslice.sampling.result import check_names, empty_tree, import_in_background
from ellipslice.sampling.sinks import Collector, MemorySink, RunSink
from ellipslice.sampling.until import StoppingRule, Until, check_goals
from ellipslice.store.store import check_free, create
from ellipslice.store.stored_run import StoredRun

if TYPE_CHECKING:
    import xarray


def sample(
    log_likelihood: Callable[..., Any] | None,
    prior: Prior | TruncatedGaussian,
    *,
    move: Move | None = None,
    draws: int | None = None,
    warmup: int = 500,
    chains: int | Sequence[int] = 4,
    seed: int | None = None,
    initial: Any = None,
    thin: int = 1,
    keep: Callable[..., Any] | Literal[False] | None = None,
    engine: str | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    timeout: float | None = None,
    precision: str = "double",
    vectorized: bool | None = None,
    log_concave: bool | None = None,
    look_ahead: int | None = None,
    reference: Any = None,
    store: str | os.PathLike[str] | None = None,
    until: Until | None = None,
    progress: bool = True,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> xarray.DataTree:
    """Draw from a posterior with a Gaussian prior and any likelihood, by elliptical slice sampling or another move.

    Parameters
    ----------
    log_likelihood : callable or None
        Function f -> float: the log-likelihood *without* the prior. It is compiled if it is written with `jax.numpy`;
        any other Python function works, too. With a `Stack` prior it is called with the latents as keyword arguments.
        Return -inf where the likelihood is zero. Proposals with NaN are rejected and counted. None (only with a
        `TruncatedGaussian`) draws from the prior.
    prior : Prior or TruncatedGaussian
        Gaussian prior of the latent vector f:

        - `Dense(covariance)`: any covariance matrix
        - `Diagonal(variance)`: independent elements
        - `Stationary(kernel, shape, spacing)`: a stationary kernel on a regular grid
        - `Kronecker(*factors)`: a product of covariances, one per axis of a grid
        - `Markov(kernel, times)`: a time series at any times, with a kernel of `tinygp.kernels.quasisep`
        - `SparsePrecision(precision)`: a sparse precision matrix (Gaussian Markov random field)
        - `LowRank(factor)`: f = factor @ z with few standard normals z
        - `Stack({name: prior, ...})`: several independent latents with names
        - `Sum(*priors)`: the sum of independent Gaussians
        - `FromDraws(sampler, size)`: a function that draws from the prior
        - `TruncatedGaussian(prior, A, b)`: one of these under the constraints A f <= b
    move : Move, optional
        Markov transition, an instance of a class of `ellipslice.moves`. Default: `EllipticalSlice()`, or
        `ConstrainedSlice()` for a `TruncatedGaussian`.
    draws : int, optional
        Number of draws that are kept of each chain. At least 1. Default: 1000.
    warmup : int
        Number of updates of each chain that are discarded at the start. Nothing is tuned in them. Default: 500.
    chains : int or sequence of int
        Number of chains, or a sequence of chain indices. Default: 4. A chain depends only on the seed and its index:
        `chains=[3]` reproduces chain 3 of a larger run bit for bit (on a GPU, up to rounding error). Under
        `jax.distributed` the processes divide the chains among them; combine their results with `join`.
    seed : int, optional
        Seed of all random numbers, at least 0. The same seed gives bit-identical draws. Default: a random seed, which
        is recorded in the attribute `seed` of the result.
    initial : array or mapping, optional
        Initial state: one for all chains, or one per chain along a leading axis; for a `Stack`, a mapping from names to
        such arrays. Default: a draw from the prior for each chain, or from the fitted `reference`. For a
        `TruncatedGaussian`: a point that satisfies the constraints, moved by ten updates without the likelihood.
    thin : int
        Thinning: keep every `thin`-th update after warm-up. Default: 1.
    keep : callable or False, optional
        Function of f (of the named latents, for a `Stack`) that returns what is stored of each draw: an array or a dict
        of arrays. Use it for latent vectors that are too large to store. False stores only the statistics, such as
        `total_log_likelihood`. Default: store all latents.
    engine : {"compiled", "host", "batched", "fused"}, optional
        Code that runs the chains. "compiled": compiled loops on the CPU's cores, chain by chain. "host": any Python
        function. "batched": all chains in one compiled loop, for GPUs. "fused": all chains in one kernel, for NVIDIA
        GPUs (Hopper or later) and a log-likelihood that factorises over the elements of f. "batched" and "fused" draw
        random numbers on the device, so a seed gives different draws there. Default: chosen automatically; the
        attributes `engine` and `engine_reason` of the result record the choice.
    executor : concurrent.futures.Executor or callable, optional
        Workers that run the chains: for example a process pool, `client.get_executor()` of `dask.distributed`, or an
        MPI pool. A worker advances a chain for about a second at a time. For a few chains with slow evaluations,
        workers evaluate the next proposals of each chain in parallel (see `look_ahead`). The draws are bit-identical to
        those without workers. A function that returns an executor, such as `lambda: ProcessPoolExecutor(8)`, is called
        again if workers die. The documentation has a page on parallel runs. Default: no workers.
    timeout : float, optional
        Seconds without an answer from any worker after which the run raises TimeoutError. Above 0. Default: no limit.
    precision : {"double", "single"}
        Floating-point precision. Single precision is several times faster on a GPU and requires the engine "batched" or
        "fused". Default: "double".
    vectorized : bool, optional
        True if the log-likelihood accepts a batch, ``(batch, *shape) -> (batch,)``. The host engine then evaluates all
        chains in one call, with look-ahead. Default: the attribute `vectorized` of the log-likelihood, or False.
    log_concave : bool, optional
        True if the log-likelihood is a concave function of f and can be compiled. Most proposals are then rejected by
        tangent planes, without an evaluation. The draws do not change. Default: the attribute `log_concave` of the
        log-likelihood, or False.
    look_ahead : int, optional
        Number of proposals of a chain that are evaluated in parallel. It changes the speed but not the draws. The
        engines "batched" and "fused" round it down to a power of two, at most 32. Default: chosen by the engine; with
        slow evaluations by workers, the number of workers divided by the number of chains.
    reference : {"auto", "laplace", "ep", "pilot"} or Prior, optional
        Sample around a Gaussian approximation of the posterior, with `moves.ReferenceSlice`. Use it if the likelihood
        is much more informative than the prior. "laplace" (Laplace approximation) and "ep" (expectation propagation,
        better for skewed posteriors) require a log-likelihood that factorises over the elements of f and is written
        with `jax.numpy`. "pilot" fits any likelihood by a pilot run. "auto" uses the best of these that is possible,
        and `moves.SplitHamiltonian` if a pilot run shows that gradients help. A `Prior` such as `Dense(covariance,
        mean)` is used as it is. The draws are from the exact posterior in all cases. The attributes `reference` and
        `reference_move` state what was chosen. Default: None, no reference.
    store : path, optional
        Folder to create, such as "run.zarr", to which draws and checkpoints are written during the run. Memory use is
        then bounded, and `resume` continues the run after a crash. Values of the result are read from the disk when
        they are used. Requires ``pip install 'ellipslice[store]'``. Default: draws are kept in memory.
    until : Until, optional
        Stopping rule instead of `draws`: `Until(effective_sample_size=400, rhat=1.01, max_seconds=3600)`.
    progress : bool
        Show a progress bar in a terminal or notebook. Default: True.
    dims, coords : mapping, optional
        Names and labels of the dimensions of the latents, as in ArviZ: `dims={"f": ["year"]}, coords={"year": years}`.

    Returns
    -------
    xarray.DataTree
        The group `posterior` contains `f`, the named latents of a `Stack`, or the result of `keep`, with dimensions
        (chain, draw, ...). The group `sample_stats` contains statistics of the update that made each draw:
        `total_log_likelihood` (sum over all observations), `proposals` (number of angles tried), `evaluations`,
        `nan_evaluations`, `search_failed` and `angle` (radians). The attributes describe the run, for example `seed`,
        `engine`, `evaluations` and `stopped_by`. After Ctrl-C the draws so far are returned, with a warning.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, before the run starts; or if the log-likelihood is +inf during the run.
    FileExistsError
        If `store` exists.
    MemoryError
        If the draws do not fit into memory.
    WorkersLostError, TimeoutError
        If the workers of `executor` die or do not answer. Without a store, `WorkersLostError.tree` has the draws.
    KeyboardInterrupt
        If the run is interrupted before the first draw.

    References
    ----------
    Murray, Adams & MacKay (2010), Elliptical slice sampling, AISTATS.

    Examples
    --------
    A straight line observed with noise at 5 inputs:

    >>> import jax.numpy as jnp, numpy as np
    >>> import ellipslice as es
    >>> x = np.linspace(0, 1, 5)
    >>> prior = es.Dense(np.exp(-0.5 * (x[:, None] - x) ** 2))
    >>> tree = es.sample(lambda f: -50 * jnp.sum((x - f) ** 2), prior, draws=200, warmup=100, seed=1)
    >>> tree.posterior.f.shape, tree.attrs["engine"]
    ((4, 200, 5), 'compiled')
    """
    began = time.perf_counter()
    draws, path = check_draw_limit(draws, until), None if store is None else as_path(store)
    if path is not None:
        check_free(path)
    spec = RunSpec(
        as_move(move, prior),
        secrets.randbits(32) if seed is None else whole_number("seed", seed, 0),
        chain_indices(chains),
        warmup=whole_number("warmup", warmup, 0),
        thin=whole_number("thin", thin, 1),
        look_ahead=None if look_ahead is None else whole_number("look_ahead", look_ahead, 1),
        precision=precision,
    )
    check_precision(precision)
    check_goals(until, len(spec.chains), log_likelihood, keep)
    check_timeout(timeout, executor)
    posterior = make_posterior(prior, log_likelihood, spec.move, vectorized=vectorized, log_concave=log_concave)
    if reference is not None:
        check_reference(spec, posterior, engine, move)
    with jax_settings(), open_workers(executor, timeout) as workers:
        fitted = None
        if reference is not None:
            fitted = fit_reference_move(reference, posterior, spec.seed, engine, workers, bool(log_concave))
            spec = replace(spec, move=fitted.move)
        around = None if fitted is None else fitted.around
        points = None if initial is None else given_points(posterior, initial, spec.chains)
        trial = trial_point(posterior, spec, points, around)
        runner, why = _choose_engine(posterior, spec, engine, trial, workers, fitted, bool(log_concave))
        if runner.name != "host" and workers is None:  # others may fork, which is unsafe during an import
            import_in_background()
        starts = first_states(runner, spec, points, around)
        kept = StateSelector(posterior.log_likelihood, keep, starts[0].f.astype(runner.dtype))
        check_names(kept.example, dims, coords)
        stored = StoredRun(prior, spec, vectorized, log_concave, keep, runner.name)
        attributes = first_attributes(stored, log_likelihood, why, fitted)
        rule = None if until is None else StoppingRule(until, kept.example, len(spec.chains))
        plan = Plan(runner, spec, draws, rule, None if rule is None else rule.first_check(), attributes, began)
        collector = Collector(kept, [Checkpoint(0, state) for state in starts], [0] * len(starts))
        run, sink = _start_run(plan, collector, path, stored, dims, coords)
        return drive(plan, collector, sink, run, progress)


def _choose_engine(
    posterior: Posterior,
    spec: RunSpec,
    name: str | None,
    f: np.ndarray,
    workers: Workers | None,
    fitted: ReferenceMove | None,
    log_concave: bool,
) -> tuple[Engine, str]:
    """Return the engine of a run and the reason for it. Raise if it cannot make the run, before workers are used."""
    engine, why = choose_engine(posterior, name, f, spec.move, spec.precision == "double", workers)
    if fitted is not None:
        engine.cache_prepared(spec.move, fitted.prepared)
    engine.check(spec, by_workers=workers is not None)
    if log_concave:
        check_concave(engine)
    return with_workers(engine, workers, f, spec), why


def _start_run(
    plan: Plan,
    collector: Collector,
    path: Path | None,
    stored: StoredRun,
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Any] | None,
) -> tuple[Run, RunSink]:
    """Return the run before its first update, and the sink of its draws. If this raises, no store is left behind."""
    form = collector.keep.example, statistics_of(plan.spec.move), plan.spec.chains
    memory = MemorySink(*form, plan.attributes, dims, coords)
    if path is None:  # first of all, so that too many draws raise before the log-likelihood is examined
        memory.reserve(plan.next_check or plan.draws)
    first = collector.resume_points[0].state
    warn_if_not_deterministic(first.log_likelihood, plan.engine.evaluate(first.f), "a second time")
    warn_if_prior_counted_twice(plan.engine)
    run = plan.engine.run(plan.spec, collector.resume_points, plan.updates)
    if path is None:
        return run, memory
    try:
        skeleton = empty_tree(*form, dims, coords, plan.attributes)
        return run, create(path, *stored.write(), skeleton, snapshot(plan, collector))
    except BaseException:
        run.close()
        raise
