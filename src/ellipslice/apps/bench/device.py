"""The samplers that are timed on a GPU, with all chains in one loop.

None of them stores states, because the transfer to the host would dominate the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice import Dense
from ellipslice.apps.bench.samplers import Sampler, Timing, own_function
from ellipslice.apps.paper import Problem
from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.device.engine import BatchedEngine, FusedEngine, block_length
from ellipslice.engines.device.noise import chain_keys, update_keys
from ellipslice.engines.device.prior_draws import Source
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import EllipticalSlice, State
from ellipslice.posterior import Posterior

UPDATES_PER_CALL = 64
"""Updates of BlackJAX in one compiled call."""


def device_samplers(problem: Problem, start: np.ndarray, chains: int, double: bool) -> dict[str, Sampler]:
    """Return the samplers by name. The first is the baseline of the speed ratios."""
    prior, own = Dense(problem.covariance), own_function(problem)(jnp)
    fused = FusedEngine(Posterior(prior, own), double=double)
    return {
        "blackjax": blackjax_on_device(problem, own, start, chains, double),
        "ours, batched": engine_sampler(BatchedEngine(Posterior(prior, own), double=double), start, chains),
        "ours, fused": engine_sampler(fused, start, chains),
        "ours, fused, ready-made": engine_sampler(
            FusedEngine(Posterior(prior, problem.likelihood), double=double), start, chains
        ),
        "floor: our draws alone": draws_alone(fused, chains),
        "floor: jax.random and an exact product": plain_draws_alone(prior, chains, double),
    }


def engine_sampler(engine: BatchedEngine, start: np.ndarray, chains: int) -> Sampler:
    """Return one of our engines as a sampler. It keeps only the last state of each chain."""

    def advance(updates: int) -> Timing:
        spec = RunSpec(EllipticalSlice(), 1, tuple(range(chains)), thin=updates)
        run = engine.run(spec, [Checkpoint(0, State(start, 0.0))] * chains, updates)
        proposals = 0
        while not run.finished:
            run.advance()
            for rows in run.take():
                proposals = rows.last[0].counts.proposals
        return Timing(proposals)

    return advance


def blackjax_on_device(
    problem: Problem, log_likelihood: Callable[[Any], Any], start: np.ndarray, chains: int, double: bool
) -> Sampler:
    """Return BlackJAX's elliptical slice sampler, with `vmap` over chains and the jitter that its Cholesky needs."""
    import blackjax

    size, jitter = len(start), 1e-9 if double else 1e-4
    with jax_settings(double):
        covariance = jnp.asarray(problem.covariance + jitter * problem.covariance[0, 0] * np.eye(size))
        kernel = blackjax.elliptical_slice(log_likelihood, mean=jnp.zeros(size), cov=covariance)

        def chain(state: Any, key: Any) -> Any:
            def one(state: Any, key: Any) -> Any:
                state, info = kernel.step(key, state)
                return state, (state.logdensity, info.subiter)  # pyright: ignore[reportAttributeAccessIssue]

            return jax.lax.scan(one, state, jax.random.split(key, UPDATES_PER_CALL))

        several = jax.jit(lambda state, key: jax.vmap(chain)(state, jax.random.split(key, chains)))
        state = jax.vmap(kernel.init)(jnp.broadcast_to(jnp.asarray(start), (chains, size)))  # pyright: ignore[reportCallIssue, reportArgumentType]

    def advance(updates: int) -> Timing:
        now = state
        with jax_settings(double):
            for number in range(-(-updates // UPDATES_PER_CALL)):
                now, _ = several(now, jax.random.key(number))
            jax.block_until_ready(now)
        return Timing()

    return advance


def draws_alone(engine: BatchedEngine, chains: int) -> Sampler:
    """Return a lower bound: the random numbers and the matrix product of our engine, and nothing else."""
    length = engine.block_length(chains)

    def advance(updates: int) -> Timing:
        with jax_settings(engine.double):
            keys = jnp.asarray(chain_keys(1, range(chains)))
            last = [_draw(engine.source, keys, np.uint32(first), length) for first in range(0, updates, length)][-1:]
            jax.block_until_ready(last)
        return Timing()

    return advance


@partial(jax.jit, static_argnums=3)
def _draw(source: Source, keys: Any, first: Any, length: int) -> Any:
    keys = update_keys(keys, first, length).reshape(2, -1)
    return jax.lax.optimization_barrier(source.draw_terms(keys)[0])[-1]


def plain_draws_alone(prior: Dense, chains: int, double: bool) -> Sampler:
    """Return a lower bound for plain JAX: `jax.random.normal` and a matrix product in full precision."""
    length = block_length(chains * prior.size)
    with jax_settings(double):
        rows = jnp.asarray(prior.rows)

        @jax.jit
        def draw(rows: Any, key: Any) -> Any:
            z = jax.random.normal(key, (length * chains, len(rows)), rows.dtype)
            return jax.lax.optimization_barrier(jnp.dot(z, rows, precision="highest"))[-1]

    def advance(updates: int) -> Timing:
        with jax_settings(double):
            last = [draw(rows, jax.random.key(first)) for first in range(0, updates, length)][-1:]
            jax.block_until_ready(last)
        return Timing()

    return advance
