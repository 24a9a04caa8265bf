"""The matrices of a term, the part of a term that depends on the data, and draws under constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csc_array, eye_array

from ellipslice.latent.terms.entry_bases import EntryBases
from ellipslice.latent.terms.generalised import GeneralisedInverse, orthonormal_rows

DENSE_LIMIT = 2_000
"""Largest number of elements for which a dense matrix (size, size) is made."""
Rows = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Structure:
    """The matrices of a term.

    Attributes
    ----------
    bases : sequence of sparse arrays, shape (size, size)
        Symmetric matrices B_k, or `EntryBases`, which are not made. The precision is the sum of c_k B_k.
    constraints : mapping of str to array, shape (size,)
        Rows of C in C x = 0, with a description of each, such as "sum to zero".
    improper : mapping of str to array, shape (size,)
        Directions inside {C x = 0} in which the prior is flat, with a name for each, such as "linear trend".
    effect : sparse array, shape (levels, size), optional
        Matrix of the effect of each level. Default: the identity.
    parts : mapping of str to sparse array, shape (levels, size)
        Matrices of other named results.
    """

    bases: Sequence[Any]
    constraints: Rows = field(default_factory=dict)
    improper: Rows = field(default_factory=dict)
    effect: Any = None
    parts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.bases, EntryBases):
            object.__setattr__(self, "bases", tuple(csc_array(base, dtype=np.float64) for base in self.bases))
        if self.effect is None:
            object.__setattr__(self, "effect", eye_array(self.size, format="csr"))

    @property
    def size(self) -> int:
        """Number of latent elements."""
        return self.bases[0].shape[0]

    def named(self, name: str) -> dict[str, Any]:
        """Return the matrices of all results of a term by their names."""
        return {name: self.effect, **{f"{name}_{part}": matrix for part, matrix in self.parts.items()}}

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


def constrained_log_determinant(matrix: Any, constraints: np.ndarray, improper: np.ndarray) -> float:
    """Return the log generalised determinant of a matrix on {C x = 0}.

    Constraints in the null space of the matrix cost a sparse factorisation. For others it is dense, and limited to
    2,000 elements.
    """
    if _is_null(matrix, constraints):
        return GeneralisedInverse(matrix, np.concatenate([constraints, improper])).log_determinant
    basis = _inside(np.concatenate([constraints, improper]))
    return float(np.linalg.slogdet(basis.T @ (matrix @ basis))[1])


def draw_constrained(precision: Any, constraints: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw from N(0, inv(precision)) given constraints x = 0, at a cost as for `constrained_log_determinant`."""
    size = precision.shape[0]
    if _is_null(precision, constraints):
        null = orthonormal_rows(constraints)
        drawn = GeneralisedInverse(precision, constraints).unwhiten(rng.standard_normal((size, 1)))[:, 0]
        return drawn - null.T @ (null @ drawn)
    basis = _inside(constraints)
    lower = np.linalg.cholesky(basis.T @ (precision @ basis))
    return basis @ np.linalg.solve(lower.T, rng.standard_normal(basis.shape[1]))


def _is_null(matrix: Any, rows: np.ndarray) -> bool:
    """Return whether rows are in the null space of a matrix, up to rounding error."""
    return bool(np.abs(matrix @ orthonormal_rows(rows).T).max(initial=0.0) <= 1e-8 * abs(matrix).max())


def _inside(rows: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the vectors that are orthogonal to rows, shape (size, dimensions)."""
    count, size = rows.shape
    if size > DENSE_LIMIT:
        raise ValueError(
            f"a term with {size} elements has constraints outside the null space of its precision, which is possible "
            f"for at most {DENSE_LIMIT} elements. Use constraints in the null space."
        )
    return np.linalg.qr(rows.T, mode="complete")[0][:, count:]


def times(matrix: Any, x: Any) -> np.ndarray:
    """Return x M' for arrays x with leading axes and a sparse matrix M."""
    x = np.asarray(x)
    flat = (matrix @ x.reshape(-1, x.shape[-1]).T).T
    return flat.reshape(*x.shape[:-1], matrix.shape[0])
