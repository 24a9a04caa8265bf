"""What a function does, as JAX traced it: the only place that reads such programs.

`jax.extend.core` is offered to other libraries, without a promise to stay. Without it a function is compiled as it is:
anew for its data, with nothing known of its operations.
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
NAMES = "names of functions"
SOFTPLUS = "_softplus"
"""The name by which readers know our own softplus: that of a function in `likelihoods/base.py`."""


@cache
def core() -> Any:
    """The module, or why there is none."""
    try:
        from jax.extend import core as module

        _ = module.ClosedJaxpr, module.Jaxpr, module.Literal, module.jaxpr_as_fun
    except Exception as error:  # noqa: BLE001  whatever a release to come does
        return first_line(error)
    return module


def probe() -> str | None:
    """Return why programs cannot be read; None if they can."""
    module = core()
    return f"jax.extend.core is not as it was ({module})" if isinstance(module, str) else None


def can_read() -> bool:
    """Whether programs can be read. If not, it is noted."""
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
    """The function inside one made by `jax.jit`, which would hide its data; any other one as it is."""
    if not isinstance(function, _jitted()):
        return function
    inner = getattr(function, "__wrapped__", None)
    if inner is None:
        note(ITEM, "the function inside one made by jax.jit is not known")
        return function
    return inner


@cache
def _jitted() -> type:
    return type(jax.jit(_named))


def run(jaxpr: Any, data: Any, *arguments: Any) -> list[Any]:
    """What a program makes of data and arguments."""
    module = core()
    return module.jaxpr_as_fun(module.ClosedJaxpr(jaxpr, data))(*arguments)


def equations(jaxpr: Any) -> Iterator[Any]:
    """All operations, those of inner programs too."""
    module = core()
    for equation in jaxpr.eqns:
        yield equation
        for part in parts(equation):
            yield from equations(part.jaxpr if isinstance(part, module.ClosedJaxpr) else part)


def parts(equation: Any) -> list[Any]:
    """The programs that an operation has inside."""
    module = core()
    kinds = module.ClosedJaxpr, module.Jaxpr
    values = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda value: isinstance(value, kinds))
    return [value for value in values if isinstance(value, kinds)]


def inner_program(equation: Any) -> tuple[Any, Sequence[Any]]:
    """The program that an operation calls, and its constants."""
    module = core()
    inner = next(value for value in equation.params.values() if isinstance(value, module.ClosedJaxpr | module.Jaxpr))
    return (inner.jaxpr, inner.consts) if isinstance(inner, module.ClosedJaxpr) else (inner, [])


def called_name(equation: Any) -> str:
    """The name of the function that an operation calls; empty if it is not known, which is noted."""
    name = getattr(getattr(inner_program(equation)[0], "debug_info", None), "func_name", None)
    if not isinstance(name, str):
        note(NAMES, "programs do not have them")
        return ""
    return name


def is_literal(variable: Any) -> bool:
    """Whether an argument of an operation is a number in the program."""
    return isinstance(variable, core().Literal)


def has_hidden_data(jaxpr: Any) -> bool:
    """Whether there are arrays inside a program that could not be taken out of it."""
    module = core()
    return any(
        any(is_literal(variable) and np.ndim(variable.val) > 0 for variable in equation.invars)
        or any(isinstance(part, module.ClosedJaxpr) and bool(part.consts) for part in parts(equation))
        for equation in equations(jaxpr)
    )


def operations(jaxpr: Any) -> frozenset[str]:
    """The names of all operations."""
    return frozenset(equation.primitive.name for equation in equations(jaxpr))


def largest_result(jaxpr: Any) -> int:
    """The number of values in the largest array that an operation returns."""
    made = (variable for equation in equations(jaxpr) for variable in equation.outvars)
    return max((math.prod(variable.aval.shape) for variable in made), default=0)


def read(function: Callable[..., Any], *arguments: Any) -> Any:
    """The program of a function of arrays, which may be tracers; None if it cannot be read."""
    if not can_read():
        return None
    # Through a new function each time: of one that it has met, JAX may remember constants in another precision.
    return jax.make_jaxpr(lambda *arguments: function(*arguments))(*arguments).jaxpr
