"""The right side of a formula, read from left to right.

sum          product + product - product ...
product      interaction * interaction ...
interaction  atom : atom ...
atom         0, 1, column, function(...), offset(...), term(...), (sum), (sum | groups), (sum || groups)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ellipslice.latent.formula import advice
from ellipslice.latent.formula.expressions import (
    COLUMN_FUNCTIONS,
    Expression,
    column_expression,
    read_argument,
    read_column_expression,
)
from ellipslice.latent.formula.groups import group_effects, read_groups
from ellipslice.latent.formula.syntax import FixedEffect, Intercept, Item, Offset, TermCall
from ellipslice.latent.formula.tokens import Token, end_of_call, is_operator, source, split


class _Part(NamedTuple):
    """Items of a product, and whether they are added or removed."""

    added: bool
    items: tuple[Item, ...]
    written: str


class Reader:
    """Reads the right side of a formula. `everything` returns its items."""

    def __init__(self, text: str, tokens: Sequence[Token], terms: Sequence[str], known: Sequence[str]) -> None:
        self._text, self._tokens, self._terms, self._known = text, tokens, terms, known
        self._at = 0

    def everything(self) -> list[Item]:
        """Return the items of the whole side."""
        items = self._sum()
        token = self._peek()
        if is_operator(token, "|", "||"):
            raise ValueError(f"write a group-level effect in parentheses: (1 | group), in {self._text!r}.")
        if token is not None:
            before = self._tokens[self._at - 1].text
            raise ValueError(f"expected + or another operator between {before!r} and {token.text!r} in {self._text!r}.")
        return items

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *operators: str) -> bool:
        """Return whether the next token is one of some operators, and move past it."""
        taken = is_operator(self._peek(), *operators)
        self._at += taken
        return taken

    def _written(self, start: int) -> str:
        """Return the text from the token with index `start` to the last token that was read."""
        return source(self._text, self._tokens[start : self._at])

    def _sum(self) -> list[Item]:
        parts = []
        while True:
            added = True
            while is_operator(self._peek(), "+", "-"):
                minus = self._take("-") or not self._take("+")
                added = added != minus
            start = self._at
            items = self._product()
            parts.append(_Part(added, items, self._written(start)))
            if not is_operator(self._peek(), "+", "-"):
                return _collect(parts)

    def _product(self) -> tuple[Item, ...]:
        start = self._at
        items = self._interaction()
        while is_operator(self._peek(), "*", "/"):
            if self._take("/"):
                self._at += self._peek() is not None
                written = self._written(start)
                raise ValueError(
                    f"{written!r} is not supported. Write I({written}) for a quotient, or a + a:b for levels of b in a."
                )
            self._take("*")
            right = self._interaction()
            items = _unique((*items, *right, *self._cross(items, right, start)))
        return items

    def _interaction(self) -> tuple[Item, ...]:
        start = self._at
        items = self._atom()
        while self._take(":"):
            items = self._cross(items, self._atom(), start)
        return items

    def _cross(self, left: Sequence[Item], right: Sequence[Item], start: int) -> tuple[Item, ...]:
        """Return the interactions of the items on both sides of an operator."""
        written = self._written(start)
        crossed = []
        for a in left:
            for b in right:
                if not (isinstance(a, FixedEffect) and isinstance(b, FixedEffect)):
                    other = b if isinstance(a, FixedEffect) else a
                    raise ValueError(
                        f"{str(other)!r} cannot be part of the interaction {written!r}. Expected columns and functions "
                        "of columns. Write products with numbers as I(2 * x)."
                    )
                if a.key & b.key:
                    name = next(iter(a.key & b.key))
                    raise ValueError(
                        f"{written!r} is an interaction of {name} with itself. Write I({name}**2) for a square."
                    )
                crossed.append(FixedEffect((*a.factors, *b.factors)))
        return _unique(crossed)

    def _atom(self) -> tuple[Item, ...]:
        start, token = self._at, self._peek()
        if token is None:
            raise ValueError(
                f"the formula {self._text!r} ends after {self._tokens[self._at - 1].text!r}. Expected a predictor."
            )
        self._at += 1
        if token.kind == "number":
            items = self._number(token)
        elif token.kind in ("name", "quoted"):
            items = self._named(token)
        elif is_operator(token, "("):
            items = self._parentheses(start)
        elif is_operator(token, "."):
            raise ValueError("'.' (all other columns) is not supported. Name the columns: y ~ x1 + x2.")
        else:
            raise ValueError(
                f"unexpected {token.text!r} in {self._text!r}. Expected a column, a function, 0, 1 or parentheses."
            )
        written = self._written(start)
        sign = self._peek()
        if sign and self._take("^", "**"):
            exponent = self._peek()
            raise ValueError(advice.power(written, sign.text, exponent.text if exponent else "2"))
        return items

    def _number(self, token: Token) -> tuple[Item, ...]:
        if token.text not in ("0", "1"):
            raise ValueError(
                f"the number {token.text} is not a predictor in {self._text!r}. Expected 1 (an intercept) or 0 (none). "
                f"Write arithmetic as I({token.text} * x), and a known constant as offset({token.text})."
            )
        return (Intercept(token.text == "1"),)

    def _named(self, token: Token) -> tuple[Item, ...]:
        """Return the items of a column, a function or a structured term, whose first token was read."""
        start = self._at - 1
        while token.kind == "name" and self._take("."):
            self._at += self._peek() is not None
        if self._at > start + 1:
            raise ValueError(advice.dotted(self._written(start), is_operator(self._peek(), "(")))
        if token.kind == "quoted" or not is_operator(self._peek(), "("):
            return (FixedEffect((column_expression(token.text),)),)
        end = end_of_call(self._tokens, self._at)
        call, inside = self._tokens[start : end + 1], self._tokens[self._at + 1 : end]
        self._at = end + 1
        if token.text == "offset":
            return (Offset(self._one_argument(call, inside)),)
        if token.text in self._terms:
            return (self._term(token.text, call, inside),)
        if token.text not in COLUMN_FUNCTIONS:
            raise ValueError(advice.unknown_function(token.text, source(self._text, call), self._known))
        return (FixedEffect((self._columns(call),)),)

    def _columns(self, tokens: Sequence[Token]) -> Expression:
        return read_column_expression(self._text, tokens, self._known)

    def _one_argument(self, call: Sequence[Token], inside: Sequence[Token]) -> Expression:
        if not inside or len(split(inside, ",")) > 1:
            raise ValueError(
                f"offset has one argument, a column or an expression, but it is {source(self._text, call)!r}."
            )
        return self._columns(inside)

    def _term(self, kind: str, call: Sequence[Token], inside: Sequence[Token]) -> TermCall:
        """Return a structured term."""
        written = source(self._text, call)
        columns: list[tuple[Expression, ...]] = []
        options: dict[str, Expression] = {}
        weights = None
        for tokens in split(inside, ",") if inside else ():
            keyword = tokens[0].text if len(tokens) > 2 and is_operator(tokens[1], "=") else None
            if not tokens or (keyword and (keyword in options or (keyword == "weights" and weights))):
                problem = f"the argument {keyword} twice" if tokens else "an empty argument"
                raise ValueError(f"{written} has {problem}. Remove it.")
            if keyword == "weights":
                weights = self._columns(tokens[2:])
            elif keyword:
                options[keyword] = read_argument(self._text, tokens[2:], written)
            else:
                columns.append(tuple(_without_factor(self._columns(part)) for part in split(tokens, ":") if part))
        if not columns or not all(each.columns for crossed in columns for each in crossed):
            raise ValueError(
                f"{written} has an argument that is not a column. Expected columns, and then arguments with keywords, "
                f"for example {kind}(x, prior=p)."
            )
        return TermCall(kind, tuple(columns), weights, tuple(options.items()))

    def _parentheses(self, start: int) -> tuple[Item, ...]:
        """Return the items in parentheses, of which the first was read: a sum, or group-level effects."""
        items = self._sum()
        effects = self._written(start + 1)
        bar = self._peek()
        if is_operator(bar, "|", "||"):
            end = end_of_call(self._tokens, start)
            groups = self._tokens[self._at + 1 : end]
            self._at = end + 1
            written = self._written(start)
            crossings = read_groups(self._text, groups, effects, written)
            return group_effects(items, effects, crossings, written, independent=bar is not None and bar.text == "||")
        if not self._take(")"):
            found = bar.text if bar else "the end"
            raise ValueError(f"expected + or another operator before {found!r} in {self._text!r}.")
        return tuple(items)


def _without_factor(expression: Expression) -> Expression:
    """Return the column of `C(column)`, because structured terms have a level for each value anyway."""
    return column_expression(expression.factor_column) if expression.factor_column else expression


def _unique(items: Sequence[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))


def _collect(parts: Sequence[_Part]) -> list[Item]:
    """Return the items of a sum. Raise if a part occurs twice, or if one is removed that does not occur."""
    items: list[Item] = []
    seen: set[frozenset[Item]] = set()
    for part in parts:
        if part.added:
            if frozenset(part.items) in seen:
                raise ValueError(f"{part.written!r} is in the formula twice. Remove one of them.")
            seen.add(frozenset(part.items))
            items = list(_unique((*items, *part.items)))
            continue
        for item in part.items:
            if item == Intercept(True):
                items.append(Intercept(False))
            elif item in items and isinstance(item, FixedEffect):
                items.remove(item)
            else:
                raise ValueError(
                    f"'- {part.written}' removes a predictor that is not in the formula before it. Remove it."
                )
    return items
