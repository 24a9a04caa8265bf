"""Values of the expressions of a formula for the rows of a table.

`Memory` holds the means, scales and levels of the data of the fit, which are used for new data, too.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ellipslice.latent.formula.columns import (
    Column,
    Table,
    as_floats,
    check_complete,
    codes,
    levels_of,
    read_column,
    rows,
)
from ellipslice.latent.formula.expressions import ELEMENTWISE, OPERATORS, Expression


@dataclass(frozen=True)
class Memory:
    """Statistics of the data of the fit. The first evaluation of an expression adds its entry."""

    levels: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Levels by categorical column."""
    moments: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Mean and standard deviation by expression: "scale(log(x))"."""


@dataclass(frozen=True)
class Evaluator:
    """Expressions evaluated for the rows of a table."""

    table: Table
    memory: Memory

    def column(self, name: str, advice: str = "") -> Column:
        """Return a column without missing and infinite values. Raise if it has some."""
        column = read_column(self.table, name, advice)
        check_complete(column)
        return column

    def numbers(self, expression: Expression) -> np.ndarray:
        """Return the values of an expression, shape (rows,). Raise if one is not finite."""
        columns = {name: as_floats(self.column(name), f"in {expression.text}") for name in expression.columns}
        values = self._evaluate(expression, columns)
        _check_finite(expression, values, ~np.isfinite(values))
        return values

    def response(self, expression: Expression) -> np.ndarray:
        """Return the response, shape (rows,), in which NaN is a missing value. Raise if a value is infinite."""
        columns = {}
        for name in expression.columns:
            columns[name] = as_floats(read_column(self.table, name), "in the response")
            infinite = np.isinf(columns[name])
            if infinite.any():
                raise ValueError(
                    f"the response {name!r} is infinite in {rows(infinite)}. Write NaN for a missing response."
                )
        values = self._evaluate(expression, columns)
        missing = np.logical_or.reduce([np.isnan(column) for column in columns.values()])
        _check_finite(expression, values, ~np.isfinite(values) & ~missing)
        return values

    def levels(self, name: str) -> tuple[tuple[Any, ...], np.ndarray]:
        """Return the levels of a categorical column in the data of the fit, and the position of each row's level."""
        column = self.column(name)
        levels = self.memory.levels.setdefault(name, levels_of(column))
        return levels, codes(column, levels)

    def _evaluate(self, expression: Expression, columns: dict[str, np.ndarray]) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = self._value(expression.node, columns)
        return np.array(np.broadcast_to(values, (self.table.size,)), dtype=np.float64)

    def _value(self, node: Any, columns: dict[str, np.ndarray]) -> Any:
        """Return the value of a node: an array, or a number of type float."""
        match node:
            case ast.Constant():
                return np.float64(float(node.value))  # type: ignore[arg-type]
            case ast.Name():
                return columns[node.id]
            case ast.BinOp():
                return OPERATORS[type(node.op)](self._value(node.left, columns), self._value(node.right, columns))
            case ast.UnaryOp():
                return OPERATORS[type(node.op)](self._value(node.operand, columns))
        name, argument = node.func.id, self._value(node.args[0], columns)
        if name in ELEMENTWISE:
            return getattr(np, name)(argument)
        if name == "I":
            return argument
        if name == "C":
            raise ValueError(f"{ast.unparse(node)} gives levels, but numbers are expected here. Remove C.")
        return self._standardised(name, ast.unparse(node), argument)

    def _standardised(self, name: str, text: str, values: Any) -> Any:
        """Return centred values, for `scale` divided by the standard deviation, with the moments of the fit."""
        if text not in self.memory.moments:
            observed = np.atleast_1d(values)[~np.isnan(np.atleast_1d(values))]
            spread = float(np.std(observed, ddof=1)) if len(observed) > 1 else 0.0
            self.memory.moments[text] = (float(np.mean(observed)), spread)
        mean, spread = self.memory.moments[text]
        if name == "center":
            return values - mean
        if not spread > 1e-14 * abs(mean):
            raise ValueError(
                f"{text} divides by the standard deviation, which is 0: all values are {mean:g}. Remove it."
            )
        return (values - mean) / spread


def _check_finite(expression: Expression, values: np.ndarray, bad: np.ndarray) -> None:
    """Raise if an expression is not finite in some rows."""
    if bad.any():
        raise ValueError(
            f"{expression.text} is {values[bad][0]:g} in {rows(bad)}. Expected finite numbers. A logarithm requires "
            "values above 0. Change the expression, or remove these rows."
        )
