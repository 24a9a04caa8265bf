"""Comparison of our numbers with those of the paper, row by row, with both standard errors."""

from __future__ import annotations

import math
from typing import NamedTuple

from ellipslice.apps.paper.protocol import Cell
from ellipslice.apps.paper.results import Estimate, Results
from ellipslice.data import Published, published_figure6

MAX_STANDARD_ERRORS = 3.0
"""Largest difference of two means that count as equal, in standard errors. With 50 equal rows, at least one exceeds it
with probability 1/7."""

EVALUATIONS_TOLERANCE = 0.01
"""Largest relative difference of evaluations that count as equal, if the figure can be read that precisely."""

TOO_CLOSE = "too close to elliptical"
"""Text of a row in which the order of two methods is not clear."""

AGREEMENT = (
    f"Effective sample sizes agree if they differ by at most {MAX_STANDARD_ERRORS:.0f} standard errors, or by less "
    "than the paper's error bar. Evaluations agree if they differ by at most "
    f"{EVALUATIONS_TOLERANCE:.0%}, or by the precision of the printed figure."
)
"""Statement of the criteria for the report."""

ORIGINAL_DATA = ("USPS", "Mine")
"""Problems with the data of the paper. The paper's data for R01 to R10 are lost; ours are other draws."""


class Comparison(NamedTuple):
    """Result of the comparison of one row."""

    agrees: bool | None
    """True or False; None if the row cannot be compared."""
    text: str


def effective(cell: Cell, results: Results) -> Comparison:
    """Compare effective sample sizes: on USPS and Mine their values, on R01 to R10 the order of methods."""
    theirs = published_figure6().get(cell)
    if theirs is None:
        return Comparison(None, "not in the paper")
    if cell.problem in ORIGINAL_DATA:
        return number(results[cell].effective, theirs, published_figure6()[cell.problem, "elliptical"])
    if cell.method == "elliptical":
        return Comparison(None, "different data")
    return order(cell, results)


def number(ours: Estimate, theirs: Published, elliptical: Published) -> Comparison:
    """Compare two means. They agree within `MAX_STANDARD_ERRORS`, or if ours is within the paper's error bar."""
    if ours.standard_error is None:
        return Comparison(None, "one run, so no standard error")
    gap = ours.mean - theirs.effective
    reading = Published.RELATIVE_RESOLUTION * elliptical.effective
    error = math.hypot(ours.standard_error, theirs.effective_deviation / math.sqrt(Published.RUNS), reading)
    apart = f"{gap / theirs.effective:+.0%}, {gap / error:+.1f} standard errors"
    if abs(gap) <= MAX_STANDARD_ERRORS * error:
        return Comparison(True, f"agrees ({apart})")
    if abs(gap) <= theirs.effective_deviation:
        return Comparison(True, f"within the paper's error bar ({apart})")
    return Comparison(False, f"**differs** ({apart})")


def order(cell: Cell, results: Results) -> Comparison:
    """Compare whether a method is better or worse than elliptical slice sampling, here and in the paper."""
    published = published_figure6()
    ours = relative(cell, results)
    theirs = published[cell].effective / published[cell.problem, "elliptical"].effective
    if ours is None:
        return Comparison(None, "elliptical was not run")
    if ours.standard_error is None:
        return Comparison(None, "one run, so no standard error")
    if abs(ours.mean - 1) <= MAX_STANDARD_ERRORS * ours.standard_error or abs(theirs - 1) <= 0.03:
        return Comparison(None, TOO_CLOSE)
    if (ours.mean > 1) == (theirs > 1):
        return Comparison(True, "same order")
    return Comparison(False, "**different order**")


def relative(cell: Cell, results: Results) -> Estimate | None:
    """Return the effective sample size divided by that of elliptical slice sampling on the same problem."""
    reference = results.get(Cell(cell.problem, "elliptical"))
    if reference is None or reference.effective.mean == 0:
        return None
    ours, unit = results[cell].effective, reference.effective
    ratio = ours.mean / unit.mean
    if cell.method == "elliptical" or ours.standard_error is None or unit.standard_error is None:
        return Estimate(ratio, None, None)
    error = math.hypot(ours.standard_error, ratio * unit.standard_error) / unit.mean
    return Estimate(ratio, None, error)


def evaluations(cell: Cell, results: Results) -> Comparison:
    """Compare evaluations per iteration: equal within 1 %, or within the precision of the printed figure."""
    theirs = published_figure6().get(cell)
    if theirs is None:
        return Comparison(None, "not in the paper")
    gap = results[cell].evaluations.mean - theirs.evaluations
    agrees = abs(gap) <= max(EVALUATIONS_TOLERANCE * theirs.evaluations, Published.EVALUATIONS_RESOLUTION)
    return Comparison(agrees, f"{'agrees' if agrees else '**differs**'} ({gap / theirs.evaluations:+.1%})")
