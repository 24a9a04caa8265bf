"""Effects at new levels, drawn given the effects at the levels of the data: forecasts and gaps of terms in time."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded, get_lapack_funcs
from scipy.sparse import csr_array

from ellipslice.latent.terms.base import Term
from ellipslice.latent.terms.columns import as_index, read_column


class Extension(NamedTuple):
    """The prior of a term at more levels than those of the data."""

    bases: Sequence[Any]
    """Matrices of the precision, with the coefficients of the term, shape (elements, elements)."""
    known: np.ndarray
    """Element of each level of the data."""
    rows: np.ndarray
    """Element of each row of new data."""

    def draw(self, coefficients: np.ndarray, effects: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw the elements of the rows given those of the levels of the data, shape (draws, rows).

        Parameters
        ----------
        coefficients : array, shape (draws, bases)
        effects : array, shape (draws, levels)
        rng : Generator
        """
        new = np.setdiff1d(np.arange(self.bases[0].shape[0]), self.known)
        elements = np.zeros((len(effects), self.bases[0].shape[0]))
        elements[:, self.known] = effects
        if len(new):
            parts = [csr_array(base)[new] for base in self.bases]
            bands = _bands([part[:, new] for part in parts])
            towards = [part[:, self.known] for part in parts]
            normals = rng.standard_normal((len(effects), len(new)))
            for i, (weights, noise) in enumerate(zip(coefficients, normals, strict=True)):
                pull = sum(weight * (matrix @ effects[i]) for weight, matrix in zip(weights, towards, strict=True))
                elements[i, new] = draw_banded(np.tensordot(weights, bands, 1), pull, noise)
        return elements[:, self.rows]


def draw_banded(bands: np.ndarray, pull: Any, noise: np.ndarray) -> np.ndarray:
    """Draw from the Gaussian with precision Q and mean -inv(Q) pull, for the lower bands of Q and standard normals."""
    lower = cholesky_banded(bands, lower=True)
    (solve,) = get_lapack_funcs(("tbtrs",), (lower,))
    away = solve(lower, noise[:, None], uplo="L", trans="T")[0][:, 0]
    return away - cho_solve_banded((lower, True), pull)


def _bands(matrices: Sequence[Any]) -> np.ndarray:
    """Return the lower bands of symmetric matrices, shape (matrices, bandwidth + 1, size)."""
    entries = [matrix.tocoo() for matrix in matrices]
    width = max(int((each.coords[0] - each.coords[1]).max(initial=0)) for each in entries)
    found = np.zeros((len(matrices), width + 1, matrices[0].shape[0]))
    for band, each in zip(found, entries, strict=True):
        rows, columns = each.coords
        low = rows >= columns
        np.add.at(band, (rows[low] - columns[low], columns[low]), each.data[low])
    return found


class ExtendedTerm(Term):
    """A term whose prior is defined at other levels, too: random walks, autoregressions and seasonal effects."""

    @abc.abstractmethod
    def _extension(self, values: np.ndarray) -> Extension:
        """Return the prior at the levels of the data and at new levels. Raise if it is not defined at a new level."""

    def conditional_effects(
        self, data: Any, effects: np.ndarray, hyperparameters: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        values = as_index(read_column(self._new_column, data, self._argument()), self._argument())
        extension = self._extension(values)
        coefficients = [
            self.coefficients(**{name: float(each[i]) for name, each in hyperparameters.items()})
            for i in range(len(effects))
        ]
        return extension.draw(np.array(coefficients), effects, rng)


def united(levels: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sorted distinct levels and values, the index of each level, and that of each value."""
    union = np.unique(np.concatenate([levels, values]))
    return union, np.searchsorted(union, levels), np.searchsorted(union, values)
