"""Effective sample sizes and R-hat of many quantities in parallel: the estimators of ArviZ (Vehtari et al. 2021).

ArviZ computes them for one quantity at a time, which takes longer than sampling if there are thousands. Here each step
is made for a group of quantities, ranks are computed once, and autocovariances only up to the lag that is needed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ellipslice.machine import available_cores

GROUP = 2**19
"""Number of draws, of all quantities of a group, that are processed jointly: few enough for the cache."""

FIRST_LAGS = 15
"""Largest lag that is computed at first. It is doubled until the autocorrelations of every quantity have ended."""

ALL_BY_FFT = 127
"""Largest lag up to which autocovariances are computed one by one. For more, all are computed by Fourier transforms."""


class RankDiagnostics(NamedTuple):
    """Measures of each quantity, shape (quantities,)."""

    bulk: np.ndarray
    """Bulk effective sample size."""
    tail: np.ndarray
    """Tail effective sample size: the smaller one of two quantiles."""
    rhat: np.ndarray
    """Rank-normalised R-hat: the larger one of the bulk and of the folded draws."""


def rank_diagnostics(draws: np.ndarray, tails: tuple[float, float]) -> RankDiagnostics:
    """Return the diagnostics of all quantities.

    Parameters
    ----------
    draws : array, shape (chains, draws, quantities)
        At least 4 draws per chain, finite values that are not all equal.
    tails : tuple of float
        Two quantiles for the tail estimate.
    """
    chains, count, quantities = draws.shape
    width = max(1, GROUP // (chains * count))
    groups = [draws[:, :, first : first + width] for first in range(0, quantities, width)]
    with ThreadPoolExecutor(min(len(groups), available_cores()), "ellipslice-ranks") as pool:
        parts = list(pool.map(lambda group: _of_group(group, tails), groups))
    return RankDiagnostics(*(np.concatenate(part) for part in zip(*parts, strict=True)))


@np.errstate(divide="ignore", invalid="ignore")  # a chain that is constant has variance 0
def _of_group(draws: np.ndarray, tails: tuple[float, float]) -> RankDiagnostics:
    _, count, quantities = draws.shape
    columns = np.ascontiguousarray(np.moveaxis(draws, 2, 0))  # (quantities, chains, draws)
    half = count // 2
    split = np.concatenate([columns[:, :, :half], columns[:, :, -half:]], axis=1)
    normal = _normal_scores(split)
    folded = np.abs(split - np.median(split.reshape(quantities, -1), axis=1)[:, None, None])
    rhat = np.maximum(_rhat(normal), _rhat(_normal_scores(folded)))
    quantiles = np.quantile(columns.reshape(quantities, -1), tails, axis=1)
    below = [effective_size((split <= quantile[:, None, None]).astype(np.float64)) for quantile in quantiles]
    return RankDiagnostics(effective_size(normal), np.minimum(*below), rhat)


def _normal_scores(split: np.ndarray) -> np.ndarray:
    """Return the normal scores of the ranks of each quantity; ties have their mean rank."""
    flat = split.reshape(len(split), -1)
    size = flat.shape[1]
    order = np.argsort(flat, axis=1)
    ordered = np.take_along_axis(flat, order, axis=1)
    new = np.ones(flat.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    position = np.arange(size)
    first = np.maximum.accumulate(np.where(new, position, 0), axis=1)
    last_of_group = np.ones(flat.shape, bool)
    last_of_group[:, :-1] = new[:, 1:]
    last = np.minimum.accumulate(np.where(last_of_group, position, size)[:, ::-1], axis=1)[:, ::-1]
    # A mean rank is a multiple of 1/2, so a table of normal scores has all values.
    table = ndtri((np.arange(2, 2 * size + 1) / 2 - 3 / 8) / (size + 1 / 4))
    scores = np.empty(flat.shape)
    np.put_along_axis(scores, order, table[first + last], axis=1)
    return scores.reshape(split.shape)


def _rhat(split: np.ndarray) -> np.ndarray:
    """Return R-hat of each quantity, shape (quantities, chains, draws)."""
    draws = split.shape[2]
    between, within = split.mean(axis=2).var(axis=1, ddof=1), split.var(axis=2, ddof=1).mean(axis=1)
    return np.sqrt((draws * between / within + draws - 1) / draws)


def effective_size(split: np.ndarray) -> np.ndarray:
    """Return the effective sample size of the mean of each quantity, shape (quantities, chains, draws).

    The sum of autocorrelations ends by Geyer's initial monotone sequence: sums of the pairs (2 k, 2 k + 1) are used
    while they are positive, and each is at most the one before.
    """
    _, chains, draws = split.shape
    centred = split - split.mean(axis=2, keepdims=True)
    variance = (centred**2).mean(axis=(1, 2)) * draws / (draws - 1)
    plus = variance * (draws - 1) / draws
    if chains > 1:
        plus = plus + split.mean(axis=2).var(axis=1, ddof=1)
    end = max(0, (draws - 3) // 2)  # pair at which the sequence ends in any case
    lags = min(FIRST_LAGS, 2 * end + 1)
    while True:
        correlations = 1 - (variance[:, None] - _autocovariances(centred, lags)) / plus[:, None]
        correlations[:, 0] = 1.0
        sums = correlations[:, ::2] + correlations[:, 1::2]
        ended = ~(sums > 0)
        if lags == 2 * end + 1:
            ended[:, end] = True
        if ended.any(axis=1).all():
            break
        lags = 2 * end + 1 if 4 * lags > ALL_BY_FFT else min(2 * lags + 1, 2 * end + 1)
    first = np.argmax(ended, axis=1)
    monotone = np.minimum.accumulate(sums, axis=1)
    monotone[np.arange(sums.shape[1]) >= first[:, None]] = 0.0
    even = np.maximum(correlations[np.arange(len(first)), 2 * first], 0.0)
    time = np.maximum(2 * monotone.sum(axis=1) + even - 1, 1 / np.log10(chains * draws))
    constant = np.ptp(split, axis=(1, 2)) < np.finfo(float).resolution
    return np.where(constant, chains * draws, chains * draws / time)


def _autocovariances(centred: np.ndarray, lags: int) -> np.ndarray:
    """Return the mean autocovariance of the chains at lags 0 to `lags`, shape (quantities, lags + 1)."""
    quantities, chains, draws = centred.shape
    if lags > ALL_BY_FFT:
        length = 2 ** int(np.ceil(np.log2(2 * draws)))
        transform = np.fft.rfft(centred, length, axis=2)
        power = (transform.real**2 + transform.imag**2).mean(axis=1)
        return np.fft.irfft(power, length, axis=1)[:, : lags + 1] / draws
    found = np.empty((quantities, lags + 1))
    for lag in range(lags + 1):
        found[:, lag] = np.einsum("qcd,qcd->q", centred[:, :, : draws - lag], centred[:, :, lag:])
    return found / (draws * chains)
