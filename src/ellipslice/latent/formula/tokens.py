"""Tokens of a formula: names, numbers, strings and operators, with their positions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Token(NamedTuple):
    """A piece of a formula."""

    kind: str
    """Kind: "name", "quoted" (a column name in backticks), "number", "string" or "operator"."""
    text: str
    start: int
    end: int


PATTERN = re.compile(
    r"""(?P<space>\s+)
    | (?P<quoted>`[^`]+`)
    | (?P<string>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*")
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<name>[^\W\d]\w*)
    | (?P<operator>\|\| | \*\* | // | %in% | [-+*/:|~^(),=.%<>!@&\[\]{}])""",
    re.VERBOSE,
)
OPENING = {"(": ")", "[": "]", "{": "}"}


def tokenise(text: str) -> tuple[Token, ...]:
    """Return the tokens of a formula. Raise if a character is not allowed, or if brackets are not balanced."""
    tokens, position = [], 0
    while position < len(text):
        match = PATTERN.match(text, position)
        if match is None:
            raise ValueError(
                f"the formula has {text[position]!r} at position {position + 1}, {_cannot_be(text[position])}"
            )
        if match.lastgroup != "space":
            tokens.append(Token(str(match.lastgroup), match[0], *match.span()))
        position = match.end()
    _check_brackets(text, tokens)
    return tuple(tokens)


def is_operator(token: Token | None, *texts: str) -> bool:
    """Return whether a token is one of some operators. None is the end of the formula."""
    return token is not None and token.kind == "operator" and token.text in texts


def split(tokens: Sequence[Token], operator: str) -> list[tuple[Token, ...]]:
    """Return the tokens between the operators of one kind that are outside of brackets."""
    parts: list[list[Token]] = [[]]
    for depth, token in _with_depth(tokens):
        if depth == 0 and is_operator(token, operator):
            parts.append([])
        else:
            parts[-1].append(token)
    return [tuple(part) for part in parts]


def end_of_call(tokens: Sequence[Token], opening: int) -> int:
    """Return the index of the bracket that closes the one at index `opening`."""
    return next(opening + i for i, (depth, _) in enumerate(_with_depth(tokens[opening:])) if i and depth == 0)


def source(text: str, tokens: Sequence[Token]) -> str:
    """Return the part of a formula that some tokens cover, as the user wrote it."""
    return text[tokens[0].start : tokens[-1].end] if tokens else ""


def _with_depth(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """Yield each token with the number of brackets around it. A closing bracket is outside of its pair."""
    depth = 0
    for token in tokens:
        depth -= is_operator(token, *OPENING.values())
        yield depth, token
        depth += is_operator(token, *OPENING)


def _check_brackets(text: str, tokens: Sequence[Token]) -> None:
    """Raise if brackets are not balanced."""
    opened: list[Token] = []
    for token in tokens:
        if is_operator(token, *OPENING):
            opened.append(token)
        elif is_operator(token, *OPENING.values()) and (not opened or OPENING[opened.pop().text] != token.text):
            raise ValueError(
                f"the parentheses of the formula are not balanced: the {token.text!r} at position {token.start + 1} "
                f"closes nothing, after {text[: token.start]!r}. Remove it, or add the opening one."
            )
    if opened:
        rest = text[opened[-1].start :]
        raise ValueError(
            f"the parentheses of the formula are not balanced: the {opened[-1].text!r} at position "
            f"{opened[-1].start + 1} is not closed, in {rest!r}. Add {OPENING[opened[-1].text]!r}."
        )


def _cannot_be(character: str) -> str:
    """Return the rest of the message about a character that no token begins with."""
    if character in "'\"`":
        return "which is not closed. Add the closing quotation mark."
    return "which has no meaning there. Write column names with unusual characters in backticks: `net income`."
