"""The laws of moves."""

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
    """Check that a move is valid, and that both engines run it alike.

    The laws: the result is a function of the noise; the log-likelihood it returns is that of the state it returns, and
    every evaluation is counted; a state with zero or NaN likelihood is never reached; draws from a known posterior are
    still draws from it after an update; host and compiled engines give the same chain, to rounding. A `Search` must
    also be reversible, go through its state along an ellipse that keeps the prior, and accept what is above its level
    and nothing else, all of which is tested without any tolerance. (For other moves, an error that changes a variance
    of the posterior by less than about 16 % may go unnoticed.) A move that needs gradients is checked in compiled code,
    and what it counts is not.

    Parameters
    ----------
    move : Move
    seed : int
    """
    if not isinstance(move, Move):
        raise TypeError(
            f"check_move takes an instance of a Move, such as EllipticalSlice(), but it was given {move!r}."
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
            log_likelihood(new.f) == new.log_likelihood, f"{move!r} returns a log-likelihood that is not its state's"
        )
        again, _ = move.step(noise, state, target)
        require(np.array_equal(again.f, new.f), f"{move!r} is not a function of its noise")
        state = new


def _check_support(move: Move, seed: int, updates: int = 300) -> None:
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
        require(math.isfinite(state.log_likelihood), f"{move!r} went where the likelihood is {state.log_likelihood}")


def _check_stationary(move: Move, seed: int, count: int = 2000) -> None:
    """Exact posterior draws are still such after an update, whether the data say nothing, little or much."""
    for noise in NOISES:
        _check_keeps(move, noise, seed, count)


def _check_keeps(move: Move, noise: float, seed: int, count: int) -> None:
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
        require_close(compiled, host, f"{move!r} gives another chain in compiled code")
