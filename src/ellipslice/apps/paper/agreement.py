"""Whether our numbers agree with the paper's, row by row, allowing for both standard errors."""

from __future__ import annotations

import math
from typing import NamedTuple

from ellipslice.apps.paper.protocol import Cell
from ellipslice.apps.paper.results import Estimate, Results
from ellipslice.data import Published, published_figure6

ERRORS = 3.0
"""Standard errors that two means may lie apart: of 50 rows that are alike, one in seven times one lies farther."""

EVALUATIONS = 0.01
"""The share by which evaluations may differ, if the figure could be read that well."""

REAL = ("USPS", "Mine")
"""Problems on the paper's own data. The paper's R01 to R10 are lost, and ours are others."""


class Verdict(NamedTuple):
    """Of one row."""

    agrees: bool | None
    """None if the row cannot be judged."""
    words: str


def effective(cell: Cell, results: Results) -> Verdict:
    """Effective samples: on the paper's data their number, on other data whether a method is better than elliptical."""
    theirs = published_figure6().get(cell)
    if theirs is None:
        return Verdict(None, "not in the paper")
    if cell.problem in REAL:
        return number(results[cell].effective, theirs, published_figure6()[cell.problem, "elliptical"])
    if cell.method == "elliptical":
        return Verdict(None, "other data")
    return order(cell, results)


def number(ours: Estimate, theirs: Published, elliptical: Published) -> Verdict:
    """Whether two means are the same, or ours is within the bar that the paper draws."""
    if ours.standard_error is None:
        return Verdict(None, "one run: no standard error")
    gap = ours.mean - theirs.effective
    reading = Published.RELATIVE_RESOLUTION * elliptical.effective
    error = math.hypot(ours.standard_error, theirs.effective_deviation / math.sqrt(Published.RUNS), reading)
    apart = f"{gap / theirs.effective:+.0%}, {gap / error:+.1f} standard errors"
    if abs(gap) <= ERRORS * error:
        return Verdict(True, f"agrees ({apart})")
    if abs(gap) <= theirs.effective_deviation:
        return Verdict(True, f"within the paper's error bar ({apart})")
    return Verdict(False, f"**differs** ({apart})")


def order(cell: Cell, results: Results) -> Verdict:
    """Whether a method has more effective samples than elliptical slice sampling where it has in the paper."""
    published = published_figure6()
    ours = relative(cell, results)
    theirs = published[cell].effective / published[cell.problem, "elliptical"].effective
    if ours is None:
        return Verdict(None, "elliptical was not run")
    if ours.standard_error is None:
        return Verdict(None, "one run: no standard error")
    if abs(ours.mean - 1) <= ERRORS * ours.standard_error or abs(theirs - 1) <= 0.03:
        return Verdict(None, "too close to elliptical to tell")
    if (ours.mean > 1) == (theirs > 1):
        return Verdict(True, "same order")
    return Verdict(False, "**other order**")


def relative(cell: Cell, results: Results) -> Estimate | None:
    """Effective samples beside those of elliptical slice sampling on the same problem."""
    reference = results.get(Cell(cell.problem, "elliptical"))
    if reference is None or reference.effective.mean == 0:
        return None
    ours, unit = results[cell].effective, reference.effective
    ratio = ours.mean / unit.mean
    if cell.method == "elliptical" or ours.standard_error is None or unit.standard_error is None:
        return Estimate(ratio, None, None)
    error = math.hypot(ours.standard_error, ratio * unit.standard_error) / unit.mean
    return Estimate(ratio, None, error)


def evaluations(cell: Cell, results: Results) -> Verdict:
    """Evaluations per iteration: the same to 1 %, or to what could be read from the figure."""
    theirs = published_figure6().get(cell)
    if theirs is None:
        return Verdict(None, "not in the paper")
    gap = results[cell].evaluations.mean - theirs.evaluations
    agrees = abs(gap) <= max(EVALUATIONS * theirs.evaluations, Published.EVALUATIONS_RESOLUTION)
    return Verdict(agrees, f"{'agrees' if agrees else '**differs**'} ({gap / theirs.evaluations:+.1%})")
