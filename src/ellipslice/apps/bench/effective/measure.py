"""One measurement: the effective sample size of the worst element of f, and the CPU seconds of sampling.

A pilot run measures the speed and the autocorrelation of a method. They determine the length of the run and its
thinning, so that each run takes about the same time and its draws fit into memory.
"""

from __future__ import annotations

import math
import statistics
from typing import Any, NamedTuple, Protocol

import numpy as np
from arviz_stats import ess, rhat  # pyright: ignore[reportPrivateImportUsage]

CHAINS = 4
WARMUP = 1000
"""Updates of each chain before its first draw."""

MAX_STORED_VALUES = 2**24
"""Largest number of stored values of a run: 128 MB."""

MIN_STORED = 1000
"""Smallest number of stored draws per chain to which a run is thinned."""

THINNING = 0.2
"""Thinning, as a share of the autocorrelation time. At this share, the effective sample size falls by about 1 %."""

PILOT_DRAWS, PILOT_SHARE, PILOT_ROUNDS = 200, 0.05, 4
"""Draws per chain of the first pilot run, the share of the main run's time that the last one takes, and the number of
pilot runs after the first."""

WORST, SPREAD = 40, 20
"""Number of elements of f for which ArviZ's estimates are computed: those with the smallest quick estimate of the
effective sample size, and evenly spaced ones."""

MAX_PLANS, MAX_TIMINGS, REPEAT_SHARE = 3, 5, 0.5
"""A run that takes less than REPEAT_SHARE of the planned time is planned again, at most MAX_PLANS times. If it is short
because of MAX_STORED_VALUES, it is repeated, at most MAX_TIMINGS times, and its time is the median."""

MIN_ESS, MAX_RHAT = 100, 1.05
"""Effective sample size from which, and R-hat below which, a run counts as converged."""


STUCK_RHAT = 99.0
"""R-hat of chains that have not moved, for which it is not defined."""


class Drawn(NamedTuple):
    """Draws and the time of sampling."""

    f: np.ndarray
    """Shape (chains, draws, N)."""
    seconds: float
    """CPU seconds of sampling, without compilation and preparation."""


class Sampler(Protocol):
    """Four chains of a method on a problem."""

    preparation: float | None
    """CPU seconds of fit, tuning and warm-up, without compilation. None: not measured. Set after the first draws."""
    details: dict[str, Any]
    """Properties of the method that are stored with the result, for example the move that was chosen."""

    def draw(self, draws: int, thin: int) -> Drawn:
        """Return draws of each chain, and keep every `thin`-th update."""
        ...


class Worst(NamedTuple):
    """Effective sample size and R-hat of the worst elements of f."""

    ess: float
    rhat: float

    @property
    def converged(self) -> bool:
        """True if effective sample size and R-hat have reached their limits. Only then is there a rate."""
        return self.ess >= MIN_ESS and self.rhat < MAX_RHAT


def measure(sampler: Sampler, seconds: float) -> dict[str, Any]:
    """Return the results of a run of about `seconds` CPU seconds."""
    drawn = run_pilot(sampler, PILOT_SHARE * seconds)
    draws, thin = drawn.f.shape[1], 1
    for _ in range(MAX_PLANS):  # again if the earlier run was too short to measure the speed
        if drawn.seconds > REPEAT_SHARE * seconds:
            break
        draws, thin = plan(drawn, thin, seconds)
        drawn = sampler.draw(draws, thin)
        if draws >= most_draws(drawn.f):
            break
    timings = [drawn.seconds]
    while len(timings) < MAX_TIMINGS and sum(timings) < REPEAT_SHARE * seconds:
        drawn = sampler.draw(draws, thin)
        timings.append(drawn.seconds)
    found = worst(drawn.f)
    return {
        "updates": CHAINS * drawn.f.shape[1] * thin,
        "thin": thin,
        "effective_sample_size": found.ess,
        "rhat": found.rhat,
        "converged": found.converged,
        "preparation_seconds": sampler.preparation,
        "sampling_seconds": statistics.median(timings),
        "timings": timings,
        **sampler.details,
    }


def run_pilot(sampler: Sampler, seconds: float) -> Drawn:
    """Return a run without thinning that takes at least `seconds` CPU seconds, or as long as its draws fit."""
    length, pilot = PILOT_DRAWS, sampler.draw(PILOT_DRAWS, 1)
    for _ in range(PILOT_ROUNDS):
        most = most_draws(pilot.f)
        if pilot.seconds > seconds or length >= most:
            break
        length = min(most, int(length * np.clip(1.5 * seconds / max(pilot.seconds, 1e-9), 2, 10)))
        pilot = sampler.draw(length, 1)
    return pilot


def plan(pilot: Drawn, thin: int, seconds: float) -> tuple[int, int]:
    """Return the draws per chain and the thinning of a run of about `seconds`, from an earlier run."""
    updates = pilot.f.shape[1] * thin
    autocorrelation_time = CHAINS * updates / quick_ess(pilot.f).min()
    updates = max(2, int(updates * seconds / pilot.seconds))
    thin = max(1, min(int(THINNING * autocorrelation_time), updates // MIN_STORED))
    return max(2, min(updates // thin, most_draws(pilot.f))), thin


def most_draws(f: np.ndarray) -> int:
    """Return the largest number of stored draws per chain."""
    return max(2, MAX_STORED_VALUES // (CHAINS * f.shape[2]))


def worst(f: np.ndarray) -> Worst:
    """Return ArviZ's bulk effective sample size and R-hat of the worst elements of f."""
    size = f.shape[2]
    spread = np.linspace(0, size - 1, min(SPREAD, size)).astype(int)
    some = f[:, :, np.union1d(np.argsort(quick_ess(f))[:WORST], spread)]
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 for an element that is constant
        smallest = float(np.min(ess(some, chain_axis=0, draw_axis=1)))
        largest = float(np.max(rhat(some, chain_axis=0, draw_axis=1)))
    return Worst(smallest, largest if math.isfinite(largest) else STUCK_RHAT)


def quick_ess(f: np.ndarray) -> np.ndarray:
    """Estimate the effective sample size of each element of f, without ranks. Shape (N,).

    Autocovariances are around the mean of all chains, so chains that disagree have a small effective sample size.
    """
    chains, draws, size = f.shape
    length = 1 << (2 * draws - 1).bit_length()
    found = np.empty(size)
    for first in range(0, size, 32):
        part = f[:, :, first : first + 32]
        part = part - part.mean(axis=(0, 1))
        power = np.abs(np.fft.rfft(part, length, axis=1)) ** 2
        covariance = np.fft.irfft(power, length, axis=1)[:, :draws].mean(axis=0) / draws
        correlation = covariance / np.maximum(covariance[0], 1e-300)
        pairs = correlation[: draws // 2 * 2].reshape(draws // 2, 2, -1).sum(axis=1)
        # Geyer's initial monotone sequence: sums of pairs, up to the first that is negative.
        kept = np.minimum.accumulate(pairs, axis=0) * np.cumprod(pairs > 0, axis=0)
        time = np.where(covariance[0] > 0, np.maximum(2 * kept.sum(axis=0) - 1, 1e-3), draws)
        found[first : first + 32] = chains * draws / time
    return found
