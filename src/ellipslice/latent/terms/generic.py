"""Effects with a structure matrix of the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, issparse
from scipy.sparse.csgraph import connected_components

from ellipslice.checks import as_numbers, whole_number
from ellipslice.latent.terms.columns import as_index, codes_of, listed
from ellipslice.latent.terms.generalised import geometric_mean_variance
from ellipslice.latent.terms.scaled import ScaledTerm
from ellipslice.latent.terms.structure import DENSE_LIMIT, Structure

SINGULAR = 1e-9
"""Eigenvalues below this number times the largest one count as 0."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Generic(ScaledTerm):
    """Effects with a given structure matrix: x ~ N(0, sd^2 Q^-), in which Q^- is the Moore-Penrose inverse of Q.

    Q is a precision, such as the inverse of a relationship matrix of animals, or a penalty matrix of a spline.

    Parameters
    ----------
    column : str or array, shape (rows,)
        Level of each row: a label of a row of Q.
    Q : array, sparse array or DataFrame, shape (levels, levels)
        Symmetric, positive semi-definite matrix.
    labels : sequence, optional
        Labels of the rows of Q. Default: the index of a DataFrame, else 0, 1, ...
    null : array, shape (directions, levels), optional
        Rows that span the null space of Q. Default: found from the eigenvalues of each connected component of Q,
        which may have at most 2,000 levels.
    rank : int, optional
        Rank of Q, which is checked. With rank equal to the number of levels, nothing is searched for.
    constraint : {"null", "none"}
        "null" makes the effects orthogonal to the null space, such as a sum of zero. "none" leaves the prior flat
        there. Default: "null".
    scale_model : bool
        Whether Q is multiplied by a number so that sd^2 is the geometric mean of the variances. Default: False.
    prior : distribution of NumPyro, optional
        Prior of sd. Default: P(sd > 1 unit) = 0.01.
    name : str, optional
        Name of the term. Default: the name of the column.

    Examples
    --------
    >>> Q = np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    >>> term = Generic("site", Q=Q, labels=["a", "b", "c"]).bind({"site": ["c", "a"]})
    >>> term.describe().split(". ")[1]
    'Constraint: sum to zero'
    """

    Q: Any = None
    labels: Any = None
    null: Any = None
    rank: int | None = None
    constraint: str = "null"
    scale_model: bool = False

    def structure(self, levels: np.ndarray) -> Structure:
        if self.constraint not in ("null", "none"):
            raise ValueError(f"Generic: constraint must be 'null' or 'none', but it is {self.constraint!r}.")
        matrix, _ = self._matrix()
        free = self._null_space(matrix, levels)
        if len(free) == len(levels):
            raise ValueError("Generic: all of Q is 0, up to rounding error, so the effects have no prior. Correct Q.")
        if self.rank is not None and whole_number("Generic: rank", self.rank, 1) != len(levels) - len(free):
            raise ValueError(
                f"Generic: rank is {self.rank}, but Q has rank {len(levels) - len(free)}. Correct rank or Q."
            )
        if self.scale_model:
            null = np.array(list(free.values())).reshape(len(free), len(levels))
            matrix = matrix * geometric_mean_variance(matrix, null)
        return (
            Structure((matrix,), constraints=free) if self.constraint == "null" else Structure((matrix,), improper=free)
        )

    def _find_levels(self, data: Any) -> np.ndarray:
        found, (_, labels) = super()._find_levels(data), self._matrix()
        absent = found[codes_of(found, labels) < 0]
        if len(absent):
            raise ValueError(
                f"{self._argument()} has levels that are not labels of Q: {listed(absent)}. The labels are: "
                f"{listed(labels)}. Give labels=: one label for each row of Q."
            )
        return labels

    def _matrix(self) -> tuple[Any, np.ndarray]:
        """Return Q, sparse, and the labels of its rows. Raise if it is not a symmetric matrix."""
        if self.Q is None:
            raise TypeError("Generic requires Q=, a symmetric matrix with one row per level.")
        shape = self.Q.shape if hasattr(self.Q, "shape") else np.shape(self.Q)
        if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
            raise ValueError(f"Generic: Q has shape {shape}. Expected a square matrix with one row per level.")
        sparse = issparse(self.Q)
        values = csr_array(self.Q if sparse else as_numbers(self.Q, "Generic: Q"), dtype=np.float64)
        if not np.isfinite(values.data).all():
            raise ValueError("Generic: Q has values that are not finite. Check how it was computed.")
        gap = abs(values - values.T)
        if gap.max() > 1e-8 * abs(values).max():
            gap = gap.tocoo()
            i, j = (int(each[gap.data.argmax()]) for each in gap.coords)
            raise ValueError(
                f"Generic: Q is not symmetric: Q[{i}, {j}] is {values[i, j]:g}, but Q[{j}, {i}] is {values[j, i]:g}. "
                "Use (Q + Q.T) / 2 if this is rounding error."
            )
        given = self.Q.index if self.labels is None and hasattr(self.Q, "columns") else self.labels
        labels = np.arange(shape[0]) if given is None else as_index(np.asarray(given), "Generic: labels")
        if len(labels) != shape[0]:
            raise ValueError(f"Generic: there are {len(labels)} labels for {shape[0]} rows of Q. Give one per row.")
        if len(set(labels.tolist())) < len(labels):
            raise ValueError("Generic: labels has a label twice. Give every label once.")
        return csc_array((values + values.T) / 2), labels

    def _null_space(self, matrix: Any, levels: np.ndarray) -> dict[str, np.ndarray]:
        """Return rows that span the null space, by name. Raise if Q is not positive semi-definite."""
        if self.null is None:
            return {} if self.rank == len(levels) else found_null_space(matrix, levels)
        rows = as_numbers(self.null, "Generic: null").reshape(-1, len(levels)) if np.size(self.null) else []
        named = {_name(row, i, ""): np.asarray(row) for i, row in enumerate(rows)}
        for name, row in named.items():
            if np.abs(matrix @ row).max() > 1e-8 * abs(matrix).max() * np.abs(row).max():
                raise ValueError(f"Generic: Q times {name} of null is not 0. Give rows that span the null space of Q.")
        return named

    @property
    def about(self) -> str:
        scaled = ", scaled so that the geometric mean of its variances is sd^2" if self.scale_model else ""
        return f"effects of {self.size} levels with a given structure matrix of rank {self.state.rank}{scaled}"


def found_null_space(matrix: Any, levels: np.ndarray) -> dict[str, np.ndarray]:
    """Return the null space of a sparse matrix by connected components. Raise if it has negative eigenvalues."""
    count, part = connected_components(matrix, directed=False)
    found: dict[str, np.ndarray] = {}
    for component in range(count):
        where = np.flatnonzero(part == component)
        if len(where) > DENSE_LIMIT:
            raise ValueError(
                f"Generic: the null space of Q with {len(where)} connected levels is not searched for; at most "
                f"{DENSE_LIMIT} are possible. Give null=, rows that span it, or rank={len(levels)} if Q is regular."
            )
        values, vectors = np.linalg.eigh(matrix[where][:, where].toarray())
        largest = np.abs(values).max()
        if values[0] < -SINGULAR * largest:
            raise ValueError(
                f"Generic: Q is not positive semi-definite: it has the eigenvalue {values[0]:.3g}, and the largest one "
                f"is {largest:.3g}. Q must be a precision matrix."
            )
        for vector in vectors.T[values <= SINGULAR * largest]:
            row = np.zeros(len(levels))
            row[where] = vector if np.ptp(vector) > 1e-6 * np.abs(vector).max() else 1.0
            place = f" in the component of {levels[where[0]]}" if count > 1 else ""
            found[_name(row[where], len(found), place)] = row
    return found


def _name(row: np.ndarray, number: int, place: str) -> str:
    """Return the name of a direction of the null space."""
    constant = np.ptp(row) <= 1e-9 * np.abs(row).max()
    return f"sum to zero{place}" if constant else f"direction {number + 1} of the null space{place}"
