"""Check that the columns of a design matrix are linearly independent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import linalg

TOLERANCE = 1e-10
"""Largest distance of a column of length 1 from the span of the columns before it that counts as dependence."""
MAX_NAMED = 5
"""Largest number of columns in the equation of a message."""


def check_rank(matrix: np.ndarray, names: Sequence[str]) -> None:
    """Raise ValueError if a column is a linear combination of those before it, with the names of the columns.

    Parameters
    ----------
    matrix : array, shape (rows, columns)
    names : sequence of str
        Names of the columns.
    """
    lengths = np.linalg.norm(matrix, axis=0)
    for name, length in zip(names, lengths, strict=True):
        if length == 0:
            raise ValueError(
                f"the column {name!r} of the design matrix is 0 in every row. Remove {name!r} from the formula."
            )
    if matrix.shape[1] < 2:
        return
    unit = matrix / lengths
    diagonal = np.zeros(matrix.shape[1])
    triangle = linalg.qr(unit, mode="r", check_finite=False)[0]
    size = min(matrix.shape)
    diagonal[:size] = np.abs(np.diag(triangle)[:size])
    dependent = np.flatnonzero(diagonal < TOLERANCE)
    if len(dependent):
        _raise(unit, lengths, names, int(dependent[0]))


def _raise(unit: np.ndarray, lengths: np.ndarray, names: Sequence[str], column: int) -> None:
    """Raise about a column that depends on those before it."""
    solution = np.linalg.lstsq(unit[:, :column], unit[:, column], rcond=None)[0]
    involved = np.flatnonzero(np.abs(solution) > 1e-8).tolist()
    name = names[column]
    if [names[i] for i in involved] == ["Intercept"]:
        value = unit[0, column] * lengths[column]
        raise ValueError(
            f"{name!r} is constant, {value:g} in every row, and the formula has an intercept. Remove {name!r}, or the "
            "intercept with 0 + ..."
        )
    if len(involved) <= MAX_NAMED:
        factors = solution * lengths[column] / lengths[:column]
        equation = " + ".join(f"{factors[i]:.3g} * {names[i]}" for i in involved).replace("+ -", "- ")
        relation = f"{name} = {equation} in every row"
    else:
        others = ", ".join(names[i] for i in involved[:MAX_NAMED])
        relation = f"{name} is a combination of {others} and {len(involved) - MAX_NAMED} more"
    raise ValueError(f"the fixed effects are collinear: {relation}. Remove one of these predictors from the formula.")
