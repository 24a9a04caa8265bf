"""Expressions in a formula: arithmetic with columns, and arguments of structured terms.

Both are parsed with Python's `ast`, and then evaluated node by node. Only the nodes that are listed here are evaluated,
so a formula cannot run other code.
"""

from __future__ import annotations

import ast
import difflib
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ellipslice.latent.formula.advice import unknown_function, unreadable
from ellipslice.latent.formula.tokens import Token, source

ELEMENTWISE = ("log", "exp", "sqrt", "abs")
"""Functions that NumPy applies to each element."""
STATEFUL = ("scale", "center")
"""Functions that use statistics of the data of the fit, also for new data.

`center` subtracts the mean. `scale` also divides by the standard deviation (with n - 1, as in R and pandas)."""
COLUMN_FUNCTIONS = (*ELEMENTWISE, *STATEFUL, "I", "C", "factor")

OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
"""Arithmetic that is allowed in expressions of columns and in arguments."""


@dataclass(frozen=True)
class Expression:
    """A parsed Python expression. Two expressions are equal if their text in standard form is."""

    text: str
    node: ast.expr = field(compare=False, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names that are columns, without names of functions."""
        return tuple(dict.fromkeys(_names(self.node)))

    @property
    def column(self) -> str | None:
        """Column if the expression is only its name, otherwise None."""
        return self.node.id if isinstance(self.node, ast.Name) else None

    @property
    def factor_column(self) -> str | None:
        """Column of `C(column)`, otherwise None."""
        match self.node:
            case ast.Call(func=ast.Name(id="C"), args=[ast.Name(id=column)]):
                return column
        return None


def column_expression(name: str) -> Expression:
    """Return the expression that is one column. `name` may be in backticks."""
    plain = name.strip("`")
    return Expression(plain, ast.Name(id=plain, ctx=ast.Load()))


def read_expression(text: str, tokens: Sequence[Token]) -> Expression:
    """Return the Python expression of some tokens of a formula. Raise ValueError if it is not valid Python."""
    written = source(text, tokens)
    position, pieces = tokens[0].start, []
    for token in tokens:
        pieces += [text[position : token.start], _encode(token)]
        position = token.end
    try:
        tree = ast.parse("".join(pieces).strip(), mode="eval")
    except (SyntaxError, ValueError):
        raise ValueError(unreadable(written)) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = _decode(node.id)
    return Expression(ast.unparse(tree.body), tree.body)


def read_column_expression(text: str, tokens: Sequence[Token], known: Sequence[str]) -> Expression:
    """Return an expression of columns: names, numbers, arithmetic and functions. Raise if it contains anything else.

    `factor(x)` becomes `C(x)`. `known` are the functions that messages name.
    """
    expression = read_expression(text, tokens)
    _check_columns(expression.node, source(text, tokens), known)
    for node in ast.walk(expression.node):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "C" and node is not expression.node:
            raise ValueError(
                f"{ast.unparse(node)} in {source(text, tokens)!r} gives levels, not numbers. Write it as a predictor "
                "or as part of an interaction with :."
            )
    return Expression(ast.unparse(expression.node), expression.node)


def read_argument(text: str, tokens: Sequence[Token], call: str) -> Expression:
    """Return the expression of an argument of a structured term. Raise if it contains code that is not evaluated."""
    expression = read_expression(text, tokens)
    allowed = (ast.Constant, ast.Name, ast.Load, ast.Tuple, ast.List, ast.Dict, ast.BinOp, ast.UnaryOp, ast.keyword)
    for node in ast.walk(expression.node):
        simple_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if not (simple_call or isinstance(node, (*allowed, *OPERATORS))):
            raise ValueError(
                f"{source(text, tokens)!r} in {call} is not evaluated. Expected numbers, strings, names of variables, "
                "arithmetic and calls of known functions. Assign it to a variable first, and write the variable's name."
            )
    return expression


def evaluate_argument(
    expression: Expression, names: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]], call: str
) -> Any:
    """Return the value of an argument of a structured term.

    Parameters
    ----------
    expression : Expression
    names : mapping
        The caller's variables.
    functions : mapping
        Functions that arguments may call.
    call : str
        The structured term, for messages.
    """

    def value(node: Any) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return _look_up(node.id, names, call)
            case ast.Tuple():
                return tuple(map(value, node.elts))
            case ast.List():
                return list(map(value, node.elts))
            case ast.Dict():
                return dict(zip(map(value, node.keys), map(value, node.values), strict=True))
            case ast.BinOp():
                return OPERATORS[type(node.op)](value(node.left), value(node.right))
            case ast.UnaryOp():
                return OPERATORS[type(node.op)](value(node.operand))
            case _:
                function = _function(node.func.id, functions, call)
                return function(*map(value, node.args), **{each.arg: value(each.value) for each in node.keywords})

    return value(expression.node)


def _look_up(name: str, names: Mapping[str, Any], call: str) -> Any:
    """Return a variable. Raise, with similar names, if there is none."""
    if name in names:
        return names[name]
    known = {"TRUE": "True", "FALSE": "False", "T": "True", "F": "False", "NULL": "None", "true": "True"}
    similar = [known[name]] if name in known else difflib.get_close_matches(name, map(str, names), n=1)
    meant = f" Did you mean {similar[0]}?" if similar else ""
    raise ValueError(f"{call}: there is no variable {name!r}.{meant} Define {name} before the formula is used.")


def _function(name: str, functions: Mapping[str, Callable[..., Any]], call: str) -> Callable[..., Any]:
    """Return a function that arguments may call. Raise if it is not known."""
    if name in functions:
        return functions[name]
    known = ", ".join(functions) or "none"
    raise ValueError(
        f"{call}: {name}(...) cannot be called in a formula. Functions that can be called in arguments: {known}. "
        f"Assign the result to a variable first, and write the variable's name."
    )


def _check_columns(node: ast.expr, written: str, known: Sequence[str]) -> None:
    """Raise if a node of an expression of columns is not allowed. Replace `factor` by `C`."""
    match node:
        case ast.Name():
            return
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and abs(value) < 1e300:
            return
        case ast.BinOp() if type(node.op) in OPERATORS:
            _check_columns(node.left, written, known)
            _check_columns(node.right, written, known)
        case ast.UnaryOp() if type(node.op) in OPERATORS:
            _check_columns(node.operand, written, known)
        case ast.Call(func=ast.Name(id=name)):
            if name not in COLUMN_FUNCTIONS:
                raise ValueError(unknown_function(name, written, known))
            if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
                raise ValueError(
                    f"{name} has one argument, a column or an expression, but the formula has {written!r}."
                )
            if name in ("C", "factor"):
                _check_factor(node, written)
            _check_columns(node.args[0], written, known)
        case _:
            raise ValueError(unreadable(written))


def _check_factor(node: ast.Call, written: str) -> None:
    """Raise if `C(...)` is not of a column. Write `factor` as `C`."""
    if not isinstance(node.args[0], ast.Name):
        raise ValueError(f"{written!r} is not supported: C requires the name of a column. Compute a new column first.")
    node.func = ast.Name(id="C", ctx=ast.Load())


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names in an expression, without those of functions."""
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.Call) and child is node.func):
            yield from _names(child)


def _encode(token: Token) -> str:
    """Return a token as Python reads it. Names that are not ASCII are encoded, because Python changes some letters."""
    if token.kind == "quoted" or (token.kind == "name" and not token.text.isascii()):
        return f"quoted_{token.text.strip('`').encode().hex()}"
    return token.text


def _decode(name: str) -> str:
    """Return the name that `_encode` has encoded."""
    match = re.fullmatch(r"quoted_((?:[0-9a-f]{2})+)", name)
    return bytes.fromhex(match[1]).decode() if match else name
