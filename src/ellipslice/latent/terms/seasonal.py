"""Seasonal effects of equally spaced times, whose pattern may change slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ellipslice.checks import whole_number
from ellipslice.latent.terms.extension import ExtendedTerm, Extension
from ellipslice.latent.terms.scaled import ScaledTerm
from ellipslice.latent.terms.structure import Structure
from ellipslice.latent.terms.times import equally_spaced, extended_times


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Seasonal(ExtendedTerm, ScaledTerm):
    """Seasonal effects: sums of `period` successive effects are independent Gaussians with standard deviation sd.

    This is INLA's model "seasonal". With a small sd the effects repeat after one period and have a sum of zero. With a
    larger sd the pattern changes over time. Times without data, between the first and the last one, have effects, too.

    Parameters
    ----------
    column : str or array, shape (rows,)
        Time of each row: multiples of one step, numbers or dates. Values may repeat.
    period : int
        Number of steps of one period. At least 2. Default: 12.
    prior : distribution of NumPyro, optional
        Prior of sd. Default: P(sd > 1 unit) = 0.01.
    constraint : {"none", "pattern"}
        "none" leaves the period - 1 patterns free that repeat exactly and have a sum of zero. "pattern" removes them,
        for a model that has the position in the period as fixed effects. Default: "none".
    name : str, optional
        Name of the term. Default: the name of the column.

    Examples
    --------
    >>> term = Seasonal("quarter", period=4).bind({"quarter": np.arange(12)})
    >>> list(term.state.structure.improper)
    ['cosine of period 4', 'sine of period 4', 'cosine of period 2']
    >>> term.precision(sd=1.0).toarray()[0, :5].tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """

    period: int = 12
    constraint: str = "none"

    def structure(self, levels: np.ndarray) -> Structure:
        period = whole_number("Seasonal: period", self.period, 2)
        if self.constraint not in ("none", "pattern"):
            raise ValueError(f"Seasonal: constraint must be 'none' or 'pattern', but it is {self.constraint!r}.")
        if len(levels) < period:
            raise ValueError(
                f"Seasonal: there are {len(levels)} times, but the period has {period}. Give a shorter period, or drop "
                "the term."
            )
        sums = moving_sums(len(levels), period)
        free = patterns(len(levels), period)
        if self.constraint == "none":
            return Structure((sums.T @ sums,), improper=free)
        return Structure((sums.T @ sums,), constraints={f"no {name}": row for name, row in free.items()})

    def _extension(self, values: np.ndarray) -> Extension:
        times, known, rows = extended_times(self.state.levels, values, self.name)
        sums = moving_sums(len(times), self.period)
        return Extension((sums.T @ sums,), known, rows)

    @property
    def about(self) -> str:
        return f"seasonal effects of {self.size} times with period {self.period}, sd of the sum of a period"

    def _find_levels(self, data: Any) -> np.ndarray:
        """Return all times from the first to the last one."""
        return equally_spaced(super()._find_levels(data), "Seasonal", self._argument())


def moving_sums(size: int, period: int) -> Any:
    """Return the matrix of all sums of `period` successive elements, sparse, shape (size - period + 1, size)."""
    rows = size - period + 1
    start = np.repeat(np.arange(rows), period)
    return csr_array((np.ones(rows * period), (start, start + np.tile(np.arange(period), rows))), (rows, size))


def patterns(size: int, period: int) -> dict[str, np.ndarray]:
    """Return a basis of the patterns that repeat after a period and have a sum of zero: cosines and sines."""
    times, found = np.arange(size), {}
    for cycles in range(1, period // 2 + 1):
        angle, length = 2 * np.pi * cycles * times / period, f"{period / cycles:g}"
        found[f"cosine of period {length}"] = np.cos(angle)
        if 2 * cycles < period:
            found[f"sine of period {length}"] = np.sin(angle)
    return found
