"""`sample`: run moves on a posterior and return the draws."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ellipslice.checks import as_path, whole_number
from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.workers.pool import open_workers
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import Move
from ellipslice.priors import Prior, TruncatedGaussian
from ellipslice.sampling.arguments import (
    as_move,
    chain_indices,
    check_draw_limit,
    check_precision,
    check_timeout,
    has_automatic_length,
    make_posterior,
)
from ellipslice.sampling.automatic_length import AutomaticLength
from ellipslice.sampling.drive import Plan, drive
from ellipslice.sampling.initial_states import first_states, given_points, trial_point
from ellipslice.sampling.keep import StateSelector
from ellipslice.sampling.reference_move import check_reference
from ellipslice.sampling.report import first_attributes
from ellipslice.sampling.result import check_names
from ellipslice.sampling.sinks import Collector
from ellipslice.sampling.start import engine_of_run, fitted_move, start_run
from ellipslice.sampling.until import StoppingRule, Until, check_goals
from ellipslice.store.create import check_free
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
        Markov transition, an instance of a class of `ellipslice.moves`. `EllipticalSlice()` is the algorithm of the
        paper. Default: chosen automatically; the attributes `move` and `move_reason` of the result record the choice.
        It is `ConstrainedSlice()` for a `TruncatedGaussian`, a move around a `reference` if one can be fitted quickly,
        and otherwise `EllipticalSlice()`.
    draws : int, optional
        Number of draws that are kept of each chain. At least 1. Default: the run continues until it passes
        `diagnostics.check_convergence`, for at most 77,100 updates of each chain with the default warm-up, and 1000
        draws are returned. If a run is not long enough, the first fifth of its draws becomes warm-up, every second of
        the others is removed, and the run continues with twice the thinning; the attributes `warmup` and `thin` record
        the final values, which give the same draws as arguments. With a sequence of `chains`: 1000.
    warmup : int
        Number of updates of each chain that are discarded at the start. Nothing is tuned in them. Default: 500, and
        more if the length is chosen automatically.
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
        Thinning: keep every `thin`-th update after warm-up. Default: 1, and more if the length is chosen
        automatically.
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
        Number of proposals of a chain that are evaluated in parallel. It changes the speed but not the draws of a move;
        with it, the default move is `EllipticalSlice()`. The engines "batched" and "fused" round it down to a power of
        two, at most 32. Default: chosen by the engine; with
        slow evaluations by workers, the number of workers divided by the number of chains.
    reference : {"auto", "laplace", "ep", "pilot"} or Prior, optional
        Sample around a Gaussian approximation of the posterior, with `moves.ReferenceSlice`. Use it if the likelihood
        is much more informative than the prior. "laplace" (Laplace approximation) and "ep" (expectation propagation,
        better for skewed posteriors) require a log-likelihood that factorises over the elements of f and is written
        with `jax.numpy`. "pilot" fits any likelihood by a pilot run. "auto" uses the best of these that is possible,
        and `moves.SplitHamiltonian` if a pilot run shows that gradients help. A `Prior` such as `Dense(covariance,
        mean)` is used as it is. The draws are from the exact posterior in all cases. The fit runs on the CPU, also for
        the engine "batched". The attributes `reference` and `move_reason` state what was chosen. Default: "auto" or no
        reference, chosen automatically, if `move` is not given.
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
    draws_given, path = draws, None if store is None else as_path(store)
    draws = check_draw_limit(draws, until)
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
    nothing_to_check = log_likelihood is None and keep is False
    length = AutomaticLength(spec.thin) if has_automatic_length(draws_given, until, chains, nothing_to_check) else None
    if reference is not None:
        check_reference(spec, posterior, engine, move)
    with jax_settings(), open_workers(executor, timeout) as workers:
        points = None if initial is None else given_points(posterior, initial, spec.chains)
        fitted = fitted_move(posterior, spec, move, reference, engine, workers, bool(log_concave), progress)
        spec = spec if fitted is None else replace(spec, move=fitted.move)
        around = None if fitted is None else fitted.around
        points = fitted.points(spec.chains) if points is None and fitted is not None else points
        trial = trial_point(posterior, spec, points, around)
        runner, why = engine_of_run(posterior, spec, engine, trial, workers, fitted, bool(log_concave))
        starts = first_states(runner, spec, points, around)
        kept = StateSelector(posterior.log_likelihood, keep, starts[0].f.astype(runner.dtype))
        check_names(kept.example, dims, coords)
        stored = StoredRun(prior, spec, vectorized, log_concave, keep, runner.name)
        attributes = first_attributes(stored, log_likelihood, why, fitted)
        rule = None if until is None else StoppingRule(until, kept.example, len(spec.chains))
        plan = Plan(runner, spec, draws, rule, None if rule is None else rule.first_check(), attributes, began, length)
        collector = Collector(kept, [Checkpoint(0, state) for state in starts], [0] * len(starts))
        run, sink = start_run(plan, collector, path, stored, dims, coords)
        return drive(plan, collector, sink, run, progress)
