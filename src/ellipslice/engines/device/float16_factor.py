"""A matrix as two of half precision, so that products with whole numbers are as exact as in single precision.

A GPU multiplies float16 many times as fast as float32, and adds up the products in float32. But it cuts digits off
there instead of rounding: sums come out too small by a part in a million, and in directions in which the prior is
narrow its covariance is off by a hundred times as much. Sums of whole numbers below 2^24 have no digits to cut off. So
`high` and the normals (`device_normals.whole_normals`) are whole numbers, and their sums stay below, but for a few in
a hundred thousand. What `low` adds is a thousandth of that, and so is what is cut off there.
"""

from __future__ import annotations

import numpy as np

BITS = 15
"""A draw has a standard deviation of at most 2^15 units, or 2^22 steps of its normals: 2^24 are four of them."""

LARGEST = 2048
"""Columns of the largest matrix whose roundings are made up for: it takes thrice as long as its Cholesky factor."""

PANEL = 64
"""Columns whose roundings are made up for one by one."""


def in_halves(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(high, low, unit) with rows = (high + low) * unit, as nearly as float16 can; `unit` has one value a column."""
    deviation = np.sqrt(np.sum(rows**2, axis=0))
    unit = 2.0 ** (np.ceil(np.log2(np.where(deviation > 0, deviation, 1.0))) - BITS)
    rows = rows / unit
    if len(unit) <= LARGEST and _is_triangular(rows):
        rows = _made_up_for(rows)
    return *_round(rows), unit


def _round(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    high = np.rint(rows).astype(np.float16)
    return high, (rows - high).astype(np.float16)


def _made_up_for(rows: np.ndarray) -> np.ndarray:
    """A triangular matrix changed a little: in each column by what makes up for the roundings of those before it.

    If row k of the rounded matrix is that of rows + x rows, then x says how far the covariance is off. Column by
    column, x_j is that column's rounding error over rows_jj alone if it is rounded where earlier ones shift it to.
    (Babai's way to a near point of a lattice, 1986.)
    """
    noise = len(rows)
    target, x = np.array(rows), np.zeros((noise, noise))
    for start in range(0, noise, PANEL):
        end = min(start + PANEL, noise)
        target[:end, start:end] += x[:end, :start] @ rows[:start, start:end]
        for j in range(start, end):
            target[:end, j] += x[:end, start:j] @ rows[start:j, j]
            high, low = _round(target[:end, j])
            if rows[j, j] != 0:
                x[:end, j] = (high.astype(np.float64) + low - target[:end, j]) / rows[j, j]
    return target


def _is_triangular(rows: np.ndarray) -> bool:
    """Whether this is a Cholesky factor as it is used here, with zeros below the diagonal; padding does not count."""
    noise, size = rows.shape
    return noise <= size and not np.any(rows[:, noise:]) and not np.any(np.tril(rows, -1))
