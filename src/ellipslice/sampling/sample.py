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

from ellipslice.approximations import acceptance_rate, fit_reference
from ellipslice.checks import as_path, whole_number
from ellipslice.engines.base import Checkpoint, Engine, Run, RunSpec
from ellipslice.engines.choose import choose_engine, with_workers
from ellipslice.engines.rows import statistics_of
from ellipslice.engines.workers.pool import Workers, open_workers
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import Cycle, EllipticalSlice, Move
from ellipslice.moves.reference_slice import ReferenceSlice, RelativeReference
from ellipslice.noise import start_generator
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior, TruncatedGaussian
from ellipslice.sampling.arguments import (
    as_move,
    chain_numbers,
    check_draw_limit,
    check_precision,
    check_timeout,
    make_posterior,
)
from ellipslice.sampling.drive import Plan, drive, snapshot
from ellipslice.sampling.keep import StateSelector
from ellipslice.sampling.likelihood_checks import check_concave, warn_if_not_deterministic, warn_if_prior_counted_twice
from ellipslice.sampling.report import first_attributes
from ellipslice.sampling.result import check_names, empty_tree
from ellipslice.sampling.sinks import Collector, MemorySink, RunSink
from ellipslice.sampling.start import first_draw, first_states, given_points, prior_starts, trial_point
from ellipslice.sampling.until import StoppingRule, Until, check_goals
from ellipslice.store.store import check_free, create
from ellipslice.store.stored_run import StoredRun
from ellipslice.truncated_posterior import TruncatedPosterior

if TYPE_CHECKING:
    import xarray

INDEPENDENT = 0.75
"""Of a reference's draws that a chain must accept, for most updates to try these instead of ellipses."""


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
    """Draw from a Gaussian prior times a likelihood.

    Parameters
    ----------
    log_likelihood : callable
        f -> float, the log-likelihood *without* the prior. Written with `jax.numpy` it is compiled; any other Python
        runs too. With a `Stack` prior it receives the latents by name. -inf is fine where the likelihood is zero; NaN
        is never accepted, and counted. None draws from a `TruncatedGaussian` by itself.
    prior : Prior or TruncatedGaussian
        `Dense(covariance)`, `Diagonal(variance)`, `LowRank(factor)`, `FromDraws(sampler, size)`, `Stack({...})`; or
        `TruncatedGaussian(prior, A, b)`, one of these where A f <= b.
    move : Move, optional
        One from `ellipslice.moves`; `EllipticalSlice()` unless given, and for a `TruncatedGaussian`
        `ConstrainedSlice()`.
    draws, warmup : int
        Draws kept, 1000 unless given, and updates discarded before them, per chain. Nothing is tuned during warm-up.
    chains : int or sequence of int
        How many chains, or the numbers of the chains to run: chain 3 has the same bits alone, `chains=[3]`, or among
        many. Processes under `jax.distributed` share so many, and `join` puts their results together.
    seed : int, optional
        The same seed gives the same bits. Drawn and recorded in the result's attributes if not given.
    initial : array or mapping, optional
        Where to start, one point for all chains or one for each along a leading axis. A prior draw per chain unless
        given; for a `TruncatedGaussian` a point inside, found by linear programming.
    thin : int
        Keep every thin-th update.
    keep : callable or False, optional
        Maps the latent to what is stored, an array or a dict of arrays, for latents too large to keep whole. It is
        called for every draw. False keeps the statistics alone, `total_log_likelihood` among them.
    engine : {"compiled", "host", "batched", "fused"}, optional
        Found by looking unless given; the result's attributes say which ran and why. "compiled" runs chain by chain on
        the CPU's cores, "host" any Python. On a GPU chains run together: "fused" in one kernel, for a log-likelihood
        that is a sum over the values of f, "batched" in one loop, for any other. These two draw their noise on the
        device, so a seed gives other draws there.
    executor : concurrent.futures.Executor or callable, optional
        Workers for chains that one process is too slow for: a process pool, `dask.distributed`'s
        `client.get_executor()`, MPI's. Chains are advanced by them about a second at a time; a few chains of a slow
        Python likelihood have the next proposals of each evaluated side by side (see `look_ahead`). The draws are the
        same to the bit. A function that makes an executor, `lambda: ProcessPoolExecutor(8)`, is called again if
        workers die. See `docs/cluster.md`.
    timeout : float, optional
        Seconds without an answer from any worker after which the run ends with an error; no limit unless given.
    precision : {"double", "single"}
        Single precision is several times faster on a GPU; it runs on the engines "batched" and "fused".
    vectorized : bool, optional
        True says that the log-likelihood takes a batch, ``(batch, *shape) -> (batch,)``. On the host engine this turns
        on look-ahead and evaluates all chains in one call.
    log_concave : bool, optional
        True says that the log-likelihood is a concave function (known of the ready-made ones that are). In compiled
        code most proposals are then rejected by tangent planes, without an evaluation. The draws are the same.
    look_ahead : int, optional
        How many proposals to evaluate at once (at most 32, a power of two, where chains run together; with an executor
        each by a worker, and unless given as many as there are workers for each chain). It changes the speed, never the
        draws.
    reference : {"auto", "laplace", "ep", "pilot"} or Prior, optional
        For a likelihood much stronger than the prior: sample around a Gaussian fitted to the posterior, by
        `moves.ReferenceSlice`. "laplace" and "ep" (expectation propagation, better where the posterior is skew) need a
        log-likelihood that is a sum over the values of f, written with `jax.numpy`; "pilot" takes any, by a short run;
        "auto" takes the best that can be. Or a Gaussian of your own, such as `Dense(covariance, mean)`. The draws are
        from the posterior whatever the reference; the result's attributes say how good it was.
    store : path, optional
        A folder to make, such as "run.zarr", to which draws are streamed: memory stays bounded however many they are,
        and a run that is killed can be gone on with, by `resume`. The result is then read from there when it is asked
        for. Needs `ellipslice[store]`.
    until : Until, optional
        Goals and budgets in place of a number of draws: `Until(effective_sample_size=400, rhat=1.01,
        max_seconds=3600)`.
    progress : bool
        Show a progress bar when there is a terminal or notebook to show it in.
    dims, coords : mapping, optional
        Names and labels of the latent's dimensions, as ArviZ takes them, such as `dims={"f": ["year"]}` and
        `coords={"year": years}`.

    Returns
    -------
    xarray.DataTree
        Group `posterior` holds `f` (or the named latents, or what `keep` returned); `sample_stats` holds
        `total_log_likelihood` (over all observations), `proposals` (angles tried, the paper's count), `evaluations` of
        the likelihood, `angle`, `nan_evaluations` and `search_failed` of the update that made each draw. The attributes
        say what was run, and by what it ended (`stopped_by`). Ctrl-C stops the run and returns what was drawn so far.

    Examples
    --------
    A straight line observed with noise, in 5 places:

    >>> import jax.numpy as jnp, numpy as np
    >>> import ellipslice as es
    >>> x = np.linspace(0, 1, 5)
    >>> prior = es.Dense(np.exp(-0.5 * (x[:, None] - x) ** 2))
    >>> tree = es.sample(lambda f: -50 * jnp.sum((x - f) ** 2), prior, draws=200, warmup=100, seed=1)
    >>> tree.posterior.f.shape, tree.attrs["engine"]
    ((4, 200, 5), 'compiled')

    References
    ----------
    Murray, Adams & MacKay (2010), Elliptical slice sampling, AISTATS.
    """
    began = time.perf_counter()
    draws, path = check_draw_limit(draws, until), None if store is None else as_path(store)
    if path is not None:
        check_free(path)
    spec = RunSpec(
        as_move(move, prior),
        secrets.randbits(32) if seed is None else whole_number("seed", seed, 0),
        chain_numbers(chains),
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
        _check_reference(spec, posterior, engine, move)
    with jax_settings(), open_workers(executor, timeout) as workers:
        how, around = None, None
        if reference is not None:
            own, how, around = _around(reference, posterior, spec.seed, engine, workers, bool(log_concave))
            spec = replace(spec, move=own)
        points = None if initial is None else given_points(posterior, initial, spec.chains)
        trial = trial_point(posterior, spec, points, around)
        runner, why = _engine(posterior, spec, engine, trial, workers, around, bool(log_concave))
        starts = first_states(runner, spec, points, around)
        kept = StateSelector(posterior.log_likelihood, keep, starts[0].f.astype(runner.dtype))
        check_names(kept.example, dims, coords)
        stored = StoredRun(prior, spec, vectorized, log_concave, keep, runner.name)
        attributes = first_attributes(stored, log_likelihood, why, how)
        rule = None if until is None else StoppingRule(until, kept.example, len(spec.chains))
        plan = Plan(runner, spec, draws, rule, None if rule is None else rule.first_check(), attributes, began)
        collector = Collector(kept, [Checkpoint(0, state) for state in starts], [0] * len(starts))
        run, sink = _set_out(plan, collector, path, stored, dims, coords)
        return drive(plan, collector, sink, run, progress)


def _engine(
    posterior: Posterior,
    spec: RunSpec,
    name: str | None,
    f: np.ndarray,
    workers: Workers | None,
    around: RelativeReference | None,
    log_concave: bool,
) -> tuple[Engine, str]:
    """Return the engine of a run, and why this one. What it cannot run raises before workers are sent anything."""
    engine, why = choose_engine(posterior, name, f, spec.move, spec.precision == "double", workers)
    if around is not None:
        engine.cache_prepared(spec.move, around)
    engine.check(spec, by_workers=workers is not None)
    if log_concave:
        check_concave(engine)
    return with_workers(engine, workers, f, spec), why


def _set_out(
    plan: Plan,
    collector: Collector,
    path: Path | None,
    stored: StoredRun,
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Any] | None,
) -> tuple[Run, RunSink]:
    """Return the run before its first update, and the sink of its draws. What cannot be run leaves no store behind."""
    form = collector.keep.example, statistics_of(plan.spec.move), plan.spec.chains
    memory = MemorySink(*form, plan.attributes, dims, coords)
    if path is None:  # before the log-likelihood is examined: too many draws cost no time
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


def _check_reference(spec: RunSpec, posterior: Posterior, engine: str | None, move: Move | None) -> None:
    """Raise if a run cannot have a reference, before it is fitted."""
    if spec.look_ahead is not None and spec.look_ahead > 1:
        raise ValueError(
            f"look_ahead={spec.look_ahead} was asked for, but a reference comes with a move that is not a single "
            "search. Leave one of them out."
        )
    if move is not None:
        raise ValueError(f"reference comes with a move of its own, but move={move!r} was given too. Leave one out.")
    if isinstance(posterior, TruncatedPosterior):
        raise ValueError("reference is for priors without constraints; a TruncatedGaussian has a move of its own.")
    if engine in ("batched", "fused") or spec.precision != "double":
        raise ValueError('reference runs on the engines "compiled" and "host", in double precision.')


def _around(
    reference: Any, posterior: Posterior, seed: int, engine: str | None, workers: Workers | None, log_concave: bool
) -> tuple[ReferenceSlice, str, RelativeReference]:
    """Return the move around a fitted reference, how that was found, and the reference relative to the prior."""
    own = int(np.random.SeedSequence(seed).spawn(1)[0].generate_state(1)[0])  # the chains' noise is not for fitting
    trial = first_draw(posterior, start_generator(own, 0))
    not_for_a_gpu = Cycle(EllipticalSlice())
    chosen, _ = choose_engine(posterior, engine, trial, not_for_a_gpu, workers=workers)
    if log_concave:
        check_concave(chosen)
    runner = with_workers(chosen, workers, trial)
    fitted = fit_reference(reference, runner, lambda count: prior_starts(runner, own, range(count)), own)
    relative = fitted.reference.relative_to(posterior.prior)
    good = acceptance_rate(relative, runner, own) > INDEPENDENT
    return ReferenceSlice(fitted.reference, independence=good), fitted.method, relative
