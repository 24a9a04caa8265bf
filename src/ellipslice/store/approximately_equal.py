"""Compare two priors or moves up to rounding error.

The same inputs can give slightly different factors on different machines. `resume` must accept those.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import scipy.sparse

from ellipslice.priors import Dense
from ellipslice.priors.parts.sparse_cholesky import SparseCholesky
from ellipslice.store.serial import fields_of

RELATIVE_TOLERANCE = 1e-8
"""Largest accepted difference relative to the largest element of an array; nearly singular factors need it."""


def approximately_equal(one: Any, other: Any) -> bool:
    """Return whether two objects have the same structure, and the same numbers to about eight digits."""
    if isinstance(one, np.generic | np.ndarray | jax.Array | float):
        return isinstance(other, np.generic | np.ndarray | jax.Array | float) and _close(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, Dense):
        # Rounding decides between equally good pivots, so equal covariances can have different factors.
        return (
            one.shape == other.shape and _close(one.mean, other.mean) and _close(_covariance(one), _covariance(other))
        )
    if isinstance(one, SparseCholesky):
        return one.package == other.package and approximately_equal(one.matrix, other.matrix)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(approximately_equal, one, other))
    if scipy.sparse.issparse(one):
        return one.shape == other.shape and abs(one - other).max() <= RELATIVE_TOLERANCE * abs(one).max()
    if one is None or isinstance(one, str | int):
        return one == other
    mine, others = fields_of(one), fields_of(other)
    return mine.keys() == others.keys() and all(approximately_equal(mine[name], others[name]) for name in mine)


def _covariance(prior: Dense) -> np.ndarray:
    return prior.rows.T @ prior.rows


def _close(one: Any, other: Any) -> bool:
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape or a.dtype.kind != "f" or b.dtype.kind != "f":
        return np.array_equal(a, b)
    return bool(np.all(np.abs(a - b) <= RELATIVE_TOLERANCE * np.max(np.abs(a), initial=0.0)))
