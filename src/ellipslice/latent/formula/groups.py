"""Group-level effects of a formula: `(1 | g)`, `(x || g)`, `(0 + x | g)` and nested groups."""

from __future__ import annotations

from collections.abc import Sequence

from ellipslice.latent.formula.expressions import Expression, column_expression
from ellipslice.latent.formula.syntax import FixedEffect, Intercept, Item, TermCall
from ellipslice.latent.formula.tokens import Token, is_operator, source, split

Crossing = tuple[Expression, ...]
"""Columns of a group: each combination of their levels is a level of the group."""


def read_groups(text: str, tokens: Sequence[Token], effects: str, written: str) -> tuple[Crossing, ...]:
    """Return the groups on the right of a bar: `g`, `g:h`, or `g/h`, which means g and g:h.

    Parameters
    ----------
    text : str
        Formula.
    tokens : sequence of Token
        Tokens of the groups.
    effects, written : str
        Left side of the bar, and the whole term, for messages.
    """
    for token in tokens:
        if is_operator(token, "+", "*"):
            names = source(text, tokens).split(token.text)
            groups = [name.strip() for name in names]
            if token.text == "*":
                groups.append(":".join(groups))
            proposal = " + ".join(f"({effects} | {group})" for group in groups)
            raise ValueError(f"{written} has {token.text!r} between groups. Write {proposal}.")
    crossings: list[Crossing] = []
    for level in split(tokens, "/"):
        inner = tuple(_group(text, part, written) for part in split(level, ":"))
        crossings.append((*(crossings[-1] if crossings else ()), *inner))
    return tuple(crossings)


def group_effects(
    items: Sequence[Item], effects: str, groups: Sequence[Crossing], written: str, *, independent: bool
) -> tuple[TermCall, ...]:
    """Return the intercepts and slopes of groups as independent effects, one `iid` term for each.

    Parameters
    ----------
    items : sequence of Item
        Left side of the bar. An intercept is included unless it is removed.
    effects : str
        Left side of the bar as it is written.
    groups : sequence of tuple of Expression
    written : str
        The whole term, for messages.
    independent : bool
        True for `||`. Otherwise several effects raise, because they would be correlated.
    """
    slopes: list[Expression | None] = []
    if Intercept(False) not in items:
        slopes.append(None)
    for item in items:
        if isinstance(item, FixedEffect) and len(item.factors) == 1:
            slopes.append(item.factors[0])
        elif isinstance(item, FixedEffect):
            product = " * ".join(factor.text for factor in item.factors)
            raise ValueError(f"{written} has the interaction {item} as a slope. Write the product as I({product}).")
        elif not isinstance(item, Intercept):
            raise ValueError(f"{item} cannot be a group-level effect in {written}. Expected 1, 0 and columns.")
    if not slopes:
        raise ValueError(f"{written} has no effect. Write (1 | group) for intercepts or (0 + x | group) for slopes.")
    if len(slopes) > 1 and not independent:
        right = written.split("|", 1)[1].strip(" )")
        raise ValueError(
            f"{written} has correlated effects, which are not supported. Write ({effects} || {right}) for independent "
            "effects."
        )
    return tuple(TermCall("iid", (group,), slope) for group in groups for slope in slopes)


def _group(text: str, tokens: Sequence[Token], written: str) -> Expression:
    """Return the column of a group."""
    inside = list(tokens)
    while len(inside) > 2 and is_operator(inside[-1], ")") and (is_operator(inside[0], "(") or _is_factor(inside)):
        inside = inside[2:-1] if _is_factor(inside) else inside[1:-1]
    if len(inside) != 1 or inside[0].kind not in ("name", "quoted"):
        raise ValueError(
            f"{written} has {source(text, tokens)!r} as a group. Expected a column, g:h or g/h. "
            "Compute a new column of labels for anything else."
        )
    return column_expression(inside[0].text)


def _is_factor(tokens: Sequence[Token]) -> bool:
    """Return whether tokens are a call of C or factor."""
    return tokens[0].text in ("C", "factor") and is_operator(tokens[1], "(")
