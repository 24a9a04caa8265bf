"""`sample`: run moves on a posterior and return the draws."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from ellipslice.engines.base import Engine, Run
from ellipslice.engines.choose import choose_engine
from ellipslice.moves import ConstrainedSlice, Cycle, EllipticalSlice, Move, Search, State
from ellipslice.moves.recentred import Beside, Recentred
from ellipslice.noise import start_generator
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior, TruncatedGaussian
from ellipslice.references import Fitted, fit_reference
from ellipslice.sampling.interrupt import deferred
from ellipslice.sampling.progress import progress_bar
from ellipslice.sampling.record import Record
from ellipslice.sampling.result import build_tree, check_names
from ellipslice.sampling.start import first_draw, given_points, given_starts, prior_starts, reference_starts
from ellipslice.sampling.suspicions import check_concave, warn_if_prior_inside, warn_if_random
from ellipslice.sampling.warn import warn
from ellipslice.settings import jax_settings
from ellipslice.truncated_posterior import TruncatedPosterior

if TYPE_CHECKING:
    import xarray


def sample(
    log_likelihood: Callable[..., Any] | None,
    prior: Prior | TruncatedGaussian,
    *,
    move: Move | None = None,
    draws: int = 1000,
    warmup: int = 500,
    chains: int | Sequence[int] = 4,
    seed: int | None = None,
    initial: Any = None,
    thin: int = 1,
    keep: Callable[..., Any] | Literal[False] | None = None,
    engine: str | None = None,
    precision: str = "double",
    vectorized: bool | None = None,
    concave: bool | None = None,
    look_ahead: int | None = None,
    reference: Any = None,
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
        Draws kept and updates discarded before them, per chain. Nothing is tuned during warm-up.
    chains : int or sequence of int
        How many chains, or the numbers of the chains to run: chain 3 has the same bits alone, `chains=[3]`, or among
        many.
    seed : int, optional
        The same seed gives the same bits. Drawn and recorded in the result's attributes if not given.
    initial : array or mapping, optional
        Where to start, one point for all chains or one for each along a leading axis. A prior draw per chain unless
        given; for a `TruncatedGaussian` a point inside, found by linear programming.
    thin : int
        Keep every thin-th update.
    keep : callable or False, optional
        Maps the latent to what is stored, an array or a dict of arrays, for latents too large to keep whole. It is
        called for every draw. False keeps the statistics alone, `log_likelihood` among them.
    engine : {"compiled", "host", "batched", "fused"}, optional
        Found by looking unless given; the result's attributes say which ran and why. "compiled" runs chain by chain on
        the CPU's cores, "host" any Python. On a GPU chains run together: "fused" in one kernel, for a log-likelihood
        that is a sum over the values of f, "batched" in one loop, for any other. These two draw their noise on the
        device, so a seed gives other draws there.
    precision : {"double", "single"}
        Single precision is several times faster on a GPU; it runs on the engines "batched" and "fused".
    vectorized : bool, optional
        True says that the log-likelihood takes a batch, (batch, *shape) -> (batch,). On the host engine this turns on
        look-ahead and evaluates all chains in one call.
    concave : bool, optional
        True says that the log-likelihood is a concave function (known of the ready-made ones that are). In compiled
        code most proposals are then rejected by tangent planes, without an evaluation. The draws are the same.
    look_ahead : int, optional
        How many proposals to evaluate at once (at most 32, a power of two, where chains run together). It changes the
        speed, never the draws.
    reference : {"auto", "laplace", "ep", "pilot"} or Prior, optional
        For a likelihood much stronger than the prior: sample around a Gaussian fitted to the posterior, by
        `moves.Recentred`. "laplace" and "ep" (expectation propagation, better where the posterior is skew) need a
        log-likelihood that is a sum over the values of f, written with `jax.numpy`; "pilot" takes any, by a short run;
        "auto" takes the best that can be. Or a Gaussian of your own, such as `Dense(covariance, mean)`. The draws are
        from the posterior whatever the reference; the result's attributes say how good it was.
    progress : bool
        Show a progress bar when there is a terminal or notebook to show it in.
    dims, coords : mapping, optional
        Names and labels of the latent's dimensions, as ArviZ takes them, such as `dims={"f": ["year"]}` and
        `coords={"year": years}`.

    Returns
    -------
    xarray.DataTree
        Group `posterior` holds `f` (or the named latents, or what `keep` returned); `sample_stats` holds
        `log_likelihood`, `proposals` (angles tried, the paper's count), `evaluations` of the likelihood, `angle`,
        `nans` and `stuck` of the update that made each draw. The attributes say what was run. Ctrl-C stops the run and
        returns what was drawn so far.

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
    draws, warmup, thin = _count("draws", draws, 1), _count("warmup", warmup, 0), _count("thin", thin, 1)
    look_ahead = None if look_ahead is None else _count("look_ahead", look_ahead, 1)
    numbers = _chain_numbers(chains)
    seed = secrets.randbits(32) if seed is None else _count("seed", seed, 0)
    given_move = move
    if move is None:
        move = ConstrainedSlice() if isinstance(prior, TruncatedGaussian) else EllipticalSlice()
    if not isinstance(move, Move):
        hint = " Make an instance of it." if isinstance(move, type) and issubclass(move, Move) else ""
        raise TypeError(f"move must be one of ellipslice.moves, such as EllipticalSlice(), but it is {move!r}.{hint}")
    if isinstance(move, Search) and type(move).log_factor is not Search.log_factor:
        raise TypeError(
            f"{move!r} changes the prior along its curve, which engines that table angles do not know. Run it by "
            "`target.search` inside a move of your own, as moves/line.py does."
        )
    if precision not in ("double", "single"):
        raise ValueError(f'precision must be "double" or "single", but it is {precision!r}.')
    posterior = _posterior(prior, log_likelihood, move, vectorized=vectorized, concave=concave)
    with jax_settings():
        fitted = None if reference is None else _fit(reference, posterior, seed, engine, given_move, precision)
        move = move if fitted is None else Recentred(fitted.reference)
        choice = partial(choose_engine, posterior, engine, move=move, double=precision == "double")
        around = None if fitted is None else move.prepare(posterior.prior)
        runner, why, starts = _start(posterior, numbers, seed, initial, choice, around)
        runner.check_look_ahead(move, look_ahead)
        record = Record(posterior.log_likelihood, keep, starts[0].f.astype(runner.dtype), numbers, draws, warmup, thin)
        check_names(record, dims, coords)
        warn_if_random(starts[0].log_likelihood, runner.evaluate(starts[0].f), "a second time")
        warn_if_prior_inside(runner)
        if concave:
            check_concave(runner)
        run = runner.run(move, seed, numbers, starts, warmup + draws * thin, look_ahead, warmup, thin)
        with progress_bar(progress, runner.name, len(numbers), draws, warmup, thin) as show:
            interrupted = _drive(run, record, show)
        if interrupted and not record.draws:
            raise KeyboardInterrupt(f"stopped during warm-up, after {record.updates:,} updates: no draw to return")
        _warn_of_trouble(record, runner, interrupted, draws)

    attrs = {
        "ellipslice_version": importlib.metadata.version("ellipslice"),
        "jax_version": jax.__version__,
        "numpy_version": np.__version__,
        "seed": seed if seed < 2**63 else str(seed),  # a file holds 64-bit integers
        "prior": repr(prior),
        "likelihood": _name(log_likelihood),
        "move": repr(move),
        **({} if fitted is None else _told(fitted, record)),
        "engine": runner.name,
        "engine_reason": why,
        "precision": precision,
        "draws": record.draws,
        "warmup": warmup,
        "thin": thin,
        "chains": len(numbers),
        "updates": record.updates,
        "evaluations": record.evaluations,
        "proposals": record.proposals,
        "nan_evaluations": record.nans,
        "stuck_updates": record.stuck,
        "interrupted": int(interrupted),
        "sampling_time": time.perf_counter() - began,
        "created_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    return build_tree(record, numbers, dims, coords, attrs)


def _posterior(
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
    around: Beside | None,
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
    posterior.look_around(points[0])
    runner, why = choice(f=points[0])
    return runner, why, given_starts(runner, points, numbers)


def _fit(reference: Any, posterior: Posterior, seed: int, engine: str | None, move: Any, precision: str) -> Fitted:
    """The reference to sample around."""
    if move is not None:
        raise ValueError(f"reference comes with a move of its own, but move={move!r} was given too. Leave one out.")
    if isinstance(posterior, TruncatedPosterior):
        raise ValueError("reference is for priors without constraints; a TruncatedGaussian has a move of its own.")
    if engine in ("batched", "fused") or precision != "double":
        raise ValueError('reference runs on the engines "compiled" and "host", in double precision.')
    own = int(np.random.SeedSequence(seed).spawn(1)[0].generate_state(1)[0])  # the chains' noise is not for fitting
    trial = first_draw(posterior, start_generator(own, 0))
    runner, _ = choose_engine(posterior, engine, trial, Cycle(EllipticalSlice()))  # not for a GPU
    return fit_reference(reference, runner, lambda count: prior_starts(runner, own, range(count)), own)


def _told(fitted: Fitted, record: Record) -> dict[str, Any]:
    """How good a reference was: with the posterior itself, first proposals are nearly always accepted."""
    first = float((record.statistics["proposals"][:, : record.draws] == 1).mean())
    return {"reference": fitted.how, "reference_first_accepted": first}


def _drive(run: Run, record: Record, show: Callable[[int, int, int, int], None]) -> bool:
    """Advance the run to its end, or until Ctrl-C; whether it was interrupted."""

    def collect() -> None:
        for piece in run.take():
            record.add(piece)
        show(record.total, record.updates, record.evaluations, record.nans)

    try:
        while not run.finished:
            run.advance()
            with deferred():
                collect()
    except KeyboardInterrupt:
        run.close()
        collect()
        return True
    finally:
        run.close()
    return False


def _warn_of_trouble(record: Record, engine: Engine, interrupted: bool, draws: int) -> None:
    """Say at the end what a user must know before using the draws."""
    if interrupted:
        warn(f"stopped by Ctrl-C: returning {record.draws:,} of {draws:,} draws per chain.")
    if record.nans:
        warn(
            f"{record.nans:,} of {record.evaluations:,} log-likelihood evaluations gave NaN. Those points "
            "were rejected, as if the likelihood were zero there; if it should not be, look for the log of a negative "
            "number or inf - inf."
        )
    if record.stuck:
        warn(
            f"{record.stuck:,} of {record.updates:,} updates found no acceptable point and stayed where they "
            "were. That is rounding if it is rare; otherwise the log-likelihood is not a function of f alone, or has "
            "isolated spikes."
        )
    try:
        rounding = 1e-7 if engine.dtype == np.float64 else 1e-3
        again = engine.evaluate_all([f for f, _ in record.last])
        for (_, before), after in zip(record.last, again, strict=True):
            if warn_if_random(before, after, "at the end of the run", rounding):
                break
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the draws are made, and must not be lost now
        warn(f"a last look at the log-likelihood, to see whether it is still the same, failed with {error!r}.")


def _count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, but it is {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, but it is {value}.")
    return int(value)


def _chain_numbers(chains: int | Sequence[int]) -> list[int]:
    if isinstance(chains, Sequence | np.ndarray) and not isinstance(chains, str) and np.ndim(chains):
        numbers = [_count("a chain's number", chain, 0) for chain in chains]
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"chains must name each chain once, and at least one, but it is {chains}.")
        return numbers
    return list(range(_count("chains", chains, 1)))


def _name(function: Callable[..., Any] | None) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
