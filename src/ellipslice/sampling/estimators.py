"""Effective sample size and R-hat of many quantities at once: the estimators of Vehtari et al. (2021).

Results are those of ArviZ up to rounding error. ArviZ computes one quantity at a time, which takes about four times as
long, and is then a large part of the time of a run with thousands of elements.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import ndtri

BLOCK_VALUES = 100_000
"""Number of draws, of all quantities, that are processed together: more need more memory and are not faster."""

OFFSET = 3 / 8
"""Number that is subtracted from ranks before they become normal quantiles (Blom 1958)."""

RESOLUTION = 1e-15
"""Range of values below which a quantity is constant, and each draw is an effective sample. That of ArviZ."""


class Estimates(NamedTuple):
    """Diagnostics of several quantities, shape (quantities,) each."""

    bulk: np.ndarray
    """Effective sample size of the bulk."""
    tail: np.ndarray
    """Smaller effective sample size of the two tails."""
    rhat: np.ndarray
    """Rank-normalised R-hat; NaN with one chain."""


def estimate(draws: np.ndarray, tails: tuple[float, float]) -> Estimates:
    """Return the diagnostics of one or more quantities with finite values.

    Parameters
    ----------
    draws : array, shape (chains, draws, quantities)
        At least four draws of each chain.
    tails : pair of float
        Quantiles of the tail estimate.
    """
    count = draws.shape[2]
    size = max(1, BLOCK_VALUES // (draws.shape[0] * draws.shape[1]))
    with np.errstate(all="ignore"):  # of constant quantities, and of differences that overflow
        blocks = [
            _estimate_block(np.ascontiguousarray(np.moveaxis(draws[:, :, first : first + size], 2, 0)), tails)
            for first in range(0, count, size)
        ]
    return Estimates(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def _estimate_block(draws: np.ndarray, tails: tuple[float, float]) -> Estimates:
    """Return the diagnostics of a block, shape (quantities, chains, draws)."""
    count, chains, length = draws.shape
    halves = _split(draws)
    flat = halves.reshape(count, -1)
    scores, ordered = _normal_scores(flat)
    normal = scores.reshape(halves.shape)
    bulk = _effective_size(normal)
    # Draws in order are faster. With an odd number, the halves do not contain the middle draw.
    limits = np.quantile(draws.reshape(count, chains * length) if length % 2 else ordered, tails, axis=1)
    low, high = (_effective_size(_split(draws <= limit[:, None, None]).astype(np.float64)) for limit in limits)
    if chains == 1:
        return Estimates(bulk, np.minimum(low, high), np.full(count, np.nan))
    median = ordered[:, flat.shape[1] // 2 - 1 : flat.shape[1] // 2 + 1].mean(1, keepdims=True)
    folded, _ = _normal_scores(np.abs(flat - median))
    of_normal, of_folded = _rhat(normal), _rhat(folded.reshape(halves.shape))
    return Estimates(bulk, np.minimum(low, high), np.where(of_folded > of_normal, of_folded, of_normal))


def _split(draws: np.ndarray) -> np.ndarray:
    """Return the two halves of each chain, without the middle draw of an odd number. Shape (quantities, 2 c, n / 2)."""
    half = draws.shape[2] // 2
    return np.concatenate([draws[:, :, :half], draws[:, :, -half:]], axis=1)


def _normal_scores(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return normal quantiles of the ranks of values in each row, and the values in order. Ties have the mean rank."""
    size = values.shape[1]
    order = np.argsort(values, axis=1)
    scores = np.empty_like(values)
    np.put_along_axis(scores, order, ndtri((np.arange(1, size + 1) - OFFSET) / (size - 2 * OFFSET + 1))[None], axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if tied.any():
        from scipy.stats import rankdata  # a slow import

        scores[tied] = ndtri((rankdata(values[tied], axis=1) - OFFSET) / (size - 2 * OFFSET + 1))
    return scores, ordered


def _rhat(chains: np.ndarray) -> np.ndarray:
    """Return the potential scale reduction of chains, shape (quantities, chains, draws)."""
    draws = chains.shape[2]
    between = draws * chains.mean(2).var(1, ddof=1)
    return np.sqrt((between / chains.var(2, ddof=1).mean(1) + draws - 1) / draws)


def _effective_size(chains: np.ndarray) -> np.ndarray:
    """Return the effective sample size of the means of chains, shape (quantities, chains, draws).

    Autocorrelations are summed over Geyer's initial monotone sequence: pairs of lags 2 k and 2 k + 1, until a pair is
    not positive, each pair at most as large as those before it.
    """
    _, parts, draws = chains.shape
    size, means = parts * draws, chains.mean(2)
    covariances = _mean_autocovariances(chains - means[:, :, None])
    variance = covariances[:, :1] * draws / (draws - 1.0)
    total = covariances[:, :1] + (means.var(1, ddof=1)[:, None] if parts > 1 else 0.0)
    correlations = 1.0 - (variance - covariances) / total
    correlations[:, 0] = 1.0
    even, odd = correlations[:, : 2 * (draws // 2) : 2], correlations[:, 1::2]
    pairs = even + odd
    most = max((draws - 3) // 2, 0)
    ended = ~(pairs[:, : most + 1] > 0)
    ended[:, most] = True
    last = ended.argmax(axis=1)[:, None]
    sums = np.where(np.arange(pairs.shape[1]) < last, np.minimum.accumulate(pairs, axis=1), 0.0).sum(1)
    end, end_pair = (np.take_along_axis(each, last, axis=1)[:, 0] for each in (even, pairs))
    time = -1.0 + 2.0 * sums + np.where(end_pair >= 0, end, np.maximum(end, 0.0))
    found = size / np.maximum(time, 1 / np.log10(size))
    constant = chains.max((1, 2)) - chains.min((1, 2)) < RESOLUTION
    return np.where(constant, float(size), found)


def _mean_autocovariances(centred: np.ndarray) -> np.ndarray:
    """Return the autocovariances of all lags, averaged over chains, shape (quantities, draws)."""
    draws = centred.shape[2]
    length = next_fast_len(2 * draws, real=True)
    transformed = np.fft.rfft(centred, length, axis=2)
    power = (transformed.real**2 + transformed.imag**2).mean(1)
    return np.fft.irfft(power, length, axis=1)[:, :draws] / draws
