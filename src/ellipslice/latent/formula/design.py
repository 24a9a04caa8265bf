"""A formula, and the design that it gives with data: response, offset, design matrix and structured terms."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ellipslice.latent.formula.coding import Block, Factor, columns_of, find_blocks
from ellipslice.latent.formula.columns import as_table, listed
from ellipslice.latent.formula.evaluate import Evaluator, Memory
from ellipslice.latent.formula.expressions import Expression
from ellipslice.latent.formula.rank import check_rank
from ellipslice.latent.formula.requests import TermRequest, term_columns, term_requests
from ellipslice.latent.formula.syntax import FixedEffect, Offset, TermCall


@dataclass(frozen=True)
class Formula:
    """A formula without data. `parse` makes it.

    Attributes
    ----------
    text : str
        The formula as it was written.
    response : Expression
        Left side.
    intercept : bool
        Whether the model has an intercept. Default of a formula: True.
    fixed : tuple of FixedEffect
        Fixed effects, those with fewer factors first.
    offsets : tuple of Offset
    terms : tuple of TermCall
    """

    text: str
    response: Expression
    intercept: bool
    fixed: tuple[FixedEffect, ...]
    offsets: tuple[Offset, ...]
    terms: tuple[TermCall, ...]

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"

    @property
    def predictor_columns(self) -> tuple[str, ...]:
        """Names of the columns on the right side."""
        expressions = [factor for effect in self.fixed for factor in effect.factors]
        expressions += [offset.expression for offset in self.offsets]
        for term in self.terms:
            expressions += [each for crossed in term.columns for each in crossed]
            expressions += [term.weights] if term.weights else []
        return tuple(dict.fromkeys(name for expression in expressions for name in expression.columns))

    def design(
        self,
        data: Any,
        *,
        names: Mapping[str, Any] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> Design:
        """Return the design of a model: the formula applied to data.

        Parameters
        ----------
        data : DataFrame or mapping of str to array
            Columns with one value per row. Text, booleans and pandas categoricals are categorical; their first level
            is the reference. A missing response (NaN or None) is a row to predict.
        names : mapping, optional
            Variables that arguments of structured terms may name, such as a graph. Default: none.
        functions : mapping, optional
            Functions that arguments may call, such as `pc_prior`. Default: none.

        Raises
        ------
        ValueError
            If a column or variable does not exist, if a predictor has missing or infinite values, or if fixed effects
            are collinear.
        TypeError
            If values have the wrong type.
        """
        names, functions = names or {}, functions or {}
        table = as_table(data, (*self.response.columns, *self.predictor_columns))
        evaluator = Evaluator(table, Memory())
        requests = term_requests(self.terms, names, functions)
        response = evaluator.response(self.response)
        if np.isnan(response).all():
            raise ValueError(f"the response {self.response.text!r} is missing in all rows. Expected an observed value.")
        effects = [[_factor(each, evaluator) for each in effect.factors] for effect in self.fixed]
        blocks = find_blocks(self.intercept, effects)
        labels, matrix = columns_of(blocks, evaluator)
        columns = term_columns(self.terms, evaluator, names)
        offset = _offset(self, evaluator)
        check_rank(matrix, labels)
        return Design(self, response, offset, matrix, labels, requests, columns, table.index, blocks, evaluator.memory)


@dataclass(frozen=True, eq=False, repr=False)
class Design:
    """A formula applied to data. `Formula.design` makes it.

    Attributes
    ----------
    formula : Formula
    response : array, shape (rows,), or None
        Values of the left side; NaN is a missing response. None for new data without the response.
    offset : array, shape (rows,)
        Sum of the offsets; 0 if there are none.
    matrix : array, shape (rows, coefficients)
        Design matrix of the fixed effects.
    names : tuple of str
        Names of the coefficients: "Intercept", "x", "sex[male]", "x:sex[male]".
    terms : tuple of TermRequest
        Structured terms.
    columns : mapping of str to array
        Columns that the structured terms use. A column of the data is as it was given.
    index : object
        Row labels of the data frame; None if the data are a mapping.
    blocks : tuple of tuple of Coded
        Coding of the columns of `matrix`.
    memory : Memory
        Levels, means and scales of the data of the fit.
    """

    formula: Formula
    response: np.ndarray | None
    offset: np.ndarray
    matrix: np.ndarray
    names: tuple[str, ...]
    terms: tuple[TermRequest, ...]
    columns: Mapping[str, Any]
    index: Any
    blocks: tuple[Block, ...]
    memory: Memory

    def __repr__(self) -> str:
        terms = ", ".join(f"{term.name} ({term.kind})" for term in self.terms) or "none"
        return (
            f"Design({self.response_name}, {len(self.offset)} rows, coefficients: {listed(self.names)}, terms: {terms})"
        )

    @property
    def response_name(self) -> str:
        """Left side of the formula."""
        return self.formula.response.text

    def at(self, data: Any) -> Design:
        """Return the design for new data, with the levels, means and scales of the data of the fit.

        Parameters
        ----------
        data : DataFrame or mapping of str to array
            Predictors. The response may be absent.

        Raises
        ------
        ValueError
            If a categorical column has a level that is not in the data of the fit, or a value is missing or infinite.
        """
        formula = self.formula
        given = set(data) if isinstance(data, Mapping) else set(getattr(data, "columns", ()))
        has_response = given.issuperset(formula.response.columns)
        table = as_table(data, (*formula.predictor_columns, *(formula.response.columns if has_response else ())))
        evaluator = Evaluator(table, self.memory)
        _, matrix = columns_of(self.blocks, evaluator)
        return dataclasses.replace(
            self,
            response=evaluator.response(formula.response) if has_response else None,
            offset=_offset(formula, evaluator),
            matrix=matrix,
            columns=term_columns(formula.terms, evaluator, {}),
            index=table.index,
        )


def _factor(expression: Expression, evaluator: Evaluator) -> Factor:
    """Return a factor of a fixed effect. Raise if it is categorical and has one level."""
    name = expression.factor_column or expression.column
    column = evaluator.column(name) if name else None
    if name is None or column is None or (expression.column and column.levels is None):
        return Factor(expression, expression.text, False)
    levels, _ = evaluator.levels(name)
    if len(levels) < 2:
        raise ValueError(
            f"the categorical column {name!r} has one level, {next(iter(levels))!r}. Expected at least two. Remove it "
            "from the formula."
        )
    return Factor(expression, name, True)


def _offset(formula: Formula, evaluator: Evaluator) -> np.ndarray:
    """Return the sum of the offsets of a formula, shape (rows,)."""
    total = np.zeros(evaluator.table.size)
    for offset in formula.offsets:
        total += evaluator.numbers(offset.expression)
    return total
