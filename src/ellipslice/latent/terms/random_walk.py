"""Random walks of first and second order over positions: smooth effects of time, age or a covariate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import coo_array

from ellipslice.checks import positive_number
from ellipslice.latent.terms.columns import levels_of, positions_of
from ellipslice.latent.terms.extension import ExtendedTerm, Extension, united
from ellipslice.latent.terms.generalised import geometric_mean_variance
from ellipslice.latent.terms.scaled import ScaledTerm
from ellipslice.latent.terms.structure import Structure

LEVEL, TREND = "sum to zero", "no linear trend"
CONSTRAINTS = ("none", "level", "trend")
CLOSEST = {1: 1e-8, 2: 1e-4}
"""Smallest distance of positions in multiples of the mean distance, for walks of order 1 and 2."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _RandomWalk(ExtendedTerm, ScaledTerm):
    """A random walk over the distinct values of a column, which may be irregular."""

    values: Any = None
    cyclic: bool = False
    period: float | None = None
    scale_model: bool = True
    constraint: str = "level"

    order: ClassVar[int]
    connected: ClassVar[bool] = True
    _advice_unseen: ClassVar[str] = "To have effects there, give values= with all positions."

    def structure(self, levels: np.ndarray) -> Structure:
        positions = positions_of(levels, self._argument())
        self._check(positions)
        distances = self._distances(positions)
        self._check_distances(distances, levels)
        differences = walk_differences(distances, self.order, self.cyclic)
        constraints, improper = self._null_space(positions)
        base = (differences.T @ differences).tocsc()
        if self.scale_model:
            null = np.array([*constraints.values(), *improper.values()])
            base = base * geometric_mean_variance(base, null)
        return Structure((base,), constraints, improper)

    def _find_levels(self, data: Any) -> np.ndarray:
        found = super()._find_levels(data)
        if self.values is None:
            return found
        name = f"{type(self).__name__}: values"
        return levels_of(np.asarray(self.values), name)

    def _check(self, positions: np.ndarray) -> None:
        kind, least = type(self).__name__, 3 if self.cyclic else self.order + 1
        if self.constraint not in CONSTRAINTS:
            raise ValueError(f"{kind}: constraint must be one of {CONSTRAINTS}, but it is {self.constraint!r}.")
        if self.constraint == "trend" and (self.order == 1 or self.cyclic):
            raise ValueError(f"{kind}: only RW2 without cyclic=True has a linear trend. Use constraint='level'.")
        if self.period is not None and not self.cyclic:
            raise ValueError(f"{kind}: period is given, but the walk is not cyclic. Give cyclic=True, or no period.")
        if len(positions) < least:
            raise ValueError(
                f"{kind}: the column has {len(positions)} distinct value{'s' * (len(positions) > 1)}, but "
                f"{'a cyclic walk' if self.cyclic else kind} requires at least {least}. Drop the term."
            )

    def _check_distances(self, distances: np.ndarray, levels: np.ndarray) -> None:
        """Raise if positions are so close to each other that the precision would be inaccurate."""
        nearest = int(np.argmin(distances))
        if distances[nearest] < CLOSEST[self.order]:
            raise ValueError(
                f"{type(self).__name__}: the positions {levels[nearest]} and {levels[(nearest + 1) % len(levels)]} are "
                f"almost equal: their distance is {distances[nearest]:.2g} of the mean distance, and at least "
                f"{CLOSEST[self.order]:g} is required. Round the column."
            )

    def _extension(self, values: np.ndarray) -> Extension:
        """Return the walk over more positions, with the unit of distance and the scale of the positions of the data."""
        levels = self.state.levels
        both = positions_of(np.concatenate([levels, values]), self._argument())
        old, new = both[: len(levels)], both[len(levels) :]
        steps = np.diff(old)
        unit, size = steps.mean(), old[-1] - old[0]
        if self.cyclic:
            size += steps[0] if self.period is None else float(self.period) - size
            unit, new = size / len(old), old[0] + np.mod(new - old[0], size)
        walk = walk_differences(self._distances(old), self.order, self.cyclic)
        scale = self.bases[0].diagonal().sum() / (walk.power(2).sum())
        union, known, rows = united(old, new)
        around = np.append(np.diff(union), old[0] + size - union[-1]) if self.cyclic else np.diff(union)
        longer = walk_differences(around / unit, self.order, self.cyclic)
        return Extension((scale * (longer.T @ longer),), known, rows)

    def _distances(self, positions: np.ndarray) -> np.ndarray:
        """Return the distances between neighbours in multiples of their mean. A cyclic walk has one more."""
        distances = np.diff(positions)
        if not self.cyclic:
            return distances / distances.mean()
        equal = np.allclose(distances, distances[0], rtol=1e-8, atol=0.0)
        if self.period is None and not equal:
            raise ValueError(
                f"{type(self).__name__}: the positions of a cyclic walk are not equally spaced. Give period=, for "
                "example 24 for hours, or values= with all positions."
            )
        span = positions[-1] - positions[0]
        period = span + distances[0] if self.period is None else positive_number("period", self.period)
        if period <= span:
            raise ValueError(
                f"{type(self).__name__}: period is {period:g}, but the positions span {span:g}. The first position is "
                "one period after itself, so the period must be larger than the span."
            )
        around = np.append(distances, period - span)
        return around / around.mean()

    def _null_space(self, positions: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return the constraints, and the directions that remain flat."""
        level, trend = np.ones(len(positions)), positions - positions.mean()
        null = {"level": level}
        if self.order == 2 and not self.cyclic:
            null["linear trend"] = trend / np.abs(trend).max()
        names = {"none": (), "level": ("level",), "trend": ("level", "linear trend")}[self.constraint]
        texts = {"level": LEVEL, "linear trend": TREND}
        constraints = {texts[name]: row for name, row in null.items() if name in names}
        return constraints, {name: row for name, row in null.items() if name not in names}

    @property
    def about(self) -> str:
        scaled = "scaled so that the geometric mean of its variances is sd^2" if self.scale_model else "not scaled"
        order = "first" if self.order == 1 else "second"
        return f"{'cyclic ' * self.cyclic}random walk of {order} order over {self.size} positions, {scaled}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RW1(_RandomWalk):
    """Random walk of first order: increments are independent, with variances proportional to the distances.

    The precision is that of sum_i (x_{i+1} - x_i)^2 / d_i, in which d_i is the distance between neighbours in multiples
    of the mean distance.

    Parameters
    ----------
    column : str or array, shape (rows,)
        Position of each row: numbers or dates. Values may repeat and may be irregular.
    prior : distribution of NumPyro, optional
        Prior of sd. Default: P(sd > 1 unit) = 0.01.
    values : array, optional
        All positions of the walk, also those without data. Default: the distinct values of the column.
    cyclic : bool
        Whether the last position is a neighbour of the first. Default: False.
    period : float, optional
        Length of a cycle. Default: the number of positions times their spacing; required for irregular positions.
    scale_model : bool
        Whether sd^2 is the geometric mean of the variances of x, as INLA's option `scale.model`. Otherwise sd is the
        standard deviation of an increment over the mean distance. Default: True.
    constraint : {"level", "none"}
        "level" is a sum of zero. "none" leaves the level free, for a model without an intercept. Default: "level".
    name : str, optional
        Name of the term. Default: the name of the column.

    Examples
    --------
    >>> term = RW1("year", scale_model=False).bind({"year": [2001, 2000, 2002, 2001]})
    >>> term.precision(sd=1.0).toarray().tolist()
    [[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]]
    """

    order: ClassVar[int] = 1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RW2(_RandomWalk):
    """Random walk of second order: a smooth function whose second differences are independent.

    For irregular positions it is the Galerkin approximation of an integrated Wiener process by Lindgren & Rue (2008).
    The precision is that of sum_i ((x_{i+1} - x_i) / d_i - (x_i - x_{i-1}) / d_{i-1})^2 / ((d_{i-1} + d_i) / 2), in
    which d_i is the distance between neighbours in multiples of the mean distance.

    Parameters
    ----------
    column : str or array, shape (rows,)
        Position of each row: numbers or dates. Values may repeat and may be irregular.
    prior : distribution of NumPyro, optional
        Prior of sd. Default: P(sd > 1 unit) = 0.01.
    values : array, optional
        All positions of the walk, also those without data. Default: the distinct values of the column.
    cyclic : bool
        Whether the last position is a neighbour of the first. Default: False.
    period : float, optional
        Length of a cycle. Default: the number of positions times their spacing; required for irregular positions.
    scale_model : bool
        Whether sd^2 is the geometric mean of the variances of x without its linear trend, as INLA's option
        `scale.model`. Otherwise sd is the standard deviation of a second difference. Default: True.
    constraint : {"level", "trend", "none"}
        "level" is a sum of zero, which leaves the linear trend free unless the walk is cyclic. "trend" removes the
        trend, too, for a model that has the column as a fixed effect. "none" leaves both free. Default: "level".
    name : str, optional
        Name of the term. Default: the name of the column.

    Examples
    --------
    >>> term = RW2("age").bind({"age": [20, 30, 35, 50, 50]})
    >>> term.describe().split(". ")[1:3]
    ['Constraint: sum to zero', 'The prior is flat in: linear trend']
    """

    order: ClassVar[int] = 2


def walk_differences(distances: np.ndarray, order: int, cyclic: bool) -> Any:
    """Return the matrix of independent standardised differences, sparse, shape (differences, positions).

    Parameters
    ----------
    distances : array
        Distances between neighbours; for a cyclic walk the last one is from the last to the first position.
    order : {1, 2}
    cyclic : bool
    """
    size = len(distances) + (not cyclic)
    if order == 1:
        row = np.arange(len(distances))
        weight = 1.0 / np.sqrt(distances)
        entries, columns = [-weight, weight], [row, (row + 1) % size]
    else:
        before = np.roll(distances, 1) if cyclic else distances[:-1]
        after = distances if cyclic else distances[1:]
        row = np.arange(len(before))
        root = np.sqrt((before + after) / 2)
        entries = [1 / before / root, -(1 / before + 1 / after) / root, 1 / after / root]
        first = -1 if cyclic else 0
        columns = [(row + first + j) % size for j in range(3)]
    rows = np.tile(row, len(columns))
    return coo_array((np.concatenate(entries), (rows, np.concatenate(columns))), (len(row), size)).tocsr()
