"""Stationary autoregressions over equally spaced times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import coo_array, diags_array

from ellipslice.latent.hyperpriors import CORRELATION, SD, Hyperparameter
from ellipslice.latent.terms.extension import ExtendedTerm, Extension
from ellipslice.latent.terms.structure import Structure
from ellipslice.latent.terms.times import equally_spaced, extended_times

SMALLEST = float(np.finfo(float).eps)
"""Smallest value of 1 - rho^2, so that a rho that rounds to 1 has a finite precision."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AR1(ExtendedTerm):
    """Stationary autoregression of first order over equally spaced times.

    The covariance of times i and j is sd^2 rho^|i - j|: sd is the marginal standard deviation, and rho is the
    correlation of neighbouring times. Times without data, between the first and the last one, have effects, too.

    Parameters
    ----------
    column : str or array, shape (rows,)
        Time of each row: multiples of one step, numbers or dates. Values may repeat.
    prior : distribution of NumPyro, or mapping with "sd" and "rho", optional
        Prior of sd, or of both. Default: P(sd > 1 unit) = 0.01, and rho uniform on (-1, 1).
    name : str, optional
        Name of the term. Default: the name of the column.

    Examples
    --------
    >>> term = AR1("week").bind({"week": [1, 2, 4, 2]})
    >>> term.coords["week_level"].tolist()
    [1, 2, 3, 4]
    >>> round(float(np.linalg.inv(term.precision(sd=2.0, rho=0.5).toarray())[0, 2]), 6)
    1.0
    """

    hyperparameters: ClassVar[Mapping[str, Hyperparameter]] = MappingProxyType({"sd": SD, "rho": CORRELATION})
    connected: ClassVar[bool] = True
    _advice_unseen: ClassVar[str] = "Its times are those from the first to the last one of the data."

    def structure(self, levels: np.ndarray) -> Structure:
        n = len(levels)
        inside, i = np.ones(n), np.arange(n - 1)
        inside[[0, -1]] = 0.0
        neighbours = coo_array((np.ones(2 * n - 2), (np.append(i, i + 1), np.append(i + 1, i))), (n, n))
        return Structure((diags_array(np.ones(n)), diags_array(inside), neighbours))

    def coefficients(self, *, sd: float, rho: float) -> np.ndarray:
        scale = 1.0 / (sd * sd * max(1.0 - rho * rho, SMALLEST))
        return np.array([scale, scale * rho * rho, -scale * rho])

    def log_determinant(self, *, sd: float, rho: float) -> float:
        n = len((self._bound or self.state).levels)
        return -2.0 * n * math.log(sd) - (n - 1) * math.log(max(1.0 - rho * rho, SMALLEST))

    def _extension(self, values: np.ndarray) -> Extension:
        times, known, rows = extended_times(self.state.levels, values, self.name)
        return Extension(self.structure(times).bases, known, rows)

    @property
    def about(self) -> str:
        return f"stationary autoregression of first order over {self.size} times, marginal standard deviation sd"

    def _find_levels(self, data: Any) -> np.ndarray:
        """Return all times from the first to the last one."""
        return equally_spaced(super()._find_levels(data), "AR1", self._argument())
