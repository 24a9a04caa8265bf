"""The law of a sweep of local updates, with no tolerance but rounding: for the tests of `Local` and of its mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.engines.host.engine import HostTarget
from ellipslice.moves import Local, State
from ellipslice.noise import Noise
from ellipslice.priors import Prior
from ellipslice.testing.search import noise_of_an_update


def sweep_as_matrices(move: Local, prior: Prior, seed: int) -> tuple[np.ndarray, np.ndarray, Noise]:
    """f' = A f + B nu: what a sweep does where the data say nothing, so that each search takes its first angle."""
    prepared = move.prepare_part(prior)  # a sweep that keeps a combination of values keeps the prior as well
    noise = noise_of_an_update(move, prior, np.random.default_rng(seed), prepared)
    target = HostTarget(lambda f: 0.0, prepared)
    rows = 1 if len(prepared) == 1 else len(noise.nu) - 1  # the last row says which partition

    def end(f: Any, nu: Any) -> np.ndarray:
        draws = np.zeros_like(noise.nu)
        draws[rows:] = noise.nu[rows:]
        draws[:rows] = nu
        return np.asarray(move.step(noise._replace(nu=draws), State(f, 0.0), target)[0].f)

    units, nothing = np.eye(prior.size), np.zeros(prior.size)
    from_state = np.stack([end(unit, nothing) for unit in units], axis=1)
    from_draw = np.stack([end(nothing, unit) for unit in units], axis=1)
    return from_state, from_draw, noise


def conditional_covariance(covariance: np.ndarray, block: Any) -> np.ndarray:
    """Of a block given the rest, by the dense formula; on correlations, so that small variances count too."""
    deviation = np.sqrt(covariance.diagonal())
    scale = np.outer(deviation, deviation)
    correlation = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    rest = np.setdiff1d(np.arange(len(covariance)), block)
    shared = correlation[np.ix_(block, rest)]
    inverse = np.linalg.pinv(correlation[np.ix_(rest, rest)], rcond=1e-12, hermitian=True)
    return (correlation[np.ix_(block, block)] - shared @ inverse @ shared.T) * scale[np.ix_(block, block)]


def check_sweep(move: Local, prior: Prior, covariance: np.ndarray, seed: int = 0) -> None:
    """The prior is left as it is: A Sigma A' + B D B' = Sigma, with D what the draws should be, block by block."""
    partitions = move.blocks.partitions(prior)
    from_state, from_draw, noise = sweep_as_matrices(move, prior, seed)
    partition = partitions[int(noise.nu[-1, 0]) if len(partitions) > 1 else 0]
    drawn = np.zeros_like(covariance)
    for block in partition:
        drawn[np.ix_(block, block)] = conditional_covariance(covariance, block)
    after = from_state @ covariance @ from_state.T + from_draw @ drawn @ from_draw.T
    scale = np.sqrt(np.maximum(covariance.diagonal(), 1e-300))
    off = np.abs((after - covariance) / scale[:, None] / scale).max()
    assert off < 1e-8, f"a sweep changes the prior: a covariance is off by {off:.2g} of the variances"


def check_draws(move: Local, prior: Prior, covariance: np.ndarray, seed: int = 0, count: int = 20_000) -> None:
    """The draws of a sweep are those of the conditional priors, independent of each other: five standard errors."""
    prepared = move.prepare(prior)
    source, draws, _ = move.lots(prior, prepared)
    nu = np.asarray(source.draw(np.random.default_rng(seed), count * draws)).reshape(count, draws, -1)
    expected = np.zeros_like(covariance)
    for block in move.blocks.partitions(prior)[0]:
        expected[np.ix_(block, block)] = conditional_covariance(covariance, block)
    deviation = np.sqrt(np.maximum(expected.diagonal(), 0.0))
    products = nu[:, 0].T @ nu[:, 0] / count
    error = np.sqrt(np.outer(deviation, deviation) ** 2 + expected**2) / np.sqrt(count)
    assert (np.abs(products - expected) <= 5.5 * error + 1e-9 * deviation.max() ** 2).all(), "wrong draws for a block"
