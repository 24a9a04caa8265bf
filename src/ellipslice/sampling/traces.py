"""Traces of a few numbers of a run, in bounded memory, and what they are worth."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import NamedTuple

import numpy as np

from ellipslice.sampling.keep import Kept

WATCHED = 16
"""Latent values whose traces are judged, beside that of the log-likelihood."""

LENGTH = 4000
"""Draws of each chain in such a trace, at most; from longer ones every second is left out, again and again."""


class Found(NamedTuple):
    """What a look at the draws found: the worst of the values that are watched."""

    effective_sample_size: float = math.nan
    rhat: float = math.nan


class Traces:
    """The log-likelihood and some of the values that are kept, of every chain.

    Parameters
    ----------
    example : dict of arrays
        What is kept of one draw, with a leading axis.
    chains : int
    length : int
        Draws of each chain, at most.
    start : int
        The first draw that is looked at.
    """

    def __init__(self, example: Kept, chains: int, length: int = LENGTH, start: int = 0):
        self._names, self._start = list(example), start
        sizes = [value[0].size for value in example.values()]
        among = (
            np.unique(np.linspace(0, max(0, sum(sizes) - 1), WATCHED).astype(int)) if sum(sizes) else np.array([], int)
        )
        bounds = np.cumsum([0, *sizes])
        self._picks = [among[(among >= a) & (among < b)] - a for a, b in itertools.pairwise(bounds)]
        self._every, self._length = 1, length
        self._traces = np.empty((chains, length, 1 + len(among)))

    @property
    def thinned(self) -> bool:
        """Whether draws were left out, so that there may be more to them than is seen."""
        return self._every > 1

    def write(self, chains: slice, first: int, latents: Kept, statistics: Kept) -> None:
        """Take what is watched of some draws."""
        count = statistics["total_log_likelihood"].shape[1]
        early, first = max(0, self._start - first), max(0, first - self._start)
        count -= early
        while first + count > self._every * self._length:
            half = self._traces[:, ::2].copy()
            self._traces[:, : half.shape[1]] = half
            self._every *= 2
        skip = -first % self._every
        if skip >= count:
            return
        rows = slice(early + skip, None, self._every)
        columns = [statistics["total_log_likelihood"][:, rows, None]]
        for name, pick in zip(self._names, self._picks, strict=True):
            kept = latents[name][:, rows]
            columns.append(kept.reshape(*kept.shape[:2], -1)[:, :, pick])
        at = (first + skip) // self._every
        self._traces[chains, at : at + columns[0].shape[1]] = np.concatenate(columns, axis=2)

    def measure(self, draws: int) -> Found:
        """What the first `draws` of every chain are worth, those before the start left out."""
        seen = draws - self._start
        return _measure(self._traces[:, : -(-seen // self._every)]) if seen >= 4 else Found()


def _measure(traces: np.ndarray) -> Found:
    """The worst of traces (chains, draws, values); those that never change, or are not finite, are not judged."""
    import xarray
    from arviz_stats import ess, rhat  # pyright: ignore[reportPrivateImportUsage]

    judged = np.isfinite(traces).all(axis=(0, 1)) & (np.ptp(traces, axis=(0, 1)) > 0)
    if not judged.any():
        return Found()
    values = xarray.DataArray(traces[:, :, judged], dims=("chain", "draw", "value"))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of chains that have not moved yet
        size = min(float(ess(values, method=method).min(skipna=False)) for method in ("bulk", "tail"))
        worst = float(rhat(values).max(skipna=False)) if len(traces) > 1 else math.nan
    return Found(size, worst)
