"""The matrices of a term, the part of a term that depends on the data, and draws under constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csc_array, eye_array

from ellipslice.latent.terms.generalised import GeneralisedInverse, orthonormal_rows

DENSE_LIMIT = 2_000
"""Largest number of elements for which a dense matrix (size, size) is made."""
Rows = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Structure:
    """The matrices of a term.

    Attributes
    ----------
    bases : tuple of sparse arrays, shape (size, size)
        Symmetric matrices B_k. The precision is the sum of c_k B_k.
    constraints : mapping of str to array, shape (size,)
        Rows of C in C x = 0, with a description of each, such as "sum to zero".
    improper : mapping of str to array, shape (size,)
        Directions inside {C x = 0} in which the prior is flat, with a name for each, such as "linear trend".
    effect : sparse array, shape (levels, size), optional
        Matrix of the effect of each level. Default: the identity.
    parts : mapping of str to sparse array, shape (levels, size)
        Matrices of other named results.
    """

    bases: tuple[Any, ...]
    constraints: Rows = field(default_factory=dict)
    improper: Rows = field(default_factory=dict)
    effect: Any = None
    parts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bases", tuple(csc_array(base, dtype=np.float64) for base in self.bases))
        if self.effect is None:
            object.__setattr__(self, "effect", eye_array(self.size, format="csr"))

    @property
    def size(self) -> int:
        """Number of latent elements."""
        return self.bases[0].shape[0]

    def rows(self, name: str) -> np.ndarray:
        """Return the rows of `constraints` or `improper` as an array, shape (rows, size)."""
        found = list(getattr(self, name).values())
        return np.array(found, dtype=np.float64).reshape(len(found), self.size)


@dataclass(frozen=True)
class Bound:
    """The part of a term that depends on the data."""

    name: str
    levels: np.ndarray
    structure: Structure
    constraints: np.ndarray
    improper: np.ndarray
    constant: float
    """Log determinant of the precision without the part that depends on hyperparameters."""
    rank: int
    """Number of elements without constraints and improper directions."""
    unit: float


def draw_constrained(precision: Any, constraints: np.ndarray, rng: np.random.Generator, name: str) -> np.ndarray:
    """Draw from N(0, inv(precision)) given constraints x = 0, in which the null space may be constrained.

    Up to 2,000 elements are drawn by dense matrices in an orthonormal basis of {C x = 0}. For more elements, the null
    space must be that of the constraints.
    """
    size = precision.shape[0]
    if size > DENSE_LIMIT:
        null = orthonormal_rows(constraints)
        if np.abs(precision @ null.T).max(initial=0.0) > 1e-8 * precision.diagonal().max():
            raise ValueError(f"{name} has {size} elements and constraints outside its null space, and cannot be drawn.")
        drawn = GeneralisedInverse(precision, constraints).unwhiten(rng.standard_normal((size, 1)))[:, 0]
        return drawn - null.T @ (null @ drawn)
    basis = np.linalg.qr(np.concatenate([constraints.T, np.eye(size)], axis=1))[0] if len(constraints) else np.eye(size)
    basis = basis[:, len(constraints) :]
    lower = np.linalg.cholesky(basis.T @ (precision @ basis))
    return basis @ np.linalg.solve(lower.T, rng.standard_normal(basis.shape[1]))


def times(matrix: Any, x: Any) -> np.ndarray:
    """Return x M' for arrays x with leading axes and a sparse matrix M."""
    x = np.asarray(x)
    flat = (matrix @ x.reshape(-1, x.shape[-1]).T).T
    return flat.reshape(*x.shape[:-1], matrix.shape[0])
