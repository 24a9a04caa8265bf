"""Fixed effects: coefficients of numeric columns with independent Gaussian priors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array

from ellipslice.checks import as_numbers, is_number
from ellipslice.latent.terms.base import Term
from ellipslice.latent.terms.columns import column_names, listed, read_column
from ellipslice.latent.terms.structure import Structure

INTERCEPT = "Intercept"
SLOPE_UNITS, INTERCEPT_UNITS = 2.5, 10.0
"""Default standard deviations: of the effect of one standard deviation of a column, and of an intercept, in units."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Fixed(Term):
    """Fixed effects: coefficients with independent Gaussian priors of mean 0.

    Parameters
    ----------
    column : str, list of str, DataFrame or array, shape (rows, coefficients)
        Names of numeric columns, of which "1" is the intercept; or the design matrix.
    sd : float, "flat", list or mapping of str to float, optional
        Prior standard deviation of the coefficients: one, one per coefficient, or by name of the coefficient.
        "flat" or infinity is a flat prior. Default: 2.5 units divided by the standard deviation of the column. For an
        intercept, and for a constant column, sqrt(10^2 units^2 + location^2 + sum of (sd_j mean_j)^2) over the other
        columns, so that columns far from 0 do not restrict the level.
    names : list of str, optional
        Names of the columns of a design matrix.
    name : str
        Name of the term. Default: "fixed".

    Examples
    --------
    >>> term = Fixed(["1", "x"], sd={"x": 2.0}).bind({"x": [0.0, 1.0, 2.0]})
    >>> term.describe()
    'fixed: independent Gaussian coefficients, mean 0, standard deviations Intercept 10.2, x 2.'
    """

    sd: Any = None
    names: Any = None
    name: str = "fixed"

    def bind(self, data: Any = None, unit: float = 1.0, location: float = 0.0) -> Any:
        labels, design = self._read(data)
        bad = [label for label, values in zip(labels, design.T, strict=True) if not values.any()]
        if bad:
            raise ValueError(
                f"Fixed: the column {bad[0]!r} is 0 in all rows, so its coefficient has no effect. Drop it."
            )
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise ValueError(f"Fixed: the coefficient {twice!r} is there twice. Give every column once.")
        deviations = self._deviations(labels, design, unit, location)
        flat = {
            label: row for label, row, sd in zip(labels, np.eye(len(labels)), deviations, strict=True) if sd == math.inf
        }
        structure = Structure((diags_array(deviations**-2.0),), improper=flat)
        return self._with_structure(np.array(labels), structure, data, unit)

    def structure(self, levels: np.ndarray) -> Structure:
        raise NotImplementedError("the structure of fixed effects depends on the columns, not on levels")

    def coefficients(self) -> np.ndarray:
        return np.ones(1)

    def log_determinant(self) -> float:
        return self.state.constant

    def constant(self, structure: Structure) -> float:
        precisions = structure.bases[0].diagonal()
        return float(np.log(precisions[precisions > 0]).sum())

    @property
    def deviations(self) -> np.ndarray:
        """Prior standard deviation of each coefficient; infinity is a flat prior."""
        with np.errstate(divide="ignore"):
            return self.bases[0].diagonal() ** -0.5

    @property
    def about(self) -> str:
        pairs = zip(self.state.levels, self.deviations, strict=True)
        shown = ", ".join(f"{label} {'flat' if sd == math.inf else f'{sd:.3g}'}" for label, sd in pairs)
        return f"independent Gaussian coefficients, mean 0, standard deviations {shown}"

    @property
    def dim(self) -> str:
        return f"{self.name}_coefficient"

    def _name(self) -> str:
        return self.name

    def unseen(self, data: Any) -> np.ndarray:
        return np.zeros(len(self._read(data, self._new_column)[1]), dtype=bool)

    def _design(self, column: Any, data: Any) -> csr_array:
        return csr_array(self._read(data, column)[1])

    @property
    def _new_column(self) -> Any:
        """Names of the columns in new data."""
        return (
            self.column
            if _are_names(self.column)
            else ["1" if each == INTERCEPT else each for each in self.state.levels]
        )

    def _read(self, data: Any, column: Any = None) -> tuple[list[str], np.ndarray]:
        """Return the names of the coefficients and the design matrix."""
        column = self.column if column is None else column
        if _are_names(column):
            if data is not None and getattr(data, "ndim", 0) == 2 and not hasattr(data, "columns"):
                return self._matrix(data)
            columns = [column] if isinstance(column, str) else list(column)
            if not columns:
                raise ValueError("Fixed was given no column. Give at least one, for example Fixed(['1', 'x']).")
            if data is None:
                raise TypeError("Fixed was given names of columns, but no data. Give data, or a design matrix.")
            given = [
                None if each in ("1", INTERCEPT) and each not in column_names(data) else _numeric(each, data)
                for each in columns
            ]
            rows = next((len(values) for values in given if values is not None), _row_count(data))
            labels = [INTERCEPT if values is None else each for each, values in zip(columns, given, strict=True)]
            return labels, np.column_stack([np.ones(rows) if values is None else values for values in given])
        return self._matrix(column)

    def _matrix(self, given: Any) -> tuple[list[str], np.ndarray]:
        """Return names and values of a design matrix."""
        design: Any = as_numbers(given, "Fixed: the design matrix")
        design = design[:, None] if design.ndim == 1 else design
        if design.ndim != 2 or 0 in design.shape:
            raise ValueError(f"Fixed: the design matrix has shape {design.shape}. Expected (rows, coefficients).")
        found = self.names if self.names is not None else getattr(given, "columns", None)
        if found is None:
            found = [getattr(given, "name", None) or f"x{i}" for i in range(design.shape[1])]
        labels = [str(each) for each in found]
        if len(labels) != design.shape[1]:
            raise ValueError(
                f"Fixed: names has {len(labels)} names for {design.shape[1]} columns. Give one per column."
            )
        return labels, design

    def _deviations(self, labels: list[str], design: np.ndarray, unit: float, location: float) -> np.ndarray:
        """Return the prior standard deviation of each coefficient."""
        given = self.sd
        if isinstance(given, Mapping):
            unknown = [each for each in given if each not in labels]
            if unknown:
                raise ValueError(f"Fixed: sd has the name {unknown[0]!r}, but the coefficients are: {listed(labels)}.")
            chosen = [given.get(label) for label in labels]
        elif given is None or isinstance(given, str) or is_number(given):
            chosen = [given] * len(labels)
        else:
            chosen = list(given)
        if len(chosen) != len(labels):
            raise ValueError(f"Fixed: sd has {len(chosen)} values for {len(labels)} coefficients: {listed(labels)}.")
        known = [math.nan if sd is None else _deviation(label, sd) for label, sd in zip(labels, chosen, strict=True)]
        return with_defaults(np.array(known), design, unit, location)


def with_defaults(deviations: np.ndarray, design: np.ndarray, unit: float, location: float) -> np.ndarray:
    """Return prior standard deviations in which NaN is replaced by the default; see `Fixed`."""
    mean, sd = design.mean(axis=0), design.std(axis=0)
    constant = sd <= 1e-12 * np.abs(mean)
    usual = SLOPE_UNITS * unit / np.where(constant, 1.0, sd)
    slopes = np.where(np.isfinite(deviations), deviations, usual)  # a flat slope counts as one with the default
    level = math.sqrt((INTERCEPT_UNITS * unit) ** 2 + location**2 + float(((slopes * mean)[~constant] ** 2).sum()))
    usual[constant] = level / np.abs(mean[constant])
    return np.where(np.isnan(deviations), usual, deviations)


def _deviation(label: str, value: Any) -> float:
    found = math.inf if isinstance(value, str) and value == "flat" else value
    if not is_number(found) or not float(found) > 0:
        raise ValueError(f"Fixed: sd of {label!r} must be a positive number or 'flat', but it is {value!r}.")
    return float(found)


def _are_names(column: Any) -> bool:
    """Return whether a column is a name, or a list or tuple of names, instead of a matrix."""
    if isinstance(column, str):
        return True
    plain = not hasattr(column, "dtype") and not hasattr(column, "columns") and isinstance(column, Iterable)
    return plain and all(isinstance(each, str) for each in column)


def _numeric(name: str, data: Any) -> np.ndarray:
    return as_numbers(
        read_column(name, data, "Fixed: column"), f"Fixed: column {name!r}", advice="Drop or fill such rows."
    )


def _row_count(data: Any) -> int:
    """Return the number of rows of data."""
    return len(data) if hasattr(data, "columns") else len(next(iter(data.values())))
