"""Sparse precision matrices of random walks, autoregressions on graphs and Matérn fields, and their validation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ellipslice.checks import as_grid, as_numbers, check_real, positive_number, whole_number
from ellipslice.priors.parts.constraints import describe_directions


def random_walk(size: int, order: int, precision: float) -> Any:
    """Return the precision of a random walk whose differences of the given order are independent."""
    from scipy.sparse import diags_array, eye_array

    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, but it is {order!r}.")
    size = whole_number("size", size, order + 1, f"a whole number above the order, {order}")
    difference = eye_array(size, format="csr")
    for length in range(size, size - order, -1):
        step = diags_array([-np.ones(length - 1), np.ones(length - 1)], offsets=[0, 1], shape=(length - 1, length))  # pyright: ignore[reportArgumentType]
        difference = step.tocsr() @ difference
    return positive_number("precision", precision) * (difference.T @ difference)


def car(graph: Any, correlation: float, precision: float) -> Any:
    """Return precision * (D - correlation * W) for a graph with weights W and the diagonal matrix D of their sums."""
    from scipy.sparse import csr_array, diags_array, issparse

    weights: Any = csr_array(graph) if issparse(graph) else csr_array(as_numbers(graph, "graph"))
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or weights.shape[0] < 2:
        raise ValueError(
            f"graph has shape {weights.shape}; expected the weights between N nodes, (N, N), with N at least 2."
        )
    weights = weights.astype(np.float64)
    if not np.isfinite(weights.data).all() or (weights.data < 0).any():
        raise ValueError(
            "graph must have finite weights of at least 0, but some are not. Use 1 for neighbours, else 0."
        )
    if weights.diagonal().any():
        node = int(np.flatnonzero(weights.diagonal())[0])
        raise ValueError(f"graph has a loop: node {node} is its own neighbour. Set the diagonal to 0.")
    if abs(weights - weights.T).max() > 1e-10 * weights.max():
        raise ValueError(
            "graph is not symmetric; expected the same weight from i to j as from j to i. Use graph + graph.T, or the "
            "maximum of the two."
        )
    degree = np.asarray(weights.sum(axis=1)).ravel()
    if not degree.all():
        nodes = np.flatnonzero(degree == 0)
        raise ValueError(
            f"graph has {len(nodes)} node{'s' if len(nodes) > 1 else ''} without neighbours (for example node "
            f"{nodes[0]}), which an autoregression cannot describe. Connect them, or leave them out and give them a "
            "Diagonal prior in a Stack."
        )
    if not -1 < correlation <= 1:
        raise ValueError(f"correlation must be above -1 and at most 1, but it is {correlation!r}.")
    return positive_number("precision", precision) * (diags_array(degree) - correlation * weights).tocsr()


def matern(shape: Any, spacing: float, length_scale: float, smoothness: float, variance: float) -> tuple[Any, Any]:
    """Return the shape of the lattice, and the precision of a Matérn field on it.

    The field solves (kappa^2 - Laplacian)^(alpha / 2) f = white noise, with reflecting edges.
    """
    from scipy.sparse import diags_array, eye_array, kron

    lattice = as_grid(shape)
    axes = len(lattice)
    alpha = smoothness + axes / 2
    if not smoothness > 0 or alpha != int(alpha):
        allowed = ", ".join(f"{n - axes / 2:g}" for n in range(axes // 2 + 1, axes // 2 + 4))
        raise ValueError(
            f"smoothness must be one of {allowed}, ... with {axes} axes, but it is {smoothness!r}. Use Stationary "
            "for other values."
        )
    kappa = math.sqrt(2 * smoothness) / positive_number("length_scale", length_scale)
    spacing = positive_number("spacing", spacing)
    operator = kappa**2 * eye_array(math.prod(lattice), format="csr")
    for axis, length in enumerate(lattice):
        if length == 1:
            continue
        diagonal = np.full(length, 2.0)
        diagonal[[0, -1]] = 1.0
        off_diagonal = -np.ones(length - 1)
        laplacian = diags_array([off_diagonal, diagonal, off_diagonal], offsets=[-1, 0, 1]) / spacing**2  # pyright: ignore[reportArgumentType]
        before, after = eye_array(math.prod(lattice[:axis])), eye_array(math.prod(lattice[axis + 1 :]))
        operator = operator + kron(kron(before, laplacian), after, format="csr")
    scale = math.gamma(smoothness) / (math.gamma(alpha) * (4 * math.pi) ** (axes / 2) * kappa ** (2 * smoothness))
    precision = operator
    for _ in range(int(alpha) - 1):
        precision = precision @ operator
    return lattice, precision * (scale / positive_number("variance", variance) * spacing**axes)


def as_precision(precision: Any) -> Any:
    """Validate a precision matrix and return it as a CSR array of floats that is exactly symmetric."""
    from scipy.sparse import csr_array, issparse

    matrix: Any = csr_array(precision) if issparse(precision) else csr_array(as_numbers(precision, "precision"))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or 0 in matrix.shape:
        raise ValueError(f"precision has shape {matrix.shape}; expected a square matrix, (N, N).")
    check_real("precision", matrix.dtype)
    matrix = matrix.astype(np.float64)
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise ValueError("precision has entries that are not finite; expected finite numbers.")
    gap = abs(matrix - matrix.T).tocoo()
    if gap.nnz and gap.data.max() > 1e-10 * abs(matrix).max():
        worst = int(np.argmax(gap.data))
        i, j = int(gap.row[worst]), int(gap.col[worst])
        raise ValueError(
            f"precision is not symmetric: [{i}, {j}] is {matrix[i, j]:.6g} and [{j}, {i}] is {matrix[j, i]:.6g}. If "
            "only one triangle is stored, add the other."
        )
    diagonal = matrix.diagonal()
    if not (diagonal > 0).all():
        i = int(np.argmin(diagonal))
        raise ValueError(
            f"precision[{i}, {i}] is {diagonal[i]:.6g}, but must be positive. An element without neighbours needs its "
            "own precision, or leave it out."
        )
    matrix = ((matrix + matrix.T) / 2).tocsr()
    matrix.eliminate_zeros()
    return matrix


def not_definite(directions: np.ndarray) -> str:
    """Return the message for a precision that cannot be factorised. `directions` (N, K) span its known null space."""
    if directions.shape[1]:
        return (
            "precision is not positive semi-definite, or its null space is larger than what was found "
            f"({describe_directions(directions)}). If it is an intrinsic field, give null_space, a matrix whose "
            "columns span the null space."
        )
    return (
        "precision is not positive definite. Check its signs: positively correlated neighbours have negative entries. "
        "In most models a diagonal entry is at least the sum of the absolute values of the others in its row. If it is "
        "an intrinsic field, give constraints and null_space, a matrix whose columns span the null space."
    )
