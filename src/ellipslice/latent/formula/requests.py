"""Requests for the structured terms of a formula, and the columns that these terms use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ellipslice.latent.formula.columns import label, levels_of
from ellipslice.latent.formula.evaluate import Evaluator
from ellipslice.latent.formula.expressions import Expression, evaluate_argument
from ellipslice.latent.formula.syntax import TermCall


@dataclass(frozen=True)
class TermRequest:
    """A structured term that a formula contains.

    Attributes
    ----------
    kind : str
        Name of the term: "rw2".
    columns : tuple of str
        Names in `Design.columns`: "age", "log(age)" or "g:h".
    weights : str, optional
        Name in `Design.columns` of the numbers that multiply the effect: a slope.
    options : mapping of str to object
        Other arguments.
    name : str
        Unique name of the term in its formula.
    """

    kind: str
    columns: tuple[str, ...]
    weights: str | None
    options: Mapping[str, Any]
    name: str


def term_requests(
    calls: tuple[TermCall, ...], names: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
) -> tuple[TermRequest, ...]:
    """Return the requests for structured terms with unique names. Raise if two terms are given the same name."""
    options = [
        {key: evaluate_argument(value, names, functions, str(call)) for key, value in call.options} for call in calls
    ]
    given = [each.pop("name", None) for each in options]
    for name, call in zip(given, calls, strict=True):
        if name is not None and not (isinstance(name, str) and name.strip()):
            raise TypeError(f"{call}: name must be a string that is not empty, but it is {name!r}.")
    defaults = Counter(call.default_name for name, call in zip(given, calls, strict=True) if name is None)
    chosen: dict[str, TermCall] = {}
    requests = []
    for name, call, rest in zip(given, calls, options, strict=True):
        default = call.default_name
        name = name or (f"{default}_{call.kind}" if defaults[default] > 1 or default in given else default)
        if name in chosen:
            raise ValueError(
                f"{chosen[name]} and {call} both have the name {name!r}. Give one of them another with name=."
            )
        chosen[name] = call
        requests.append(TermRequest(call.kind, call.column_names, call.weights and call.weights.text, rest, name))
    return tuple(requests)


def term_columns(calls: tuple[TermCall, ...], evaluator: Evaluator, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that structured terms use: as given, evaluated, or labels of combinations."""
    found: dict[str, Any] = {}
    for call in calls:
        for name, crossed in zip(call.column_names, call.columns, strict=True):
            for expression in crossed:
                for column in expression.columns:
                    is_variable = column in names and column not in evaluator.table.names
                    evaluator.column(
                        column, f"Write a variable with its keyword: graph={column}." if is_variable else ""
                    )
            if len(crossed) > 1:
                found[name] = _combined(crossed, evaluator)
            else:
                single = next(iter(crossed))
                plain = single.column
                found[name] = evaluator.table.data[plain] if plain else evaluator.numbers(single)
    for call in calls:
        if call.weights is not None:
            found.setdefault(call.weights.text, _weights(call, call.weights, evaluator))
    return found


def _weights(call: TermCall, expression: Expression, evaluator: Evaluator) -> np.ndarray:
    """Return the numbers that multiply an effect. Raise if they are labels."""
    name = expression.factor_column or expression.column
    if name and (expression.factor_column or evaluator.column(name).values.dtype.kind == "O"):
        column = evaluator.column(name)
        if expression.factor_column or any(isinstance(level, str) for level in levels_of(column)):
            group = call.column_names[0]
            raise TypeError(
                f"{call} has the slope of a categorical column, {name!r}. Expected numbers. Write (1 | {group}:{name}) "
                "for an effect of each combination of levels."
            )
    return evaluator.numbers(expression)


def _combined(crossed: tuple[Expression, ...], evaluator: Evaluator) -> np.ndarray:
    """Return a label for each row that combines the values of several expressions: "a:1"."""
    columns = []
    for expression in crossed:
        name = expression.column
        values = evaluator.column(name).values if name else evaluator.numbers(expression)
        columns.append([label(value) for value in values.tolist()])
    return np.array([":".join(parts) for parts in zip(*columns, strict=True)], dtype=object)
