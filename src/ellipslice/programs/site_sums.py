"""Whether a traced log-likelihood factorises over the elements of f: constant + sum_i term(f_i, data_i).

A kernel that holds a chain's state in registers can evaluate such a sum, and nothing else. So the program that JAX
traced is read. What does not depend on f is computed beforehand, and becomes data or constants. What does must treat
each element of f by itself and end in sums. Anything else raises `NotFactorised` with the reason.
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
"""Number of threads of a chain in the kernel: its state is divided into pieces of as many elements."""

LARGEST = 4096
"""Number of elements of the largest state: more do not fit into a GPU's registers."""


def padded_size(size: int) -> int:
    """Return the size of a state in the kernel's memory: a whole number of pieces."""
    return -(-size // THREADS_PER_CHAIN) * THREADS_PER_CHAIN


class NotFactorised(Exception):  # noqa: N818  it is an answer, not an error
    """Why a log-likelihood does not factorise over the elements of f."""


_INLINE = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
_RESHAPES = ("reshape", "squeeze", "expand_dims", "broadcast_in_dim")


def _softplus(x: Any) -> Any:
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def _log_sum(x: Any, y: Any) -> Any:
    return jnp.maximum(x, y) + jnp.log1p(jnp.exp(-jnp.abs(x - y)))


def _rewrite(name: str, inputs: list[Any]) -> Callable[..., Any] | None:
    """Return another form of a function with this name, which `_LogForm` handles; None to take it as it is."""
    if name.startswith(jaxprs.SOFTPLUS):  # that of the built-in likelihoods, written for a loop by itself
        return _softplus
    numbers = [value.number if isinstance(value, _Constant) else value for value in inputs]
    known = [value for value in numbers if isinstance(value, float | int | np.ndarray | np.generic)]
    if name == "logaddexp" and known and all(np.ndim(value) == 0 and np.isfinite(value) for value in known):
        return _log_sum  # without the check whether both are infinite
    return None


class _Site(NamedTuple):
    """A value for each element of f, in any shape of `size` values in C order."""

    index: InputIndex


class _Total(NamedTuple):
    """A sum over the elements, with coefficients, and a constant."""

    terms: tuple[tuple[Any, InputIndex], ...]
    constant: Any


class _Constant(NamedTuple):
    """One known number for every element."""

    number: Any


def elementwise(
    likelihood: Callable[[Any], Any], size: int, dtype: Any, device: Device, *, batched: bool = False
) -> Elementwise:
    """Return the program of one element of a log-likelihood of `size` elements. Raise `NotFactorised` if there is none.

    It may be called while JAX traces: the likelihood's data are then tracers, and what is computed from them beforehand
    becomes part of the trace. If `batched`, the likelihood takes a batch of one vector: its sums have an axis of
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
    except Exception as error:  # JAX has traced it, so this is no fault of the user's
        note(jaxprs.ITEM, f"a log-likelihood could not be read as a sum over values ({first_line(error)})")
        raise NotFactorised(f"its program could not be read ({first_line(error)})") from error
    if isinstance(result, _Site) and size == 1:
        result = _Total(((1.0, result.index),), 0.0)
    if not isinstance(result, _Total):
        raise NotFactorised("it does not end in a sum over the values of f")
    return Elementwise(reader.data, reader.scalars, reader.steps, list(result.terms), result.constant)


class _Reader:
    """Reads a program, and sorts its values into known numbers, values of each element, and sums over the elements."""

    def __init__(self, size: int, device: Device, batched: bool = False):
        self._size, self._device, self._batched = size, device, batched
        self.data: list[Any] = []
        self.scalars: list[Any] = []
        self.steps: list[Step] = []

    def read(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
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
            where = "the fused kernel" if self._device is KERNEL else "a sum over single values"
            raise NotFactorised(f"it has the operation {name}, which {where} does not know on single values")
        return [self._step(equation, inputs)]

    def _known(self, equation: Any, inputs: list[Any]) -> list[Any]:
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
        if any(isinstance(value, _Site | _Constant) or np.ndim(value) for value in inputs if not _is_total(value)):
            raise NotFactorised("it uses a sum over f together with single values of f")
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
        """Return a number for the program: itself if it is known now, else the index of a scalar."""
        if not isinstance(value, jax.Array):
            return float(value)
        if not jnp.issubdtype(value.dtype, jnp.floating):
            raise NotFactorised(f"it joins f with a number of type {value.dtype}")
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
            raise NotFactorised(f"it joins f with data of shape {np.shape(value)}")
        if value.dtype == bool:  # kept as numbers, like all data
            mask = self._reference(jnp.where(value, 1.0, 0.0))
            self.steps.append(Step(IS_NOT_ZERO, None, {}, (mask,)))
            return InputIndex(len(self.steps))
        self.data.append(jnp.ravel(value))
        return DataArray(len(self.data) - 1)

    def _made_by(self, reference: Any, *names: str) -> bool:
        """Return whether a value is the result of these operations, the last one first."""
        for name in names:
            if not isinstance(reference, InputIndex) or reference == 0 or self.steps[reference - 1].name != name:
                return False
            reference = self.steps[reference - 1].inputs[0]
        return True


def _is_total(value: Any) -> bool:
    return isinstance(value, _Total)
