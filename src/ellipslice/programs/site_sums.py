"""A traced log-likelihood as a sum over sites, if it is one: constant + sum_i term(f_i, data_i).

A kernel that holds a chain's state in registers can evaluate such a sum, and nothing else. So the program that JAX
traced is read: what does not depend on f is worked out beforehand, and becomes data or constants; what does must
treat every value of f by itself and end in sums. Anything else is `NotElementwise`, and says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.programs.site_program import KERNEL, Datum, Device, Elementwise, Scalar, Slot, Step
from ellipslice.undocumented import jaxprs
from ellipslice.undocumented.registry import first_line, note

THREADS_PER_CHAIN = 128
"""Threads of a chain in the kernel: its state is cut into pieces of as many values."""

LARGEST = 4096
"""Values of the largest state: more do not fit into a GPU's registers."""


def padded_size(size: int) -> int:
    """The size of a state in the kernel's memory: a whole number of pieces."""
    return -(-size // THREADS_PER_CHAIN) * THREADS_PER_CHAIN


class NotElementwise(Exception):  # noqa: N818  it is an answer, not an error
    """Why a log-likelihood is not a sum over the values of f."""


_INLINE = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
_RESHAPES = ("reshape", "squeeze", "expand_dims", "broadcast_in_dim")


def _softplus(x: Any) -> Any:
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def _log_sum(x: Any, y: Any) -> Any:
    return jnp.maximum(x, y) + jnp.log1p(jnp.exp(-jnp.abs(x - y)))


def _in_other_words(name: str, inputs: list[Any]) -> Callable[..., Any] | None:
    """A function in a form that suits us, by its name; None if it is to be taken as it is."""
    if name.startswith(jaxprs.SOFTPLUS):  # our likelihoods' own, written for a loop of its own
        return _softplus
    numbers = [value.number if isinstance(value, _Everywhere) else value for value in inputs]
    known = [value for value in numbers if isinstance(value, float | int | np.ndarray | np.generic)]
    if name == "logaddexp" and known and all(np.ndim(value) == 0 and np.isfinite(value) for value in known):
        return _log_sum  # without the question whether both are infinite
    return None


class _Site(NamedTuple):
    """A value for each site, in any shape of `size` values in C order."""

    slot: Slot


class _Total(NamedTuple):
    """A sum over the sites, with coefficients, and a constant."""

    terms: tuple[tuple[Any, Slot], ...]
    constant: Any


class _Everywhere(NamedTuple):
    """One known number at every site."""

    number: Any


def elementwise(
    likelihood: Callable[[Any], Any], size: int, dtype: Any, device: Device, *, batched: bool = False
) -> Elementwise:
    """Read a log-likelihood of a vector with `size` values; `NotElementwise` if it is not a sum over them.

    May be called while JAX traces: the likelihood's data are then tracers, and what is known becomes part of the trace.
    One that is `batched` has a batch of one vector inside, so that its sums have an axis of length 1.
    """
    # Through a new function each time: of one that it has met, JAX may remember constants in another precision.
    traced = jax.make_jaxpr(lambda f: likelihood(f))(jax.ShapeDtypeStruct((size,), dtype))
    if not jaxprs.can_read():
        raise NotElementwise("its program cannot be read with this release of JAX")
    reader = _Reader(size, device, batched)
    try:
        (result,) = reader.read(traced.jaxpr, traced.consts, [_Site(Slot(0))])
    except NotElementwise:
        raise
    except Exception as error:  # JAX has traced it, so this is no fault of the user's
        note(jaxprs.ITEM, f"a log-likelihood could not be read as a sum over values ({first_line(error)})")
        raise NotElementwise(f"its program could not be read ({first_line(error)})") from error
    if isinstance(result, _Site) and size == 1:
        result = _Total(((1.0, result.slot),), 0.0)
    if not isinstance(result, _Total):
        raise NotElementwise("it does not end in a sum over the values of f")
    return Elementwise(reader.data, reader.scalars, reader.steps, list(result.terms), result.constant)


class _Reader:
    """Walks through a program, and sorts what it meets into known numbers, sites and totals."""

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
        if not any(isinstance(value, _Site | _Total | _Everywhere) for value in inputs):
            return self._known(equation, inputs)
        if name in _INLINE:
            jaxpr, consts = jaxprs.inner_program(equation)
            if (function := _in_other_words(jaxprs.called_name(equation), inputs)) is not None:
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
            return [_Total(((1.0, inputs[0].slot),), 0.0)]
        if name not in self._device.operations:
            where = "the fused kernel" if self._device is KERNEL else "a sum over single values"
            raise NotElementwise(f"it has the operation {name}, which {where} does not know on single values")
        return [self._step(equation, inputs)]

    def _known(self, equation: Any, inputs: list[Any]) -> list[Any]:
        shape = equation.outvars[0].aval.shape
        if equation.primitive.name == "broadcast_in_dim" and np.shape(inputs[0]) == () and self._is_site(shape):
            return [_Everywhere(inputs[0])]
        result = equation.primitive.bind(*inputs, **equation.params)
        return list(result) if equation.primitive.multiple_results else [result]

    def _is_site(self, shape: tuple[int, ...]) -> bool:
        return shape != () and math.prod(shape) == self._size

    def _spread(self, value: Any, equation: Any, position: int) -> Any:
        if not isinstance(value, _Everywhere):
            return value
        return jnp.broadcast_to(value.number, equation.invars[position].aval.shape)

    def _of_totals(self, name: str, inputs: list[Any]) -> _Total:
        if any(isinstance(value, _Site | _Everywhere) or np.ndim(value) for value in inputs if not _is_total(value)):
            raise NotElementwise("it uses a sum over f together with single values of f")
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
        raise NotElementwise(f"it has the operation {name} on a sum over f")

    def _scaled(self, total: _Total, factor: Any) -> _Total:
        return _Total(
            tuple((self._product(coefficient, factor), slot) for coefficient, slot in total.terms),
            total.constant * factor,
        )

    def _product(self, coefficient: Any, factor: Any) -> Any:
        if isinstance(coefficient, Scalar):
            coefficient = self.scalars[coefficient]
        return self._number(coefficient * factor)

    def _number(self, value: Any) -> Any:
        """A number for the kernel: itself if it is known now, else the place of a scalar."""
        if not isinstance(value, jax.Array):
            return float(value)
        if not jnp.issubdtype(value.dtype, jnp.floating):
            raise NotElementwise(f"it joins f with a number of type {value.dtype}")
        self.scalars.append(value)
        return Scalar(len(self.scalars) - 1)

    def _step(self, equation: Any, inputs: list[Any]) -> _Site:
        name, references = equation.primitive.name, tuple(self._reference(value) for value in inputs)
        if name == "log1p" and self._made_by(references[0], "exp", "neg", "abs"):
            name = "log1p of exp(-|x|)"
        self.steps.append(Step(name, equation.primitive, equation.params, references))
        return _Site(Slot(len(self.steps)))

    def _reference(self, value: Any) -> Any:
        if isinstance(value, _Site):
            return value.slot
        if isinstance(value, _Everywhere):
            return self._number(value.number)
        if np.ndim(value) == 0:
            return self._number(value)
        if np.size(value) != self._size:
            raise NotElementwise(f"it joins f with data of shape {np.shape(value)}")
        if value.dtype == bool:  # kept as numbers, like all data
            mask = self._reference(jnp.where(value, 1.0, 0.0))
            self.steps.append(Step("is not 0", None, {}, (mask,)))
            return Slot(len(self.steps))
        self.data.append(jnp.ravel(value))
        return Datum(len(self.data) - 1)

    def _made_by(self, reference: Any, *names: str) -> bool:
        """Whether a value was made by these operations, the last first."""
        for name in names:
            if not isinstance(reference, Slot) or reference == 0 or self.steps[reference - 1].name != name:
                return False
            reference = self.steps[reference - 1].inputs[0]
        return True


def _is_total(value: Any) -> bool:
    return isinstance(value, _Total)
