"""Property tests of moves."""

from __future__ import annotations

import math

import numpy as np

from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.host.engine import HostEngine, HostTarget
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import Move, Search, State
from ellipslice.posterior import Posterior
from ellipslice.priors import Dense, Diagonal
from ellipslice.testing.assertions import require, require_close
from ellipslice.testing.gradients import check_with_gradients
from ellipslice.testing.reversible import check_reversible
from ellipslice.testing.search import check_curve, check_level, noise_of_an_update, noise_of_updates
from ellipslice.testing.stationary import NOISES, KnownPosterior


def check_move(move: Move, *, seed: int = 0) -> None:
    """Check that a move is a valid transition. Raise an `AssertionError` that names the property if one does not hold.

    - The result is a deterministic function of the random numbers.
    - The returned log-likelihood is that of the returned state, and every evaluation is counted.
    - A state whose likelihood is zero or NaN is never reached.
    - Draws from a known posterior still have its distribution after two updates.
    - The host and the compiled engine give the same chain, up to rounding error.

    For a `Search` (such as `EllipticalSlice`) these are checked, too, exactly or up to rounding error:

    - The search is reversible.
    - The curve is an ellipse through the current state that leaves the prior invariant.
    - The search accepts the first point above the slice level, and no other.

    For other moves, an error that changes a posterior variance by less than about 16 % may not be detected. A move that
    needs gradients is tested in compiled code only, and its number of evaluations is not compared.

    Parameters
    ----------
    move : Move
    seed : int
        Seed of the tests. Default: 0.
    """
    if not isinstance(move, Move):
        raise TypeError(
            f"check_move was called with {move!r}; expected an instance of a Move, such as EllipticalSlice()."
        )
    if move.gradients:
        return check_with_gradients(move, seed)
    if isinstance(move, Search):
        check_reversible(move, seed=seed)
    _check_bookkeeping(move, seed)
    _check_support(move, seed)
    if isinstance(move, Search):
        check_curve(move, seed)
        check_level(move, seed)
    _check_stationary(move, seed)
    _check_engines(move, seed)
    return None


def _check_bookkeeping(move: Move, seed: int, updates: int = 50) -> None:
    """Check the counts and the log-likelihood that a move reports, and that it is deterministic."""
    rng = np.random.default_rng(seed)
    prior = Dense(np.array([[1.0, 0.6], [0.6, 2.0]]))
    calls = 0

    def log_likelihood(f: np.ndarray) -> float:
        nonlocal calls
        calls += 1
        return float(-8 * np.sum((f - 1) ** 2))

    prepared = move.prepare(prior)
    target = HostTarget(log_likelihood, prepared)
    state = State(np.zeros(2), log_likelihood(np.zeros(2)))
    for _ in range(updates):
        noise = noise_of_an_update(move, prior, rng, prepared)
        before, calls = (state.f.copy(), state.log_likelihood), 0
        new, info = move.step(noise, state, target)
        made = calls
        require(info.evaluations == made, f"{move!r} made {made} evaluations and reports {info.evaluations}")
        require(np.array_equal(state.f, before[0]), f"{move!r} changes the old state in place")
        require(
            log_likelihood(new.f) == new.log_likelihood,
            f"{move!r} returns a log-likelihood that is not that of its state",
        )
        again, _ = move.step(noise, state, target)
        require(np.array_equal(again.f, new.f), f"{move!r} is not a function of its random numbers")
        state = new


def _check_support(move: Move, seed: int, updates: int = 300) -> None:
    """Check that updates never reach a state whose likelihood is zero or NaN."""
    rng = np.random.default_rng(seed)
    prior = Diagonal(np.ones(2))

    def log_likelihood(f: np.ndarray) -> float:
        if f[0] < 0:
            return math.nan
        return -math.inf if f[1] > 1 else -float(f @ f)

    prepared = move.prepare(prior)
    target = HostTarget(log_likelihood, prepared)
    state = State(np.array([0.5, 0.5]), -0.5)
    for _ in range(updates):
        state, _ = move.step(noise_of_an_update(move, prior, rng, prepared), state, target)
        value = state.log_likelihood
        require(math.isfinite(value), f"{move!r} reached a state where the log-likelihood is {value}")


def _check_stationary(move: Move, seed: int, count: int = 2000) -> None:
    """Check that updates leave the posterior invariant without data, and with weakly and strongly informative data."""
    for noise in NOISES:
        _check_keeps(move, noise, seed, count)


def _check_keeps(move: Move, noise: float, seed: int, count: int) -> None:
    """Check that two updates leave the posterior with this noise variance invariant, by `count` draws."""
    known, rng = KnownPosterior(noise), np.random.default_rng(seed)
    prepared = move.prepare(known.prior)
    target = HostTarget(lambda f: float(known.log_likelihood(f)), prepared)
    end = np.empty((count, 2))
    begin = known.draw(rng, count)
    noises = noise_of_updates(move, known.prior, rng, 2 * count, prepared)
    for i, f in enumerate(begin):
        state = State(f, target.log_likelihood(f))
        for _ in range(2):
            state, _ = move.step(next(noises), state, target)
        end[i] = state.f
    known.check(move, end)


def _check_engines(move: Move, seed: int, updates: int = 40) -> None:
    """Check that the host and the compiled engine give the same chain up to rounding error."""
    posterior = Posterior(Dense(np.array([[1.0, 0.6], [0.6, 2.0]])), lambda f: -8.0 * ((f - 1.0) ** 2).sum())
    starts = [Checkpoint(0, State(np.zeros(2), -16.0))]
    chains = []
    for engine in (HostEngine, CompiledEngine):
        with jax_settings():
            run = engine(posterior).run(RunSpec(move, seed, (0,)), starts, updates)
            rows = []
            while not run.finished:
                run.advance()
                rows += run.take()
            run.close()
        values = [each.statistics["total_log_likelihood"][0] for each in rows]
        chains.append([np.concatenate([each.f[0] for each in rows]), np.concatenate(values)])
    for host, compiled in zip(*chains, strict=True):
        require_close(compiled, host, f"{move!r} gives different chains in compiled code and on the host")
