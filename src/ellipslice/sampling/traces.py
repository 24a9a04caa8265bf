"""Traces of a few quantities of a run, in bounded memory, and their effective sample size and R-hat."""

from __future__ import annotations

import itertools

import numpy as np

from ellipslice.sampling.keep import Kept
from ellipslice.sampling.measures import MIN_DRAWS, Diagnostics, measure

MONITORED_ELEMENTS = 16
"""Number of elements whose traces are recorded, in addition to the log-likelihood."""

MAX_TRACE_DRAWS = 4000
"""Largest number of draws of each chain in a trace. When it is full, every second draw is removed."""


class Traces:
    """Traces of the log-likelihood and of some elements of what is kept, for every chain.

    Parameters
    ----------
    example : dict of arrays
        Stored values of one draw, with a leading axis of length 1.
    chains : int
        Number of chains.
    length : int
        Largest number of draws of each chain. Default: 4000.
    start : int
        Number of the first draw that is recorded. Default: 0.
    """

    def __init__(self, example: Kept, chains: int, length: int = MAX_TRACE_DRAWS, start: int = 0):
        self._names, self._start = list(example), start
        sizes = [value[0].size for value in example.values()]
        chosen = (
            np.unique(np.linspace(0, max(0, sum(sizes) - 1), MONITORED_ELEMENTS).astype(int))
            if sum(sizes)
            else np.array([], int)
        )
        bounds = np.cumsum([0, *sizes])
        self._picks = [chosen[(chosen >= a) & (chosen < b)] - a for a, b in itertools.pairwise(bounds)]
        self.thinning, self._length = 1, length
        self._traces = np.empty((chains, length, 1 + len(chosen)))

    @property
    def thinned(self) -> bool:
        """True if draws were removed, so that the effective sample size is a lower bound."""
        return self.thinning > 1

    def write(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        """Record the monitored elements of draws of consecutive chains, from number `first` on."""
        count = statistics["total_log_likelihood"].shape[1]
        early, first = max(0, self._start - first), max(0, first - self._start)
        count -= early
        while first + count > self.thinning * self._length:
            half = self._traces[:, ::2].copy()
            self._traces[:, : half.shape[1]] = half
            self.thinning *= 2
        skip = -first % self.thinning
        if skip >= count:
            return
        rows = slice(early + skip, None, self.thinning)
        columns = [statistics["total_log_likelihood"][:, rows, None]]
        for name, pick in zip(self._names, self._picks, strict=True):
            kept = latents[name][:, rows]
            columns.append(kept.reshape(*kept.shape[:2], -1)[:, :, pick])
        at = (first + skip) // self.thinning
        self._traces[chains, at : at + columns[0].shape[1]] = np.concatenate(columns, axis=2)

    def select(self, rows: slice) -> None:
        """Keep only these draws of each chain, numbered anew. Nothing may have been removed before."""
        selected = self._traces[:, rows].copy()
        self._traces[:, : selected.shape[1]] = selected

    def measure(self, draws: int) -> Diagnostics:
        """Return the diagnostics of the first `draws` draws of every chain, without those before the start."""
        seen = draws - self._start
        return measure({"f": self._traces[:, : -(-seen // self.thinning)]}) if seen >= MIN_DRAWS else Diagnostics()
