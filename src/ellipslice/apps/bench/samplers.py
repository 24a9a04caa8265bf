"""The samplers that are timed on a CPU. Each runs several updates of one or more chains and stores every state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice import Dense, Prior, sample
from ellipslice.apps.paper import Problem
from ellipslice.engines.threads import limit_blas_threads
from ellipslice.jax_settings import jax_settings
from ellipslice.likelihoods import Gaussian, Logistic, Poisson
from ellipslice.moves import EllipticalSlice
from ellipslice.noise import block_length


class Timing(NamedTuple):
    """Result of a timed call of a sampler. The caller measures the time."""

    evaluations: int | None = None
    """Number of evaluations of the log-likelihood, in all updates of all chains. None if not counted."""
    trace: np.ndarray | None = None
    """Log-likelihoods after each update, shape (chains, updates). None if not stored."""


Sampler = Callable[[int], Timing]
"""Function that runs the given number of updates of each chain."""


FAST_CPU_SUFFIX = " + fast_cpu"
"""End of the name of a sampler whose process first calls `es.fast_cpu()`."""

FLOOR = "floor: draws alone"
"""Name of the lower bound. Its process calls `es.fast_cpu()` too; otherwise a sampler could be faster than it."""

MULTI_CHAIN_SAMPLERS = ("blackjax", "ours, own function", "ours, ready-made")
"""Samplers that can run several chains."""


def names(chains: int, nuts: bool = False) -> list[str]:
    """Return the names of all samplers on a CPU. The first is the baseline of the speed ratios."""
    several = [name + setting for name in MULTI_CHAIN_SAMPLERS for setting in ("", FAST_CPU_SUFFIX)]
    if chains > 1:
        return several
    return [*several, *(["NUTS (NumPyro)"] if nuts else []), "ours, host", "NumPy loop", FLOOR]


def make(name: str, problem: Problem, start: np.ndarray, chains: int) -> Sampler:
    """Return the sampler with a name (without `FAST_CPU_SUFFIX`)."""
    prior, own = Dense(problem.covariance), own_function(problem)
    match name:
        case "blackjax":
            return blackjax(problem, own(jnp), start, chains)
        case "ours, own function":
            return ours(own(jnp), prior, start, chains)
        case "ours, ready-made":
            return ours(problem.likelihood, prior, start, chains)
        case "NUTS (NumPyro)":
            return numpyro_nuts(prior, own(jnp), start)
        case "ours, host":
            return ours(own(np), prior, start, chains, "host")
        case "NumPy loop":
            return numpy_loop(prior, own(np), start)
    if name == FLOOR:
        return draws_alone(prior)
    raise ValueError(f"there is no sampler {name!r}. Use a name from `names`.")


def own_function(problem: Problem) -> Callable[[Any], Callable[[Any], Any]]:
    """Return the log-likelihood as a user would write it: a function of the array module, NumPy or jax.numpy."""
    likelihood = problem.likelihood
    y = np.asarray(likelihood.y)
    if isinstance(likelihood, Gaussian):
        sigma = float(likelihood.noise_scale)
        constant = -0.5 * len(y) * math.log(2 * math.pi * sigma**2)
        return lambda xp: lambda f: constant - 0.5 * xp.sum((y - f) ** 2) / sigma**2
    if isinstance(likelihood, Poisson):
        offset, constant = float(likelihood.offset), -float(np.sum(likelihood.log_factorial))
        return lambda xp: lambda f: constant + xp.sum(y * (f + offset) - xp.exp(f + offset))
    if isinstance(likelihood, Logistic):
        return lambda xp: lambda f: -xp.sum(xp.logaddexp(0.0, -y * f))
    raise TypeError(f"there is no plain function for {likelihood!r}.")


def ours(log_likelihood: Any, prior: Prior, start: np.ndarray, chains: int, engine: str = "compiled") -> Sampler:
    """Return our sampler: `sample` with the algorithm of the paper, keeping every draw."""

    def advance(updates: int) -> Timing:
        tree = sample(
            log_likelihood,
            prior,
            move=EllipticalSlice(),
            draws=updates,
            warmup=0,
            chains=chains,
            seed=1,
            initial=start,
            engine=engine,
            progress=False,
        )
        trace = np.asarray(tree["sample_stats"].dataset["total_log_likelihood"])
        return Timing(int(tree.attrs["evaluations"]), trace)

    return advance


def blackjax(problem: Problem, log_likelihood: Callable[[Any], Any], start: np.ndarray, chains: int) -> Sampler:
    """Return BlackJAX's elliptical slice sampler, with `vmap` over chains and the jitter that its Cholesky needs."""
    import blackjax

    size = len(start)
    with jax.enable_x64(True):
        covariance = jnp.asarray(problem.covariance + 1e-9 * np.eye(size))
        kernel = blackjax.elliptical_slice(log_likelihood, mean=jnp.zeros(size), cov=covariance)

        def chain(state: Any, keys: Any) -> Any:
            def one(state: Any, key: Any) -> Any:
                state, info = kernel.step(key, state)
                return state, (state.position, state.logdensity, info.subiter)  # pyright: ignore[reportAttributeAccessIssue]

            return jax.lax.scan(one, state, keys)

        several = jax.jit(jax.vmap(chain) if chains > 1 else chain)
        state = kernel.init(jnp.asarray(start))  # pyright: ignore[reportCallIssue]
        if chains > 1:
            state = jax.tree.map(lambda part: jnp.broadcast_to(part, (chains, *part.shape)), state)

    def advance(updates: int) -> Timing:
        with jax.enable_x64(True):
            keys = jax.random.split(jax.random.key(0), chains * updates)
            _, (_, trace, tried) = jax.block_until_ready(
                several(state, keys.reshape(chains, updates) if chains > 1 else keys)
            )
        return Timing(int(np.asarray(tried).sum()), np.asarray(trace).reshape(chains, updates))

    return advance


def numpy_loop(prior: Dense, log_likelihood: Callable[[np.ndarray], Any], start: np.ndarray) -> Sampler:
    """Return Figure 2 of the paper as a NumPy loop.

    It draws ν in blocks, caches the log-likelihood, uses Python floats for the bracket and stores every state.
    """

    def advance(updates: int) -> Timing:
        rng, rows = np.random.default_rng(1), prior.rows
        rank, size = rows.shape
        block, f = block_length(size), start
        log_l = float(log_likelihood(f))
        kept, trace, evaluations = np.empty((updates, size)), np.empty((1, updates)), 0
        for first in range(0, updates, block):
            nus = rng.standard_normal((block, rank)) @ rows
            levels = rng.standard_exponential(block).tolist()
            for i in range(min(block, updates - first)):
                nu, log_y = nus[i], log_l - levels[i]
                theta = 2 * math.pi * rng.random()
                theta_min, theta_max = theta - 2 * math.pi, theta
                while True:
                    proposal = f * math.cos(theta) + nu * math.sin(theta)
                    value = float(log_likelihood(proposal))
                    evaluations += 1
                    if value > log_y:
                        break
                    if theta < 0:
                        theta_min = theta
                    else:
                        theta_max = theta
                    theta = theta_min + rng.random() * (theta_max - theta_min)
                f, log_l = proposal, value
                kept[first + i], trace[0, first + i] = f, log_l
        return Timing(evaluations, trace)

    return advance


def draws_alone(prior: Dense) -> Sampler:
    """Return the lower bound: random numbers and the matrix product of the prior draws, and nothing else.

    No sampler that draws ν in this manner can be faster on one core.
    """

    def advance(updates: int) -> Timing:
        rng, block = np.random.Generator(np.random.SFC64(1)), block_length(prior.size)
        with limit_blas_threads(1):  # our engines limit BLAS to one thread, too
            for _ in range(0, updates, block):
                prior.draw_zero_mean(rng, block)
        return Timing()

    return advance


NUTS_WARMUP, NUTS_DRAWS = 500, 100
"""Adaptation draws of NUTS before the timing, and draws per compiled call."""


def numpyro_nuts(prior: Dense, log_likelihood: Callable[[Any], Any], start: np.ndarray) -> Sampler:
    """Return NumPyro's NUTS in whitened coordinates, in which it mixes fastest. One update is one draw of NUTS."""
    import numpyro
    from numpyro.distributions import Normal
    from numpyro.infer import NUTS

    def model() -> None:
        z = numpyro.sample("z", Normal(0.0, 1.0).expand([len(rows)]).to_event(1))
        numpyro.factor("likelihood", log_likelihood(z @ rows))

    def one(state: Any, _: Any) -> tuple[Any, Any]:
        state = kernel.sample(state, (), {})
        return state, (log_likelihood(state.z["z"] @ rows), state.num_steps)

    with jax_settings():
        rows, kernel = jnp.asarray(prior.rows), NUTS(model)
        first = {"z": jnp.asarray(prior.whiten(start))}
        state = kernel.init(jax.random.PRNGKey(0), NUTS_WARMUP, first, (), {})
        several = jax.jit(lambda state: jax.lax.scan(one, state, length=NUTS_DRAWS))
        for _ in range(NUTS_WARMUP // NUTS_DRAWS):
            state, _ = several(state)

    def advance(updates: int) -> Timing:
        now, traces, evaluations = state, [], 0
        with jax_settings():
            for _ in range(-(-updates // NUTS_DRAWS)):
                now, (trace, steps) = several(now)
                traces.append(np.asarray(trace))
                evaluations += int(np.asarray(steps).sum())
        return Timing(evaluations, np.concatenate(traces)[None])

    return advance
