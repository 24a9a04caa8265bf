"""Read a log-likelihood that factorises over the elements of f: constant + sum_i term(f_i, data_i).

A GPU kernel that keeps the state of a chain in registers can evaluate only such a sum. The program that JAX traced is
therefore read. Operations that do not depend on f are computed beforehand and become data or constants. All others must
act on single elements of f and end in sums. Anything else raises `NotFactorised` with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.programs.site_program import (
    IS_NOT_ZERO,
    KERNEL,
    LOG1P_OF_EXP,
    DataArray,
    Device,
    Elementwise,
    InputIndex,
    Scalar,
    Step,
)
from ellipslice.undocumented import jaxprs
from ellipslice.undocumented.registry import first_line, note

THREADS_PER_CHAIN = 128
"""Number of threads per chain in the kernel. The state is divided into pieces of this number of elements."""

MAX_KERNEL_ELEMENTS = 4096
"""Largest number of elements of a state: more do not fit into the registers of a GPU."""


def padded_size(size: int) -> int:
    """Return the size of a state in the kernel, rounded up to complete pieces."""
    return -(-size // THREADS_PER_CHAIN) * THREADS_PER_CHAIN


class NotFactorised(Exception):  # noqa: N818  it is a result, not an error
    """Reason why a log-likelihood does not factorise over the elements of f."""


_INLINE = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
_RESHAPES = ("reshape", "squeeze", "expand_dims", "broadcast_in_dim")


def _softplus(x: Any) -> Any:
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def _log_sum(x: Any, y: Any) -> Any:
    return jnp.maximum(x, y) + jnp.log1p(jnp.exp(-jnp.abs(x - y)))


def _rewrite(name: str, inputs: list[Any]) -> Callable[..., Any] | None:
    """Return an equal form of a function with this name that `_LogForm` can use; None to keep the function."""
    if name.startswith(jaxprs.SOFTPLUS):  # the softplus of built-in likelihoods is written for another loop
        return _softplus
    numbers = [value.number if isinstance(value, _Constant) else value for value in inputs]
    known = [value for value in numbers if isinstance(value, float | int | np.ndarray | np.generic)]
    if name == "logaddexp" and known and all(np.ndim(value) == 0 and np.isfinite(value) for value in known):
        return _log_sum  # JAX's also handles two infinite arguments, which cannot occur here
    return None


class _Site(NamedTuple):
    """Value that differs between the elements of f, in any shape with `size` elements in C order."""

    index: InputIndex


class _Total(NamedTuple):
    """Sum over the elements of f, with coefficients, plus a constant."""

    terms: tuple[tuple[Any, InputIndex], ...]
    constant: Any


class _Constant(NamedTuple):
    """Known number that is equal for all elements of f."""

    number: Any


def elementwise(
    likelihood: Callable[[Any], Any], size: int, dtype: Any, device: Device, *, batched: bool = False
) -> Elementwise:
    """Return the program of one element of a log-likelihood of `size` elements. Raise `NotFactorised` if there is none.

    It may be called while JAX traces. The data of the likelihood are then tracers, and what is computed from them
    becomes part of the trace. If `batched`, the likelihood takes a batch of one vector, and its sums have an axis of
    length 1.
    """
    # A new function each time: JAX caches traces by function, and might return constants in another precision.
    traced = jax.make_jaxpr(lambda f: likelihood(f))(jax.ShapeDtypeStruct((size,), dtype))
    if not jaxprs.can_read():
        raise NotFactorised("its program cannot be read with this release of JAX")
    reader = _Reader(size, device, batched)
    try:
        (result,) = reader.read(traced.jaxpr, traced.consts, [_Site(InputIndex(0))])
    except NotFactorised:
        raise
    except Exception as error:  # JAX has traced it, so this is not an error of the user
        note(jaxprs.ITEM, f"a log-likelihood could not be read as a sum over the elements of f ({first_line(error)})")
        raise NotFactorised(f"its program could not be read ({first_line(error)})") from error
    if isinstance(result, _Site) and size == 1:
        result = _Total(((1.0, result.index),), 0.0)
    if not isinstance(result, _Total):
        raise NotFactorised("it does not end in a sum over the elements of f")
    return Elementwise(reader.data, reader.scalars, reader.steps, list(result.terms), result.constant)


class _Reader:
    """Reader of a program: it classifies values as known numbers, values of each element, and sums over elements."""

    def __init__(self, size: int, device: Device, batched: bool = False):
        self._size, self._device, self._batched = size, device, batched
        self.data: list[Any] = []
        self.scalars: list[Any] = []
        self.steps: list[Step] = []

    def read(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        """Return the results of a program, classified. Steps, data and scalars are appended to the lists."""
        values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

        def value(variable: Any) -> Any:
            return variable.val if jaxprs.is_literal(variable) else values[variable]

        for equation in jaxpr.eqns:
            inputs = [value(variable) for variable in equation.invars]
            values.update(zip(equation.outvars, self._results(equation, inputs), strict=True))
        return [value(variable) for variable in jaxpr.outvars]

    def _results(self, equation: Any, inputs: list[Any]) -> list[Any]:
        name = equation.primitive.name
        if not any(isinstance(value, _Site | _Total | _Constant) for value in inputs):
            return self._known(equation, inputs)
        if name in _INLINE:
            jaxpr, consts = jaxprs.inner_program(equation)
            if (function := _rewrite(jaxprs.called_name(equation), inputs)) is not None:
                jaxpr, consts = jax.make_jaxpr(function)(*(variable.aval for variable in equation.invars)).jaxpr, []
            return self.read(jaxpr, consts, inputs)
        shape = equation.outvars[0].aval.shape
        if any(isinstance(value, _Total) for value in inputs):
            return [self._of_totals(name, inputs)]
        if not any(isinstance(value, _Site) for value in inputs):
            return self._known(equation, [self._spread(value, equation, i) for i, value in enumerate(inputs)])
        if name in _RESHAPES and math.prod(shape) == self._size:
            return [inputs[0]]
        if name == "reduce_sum" and (shape == () or (self._batched and math.prod(shape) == 1)):
            return [_Total(((1.0, inputs[0].index),), 0.0)]
        if name not in self._device.operations:
            where = "in the fused kernel" if self._device is KERNEL else "on single elements of f"
            raise NotFactorised(f"it has the operation {name}, which is not supported {where}")
        return [self._step(equation, inputs)]

    def _known(self, equation: Any, inputs: list[Any]) -> list[Any]:
        """Return the results of an operation that does not depend on f."""
        shape = equation.outvars[0].aval.shape
        if equation.primitive.name == "broadcast_in_dim" and np.shape(inputs[0]) == () and self._is_site(shape):
            return [_Constant(inputs[0])]
        result = equation.primitive.bind(*inputs, **equation.params)
        return list(result) if equation.primitive.multiple_results else [result]

    def _is_site(self, shape: tuple[int, ...]) -> bool:
        return shape != () and math.prod(shape) == self._size

    def _spread(self, value: Any, equation: Any, position: int) -> Any:
        if not isinstance(value, _Constant):
            return value
        return jnp.broadcast_to(value.number, equation.invars[position].aval.shape)

    def _of_totals(self, name: str, inputs: list[Any]) -> _Total:
        """Return the result of an operation on sums over f, which must be linear."""
        if any(isinstance(value, _Site | _Constant) or np.ndim(value) for value in inputs if not _is_total(value)):
            raise NotFactorised("it combines a sum over f with single elements of f")
        one: Any = inputs[0]
        two: Any = inputs[-1]
        if name in ("convert_element_type", "copy", *_RESHAPES) and _is_total(one):
            return one
        if name == "neg":
            return self._scaled(one, -1.0)
        if name in ("add", "add_any", "sub"):
            one, two = (value if _is_total(value) else _Total((), value) for value in (one, two))
            two = self._scaled(two, -1.0) if name == "sub" else two
            return _Total(one.terms + two.terms, one.constant + two.constant)
        if name == "mul" and not (_is_total(one) and _is_total(two)):
            return self._scaled(two, one) if _is_total(two) else self._scaled(one, two)
        if name == "div" and not _is_total(two):
            return self._scaled(one, 1.0 / two)
        raise NotFactorised(f"it has the operation {name} on a sum over f")

    def _scaled(self, total: _Total, factor: Any) -> _Total:
        return _Total(
            tuple((self._product(coefficient, factor), index) for coefficient, index in total.terms),
            total.constant * factor,
        )

    def _product(self, coefficient: Any, factor: Any) -> Any:
        if isinstance(coefficient, Scalar):
            coefficient = self.scalars[coefficient]
        return self._number(coefficient * factor)

    def _number(self, value: Any) -> Any:
        """Return a number for the program: the number if it is known now, else the index of a scalar."""
        if not isinstance(value, jax.Array):
            return float(value)
        if not jnp.issubdtype(value.dtype, jnp.floating):
            raise NotFactorised(f"it combines f with a number of type {value.dtype}")
        self.scalars.append(value)
        return Scalar(len(self.scalars) - 1)

    def _step(self, equation: Any, inputs: list[Any]) -> _Site:
        name, references = equation.primitive.name, tuple(self._reference(value) for value in inputs)
        if name == "log1p" and self._made_by(references[0], "exp", "neg", "abs"):
            name = LOG1P_OF_EXP
        self.steps.append(Step(name, equation.primitive, equation.params, references))
        return _Site(InputIndex(len(self.steps)))

    def _reference(self, value: Any) -> Any:
        if isinstance(value, _Site):
            return value.index
        if isinstance(value, _Constant):
            return self._number(value.number)
        if np.ndim(value) == 0:
            return self._number(value)
        if np.size(value) != self._size:
            raise NotFactorised(f"it combines f with data of shape {np.shape(value)}")
        if value.dtype == bool:  # all data are stored as floats
            mask = self._reference(jnp.where(value, 1.0, 0.0))
            self.steps.append(Step(IS_NOT_ZERO, None, {}, (mask,)))
            return InputIndex(len(self.steps))
        self.data.append(jnp.ravel(value))
        return DataArray(len(self.data) - 1)

    def _made_by(self, reference: Any, *names: str) -> bool:
        """Return whether a value is the result of these operations. The last operation comes first."""
        for name in names:
            if not isinstance(reference, InputIndex) or reference == 0 or self.steps[reference - 1].name != name:
                return False
            reference = self.steps[reference - 1].inputs[0]
        return True


def _is_total(value: Any) -> bool:
    return isinstance(value, _Total)
