"""Check which proposals a move accepts, by densities that are computed without it, up to rounding error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from catalogue import CORRELATED
from ellipslice.engines.host.engine import HostTarget
from ellipslice.moves import Move, State
from ellipslice.priors import Dense
from ellipslice.testing.assertions import require
from ellipslice.testing.search import noise_of_an_update

PRIOR = Dense(CORRELATED)
DATA = np.array([0.7, -0.4, 1.1])


def log_likelihood(f: np.ndarray) -> float:
    return -3.0 * float((f - DATA) @ (f - DATA))


def log_posterior(f: np.ndarray) -> float:
    return float(stats.multivariate_normal.logpdf(f, np.zeros(3), CORRELATED)) + log_likelihood(f)


def check_ratio(move: Move, log_q: Callable[[np.ndarray, np.ndarray], float], seed: int, updates: int = 200) -> None:
    """Check that a proposal f' is accepted if and only if u < p(f') q(f; f') / p(f) q(f'; f) (Metropolis-Hastings).

    `log_q(to, start)` is the log-density of the proposals. Other tests compare the distribution of the proposals with
    it.
    """
    rng = np.random.default_rng(seed)
    prepared = move.prepare(PRIOR)
    target = HostTarget(log_likelihood, prepared)
    for _ in range(updates):
        f = np.asarray(PRIOR.draw_zero_mean(rng, 1))[0]
        state, noise = State(f, log_likelihood(f)), noise_of_an_update(move, PRIOR, rng, prepared)
        # The level is so low that every proposal is accepted.
        new = move.step(noise._replace(level=[1e9]), state, target)[0].f
        require(not np.array_equal(new, f), f"{move!r} proposes nothing")
        ratio = log_posterior(new) + log_q(f, new) - log_posterior(f) - log_q(new, f)
        for level, accepted in ((-ratio + 1e-9, True), (-ratio - 1e-9, False)):
            end, info = move.step(noise._replace(level=[level]), state, target)
            require(
                np.array_equal(end.f, new if accepted else f), f"{move!r} does not accept with the right probability"
            )
            require((info.angle != 0) == accepted, f"{move!r} reports the angle {info.angle} of a proposal")


def check_slice(move: Move, seed: int, updates: int = 200) -> None:
    """Check that a slice search accepts the first point whose posterior density is above the slice level."""
    rng, tried = np.random.default_rng(seed), []

    def remembered(f: np.ndarray) -> float:
        tried.append(f)
        return log_likelihood(f)

    prepared = move.prepare(PRIOR)
    state, rejected = State(DATA, log_likelihood(DATA)), 0
    for _ in range(updates):
        tried.clear()
        noise = noise_of_an_update(move, PRIOR, rng, prepared)
        log_y = log_posterior(state.f) - noise.level[0]
        state, _ = move.step(noise, state, HostTarget(remembered, prepared))
        *others, taken = [log_posterior(f) for f in tried]
        require(all(value < log_y + 1e-9 for value in others), f"{move!r}: a point above the level was rejected")
        require(taken > log_y - 1e-9, f"{move!r}: a point below the level was accepted")
        rejected += len(others)
    require(rejected > updates / 10, "too few points were rejected for a test")
