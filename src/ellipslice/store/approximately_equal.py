"""Whether two priors, or moves, are the same but for rounding: as two machines make them of the same numbers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import scipy.sparse

from ellipslice.priors import Dense
from ellipslice.priors.parts.sparse_cholesky import SparseCholesky
from ellipslice.store.serial import fields_of

DIGITS = 1e-8
"""Of the largest number of an array: what machines may differ by, where one that is nearly singular was factorised."""


def alike(one: Any, other: Any) -> bool:
    """Whether they have the same structure, and the same numbers to about eight digits."""
    if isinstance(one, np.generic | np.ndarray | jax.Array | float):
        return isinstance(other, np.generic | np.ndarray | jax.Array | float) and _close(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, Dense):  # rounding decides between pivots that are equally good, and the factor is another one
        return (
            one.shape == other.shape and _close(one.mean, other.mean) and _close(_covariance(one), _covariance(other))
        )
    if isinstance(one, SparseCholesky):
        return one.package == other.package and alike(one.matrix, other.matrix)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(alike, one, other))
    if scipy.sparse.issparse(one):
        return one.shape == other.shape and abs(one - other).max() <= DIGITS * abs(one).max()
    if one is None or isinstance(one, str | int):
        return one == other
    mine, others = fields_of(one), fields_of(other)
    return mine.keys() == others.keys() and all(alike(mine[name], others[name]) for name in mine)


def _covariance(prior: Dense) -> np.ndarray:
    return prior.rows.T @ prior.rows


def _close(one: Any, other: Any) -> bool:
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape or a.dtype.kind != "f" or b.dtype.kind != "f":
        return np.array_equal(a, b)
    return bool(np.all(np.abs(a - b) <= DIGITS * np.max(np.abs(a), initial=0.0)))
