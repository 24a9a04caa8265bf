"""Regular lattices in the plane with reflecting boundaries: nodes, interpolation, Laplacian and its eigenvalues."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array, kron

ROUNDING = 1e-9
"""Distance to a node, in cells, below which a place is the node."""


@dataclass(frozen=True)
class Lattice:
    """Nodes of square cells in a rectangle, and further nodes around it.

    Attributes
    ----------
    origin : tuple of float
        Smallest coordinates of the rectangle.
    spacing : float
        Side of a cell.
    shape : tuple of int
        Number of nodes of the rectangle along each axis.
    border : int
        Number of further nodes on each side.
    """

    origin: tuple[float, float]
    spacing: float
    shape: tuple[int, int]
    border: int

    @property
    def full_shape(self) -> tuple[int, int]:
        """Number of all nodes along each axis."""
        return self.shape[0] + 2 * self.border, self.shape[1] + 2 * self.border

    def axis(self, number: int) -> np.ndarray:
        """Return the coordinates of the nodes of the rectangle along an axis."""
        return self.origin[number] + self.spacing * np.arange(self.shape[number])

    @functools.cached_property
    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues of the Laplacian, shape `full_shape`. The eigenvectors are products of cosines."""
        first, second = (2 - 2 * np.cos(np.pi * np.arange(n) / n) for n in self.full_shape)
        return first[:, None] + second

    def laplacian(self) -> Any:
        """Return the graph Laplacian of all nodes, sparse. Boundaries are reflecting."""
        first, second = (_path(n) for n in self.full_shape)
        return csr_array(kron(first, eye_array(second.shape[0])) + kron(eye_array(first.shape[0]), second))

    def selection(self) -> Any:
        """Return the matrix that selects the nodes of the rectangle from all nodes, sparse."""
        inside = [np.arange(self.border, self.border + n) for n in self.shape]
        nodes = np.ravel_multi_index(np.ix_(*inside), self.full_shape).ravel()
        return csr_array(
            (np.ones(len(nodes)), nodes, np.arange(len(nodes) + 1)), (len(nodes), np.prod(self.full_shape))
        )

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Return whether places are in the rectangle. Boolean, shape (places,)."""
        cells = (points - self.origin) / self.spacing
        return np.all((cells >= -ROUNDING) & (cells <= np.array(self.shape) - 1 + ROUNDING), axis=1)

    def interpolation(self, points: np.ndarray) -> Any:
        """Return the matrix of bilinear interpolation from the rectangle's nodes to places in it, sparse."""
        cells = (points - self.origin) / self.spacing
        low = np.clip(np.floor(cells + ROUNDING), 0, np.array(self.shape) - 2).astype(np.int64)
        part = cells - low
        part = np.where(np.abs(part - np.rint(part)) <= ROUNDING, np.rint(part), part)
        rows, columns, weights = [], [], []
        for step in ((0, 0), (0, 1), (1, 0), (1, 1)):
            weights.append(np.where(step, part, 1 - part).prod(axis=1))
            columns.append(np.ravel_multi_index(tuple((low + step).T), self.shape))
            rows.append(np.arange(len(points)))
        entries = np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))
        matrix = csr_array(entries, (len(points), np.prod(self.shape)))
        matrix.eliminate_zeros()
        return matrix


def _path(size: int) -> Any:
    """Return the graph Laplacian of a path."""
    diagonal = np.full(size, 2.0)
    diagonal[[0, -1]] = 1.0
    neighbours = -np.ones(size - 1)
    return diags_array([neighbours, diagonal, neighbours], offsets=[-1, 0, 1])  # pyright: ignore[reportArgumentType]
