"""The interface of sparse Cholesky factorisations: analyse a pattern once, factorise matrices with it many times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ellipslice.checks import reject, whole_number

SOLVERS = ("numba", "cholmod")


class Factor(ABC):
    """The factorisation P H P' = L L' of a sparse positive definite H, with a permutation P that keeps L sparse.

    Vectors are arrays (size,), or the columns of arrays (size, vectors).

    Attributes
    ----------
    log_determinant : float
        Log determinant of H.
    """

    __slots__ = ("log_determinant",)

    log_determinant: float

    @abstractmethod
    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return the vectors x with H x = b."""

    @abstractmethod
    def unwhiten(self, z: np.ndarray) -> np.ndarray:
        """Return the vectors x with L' P x = z. They are draws from N(0, inv(H)) if z are standard normals."""

    @abstractmethod
    def whiten(self, x: np.ndarray) -> np.ndarray:
        """Return L' P x, the inverse of `unwhiten`."""

    @abstractmethod
    def half_solve(self, g: np.ndarray) -> np.ndarray:
        """Return inv(L) P g, the transpose of `unwhiten`: gradients in z from gradients in x."""

    @abstractmethod
    def selected_inverse(self) -> np.ndarray:
        """Return the entries of inv(H) at the entries of the pattern, in the order of the pattern."""


class Analysis(ABC):
    """The symbolic factorisation of a pattern.

    Attributes
    ----------
    solver : str
        One of `SOLVERS`.
    size : int
        Number of rows.
    entries : int
        Number of entries in the pattern.
    """

    solver: str
    size: int
    entries: int

    @abstractmethod
    def factorise(self, values: np.ndarray) -> Factor:
        """Return the factorisation of the matrix with these values, which are in the order of the pattern.

        Raises
        ------
        NotPositiveDefiniteError
            If the matrix is not positive definite in double precision, or not finite.
        """

    @abstractmethod
    def quadratic(self, values: np.ndarray, x: np.ndarray) -> float:
        """Return x' H x for the matrix with these values and a vector, shape (size,)."""

    def _check(self, array: np.ndarray, length: int, name: str) -> None:
        """Raise if the first axis of an array has another length."""
        if array.ndim == 0 or array.shape[0] != length:
            raise ValueError(f"{name} has shape {array.shape}. Expected {length} in the first axis.")


def analyse(rows: Any, cols: Any, size: int, solver: str = "numba") -> Analysis:
    """Return the symbolic factorisation of a symmetric pattern, which takes longer than numeric factorisations.

    Parameters
    ----------
    rows, cols : array of int, shape (entries,)
        Row and column of each entry of the lower triangle, once and in any order. All of the diagonal is required.
    size : int
        Number of rows of the matrix.
    solver : {"numba", "cholmod"}
        "numba" is this library's own code. "cholmod" is CHOLMOD of cvxopt, whose licence is the GPL. Its factorisations
        were slower for all matrices of `benchmarks/sparse_cholesky.py`. Default: "numba".

    Raises
    ------
    ImportError
        If numba, or the package that `solver` names, is not installed.
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {SOLVERS}, but it is {solver!r}.")
    size = whole_number("size", size, 1)
    rows, cols = _check_pattern(rows, cols, size)
    if solver == "cholmod":
        from ellipslice.latent.sparse.cholmod import CholmodAnalysis

        return CholmodAnalysis(rows, cols, size)
    from ellipslice.latent.sparse.supernodal import SupernodalAnalysis

    return SupernodalAnalysis(rows, cols, size)


def _check_pattern(rows: Any, cols: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns as int64 arrays. Raise if they are not the pattern of a lower triangle."""
    rows, cols = np.asarray(rows), np.asarray(cols)
    for name, index in (("rows", rows), ("cols", cols)):
        if index.dtype.kind not in "iu" or index.ndim != 1:
            raise TypeError(f"{name} must be whole numbers, shape (entries,), but it is {index.dtype}{index.shape}.")
    if len(rows) != len(cols):
        raise ValueError(f"rows and cols have {len(rows)} and {len(cols)} elements. Expected equal numbers.")
    rows, cols = rows.astype(np.int64), cols.astype(np.int64)
    reject("rows", rows, (rows < 0) | (rows >= size), f"is not a row. Expected 0 to {size - 1}.")
    above = "is not in the lower triangle. Expected columns from 0 to the row; swap row and column."
    reject("cols", cols, (cols < 0) | (cols > rows), above)
    keys = rows * size + cols
    if len(np.unique(keys)) != len(keys):
        raise ValueError("rows and cols contain an entry more than once. Add the values of equal entries.")
    missing = np.setdiff1d(np.arange(size), rows[rows == cols])
    if len(missing):
        raise ValueError(f"the pattern has no diagonal entry in row {missing[0]}. Add it, with value 0 if necessary.")
    return rows, cols
