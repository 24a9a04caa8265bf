"""Fields under linear constraints: the null space of a singular precision, and the correction of a draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.checks import as_numbers
from ellipslice.priors.parts.sparse_cholesky import SparseCholesky
from ellipslice.pytree import pytree, set_fields


@pytree
class Constraints:
    """Constraints matrix @ f = 0, and the correction that imposes them: conditioning by kriging.

    See Section 2.3.3 of Rue & Held (2005).
    """

    stored_as = "Constraints"

    matrix: Any
    """Orthonormal rows, shape (M, N)."""
    gain: Any
    """Shape (N, M): f - gain @ (matrix @ f) is the field given the constraints."""
    directions: Any
    """Basis of the null space of the precision, shape (N, K): the unit matrix at the pinned elements."""
    pinned: Any
    """Indices of the K elements that are 0 until the constraints are imposed."""

    def __init__(self, matrix: np.ndarray, gain: np.ndarray, directions: np.ndarray, pinned: np.ndarray):
        set_fields(self, matrix=matrix, gain=gain, directions=directions, pinned=pinned)

    @property
    def count(self) -> int:
        """Number of constraints."""
        return self.matrix.shape[0]

    def project(self, f: Any) -> Any:
        """Return the field given the constraints, from a field without them."""
        return f - (f @ self.matrix.T) @ self.gain.T

    def project_transposed(self, g: Any) -> Any:
        """Return the product of g and the transpose of `project`."""
        return g - (g @ self.gain) @ self.matrix

    def unpin(self, f: Any) -> Any:
        """Return the field, moved along the null space of the precision so that its pinned elements are 0."""
        return f - f[..., self.pinned] @ self.directions.T


def find_null_space(matrix: Any, given: Any) -> np.ndarray:
    """Return orthonormal directions (N, K) with matrix @ directions = 0.

    They span the columns of `given`, if it is not None. Otherwise they are the constants and straight lines on
    connected components that satisfy the equation.
    """
    from scipy.sparse import csgraph

    size = matrix.shape[0]
    if given is not None:
        columns = as_numbers(given, "null_space")
        columns = columns[:, None] if columns.ndim == 1 else columns
        if columns.ndim != 2 or columns.shape[0] != size or columns.shape[1] >= size:
            raise ValueError(f"null_space has shape {columns.shape}; expected ({size}, K), one column per direction.")
        wrong = [j for j in range(columns.shape[1]) if not _is_zero_product(matrix, columns[:, j]).all()]
        if wrong:
            raise ValueError(
                f"null_space[:, {wrong[0]}] is not in the null space: precision @ null_space[:, {wrong[0]}] is not 0. "
                "Check the precision and null_space."
            )
        orthogonal, upper = np.linalg.qr(columns)
        if np.abs(upper.diagonal()).min() < 1e-10 * np.abs(upper.diagonal()).max():
            raise ValueError(
                "null_space has a column that is a linear combination of the others; expected independent columns. "
                "Leave it out."
            )
        return orthogonal
    count, component = csgraph.connected_components(matrix, directed=False)
    constants = [component == c for c in _null_components(matrix, np.ones(size), component, count)]
    index = np.arange(size, dtype=np.float64)
    lines = []
    if constants:
        for c in _null_components(matrix, index, component, count):
            here = component == c
            lines.append(np.where(here, index - index[here].mean(), 0.0))
    found = np.array([*constants, *lines], dtype=np.float64).reshape(-1, size)
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).T


def _null_components(matrix: Any, direction: np.ndarray, component: np.ndarray, count: int) -> np.ndarray:
    """Return the numbers of the connected components on which matrix @ direction is 0."""
    return np.flatnonzero(np.bincount(component, weights=~_is_zero_product(matrix, direction), minlength=count) == 0)


def _is_zero_product(matrix: Any, direction: np.ndarray) -> np.ndarray:
    """Return where matrix @ direction is 0 up to rounding error."""
    return np.abs(matrix @ direction) <= 1e-12 * (abs(matrix) @ np.abs(direction))


def as_constraints(constraints: Any, directions: np.ndarray, size: int) -> np.ndarray:
    """Validate constraints and return them as orthonormal rows (M, N)."""
    if isinstance(constraints, str):
        if constraints != "null space":
            raise ValueError(f'constraints must be a matrix (M, {size}) or "null space", but it is {constraints!r}.')
        if not directions.shape[1]:
            raise ValueError(
                'constraints is "null space", but no null space of the precision was found: constants are not in it. '
                "Leave constraints out, or give null_space."
            )
        matrix = directions.T
    elif constraints is None:
        if directions.shape[1]:
            raise ValueError(
                f"precision is singular: its null space has {describe_directions(directions)}. Use "
                'constraints="null space" (elements then sum to zero on every component) or a matrix of constraints, '
                "or add a small number to the diagonal."
            )
        return np.zeros((0, size))
    else:
        matrix = constraints.toarray() if hasattr(constraints, "toarray") else constraints
        matrix = np.atleast_2d(as_numbers(matrix, "constraints"))
    if matrix.ndim != 2 or matrix.shape[1] != size:
        raise ValueError(
            f"constraints has shape {np.shape(matrix)}; expected (M, {size}), one row per constraint and one column "
            "per element."
        )
    lengths = np.linalg.norm(matrix, axis=1)
    if not lengths.all() or len(matrix) >= size:
        raise ValueError(
            f"constraints has a row of zeros, or {size} or more rows, which leave nothing to draw. Give fewer, "
            "independent rows."
        )
    orthogonal, upper = np.linalg.qr((matrix / lengths[:, None]).T)
    if np.abs(upper.diagonal()).min() < 1e-10:
        raise ValueError(
            "constraints has a row that is a linear combination of the others; expected independent rows. Leave it out."
        )
    return np.ascontiguousarray(orthogonal.T)


def choose_pinned(directions: np.ndarray) -> np.ndarray:
    """Return indices of one element per direction. With these fixed, the precision of the rest is positive definite."""
    from scipy.linalg import qr

    if not directions.shape[1]:
        return np.zeros(0, dtype=np.int64)
    order = np.asarray(qr(directions.T, mode="r", pivoting=True)[-1])
    return np.sort(order[: directions.shape[1]]).astype(np.int64)


def describe_directions(directions: np.ndarray) -> str:
    """Return a description of the directions for a message."""
    count = directions.shape[1]
    return "one direction, such as a constant added to all elements" if count == 1 else f"{count} directions"


def solve_constraints(
    matrix: Any,
    factor: SparseCholesky,
    free: np.ndarray,
    pinned: np.ndarray,
    constraints: np.ndarray,
    directions: np.ndarray,
) -> tuple[Constraints | None, float]:
    """Return the correction for the constraints, and the log determinant of the covariance on the span of the draws.

    The free elements are drawn with the pinned ones at 0. That is a draw up to its component in the null space of the
    precision. The constraints determine that component.
    """
    if not len(constraints):
        return None, -factor.log_determinant
    count, nullity, size = len(constraints), len(pinned), matrix.shape[0]
    across = matrix[free][:, pinned].toarray()
    null = np.zeros((size, nullity))
    null[free], null[pinned] = -factor.solve(across.T).T, np.eye(nullity)
    spread = np.zeros((size, count))
    spread[free] = factor.solve(constraints[:, free]).T
    null_products = constraints @ null
    # Scaled, because a direction may be far longer than a row of the constraints.
    if nullity and (count < nullity or np.linalg.svd(null_products / np.linalg.norm(null, axis=0))[1][-1] < 1e-10):
        raise ValueError(
            f"{count} constraint{'s do' if count > 1 else ' does'} not fix the {nullity} direction"
            f"{'s' if nullity > 1 else ''} of the null space of the precision (at least one per connected component). "
            'Use constraints="null space", or give one row per direction.'
        )
    saddle = np.block([[constraints @ spread, null_products], [null_products.T, np.zeros((nullity, nullity))]])
    solved = np.linalg.solve(saddle, np.concatenate([np.eye(count), np.zeros((nullity, count))]))
    gain = spread @ solved[:count] + null @ solved[count:]
    # The determinant of the precision, restricted to constraints @ f = 0, is that of the bordered matrix.
    log_determinant = -factor.log_determinant - float(np.linalg.slogdet(saddle)[1])
    return Constraints(constraints, gain, null, pinned), log_determinant
