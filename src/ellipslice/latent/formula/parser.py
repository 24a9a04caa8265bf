"""Formulas of latent Gaussian models: from text to the parts of a formula. `reader` has the grammar."""

from __future__ import annotations

from collections.abc import Sequence

from ellipslice.latent.formula.design import Formula
from ellipslice.latent.formula.expressions import (
    COLUMN_FUNCTIONS,
    Expression,
    column_expression,
    read_column_expression,
)
from ellipslice.latent.formula.reader import Reader
from ellipslice.latent.formula.syntax import FixedEffect, Intercept, Item, Offset, TermCall
from ellipslice.latent.formula.tokens import Token, is_operator, source, split, tokenise
from ellipslice.latent.terms import REGISTERED, Fixed

TERMS = tuple(kind.__name__.lower() for kind in REGISTERED if kind is not Fixed)
"""Structured terms that a formula may contain, if no others are given."""
EXAMPLE = '"y ~ 1 + x + (1 | group)"'


def parse(text: str, *, terms: Sequence[str] = TERMS) -> Formula:
    """Return the parts of a formula. No data are needed.

    Parameters
    ----------
    text : str
        Formula, for example ``"deaths ~ 1 + x + rw2(age) + (1 | hospital) + offset(log(E))"``.
    terms : sequence of str
        Names of the structured terms.

    Raises
    ------
    TypeError
        If `text` is not a string.
    ValueError
        If the formula is not valid.

    Examples
    --------
    >>> formula = parse("y ~ x * sex + rw2(age) + (1 | clinic)")
    >>> formula
    Formula('y ~ x * sex + rw2(age) + (1 | clinic)')
    >>> design = formula.design(
    ...     {"y": [1, 2, 4, 3], "x": [0, 1, 1, 3], "sex": list("fmfm"), "age": [40, 50, 60, 70], "clinic": list("aabb")}
    ... )
    >>> design.names
    ('Intercept', 'x', 'sex[m]', 'x:sex[m]')
    >>> [f"{term.name}: {term.kind}" for term in design.terms]
    ['age: rw2', 'clinic: iid']
    """
    if not isinstance(text, str):
        raise TypeError(f"a formula must be a string, for example {EXAMPLE}, but it is {text!r}.")
    tokens = tokenise(text)
    left, right = _sides(text, tokens)
    known = (*COLUMN_FUNCTIONS, "offset", *terms)
    try:
        response = _response(text, left, known)
        return _formula(text, response, Reader(text, right, tuple(terms), known).everything())
    except (RecursionError, MemoryError):  # both are limits of Python's parser
        raise ValueError(
            "the formula has too many nested parentheses or operators. Compute new columns first."
        ) from None


def _sides(text: str, tokens: Sequence[Token]) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """Return the tokens of the response and those of the predictors."""
    if not tokens:
        raise ValueError(f"the formula is empty. Expected a response, ~ and predictors, for example {EXAMPLE}.")
    sides = split(tokens, "~")
    if len(sides) != 2:
        found = "no ~" if len(sides) == 1 else f"~ {len(sides) - 1} times"
        write = " Write ~ instead of =." if is_operator(tokens[min(1, len(tokens) - 1)], "=") else ""
        raise ValueError(
            f"the formula {text!r} has {found}.{write} Expected one ~ between the response and the predictors, "
            f"for example {EXAMPLE}."
        )
    left, right = sides
    if not left:
        raise ValueError(f"the formula {text!r} has no response before ~. Expected, for example, {EXAMPLE}.")
    if not right:
        raise ValueError(
            f"the formula {text!r} has nothing after ~. Write {source(text, left)} ~ 1 for an intercept only."
        )
    return left, right


def _response(text: str, tokens: Sequence[Token], known: Sequence[str]) -> Expression:
    """Return the expression of the response."""
    if len(tokens) == 1 and tokens[0].kind in ("name", "quoted"):
        return column_expression(tokens[0].text)
    expression = read_column_expression(text, tokens, [name for name in known if name in COLUMN_FUNCTIONS])
    if not expression.columns:
        raise ValueError(f"the response {expression.text!r} has no column. Write the column of the response before ~.")
    return expression


def _formula(text: str, response: Expression, items: Sequence[Item]) -> Formula:
    """Return the formula of its parsed parts. Raise if they contradict each other."""
    constants = {item.present for item in items if isinstance(item, Intercept)}
    if len(constants) == 2:
        raise ValueError(f"the formula {text!r} has an intercept, 1, and removes it, 0 or - 1. Remove one of them.")
    effects = [item for item in items if isinstance(item, FixedEffect)]
    formula = Formula(
        text,
        response,
        intercept=False not in constants,
        fixed=tuple(sorted(effects, key=lambda effect: len(effect.factors))),
        offsets=tuple(item for item in items if isinstance(item, Offset)),
        terms=tuple(item for item in items if isinstance(item, TermCall)),
    )
    if not (formula.intercept or formula.fixed or formula.terms):
        raise ValueError(f"the formula {text!r} has nothing to estimate. Add an intercept, 1, or other predictors.")
    for column in response.columns if len(response.columns) == 1 else ():
        if column in formula.predictor_columns:
            raise ValueError(
                f"{column!r} is the response and also a predictor. Remove it from one side of ~ in {text!r}."
            )
    return formula
