"""`sample`: run moves on a posterior and return the draws."""

from __future__ import annotations

import datetime as dt
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from ellipslice.approximations import accepted, fit_reference
from ellipslice.checks import as_path, whole_number
from ellipslice.engines.base import Engine
from ellipslice.engines.choose import choose_engine
from ellipslice.engines.workers.pool import Workers, open_workers
from ellipslice.jax_settings import jax_settings
from ellipslice.likelihoods import Likelihood
from ellipslice.machine import version
from ellipslice.moves import ConstrainedSlice, Cycle, EllipticalSlice, Move, State
from ellipslice.moves.recentred import Recentred, RelativeReference
from ellipslice.moves.search import Path
from ellipslice.noise import start_generator
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior, TruncatedGaussian
from ellipslice.sampling.arguments import chain_numbers, check_timeout, how_many
from ellipslice.sampling.drive import Session
from ellipslice.sampling.keep import Keep
from ellipslice.sampling.likelihood_checks import check_concave, warn_if_not_deterministic, warn_if_prior_counted_twice
from ellipslice.sampling.result import check_names, empty_tree
from ellipslice.sampling.sinks import Checkpoint, Memory, Record
from ellipslice.sampling.start import first_draw, given_points, given_starts, prior_starts, reference_starts
from ellipslice.sampling.until import Judge, Until, check_goals
from ellipslice.store.fingerprint import fingerprint
from ellipslice.store.serial import write
from ellipslice.store.store import check_free, create
from ellipslice.store.stored_run import Setup
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
    concave: bool | None = None,
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
        `Dense(covariance)`, `Diagonal(variance)`, `LowRank(factor)`, `FromDraws(routine, size)`, `Stack({...})`; or
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
    concave : bool, optional
        True says that the log-likelihood is a concave function (known of the ready-made ones that are). In compiled
        code most proposals are then rejected by tangent planes, without an evaluation. The draws are the same.
    look_ahead : int, optional
        How many proposals to evaluate at once (at most 32, a power of two, where chains run together; with an executor
        each by a worker, and unless given as many as there are workers for each chain). It changes the speed, never the
        draws.
    reference : {"auto", "laplace", "ep", "pilot"} or Prior, optional
        For a likelihood much stronger than the prior: sample around a Gaussian fitted to the posterior, by
        `moves.Recentred`. "laplace" and "ep" (expectation propagation, better where the posterior is skew) need a
        log-likelihood that is a sum over the values of f, written with `jax.numpy`; "pilot" takes any, by a short run;
        "auto" takes the best that can be. Or a Gaussian of your own, such as `Dense(covariance, mean)`. The draws are
        from the posterior whatever the reference; the result's attributes say how good it was.
    store : path, optional
        A folder to make, such as "run.zarr", to which draws are streamed: memory stays bounded however many they are,
        and a run that is killed can be gone on with, by `resume`. The result is then read from there when it is asked
        for. Needs `ellipslice[store]`.
    until : Until, optional
        Goals and budgets in place of a number of draws: `Until(effective_size=400, rhat=1.01, seconds=3600)`.
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
        the likelihood, `angle`, `nans` and `stuck` of the update that made each draw. The attributes say what was run,
        and by what it ended (`stopped_by`). Ctrl-C stops the run and returns what was drawn so far.

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
    draws, warmup, thin = how_many(draws, until), whole_number("warmup", warmup, 0), whole_number("thin", thin, 1)
    path = None if store is None else as_path(store)
    if path is not None:
        check_free(path)
    look_ahead = None if look_ahead is None else whole_number("look_ahead", look_ahead, 1)
    numbers = chain_numbers(chains)
    check_goals(until, len(numbers), log_likelihood, keep)
    seed = secrets.randbits(32) if seed is None else whole_number("seed", seed, 0)
    given_move = move
    if move is None:
        move = ConstrainedSlice() if isinstance(prior, TruncatedGaussian) else EllipticalSlice()
    if not isinstance(move, Move):
        hint = " Make an instance of it." if isinstance(move, type) and issubclass(move, Move) else ""
        raise TypeError(f"move must be one of ellipslice.moves, such as EllipticalSlice(), but it is {move!r}.{hint}")
    if move.path is not None and type(move.path).log_factor is not Path.log_factor:
        raise TypeError(
            f"{move!r} changes the prior along its curve, which engines that table angles do not know. Run it by "
            "`target.search` inside a move of your own, as moves/line.py does."
        )
    if precision not in ("double", "single"):
        raise ValueError(f'precision must be "double" or "single", but it is {precision!r}.')
    check_timeout(timeout, executor)
    if reference is not None and look_ahead is not None and look_ahead > 1:  # before a reference is fitted
        raise ValueError(
            f"look_ahead={look_ahead} was asked for, but a reference comes with a move that is not a single search. "
            "Leave one of them out."
        )
    posterior = make_posterior(prior, log_likelihood, move, vectorized=vectorized, concave=concave)
    with jax_settings(), open_workers(executor, timeout) as workers:
        how, around = None, None
        if reference is not None:
            check = check_concave if concave else None
            move, how, around = _around(reference, posterior, seed, engine, given_move, precision, workers, check)
        choice = partial(
            choose_engine, posterior, engine, move=move, double=precision == "double", workers=workers,
            check=partial(_check, move, around, look_ahead, bool(concave), workers is not None),
        )  # fmt: skip
        runner, why, starts = _start(posterior, numbers, seed, initial, choice, around)
        kept = Keep(posterior.log_likelihood, keep, starts[0].f.astype(runner.dtype))
        check_names(kept.example, dims, coords)
        judge = None if until is None else Judge(until, kept.example, len(numbers))
        look = None if judge is None else judge.first_look()
        memory = Memory(kept.example, len(numbers), (look or draws) if path is None else 0)
        warn_if_not_deterministic(starts[0].log_likelihood, runner.evaluate(starts[0].f), "a second time")
        warn_if_prior_counted_twice(runner)
        setup = Setup(
            *(prior, move, numbers, seed, warmup, thin),
            *(runner.name, precision, vectorized, concave, look_ahead, keep),
        )
        attributes = _attributes(setup, log_likelihood, why, how)
        begin = [Checkpoint(0, state) for state in starts]
        record = Record(kept, begin, [0] * len(numbers), warmup, thin)
        session = Session(runner, setup, draws, record, memory, judge, look, attributes, began, dims, coords)
        session.set_out()
        if path is not None:
            skeleton = empty_tree(kept.example, numbers, dims, coords, attributes)
            with session.closed_if_raised():
                session.home = create(path, *setup.write(), skeleton, record, session.told, session.plans)
        return session.go(progress)


def _check(
    move: Move,
    around: RelativeReference | None,
    look_ahead: int | None,
    concave: bool,
    by_workers: bool,
    engine: Engine,
) -> None:
    """Refuse what cannot run on an engine."""
    if around is not None:
        engine.remember(move, around)
    engine.check(move, look_ahead, by_workers)
    if concave:
        check_concave(engine)


def _attributes(setup: Setup, log_likelihood: Any, why: str, reference: str | None) -> dict[str, Any]:
    """What the result says of a run, and is known before it."""
    return {
        "ellipslice_version": version("ellipslice"),
        "jax_version": jax.__version__,
        "numpy_version": np.__version__,
        "seed": setup.seed if setup.seed < 2**63 else str(setup.seed),  # a file holds 64-bit integers
        "prior": repr(setup.prior),
        "likelihood": getattr(log_likelihood, "__qualname__", None) or repr(log_likelihood),
        "move": repr(setup.move),
        "fingerprint": _fingerprint(setup, log_likelihood, reference),
        **({} if reference is None else {"reference": reference}),
        "engine": setup.engine,
        "engine_reason": why,
        "precision": setup.precision,
        "warmup": setup.warmup,
        "thin": setup.thin,
        "chains": len(setup.chains),
        "created_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def _fingerprint(setup: Setup, log_likelihood: Any, reference: str | None) -> str:
    """Numbers by which `join` tells runs apart that have the same names.

    A move that was fitted to the posterior is left out, because pilot runs on two kinds of machine do not end in the
    same place.
    """
    items = {"prior": setup.prior, "keep": setup.keep}
    if isinstance(log_likelihood, Likelihood):
        items["likelihood"] = log_likelihood
    if reference is None and write(setup.move).whole:
        items["move"] = setup.move
    return fingerprint(**items)


def make_posterior(
    prior: Any, log_likelihood: Any, move: Move, *, vectorized: bool | None, concave: bool | None
) -> Posterior:
    """Prior times likelihood; refused if the prior is truncated and the move would not know."""
    if not isinstance(prior, TruncatedGaussian):
        return Posterior(prior, log_likelihood, vectorized=vectorized, concave=concave)
    if not move.constrained:
        raise TypeError(
            f"{move!r} does not know of the constraints of a TruncatedGaussian. Leave move out for ConstrainedSlice(). "
            "(Or give the Gaussian, and a log-likelihood that is -inf where they do not hold: right, but slower.)"
        )
    return TruncatedPosterior(prior, log_likelihood, vectorized=vectorized, concave=concave)


def _start(
    posterior: Posterior,
    numbers: Sequence[int],
    seed: int,
    initial: Any,
    choice: Callable[..., tuple[Engine, str]],
    around: RelativeReference | None,
) -> tuple[Engine, str, list[State]]:
    """The engine that will run the chains, why this one, and their first states."""
    if initial is None and around is not None:
        runner, why = choice(f=np.asarray(around.centre))
        return runner, why, reference_starts(runner, around, seed, numbers)
    if initial is None:
        trial = first_draw(posterior, start_generator(seed, numbers[0]))
        runner, why = choice(f=trial)
        return runner, why, prior_starts(runner, seed, numbers)
    points = given_points(posterior, initial, numbers)
    posterior.probe_points(points[0])
    runner, why = choice(f=points[0])
    return runner, why, given_starts(runner, points, numbers)


def _around(
    reference: Any,
    posterior: Posterior,
    seed: int,
    engine: str | None,
    move: Any,
    precision: str,
    workers: Workers | None,
    check: Callable[[Engine], None] | None,
) -> tuple[Recentred, str, RelativeReference]:
    """The move around a fitted reference, how that was found, and the reference relative to the prior."""
    if move is not None:
        raise ValueError(f"reference comes with a move of its own, but move={move!r} was given too. Leave one out.")
    if isinstance(posterior, TruncatedPosterior):
        raise ValueError("reference is for priors without constraints; a TruncatedGaussian has a move of its own.")
    if engine in ("batched", "fused") or precision != "double":
        raise ValueError('reference runs on the engines "compiled" and "host", in double precision.')
    own = int(np.random.SeedSequence(seed).spawn(1)[0].generate_state(1)[0])  # the chains' noise is not for fitting
    trial = first_draw(posterior, start_generator(own, 0))
    not_for_a_gpu = Cycle(EllipticalSlice())
    runner, _ = choose_engine(posterior, engine, trial, not_for_a_gpu, workers=workers, check=check)
    fitted = fit_reference(reference, runner, lambda count: prior_starts(runner, own, range(count)), own)
    relative = fitted.reference.relative_to(posterior.prior)
    good = accepted(relative, runner, own) > INDEPENDENT
    return Recentred(fitted.reference, independent=good), fitted.how, relative
