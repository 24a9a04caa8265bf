"""Replace LAPACK operations on a batch of matrices by loops over single matrices.

On a batch, LAPACK can deadlock in XLA's threads (see `operations.py`). A program is read, and traced again with a loop
in place of each such operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax

from ellipslice.undocumented.jaxprs import ITEM, can_read, core, equations, inner_program, is_literal, parts, run
from ellipslice.undocumented.operations import COMPILED, MATRICES
from ellipslice.undocumented.registry import first_line, note

_INLINE = ("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint")
_CUSTOM = ("custom_jvp_call", "custom_vjp_call")


def never_waits(jaxpr: Any) -> bool:
    """Return whether no operation can wait in XLA's threads: all are known, and LAPACK has one matrix at a time."""
    for equation in equations(jaxpr):
        name = equation.primitive.name
        if name not in COMPILED and (name not in MATRICES or _batch(equation) != ()):
            return False
    return True


def _batch(equation: Any) -> tuple[int, ...] | None:
    """Return the lengths of the batch axes of a LAPACK operation; None if they differ between arguments."""
    shapes = [variable.aval.shape for variable in equation.invars]
    count = len(shapes[0]) - MATRICES[equation.primitive.name]
    axes = shapes[0][:count]
    results = [variable.aval.shape for variable in equation.outvars]
    return axes if all(shape[:count] == axes for shape in (*shapes, *results)) else None


def _has_batches(jaxpr: Any) -> bool:
    return any(equation.primitive.name in MATRICES and _batch(equation) != () for equation in equations(jaxpr))


def by_single_matrices(traced: Any) -> Any:
    """Return an equal program with its constants, in which LAPACK operations have one matrix at a time."""
    if not _has_batches(traced.jaxpr):
        return traced

    def rewritten(*arguments: Any) -> list[Any]:
        return _by_single_matrices(traced.jaxpr, traced.consts, arguments)

    try:
        return jax.make_jaxpr(rewritten)(*traced.in_avals)
    except Exception as error:  # noqa: BLE001  programs of a future release may contain anything
        note(ITEM, f"a batch of matrices could not be replaced by a loop ({first_line(error)})")
        return traced


def one_matrix_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an equal function of arrays, in which LAPACK operations have one matrix at a time.

    Call it while JAX traces. A function without batches of matrices is called unchanged.
    """

    def rewritten(*arguments: Any) -> Any:
        if not can_read():
            return function(*arguments)
        traced, shape = jax.make_jaxpr(lambda *arguments: function(*arguments), return_shape=True)(*arguments)
        single = by_single_matrices(traced)
        if single is traced:
            return function(*arguments)
        return jax.tree.unflatten(
            jax.tree.structure(shape), run(single.jaxpr, single.consts, *jax.tree.leaves(arguments))
        )

    return rewritten


def _by_single_matrices(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """Evaluate a program, with loops in place of operations on batches of matrices."""
    values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def value(variable: Any) -> Any:
        return variable.val if is_literal(variable) else values[variable]

    for equation in jaxpr.eqns:
        results = _apply(equation, [value(variable) for variable in equation.invars])
        values.update(zip(equation.outvars, results, strict=True))
    return [value(variable) for variable in jaxpr.outvars]


def _bind(equation: Any, inputs: Sequence[Any]) -> list[Any]:
    results = equation.primitive.bind(*inputs, **equation.primitive.get_bind_params(equation.params))
    return list(results) if equation.primitive.multiple_results else [results]


def _apply(equation: Any, inputs: list[Any]) -> list[Any]:
    """Return the results of an operation. A batch of matrices is processed one after the other."""
    name, closed = equation.primitive.name, core().ClosedJaxpr
    if name in MATRICES and (batch := _batch(equation)):
        count, axes = math.prod(batch), len(batch)
        flat = [value.reshape(count, *value.shape[axes:]) for value in map(jax.numpy.asarray, inputs)]
        results = lax.map(lambda each: _bind(equation, each), flat)
        return [result.reshape(*batch, *result.shape[1:]) for result in results]
    if not any(_has_batches(part.jaxpr if isinstance(part, closed) else part) for part in parts(equation)):
        return _bind(equation, inputs)
    params = equation.params
    if name in _INLINE:
        return _by_single_matrices(*inner_program(equation), inputs)
    if name in _CUSTOM:
        return _with_own_derivative(equation, inputs)
    if name == "custom_linear_solve":
        return _solved(params, inputs)
    if name == "cond":
        branches = [_closed(branch) for branch in params["branches"]]
        return lax.switch(inputs[0], branches, *inputs[1:])
    if name == "scan":
        return _scanned(params, inputs)
    if name == "while":
        return _looped(params, inputs)
    raise NotImplementedError(f"a batch of matrices inside {name}")


def _closed(program: Any) -> Callable[..., list[Any]]:
    return lambda *inputs: _by_single_matrices(program.jaxpr, program.consts, inputs)


def _with_own_derivative(equation: Any, inputs: list[Any]) -> list[Any]:
    """Return the results of a function with a custom derivative, which is preserved."""

    def primal(*inputs: Any) -> list[Any]:
        return _by_single_matrices(*inner_program(equation), inputs)

    def unchanged(*inputs: Any) -> list[Any]:
        return _bind(equation, inputs)

    if equation.primitive.name == "custom_jvp_call":
        forward = jax.custom_jvp(primal)
        forward.defjvp(lambda values, slopes: jax.jvp(unchanged, values, slopes))
        return forward(*inputs)
    backward = jax.custom_vjp(primal)
    backward.defvjp(lambda *inputs: jax.vjp(unchanged, *inputs), lambda transposed, slopes: transposed(slopes))
    return backward(*inputs)


def _solved(params: Any, inputs: list[Any]) -> list[Any]:
    """Return the solution of a linear system, whose custom derivative is preserved."""
    lengths, programs, start = params["const_lengths"], params["jaxprs"], 0
    functions: dict[str, Callable[[list[Any]], list[Any]] | None] = {}
    for name, length in zip(lengths._fields, lengths, strict=True):
        consts, program = inputs[start : start + length], getattr(programs, name)
        functions[name] = None if program is None else _partly(_closed(program), consts)
        start += length
    matvec, solve, transposed = (functions[name] for name in ("matvec", "solve", "transpose_solve"))
    assert matvec is not None and solve is not None  # noqa: S101, PT018  every linear system has them
    return lax.custom_linear_solve(
        matvec,
        inputs[start:],
        lambda _, sides: solve(sides),
        None if transposed is None else lambda _, sides: transposed(sides),
    )


def _partly(function: Callable[..., list[Any]], consts: list[Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda values: function(*consts, *values)


def _scanned(params: Any, inputs: list[Any]) -> list[Any]:
    fixed, carried = params["num_consts"], params["num_carry"]
    body = _closed(params["jaxpr"])

    def one(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        results = body(*inputs[:fixed], *carry, *row)
        return results[:carried], results[carried:]

    carry, rows = inputs[fixed : fixed + carried], inputs[fixed + carried :]
    last, made = lax.scan(one, carry, rows, length=params["length"], reverse=params["reverse"], unroll=params["unroll"])
    return [*last, *made]


def _looped(params: Any, inputs: list[Any]) -> list[Any]:
    first = params["cond_nconsts"]
    second = first + params["body_nconsts"]
    condition, body = _closed(params["cond_jaxpr"]), _closed(params["body_jaxpr"])
    return lax.while_loop(
        lambda carry: condition(*inputs[:first], *carry)[0],
        lambda carry: body(*inputs[first:second], *carry),
        inputs[second:],
    )
