"""Property tests of moves that need gradients. They run in compiled code only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.compiled.search import CompiledTarget
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import Info, Move, State
from ellipslice.noise import UpdateNoise, draw_block
from ellipslice.priors import Diagonal, Prior
from ellipslice.testing.assertions import require, require_close
from ellipslice.testing.stationary import NOISES, KnownPosterior, gaussian

CHAINS = 4000
"""Number of chains in each test."""


def check_with_gradients(move: Move, seed: int) -> None:
    """Check a move that needs gradients, on many chains in parallel. Raise an `AssertionError` if it is not valid.

    - The result is a deterministic function of the random numbers.
    - The returned log-likelihood is that of the returned state.
    - A state whose likelihood is zero or NaN is never reached.
    - Draws from a known posterior still have its distribution after an update.
    """
    with jax_settings():
        for noise in NOISES:
            _check_keeps(move, noise, seed)
        _check_support(move, seed)


def _check_keeps(move: Move, noise: float, seed: int) -> None:
    """Check that updates leave a posterior with this noise variance invariant, and that the results are consistent."""
    known = KnownPosterior(noise)
    run = _Chains(move, known.prior, gaussian, known.observed, seed)
    start = run.at(known.draw(np.random.default_rng(seed), CHAINS))
    (state, info), (again, _) = run.step(0, start), run.step(0, start)
    require(np.array_equal(state.f, again.f), f"{move!r} is not a function of its random numbers")
    require(bool((state.f != start.f).any(axis=1).mean() > 0.2), f"{move!r} moved at most 20 % of the chains")
    require_close(
        state.log_likelihood, run.at(state.f)[1], f"{move!r} returns a log-likelihood that is not that of its state"
    )
    require(bool((info.evaluations > 0).all()), f"{move!r} reports that it made no evaluations")
    known.check(move, np.asarray(run.step(1, state)[0].f))


def _check_support(move: Move, seed: int, updates: int = 5) -> None:
    """Check that updates never reach a state whose likelihood is zero or NaN."""
    run = _Chains(move, Diagonal(np.ones(2)), _holes, (), seed)
    state = run.at(np.full((CHAINS, 2), 0.5))
    for update in range(updates):
        state, _ = run.step(update, state)
        wrong = np.asarray(state.log_likelihood)[~np.isfinite(state.log_likelihood)]
        require(not len(wrong), f"{move!r} reached a state where the log-likelihood is {wrong[:1]}")


def _holes(f: Any) -> Any:
    """Return a log-likelihood that is NaN for f[0] < 0 and minus infinity for f[1] > 1."""
    return jnp.where(f[0] < 0, jnp.nan, jnp.where(f[1] > 1, -jnp.inf, -jnp.sum(f * f)))


class _Chains:
    """CHAINS chains whose log-likelihood is a function of f and data."""

    def __init__(self, move: Move, prior: Prior, log_likelihood: Callable[..., Any], data: Any, seed: int):
        self._move, self._log_likelihood, self._data, self._seed = move, log_likelihood, data, seed
        prepared = move.prepare(prior)
        self._spec, self._prepared = move.noise_spec(prior, prepared), jax.tree.map(jnp.asarray, prepared)

    def at(self, f: Any) -> State:
        """Return the states at f, shape (chains, size), with their log-likelihoods."""
        f = jnp.asarray(f)
        return State(f, jax.vmap(lambda f: self._log_likelihood(f, *self._data))(f))

    def step(self, update: int, state: State) -> tuple[State, Info]:
        """Return the result of update number `update` of each chain."""
        noise = draw_block(self._spec, self._seed, 0, update, CHAINS)
        return _step(self._move, self._log_likelihood, self._data, self._prepared, noise, state)


@partial(jax.jit, static_argnums=(0, 1))
def _step(
    move: Move, log_likelihood: Callable[..., Any], data: Any, prepared: Any, noise: UpdateNoise, state: State
) -> tuple[State, Info]:
    """Return the results of one update of each chain."""
    target = CompiledTarget(lambda f: log_likelihood(f, *data), prepared)
    return jax.vmap(lambda noise, state: move.step(noise, state, target))(noise, state)
