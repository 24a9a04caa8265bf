"""Columns of a design matrix: treatment coding of categorical columns, and interactions.

A categorical factor has one column per level except the first, which is the reference. The reference has a column, too,
if no other columns of the model determine it: in ``0 + sex``, and in ``x:sex`` without ``x``. The rule is that of R and
patsy: https://patsy.readthedocs.io/en/latest/formulas.html.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ellipslice.latent.formula.columns import label
from ellipslice.latent.formula.evaluate import Evaluator
from ellipslice.latent.formula.expressions import Expression


class Factor(NamedTuple):
    """A factor of an interaction."""

    expression: Expression
    name: str
    """Text of a numeric expression, or a categorical column."""
    categorical: bool


class Coded(NamedTuple):
    """A factor with its coding. `full`: whether a categorical factor has a column for the first level, too."""

    factor: Factor
    full: bool


Block = tuple[Coded, ...]
"""Factors whose columns are multiplied. The empty block is the intercept."""


def find_blocks(intercept: bool, effects: Sequence[Sequence[Factor]]) -> tuple[Block, ...]:
    """Return the blocks of columns of a model, without redundant columns.

    Parameters
    ----------
    intercept : bool
    effects : sequence of sequence of Factor
        Fixed effects, those with fewer factors first.
    """
    blocks: list[Block] = [()] if intercept else []
    seen: set[tuple[frozenset[str], frozenset[str]]] = {(frozenset(), frozenset())} if intercept else set()
    for effect in effects:
        numeric = frozenset(factor.name for factor in effect if not factor.categorical)
        categorical = [factor.name for factor in effect if factor.categorical]
        new = []
        for size in range(len(categorical) + 1):
            for names in itertools.combinations(categorical, size):
                if (numeric, frozenset(names)) not in seen:
                    seen.add((numeric, frozenset(names)))
                    new.append(dict.fromkeys(names, False))
        if not new:
            written = ":".join(factor.expression.text for factor in effect)
            raise ValueError(
                f"{written!r} adds nothing: the formula has the same predictor already. Remove one of them."
            )
        for coding in _merge(new):
            used = [factor for factor in effect if not factor.categorical or factor.name in coding]
            blocks.append(tuple(Coded(factor, coding.get(factor.name, False)) for factor in used))
    return tuple(blocks)


def columns_of(blocks: Sequence[Block], evaluator: Evaluator) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names of the coefficients and the design matrix, shape (rows, coefficients)."""
    names: list[str] = []
    columns: list[np.ndarray] = []
    for block in blocks:
        coded = [_coded_columns(each, evaluator) for each in block]
        # The level of the first factor changes fastest, as in R.
        for reverse in itertools.product(*reversed(coded)):
            names.append(":".join(name for name, _ in reversed(reverse)) or "Intercept")
            columns.append(np.prod([values for _, values in reverse], axis=0) * np.ones(evaluator.table.size))
    matrix = np.stack(columns, axis=1) if columns else np.zeros((evaluator.table.size, 0))
    return tuple(names), matrix


def _coded_columns(coded: Coded, evaluator: Evaluator) -> list[tuple[str, Any]]:
    """Return name and values of each column of a factor."""
    factor = coded.factor
    if not factor.categorical:
        return [(factor.name, evaluator.numbers(factor.expression))]
    levels, positions = evaluator.levels(factor.name)
    kept = range(0 if coded.full else 1, len(levels))
    return [(f"{factor.name}[{label(levels[i])}]", (positions == i).astype(np.float64)) for i in kept]


def _merge(codings: Sequence[dict[str, bool]]) -> list[dict[str, bool]]:
    """Return fewer codings with the same span: a factor with all levels replaces two codings that differ by it."""
    merged = list(codings)
    for short, long in itertools.combinations(merged, 2):
        extra = set(long) - set(short)
        shared = all(long.get(name) == full for name, full in short.items())
        if shared and len(extra) == 1:
            rest = [coding for coding in merged if coding is not short]
            return _merge([{**long, next(iter(extra)): True} if coding is long else coding for coding in rest])
    return merged
