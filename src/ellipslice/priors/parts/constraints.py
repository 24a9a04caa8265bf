"""Fields under linear constraints: what a singular precision says nothing of, and how a draw is made to fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.checks import as_numbers
from ellipslice.priors.parts.sparse_cholesky import SparseCholesky
from ellipslice.pytree import pytree, set_fields


@pytree
class Constraints:
    """matrix @ f = 0, and the correction that takes a field there: conditioning by kriging (Rue & Held 2005, 2.3.3)."""

    stored_as = "Constraints"

    matrix: Any
    """(M, N), with orthonormal rows."""
    gain: Any
    """(N, M): f - gain @ (matrix @ f) is the field given the constraints."""
    directions: Any
    """(N, K): what the precision says nothing of; the unit matrix at the pinned values."""
    pinned: Any

    def __init__(self, matrix: np.ndarray, gain: np.ndarray, directions: np.ndarray, pinned: np.ndarray):
        set_fields(self, matrix=matrix, gain=gain, directions=directions, pinned=pinned)

    @property
    def count(self) -> int:
        """How many constraints there are."""
        return self.matrix.shape[0]

    def project(self, f: Any) -> Any:
        """The field given the constraints, from one without them."""
        return f - (f @ self.matrix.T) @ self.gain.T

    def unpin(self, f: Any) -> Any:
        """The field with its pinned values at 0, moved along the directions of which the precision says nothing."""
        return f - f[..., self.pinned] @ self.directions.T


def find_null_space(matrix: Any, given: Any) -> np.ndarray:
    """Directions (N, K) with matrix @ directions = 0: those given, or the constants and lines that are."""
    from scipy.sparse import csgraph

    size = matrix.shape[0]
    if given is not None:
        columns = as_numbers(given, "null_space")
        columns = columns[:, None] if columns.ndim == 1 else columns
        if columns.ndim != 2 or columns.shape[0] != size or columns.shape[1] >= size:
            raise ValueError(f"null_space has shape {columns.shape}; expected ({size}, K), one column per direction.")
        wrong = [j for j in range(columns.shape[1]) if not _vanishes(matrix, columns[:, j]).all()]
        if wrong:
            raise ValueError(f"null_space[:, {wrong[0]}] is not one: precision @ null_space is not 0 there.")
        orthogonal, upper = np.linalg.qr(columns)
        if np.abs(upper.diagonal()).min() < 1e-10 * np.abs(upper.diagonal()).max():
            raise ValueError("null_space has a column that follows from others. Leave it out.")
        return orthogonal
    count, component = csgraph.connected_components(matrix, directed=False)
    constants = [component == c for c in _components(matrix, np.ones(size), component, count)]
    index = np.arange(size, dtype=np.float64)
    lines = []
    if constants:
        for c in _components(matrix, index, component, count):
            here = component == c
            lines.append(np.where(here, index - index[here].mean(), 0.0))
    found = np.array([*constants, *lines], dtype=np.float64).reshape(-1, size)
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).T


def _components(matrix: Any, direction: np.ndarray, component: np.ndarray, count: int) -> np.ndarray:
    """The connected components on which matrix @ direction is 0."""
    return np.flatnonzero(np.bincount(component, weights=~_vanishes(matrix, direction), minlength=count) == 0)


def _vanishes(matrix: Any, direction: np.ndarray) -> np.ndarray:
    """Where matrix @ direction is 0 to rounding."""
    return np.abs(matrix @ direction) <= 1e-12 * (abs(matrix) @ np.abs(direction))


def as_constraints(constraints: Any, directions: np.ndarray, size: int) -> np.ndarray:
    """Validate constraints; rows (M, N) of unit length, orthogonal to each other."""
    if isinstance(constraints, str):
        if constraints != "null space":
            raise ValueError(f'constraints must be a matrix (M, {size}) or "null space", but it is {constraints!r}.')
        if not directions.shape[1]:
            raise ValueError(
                'constraints="null space", but the precision is not singular as far as can be seen: it says something '
                "of constants. Leave constraints out, or give null_space."
            )
        matrix = directions.T
    elif constraints is None:
        if directions.shape[1]:
            raise ValueError(
                f"precision is singular: it says nothing of {describe_directions(directions)}. Fix that with "
                'constraints="null space" (values then sum to zero on every component), with a matrix of constraints, '
                "or add a little to the diagonal."
            )
        return np.zeros((0, size))
    else:
        matrix = constraints.toarray() if hasattr(constraints, "toarray") else constraints
        matrix = np.atleast_2d(as_numbers(matrix, "constraints"))
    if matrix.ndim != 2 or matrix.shape[1] != size:
        raise ValueError(f"constraints have shape {np.shape(matrix)}; expected (M, {size}), one row for each.")
    lengths = np.linalg.norm(matrix, axis=1)
    if not lengths.all() or len(matrix) >= size:
        raise ValueError("constraints have a row of zeros, or leave nothing to draw. Give fewer rows, independent.")
    orthogonal, upper = np.linalg.qr((matrix / lengths[:, None]).T)
    if np.abs(upper.diagonal()).min() < 1e-10:
        raise ValueError("constraints are not independent: a row follows from others. Leave it out.")
    return np.ascontiguousarray(orthogonal.T)


def choose_pinned(directions: np.ndarray) -> np.ndarray:
    """As many values as there are directions; these fixed, the precision of the others is positive definite."""
    from scipy.linalg import qr

    if not directions.shape[1]:
        return np.zeros(0, dtype=np.int64)
    order = np.asarray(qr(directions.T, mode="r", pivoting=True)[-1])
    return np.sort(order[: directions.shape[1]]).astype(np.int64)


def describe_directions(directions: np.ndarray) -> str:
    """The directions, in words."""
    count = directions.shape[1]
    return "one direction, such as a constant added to its values" if count == 1 else f"{count} directions"


def solve_constraints(
    matrix: Any,
    factor: SparseCholesky,
    free: np.ndarray,
    pinned: np.ndarray,
    constraints: np.ndarray,
    directions: np.ndarray,
) -> tuple[Constraints | None, float]:
    """The correction for the constraints, and the log determinant of the covariance on its span.

    The free values are drawn with the pinned ones at 0. That is a draw up to the directions of which the precision says
    nothing; the constraints say the rest.
    """
    if not len(constraints):
        return None, -factor.log_determinant
    count, nullity, size = len(constraints), len(pinned), matrix.shape[0]
    across = matrix[free][:, pinned].toarray()
    null = np.zeros((size, nullity))
    null[free], null[pinned] = -factor.solve(across.T).T, np.eye(nullity)
    spread = np.zeros((size, count))
    spread[free] = factor.solve(constraints[:, free]).T
    told = constraints @ null
    # Scaled: a direction may be far longer than the constraints.
    if nullity and (count < nullity or np.linalg.svd(told / np.linalg.norm(null, axis=0))[1][-1] < 1e-10):
        raise ValueError(
            f"{count} constraint{'s do' if count > 1 else ' does'} not fix the {nullity} direction"
            f"{'s' if nullity > 1 else ''} of which the precision says nothing (one for each connected component, at "
            'least). Use constraints="null space", or give as many rows as there are directions.'
        )
    saddle = np.block([[constraints @ spread, told], [told.T, np.zeros((nullity, nullity))]])
    solved = np.linalg.solve(saddle, np.concatenate([np.eye(count), np.zeros((nullity, count))]))
    gain = spread @ solved[:count] + null @ solved[count:]
    # The determinant of the precision on the constraints' plane is that of the matrix bordered by them.
    log_determinant = -factor.log_determinant - float(np.linalg.slogdet(saddle)[1])
    return Constraints(constraints, gain, null, pinned), log_determinant
