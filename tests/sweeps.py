"""Check that a sweep of `Local` leaves the prior invariant, up to rounding error."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.engines.host.engine import HostTarget
from ellipslice.moves import Local, State
from ellipslice.moves.local_groups import LocalDraws, assign_stack_rows
from ellipslice.noise import UpdateNoise
from ellipslice.priors import Prior
from ellipslice.testing.search import noise_of_an_update


def stack_draws(nu: np.ndarray, partition: list[np.ndarray], choice: Any = None) -> LocalDraws:
    """Return flat vectors, shape (..., size), as the draws of a sweep by `EllipticalSlice`: (..., blocks, 1, block)."""
    stacks: dict[int, list[np.ndarray]] = {}
    for block, place in zip(partition, assign_stack_rows([len(block) for block in partition]), strict=True):
        stacks.setdefault(place.stack, []).append(nu[..., None, block])
    return LocalDraws(choice, tuple(np.stack(stack, axis=-3) for stack in stacks.values()))


def flat_draws(draws: LocalDraws, partition: list[np.ndarray], size: int) -> np.ndarray:
    """Return the draws of many sweeps as flat vectors, shape (sweeps, size): the reverse of `stack_draws`."""
    nu = np.zeros((len(draws.stacks[0]), size))
    for block, place in zip(partition, assign_stack_rows([len(block) for block in partition]), strict=True):
        nu[:, block] = draws.stacks[place.stack][:, place.row, 0]
    return nu


def sweep_as_matrices(move: Local, prior: Prior, seed: int) -> tuple[np.ndarray, np.ndarray, UpdateNoise]:
    """Return A and B such that a sweep maps f to A f + B nu, and its random numbers.

    The log-likelihood is constant, so each search accepts its first angle.
    """
    # A sweep that does not change some combination of elements must leave the prior invariant, too.
    prepared = move.prepare_part(prior)
    noise = noise_of_an_update(move, prior, np.random.default_rng(seed), prepared)
    target = HostTarget(lambda f: 0.0, prepared)
    choice = noise.drawn.choice
    partition = move.blocks.partitions(prior)[int(choice or 0)]

    def end(f: Any, nu: Any) -> np.ndarray:
        draws = stack_draws(nu, partition, choice)
        return np.asarray(move.step(noise._replace(drawn=draws), State(f, 0.0), target)[0].f)

    units, nothing = np.eye(prior.size), np.zeros(prior.size)
    from_state = np.stack([end(unit, nothing) for unit in units], axis=1)
    from_draw = np.stack([end(nothing, unit) for unit in units], axis=1)
    return from_state, from_draw, noise


def conditional_covariance(covariance: np.ndarray, block: Any) -> np.ndarray:
    """Return the covariance of a block given the rest, by the dense formula.

    It is computed from correlations, so that blocks with small variances are accurate, too.
    """
    deviation = np.sqrt(covariance.diagonal())
    scale = np.outer(deviation, deviation)
    correlation = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    rest = np.setdiff1d(np.arange(len(covariance)), block)
    shared = correlation[np.ix_(block, rest)]
    inverse = np.linalg.pinv(correlation[np.ix_(rest, rest)], rcond=1e-12, hermitian=True)
    return (correlation[np.ix_(block, block)] - shared @ inverse @ shared.T) * scale[np.ix_(block, block)]


def check_sweep(move: Local, prior: Prior, covariance: np.ndarray, seed: int = 0) -> None:
    """Check that a sweep leaves the prior invariant: A Sigma A' + B D B' = Sigma.

    D is block-diagonal, with the covariance of each block given the rest.
    """
    partitions = move.blocks.partitions(prior)
    from_state, from_draw, noise = sweep_as_matrices(move, prior, seed)
    partition = partitions[int(noise.drawn.choice or 0)]
    drawn = np.zeros_like(covariance)
    for block in partition:
        drawn[np.ix_(block, block)] = conditional_covariance(covariance, block)
    after = from_state @ covariance @ from_state.T + from_draw @ drawn @ from_draw.T
    scale = np.sqrt(np.maximum(covariance.diagonal(), 1e-300))
    off = np.abs((after - covariance) / scale[:, None] / scale).max()
    assert off < 1e-8, f"a sweep changes the prior: a covariance is off by {off:.2g} of the variances"


def check_draws(move: Local, prior: Prior, covariance: np.ndarray, seed: int = 0, count: int = 20_000) -> None:
    """Check that the draws of a sweep are independent draws from the conditional priors, within 5.5 standard errors."""
    prepared = move.prepare(prior)
    partition = move.blocks.partitions(prior)[0]
    nu = flat_draws(move.noise_spec(prior, prepared).draw(np.random.default_rng(seed), count), partition, prior.size)
    expected = np.zeros_like(covariance)
    for block in partition:
        expected[np.ix_(block, block)] = conditional_covariance(covariance, block)
    deviation = np.sqrt(np.maximum(expected.diagonal(), 0.0))
    products = nu.T @ nu / count
    error = np.sqrt(np.outer(deviation, deviation) ** 2 + expected**2) / np.sqrt(count)
    assert (np.abs(products - expected) <= 5.5 * error + 1e-9 * deviation.max() ** 2).all(), "wrong draws for a block"
