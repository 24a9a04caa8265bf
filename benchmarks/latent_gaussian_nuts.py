"""NumPyro's NUTS on the problems of `latent_gaussian_models.py`, non-centred, in double precision.

Each field is sd * B z, where z is standard normal and B a square root of the generalised inverse of its structure.
Log precisions and flat null spaces are sampled as they are. The four chains run one after the other on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from latent_gaussian_problems import Field, Problem
from numpyro.infer import MCMC, NUTS, init_to_uniform

CHAINS = 4


class Judged(NamedTuple):
    """Draws and CPU seconds of NUTS."""

    log_precisions: np.ndarray
    """Shape (chains, draws, fields)."""
    eta: np.ndarray
    """Shape (chains, draws, rows)."""
    coefficients: np.ndarray
    """Shape (chains, draws, coefficients)."""
    compile_seconds: float
    warmup_seconds: float
    """Of the second run, whose programs are compiled."""
    seconds: float
    """Of the draws of the second run."""
    timed_chains: slice
    """Chains of the second run."""


def run_nuts(problem: Problem, warmup: int, draws: int, seed: int = 0) -> Judged:
    """Run NUTS twice with different seeds. The first run compiles; the second one is timed; all draws are returned."""
    with jax.enable_x64(True):
        model = numpyro_model(problem)
        kernel = NUTS(model, init_strategy=init_to_uniform(radius=0.5))
        sampler = MCMC(
            kernel, num_warmup=warmup, num_samples=draws, num_chains=CHAINS, chain_method="sequential",
            progress_bar=False,
        )  # fmt: skip
        found, seconds = [], []
        for run in range(2):
            key_warmup, key_draws = jax.random.split(jax.random.PRNGKey(100 * seed + run))
            start = time.process_time()
            sampler.warmup(key_warmup)
            jax.block_until_ready(sampler.post_warmup_state)
            between = time.process_time()
            sampler.run(key_draws)
            samples = jax.tree.map(np.asarray, sampler.get_samples(group_by_chain=True))
            seconds.append((between - start, time.process_time() - between))
            found.append(samples)
    fields = len(problem.fields)
    columns = [np.stack([run[f"theta{j}"] for j in range(fields)], -1) for run in found]
    beta = [run["beta"] if "beta" in run else np.zeros((CHAINS, draws, 0)) for run in found]
    return Judged(
        np.concatenate(columns), np.concatenate([run["eta"] for run in found]), np.concatenate(beta),
        sum(seconds[0]) - sum(seconds[1]), *seconds[1], slice(CHAINS, 2 * CHAINS),
    )  # fmt: skip


def numpyro_model(problem: Problem) -> Callable[[], None]:
    """Return the model as NumPyro's, without data arguments."""
    roots = [square_root(field) for field in problem.fields]
    design, y, size = (jnp.asarray(each, jnp.float64) for each in (problem.design, problem.y, problem.size))
    real, vector = dist.constraints.real, dist.constraints.real_vector

    def model() -> None:
        eta: Any = jnp.zeros(len(problem.y))
        if design.shape[1]:
            normal = dist.Normal(0.0, problem.coefficient_sd).expand([design.shape[1]]).to_event(1)
            eta = eta + design @ numpyro.sample("beta", normal)
        for j, (field, (root, free)) in enumerate(zip(problem.fields, roots, strict=True)):
            theta = numpyro.sample(f"theta{j}", dist.ImproperUniform(real, (), ()))
            numpyro.factor(f"prior{j}", field.gamma[0] * theta - field.gamma[1] * jnp.exp(theta))
            count = int(field.index.max()) + 1 if root is None else root.shape[1]
            z = numpyro.sample(f"z{j}", dist.Normal(0.0, 1.0).expand([count]).to_event(1))
            x = jnp.exp(-theta / 2) * (z if root is None else root @ z)
            if free.shape[1]:
                x = x + free @ numpyro.sample(f"c{j}", dist.ImproperUniform(vector, (), (free.shape[1],)))
            eta = eta + x[field.index]
        numpyro.deterministic("eta", eta)
        numpyro.factor("y", (y * eta - size * (jnp.exp(eta) if problem.poisson else jnp.logaddexp(0.0, eta))).sum())

    return model


def square_root(field: Field) -> tuple[np.ndarray | None, np.ndarray]:
    """Return B with B B' = the generalised inverse of the structure, and a basis of the directions that are flat."""
    if field.structure is None:
        return None, np.zeros((0, 0))
    values, vectors = np.linalg.eigh(field.structure)
    null = values < 1e-10 * values[-1]
    free = vectors[:, null]
    if field.sum_to_zero:
        _, size, directions = np.linalg.svd(free.sum(0, keepdims=True))
        free = free @ directions[int((size > 1e-8).sum()) :].T
    return vectors[:, ~null] / np.sqrt(values[~null]), free
