"""The gradient methods of other libraries, with the settings in which they are fastest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice import Dense
from ellipslice.apps.bench.effective.measure import CHAINS, WARMUP, Drawn
from ellipslice.apps.bench.effective.problems import LatentProblem
from ellipslice.jax_settings import jax_settings

NUTS_BLOCK, BLOCK = 20, 50
"""Draws per compiled call, of NUTS and of the auxiliary gradient sampler."""

TARGET_ACCEPTANCE = 0.55
"""Acceptance rate near which the auxiliary gradient sampler is most efficient (Titsias & Papaspiliopoulos 2018)."""

TUNING_ROUNDS, TUNING_UPDATES = 12, 200
"""Steps of the stochastic approximation of that rate, and updates per chain in each."""

JITTER = 1e-9
"""Number that is added to the diagonal of the covariance, of which BlackJAX takes the singular values."""


class Nuts:
    """NumPyro's NUTS in whitened coordinates, the chains one after the other.

    Parameters
    ----------
    given : LatentProblem
    seed : int
    options : dict
        Arguments of NumPyro's NUTS that determine the mass matrix.
    """

    def __init__(self, given: LatentProblem, seed: int, **options: Any):
        import numpyro
        from numpyro.distributions import Normal
        from numpyro.infer import NUTS

        self.details: dict[str, Any] = {}
        with jax_settings():
            rows = jnp.asarray(Dense(given.covariance).rows)

            def model() -> None:
                z = numpyro.sample("z", Normal(0.0, 1.0).expand([len(rows)]).to_event(1))
                numpyro.factor("likelihood", given.log_likelihood(z @ rows))

            kernel = NUTS(model, **options)

            def one(state: Any, _: Any) -> tuple[Any, Any]:
                state = kernel.sample(state, (), {})
                return state, state.z["z"] @ rows

            self._block = jax.jit(lambda state: jax.lax.scan(one, state, length=NUTS_BLOCK))

            def start(chain: int) -> Any:
                return kernel.init(jax.random.PRNGKey(100 * seed + chain), WARMUP, None, (), {})

            jax.block_until_ready(self._block(start(0)))  # compiles
            began = time.process_time()
            self._states = [start(chain) for chain in range(CHAINS)]
            for chain in range(CHAINS):
                self._advance(chain, -(-WARMUP // NUTS_BLOCK))
            self.preparation: float | None = time.process_time() - began

    def draw(self, draws: int, thin: int) -> Drawn:
        """Continue all chains."""
        blocks, began = -(-draws * thin // NUTS_BLOCK), time.process_time()
        with jax_settings():
            f = np.stack([self._advance(chain, blocks) for chain in range(CHAINS)])
        return Drawn(f[:, ::thin], time.process_time() - began)

    def _advance(self, chain: int, blocks: int) -> np.ndarray:
        found = []
        for _ in range(blocks):
            self._states[chain], f = self._block(self._states[chain])
            found.append(np.asarray(f))
        return np.concatenate(found)


def nuts_diagonal(given: LatentProblem, seed: int) -> Nuts:
    """Return NUTS with a diagonal mass matrix from the warm-up, NumPyro's default."""
    return Nuts(given, seed)


def nuts_dense(given: LatentProblem, seed: int) -> Nuts:
    """Return NUTS with a dense mass matrix from the warm-up."""
    return Nuts(given, seed, dense_mass=True)


def nuts_identity(given: LatentProblem, seed: int) -> Nuts:
    """Return NUTS in whitened coordinates with the identity as mass matrix, which is not adapted."""
    return Nuts(given, seed, adapt_mass_matrix=False)


class AuxiliaryGradient:
    """BlackJAX's marginal auxiliary gradient sampler, `mgrad_gaussian`, all chains in one compiled loop.

    Its step size is tuned to an acceptance rate near `TARGET_ACCEPTANCE`.
    """

    def __init__(self, given: LatentProblem, seed: int):
        import blackjax

        self._key, self._calls = jax.random.key(seed), 0
        with jax_settings():
            covariance = jnp.asarray(given.covariance + JITTER * np.eye(len(given.covariance)))
            svd = blackjax.mcmc.marginal_latent_gaussian.svd_from_covariance(covariance)

            def kernel(step_size: Any) -> Any:
                return blackjax.mgrad_gaussian(given.log_likelihood, cov_svd=svd, step_size=step_size)

            self._block = _compiled_block(kernel)
            starts = Dense(given.covariance).draw_zero_mean(np.random.default_rng(seed), CHAINS)
            self._state, self._step_size = jax.vmap(kernel(1.0).init)(jnp.asarray(starts)), 1.0
            jax.block_until_ready(self._block(self._state, self._key, 1.0, 1))  # compiles
            began = time.process_time()
            for number in range(TUNING_ROUNDS):
                _, rate = self._advance(TUNING_UPDATES // BLOCK, 1)
                self._step_size *= float(np.exp(4 * (rate - TARGET_ACCEPTANCE) / (1 + number / 4)))
            self._advance(WARMUP // BLOCK, 1)
            self.preparation: float | None = time.process_time() - began
        self.details: dict[str, Any] = {"step_size": self._step_size}

    def draw(self, draws: int, thin: int) -> Drawn:
        """Continue all chains."""
        began = time.process_time()
        with jax_settings():
            f, self.details["acceptance"] = self._advance(-(-draws // BLOCK), thin)
        return Drawn(f, time.process_time() - began)

    def _advance(self, blocks: int, thin: int) -> tuple[np.ndarray, float]:
        """Return draws, shape (chains, draws, N), and the mean acceptance rate."""
        found, rates = [], []
        for _ in range(blocks):
            key = jax.random.fold_in(self._key, self._calls)
            self._calls += 1
            self._state, (f, rate) = self._block(self._state, key, self._step_size, thin)
            found.append(np.asarray(f))
            rates.append(float(rate))
        return np.moveaxis(np.concatenate(found), 0, 1), float(np.mean(rates))


def _compiled_block(kernel: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a function that makes `BLOCK` draws of each chain. The thinning is an argument, so it compiles once."""

    @jax.jit
    def block(state: Any, key: Any, step_size: Any, thin: Any) -> Any:
        step = jax.vmap(kernel(step_size).step)

        def draw(state: Any, key: Any) -> Any:
            def update(i: Any, carried: Any) -> Any:
                state, total = carried
                state, info = step(jax.random.split(jax.random.fold_in(key, i), CHAINS), state)
                return state, total + info.acceptance_rate.mean()

            state, total = jax.lax.fori_loop(0, thin, update, (state, jnp.zeros(())))
            return state, (state.position, total / thin)

        state, (f, rates) = jax.lax.scan(draw, state, jax.random.split(key, BLOCK))
        return state, (f, rates.mean())

    return block
