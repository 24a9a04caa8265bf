"""Step size and mass matrix of Hamiltonian Monte Carlo, by Stan's window adaptation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.checks import whole_number
from ellipslice.engines.choose import choose_engine
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import Hamiltonian
from ellipslice.noise import generator
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior
from ellipslice.programs.traced import compilable
from ellipslice.sampling.initial_states import first_draw


class TunedHamiltonian(NamedTuple):
    """Result of `tune_hamiltonian`."""

    move: Hamiltonian
    """Move with the adapted step size and mass matrix."""
    initial: Any
    """Last state of the warm-up, for `sample(initial=...)`."""


def tune_hamiltonian(
    log_likelihood: Callable[..., Any],
    prior: Prior,
    *,
    leapfrog_steps: int | None = None,
    warmup: int = 1_000,
    target_acceptance: float = 0.8,
    seed: int = 0,
) -> TunedHamiltonian:
    """Choose the step size and mass matrix of `moves.Hamiltonian`, by Stan's window adaptation (from BlackJAX).

    Parameters
    ----------
    log_likelihood, prior
        Model, as for `sample`. The log-likelihood must be written with `jax.numpy`.
    leapfrog_steps : int, optional
        Number of leapfrog steps, as for `moves.Hamiltonian`. Default: NUTS, which chooses it in each update.
    warmup : int
        Number of updates of the adaptation. At least 20. Default: 1000.
    target_acceptance : float
        Target acceptance rate. Between 0 and 1. Default: 0.8.
    seed : int
        Seed of the adaptation. Default: 0.

    Returns
    -------
    TunedHamiltonian
        The move, and an initial state for `sample`.

    Raises
    ------
    TypeError
        If JAX cannot trace the log-likelihood.
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> import ellipslice as es
    >>> prior, log_likelihood = es.Diagonal(np.ones(3)), lambda f: -50 * jnp.sum((f - 1) ** 2)
    >>> tuned = es.tune_hamiltonian(log_likelihood, prior, leapfrog_steps=4, seed=1)
    >>> tree = es.sample(log_likelihood, prior, move=tuned.move, initial=tuned.initial, draws=100, seed=1)
    """
    if not 0 < target_acceptance < 1:
        raise ValueError(f"target_acceptance must be between 0 and 1, but it is {target_acceptance}.")
    warmup = whole_number("warmup", warmup, 20, "a whole number, at least 20")
    posterior = Posterior(prior, log_likelihood)
    move = Hamiltonian(0.1, leapfrog_steps)
    move.prepare(posterior.prior)  # raises if something is missing, for example BlackJAX
    import blackjax

    with jax_settings():
        _check_gradients(posterior, move, seed)
        value = compilable(posterior.log_likelihood, prior.size)
        algorithm = blackjax.nuts if leapfrog_steps is None else blackjax.hmc
        extra: dict[str, Any] = {} if leapfrog_steps is None else {"num_integration_steps": leapfrog_steps}

        def log_density(z: Any) -> Any:
            return value(prior.unwhiten(z)) - 0.5 * jnp.sum(z * z)

        adapt = blackjax.window_adaptation(algorithm, log_density, target_acceptance_rate=target_acceptance, **extra)
        start = generator(seed, 0).standard_normal(prior.noise_size)
        (state, found), _ = jax.jit(adapt.run, static_argnums=2)(jax.random.key(seed), start, int(warmup))
        move = Hamiltonian(
            float(found["step_size"]), leapfrog_steps, inverse_mass_diagonal=found["inverse_mass_matrix"].tolist()
        )
        latents = posterior.log_likelihood.unpack(np.asarray(prior.unwhiten(state.position)))
    return TunedHamiltonian(move, latents["f"] if posterior.log_likelihood.single else latents)


def _check_gradients(posterior: Posterior, move: Hamiltonian, seed: int) -> None:
    """Raise TypeError, with the reason, if JAX cannot trace the log-likelihood."""
    trial = first_draw(posterior, generator(seed, 1))
    chosen, why = choose_engine(posterior, None, trial, move)
    if not chosen.traced:
        raise TypeError(
            f"tune_hamiltonian needs gradients of the log-likelihood, but {why}. Write it with jax.numpy, or use "
            "EllipticalSlice, which needs none and is not tuned."
        )
