"""Read the programs (jaxprs) that JAX traces. No other module reads them.

`jax.extend.core` is meant for other libraries, but may change. Without it a function is compiled as it is: again for
new data, and without knowledge of its operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

from ellipslice.undocumented.registry import first_line, note

ITEM = "reading programs"
NAMES = "names of traced functions"
SOFTPLUS = "_softplus"
"""Name by which the softplus function of `likelihoods/base.py` is recognised in a program."""


@cache
def core() -> Any:
    """Return the module `jax.extend.core`. If it cannot be used, return the reason as text."""
    try:
        from jax.extend import core as module

        _ = module.ClosedJaxpr, module.Jaxpr, module.Literal, module.jaxpr_as_fun
    except Exception as error:  # noqa: BLE001  a future release may raise anything
        return first_line(error)
    return module


def probe() -> str | None:
    """Return why programs cannot be read; None if they can."""
    module = core()
    return f"jax.extend.core has changed ({module})" if isinstance(module, str) else None


def can_read() -> bool:
    """Return whether programs can be read. If not, record the fallback."""
    why = probe()
    if why is not None:
        note(ITEM, why)
    return why is None


def probe_names() -> str | None:
    """Return why functions inside a program cannot be recognised; None if they can."""
    if isinstance(core(), str):
        return "programs cannot be read"
    traced = jax.make_jaxpr(jax.jit(_named))(0.0)
    names = [called_name(equation) for equation in traced.jaxpr.eqns if parts(equation)]
    return None if names == ["_named"] else f"a function has the name {names} in its program"


def _named(x: Any) -> Any:
    return x + 1.0


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside a jitted one, which would hide its data. Return any other function unchanged."""
    if not isinstance(function, _jitted()):
        return function
    inner = getattr(function, "__wrapped__", None)
    if inner is None:
        note(ITEM, "the function inside a jitted one cannot be found")
        return function
    return inner


@cache
def _jitted() -> type:
    return type(jax.jit(_named))


def run(jaxpr: Any, data: Any, *arguments: Any) -> list[Any]:
    """Return the results of a program for data and arguments."""
    module = core()
    return module.jaxpr_as_fun(module.ClosedJaxpr(jaxpr, data))(*arguments)


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yield all operations of a program, including those of inner programs."""
    module = core()
    for equation in jaxpr.eqns:
        yield equation
        for part in parts(equation):
            yield from equations(part.jaxpr if isinstance(part, module.ClosedJaxpr) else part)


def parts(equation: Any) -> list[Any]:
    """Return the inner programs of an operation."""
    module = core()
    kinds = module.ClosedJaxpr, module.Jaxpr
    values = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda value: isinstance(value, kinds))
    return [value for value in values if isinstance(value, kinds)]


def inner_program(equation: Any) -> tuple[Any, Sequence[Any]]:
    """Return the program that an operation calls, and its constants."""
    module = core()
    inner = next(value for value in equation.params.values() if isinstance(value, module.ClosedJaxpr | module.Jaxpr))
    return (inner.jaxpr, inner.consts) if isinstance(inner, module.ClosedJaxpr) else (inner, [])


def called_name(equation: Any) -> str:
    """Return the name of the function that an operation calls. If unknown, return "" and record the fallback."""
    name = getattr(getattr(inner_program(equation)[0], "debug_info", None), "func_name", None)
    if not isinstance(name, str):
        note(NAMES, "programs do not contain them")
        return ""
    return name


def is_literal(variable: Any) -> bool:
    """Return whether an argument of an operation is a literal number of the program."""
    return isinstance(variable, core().Literal)


def has_hidden_data(jaxpr: Any) -> bool:
    """Return whether a program contains arrays that cannot be separated from it as data."""
    module = core()
    return any(
        any(is_literal(variable) and np.ndim(variable.val) > 0 for variable in equation.invars)
        or any(isinstance(part, module.ClosedJaxpr) and bool(part.consts) for part in parts(equation))
        for equation in equations(jaxpr)
    )


def operations(jaxpr: Any) -> frozenset[str]:
    """Return the names of all operations of a program."""
    return frozenset(equation.primitive.name for equation in equations(jaxpr))


def largest_result(jaxpr: Any) -> int:
    """Return the number of elements of the largest array that an operation returns."""
    made = (variable for equation in equations(jaxpr) for variable in equation.outvars)
    return max((math.prod(variable.aval.shape) for variable in made), default=0)


def read(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the program of a function of arrays, which may be tracers; None if programs cannot be read."""
    if not can_read():
        return None
    # A new function each time, because JAX caches traces by function, with constants of another precision.
    return jax.make_jaxpr(lambda *arguments: function(*arguments))(*arguments).jaxpr
