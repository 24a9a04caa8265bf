"""What a log-likelihood that is a sum over sites does at each, and how that is run; `site_sums.py` reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Step(NamedTuple):
    """One operation of the program for a site."""

    name: str
    primitive: Any
    params: dict[str, Any]
    inputs: tuple[Any, ...]
    """Numbers of earlier results (`Slot`), of data (`Datum`) or of scalars (`Scalar`), or plain numbers."""


class Slot(int):
    """The result of an earlier step; slot 0 is f."""


class Datum(int):
    """An array with a value for each site."""


class Scalar(int):
    """A number that is known when the program runs."""


class Elementwise(NamedTuple):
    """constant + sum of coefficient times slot over the sites."""

    data: list[Any]
    """Arrays, shape (size,)."""
    scalars: list[Any]
    steps: list[Step]
    totals: list[tuple[Any, Slot]]
    constant: Any

    def parts(self, f: Any, data: Sequence[Any], scalars: Sequence[Any], device: Device) -> tuple[Any, Any]:
        """Of some sites (a, m): their part of the sum is that of a - log m. m lies in [1, 2], or is None for 1.

        Sums of logarithms are products' logarithms: a site costs a multiplication instead of a logarithm.
        """
        slots: list[Any] = [f]

        def value(reference: Any) -> Any:
            if isinstance(reference, Slot):
                return slots[reference]
            if isinstance(reference, Datum):
                return data[reference]
            return jnp.broadcast_to(
                scalars[reference] if isinstance(reference, Scalar) else jnp.asarray(reference, f.dtype), f.shape
            )

        for step in self.steps:
            inputs = [value(reference) for reference in step.inputs]
            slots.append(_apply(step, inputs, device))
        total: _LogSum = _LogSum(None, None)
        for coefficient, slot in self.totals:
            part = slots[slot]
            if isinstance(coefficient, float) and coefficient == -1.0:
                part = -part
            elif not (isinstance(coefficient, float) and coefficient == 1.0):
                part = _plain(part) * value(coefficient)
            total = total + part
        a = jnp.zeros_like(f) if total.a is None else total.a
        return a, total.m


class _LogSum:
    """a - log m of an array of sites, where m is a product of factors in [1, 2]."""

    def __init__(self, a: Any, m: Any):
        self.a, self.m = a, m

    def __add__(self, other: Any) -> _LogSum:
        if not isinstance(other, _LogSum):
            other = _LogSum(other, None)
        return _LogSum(_join(jnp.add, self.a, other.a), _join(jnp.multiply, self.m, other.m))

    def plain(self) -> Any:
        return _join(jnp.subtract, self.a, jnp.log(self.m)) if self.a is not None else -jnp.log(self.m)


class _MinusLogSum:
    """Minus a `_LogSum`: what log(1 + exp(-|x|)) is, until it is subtracted from something."""

    def __init__(self, of: _LogSum):
        self.of = of

    def __add__(self, other: Any) -> Any:
        if isinstance(other, _LogSum | _MinusLogSum):
            return _plain(self) + _plain(other)
        return _MinusLogSum(_LogSum(-other if self.of.a is None else self.of.a - other, self.of.m))

    def __neg__(self) -> _LogSum:
        return self.of


def _plain(value: Any) -> Any:
    if isinstance(value, _LogSum):
        return value.plain()
    return -value.of.plain() if isinstance(value, _MinusLogSum) else value


def _join(operation: Callable[[Any, Any], Any], one: Any, two: Any) -> Any:
    if one is None or two is None:
        return two if one is None else one
    return operation(one, two)


def _apply(step: Step, inputs: list[Any], device: Device) -> Any:
    """What a step makes of its inputs, logarithms of products kept apart as long as that is simple."""
    special = [isinstance(value, _LogSum | _MinusLogSum) for value in inputs]
    if step.name == "log1p of exp(-|x|)":
        return _MinusLogSum(_LogSum(None, 1.0 + inputs[0]))
    if any(special):
        if step.name == "neg" and isinstance(inputs[0], _MinusLogSum):
            return -inputs[0]
        if step.name in ("add", "add_any"):
            return inputs[0] + inputs[1] if special[0] else inputs[1] + inputs[0]
        if step.name == "sub" and isinstance(inputs[1], _MinusLogSum) and not special[0]:
            return _LogSum(inputs[0], None) + -inputs[1]
        if step.name == "select_n" and len(inputs) == 3 and special.count(True) == 1 and not special[0]:
            return _select(*inputs)
        inputs = [_plain(value) for value in inputs]
    if step.name == "is not 0":
        return inputs[0] != 0.0
    if step.name in device.replaced:
        return device.replaced[step.name](*inputs, **step.params)
    return step.primitive.bind(*inputs, **step.params)


def _select(chosen: Any, if_false: Any, if_true: Any) -> Any:
    """`select_n` with a logarithm of a product as one of its cases."""
    special, plain = (if_false, if_true) if isinstance(if_false, _LogSum | _MinusLogSum) else (if_true, if_false)
    minus = isinstance(special, _MinusLogSum)
    of = special.of if minus else special

    def pick(special: Any, plain: Any) -> Any:
        return jax.lax.select_n(chosen, *((special, plain) if special_first else (plain, special)))

    special_first = isinstance(if_false, _LogSum | _MinusLogSum)
    a = jnp.zeros_like(of.m) if of.a is None else of.a
    both = _LogSum(pick(a, -plain if minus else plain), pick(of.m, jnp.ones_like(of.m)))
    return _MinusLogSum(both) if minus else both


def _log1p(x: Any, **_: Any) -> Any:
    one_more = 1.0 + x
    return jnp.where(one_more == 1.0, x, x * (jnp.log(one_more) / (one_more - 1.0)))


def _expm1(x: Any, **_: Any) -> Any:
    return jnp.where(jnp.abs(x) < 1e-2, x * (1.0 + x * (0.5 + x * (1 / 6 + x * (1 / 24 + x / 120)))), jnp.exp(x) - 1.0)


def _pow(x: Any, y: Any, **_: Any) -> Any:
    """By logarithms, which negative numbers have not: their whole powers are those of |x|, or minus these."""
    whole, odd = y == jnp.round(y), jnp.round(0.5 * y) != 0.5 * y
    size = jnp.where(y == 0.0, 1.0, jnp.exp(y * jnp.log(jnp.abs(x))))
    return jnp.where(x < 0.0, jnp.where(whole, jnp.where(odd, -size, size), jnp.nan), size)


@jax.custom_jvp
def _max(x: Any, y: Any) -> Any:
    """The greater one, with a slope that is quick: JAX's own is a mean where both are equal, by a division."""
    return jax.lax.max(x, y)


@_max.defjvp
def _max_slope(values: tuple[Any, Any], slopes: tuple[Any, Any]) -> tuple[Any, Any]:
    return _max(*values), jnp.where(values[0] < values[1], slopes[1], slopes[0])


class Device(NamedTuple):
    """What a program for a site may do there."""

    operations: frozenset[str]
    """Those on each value by itself that its compiler knows."""
    replaced: dict[str, Callable[..., Any]]
    """Operations that are done by others."""


_REPLACED: dict[str, Callable[..., Any]] = {
    "log1p": _log1p,
    "expm1": _expm1,
    "sqrt": lambda x, **_: jnp.where(x == 0.0, 0.0, x * jax.lax.rsqrt(x)),
    "is_finite": lambda x, **_: jnp.abs(x) < jnp.inf,
    "pow": _pow,
    "copy": lambda x, **_: x,
    "stop_gradient": lambda x, **_: x,
}
_COMMON = frozenset(
    [
        *("abs", "add", "add_any", "and", "atan2", "clamp", "convert_element_type", "cos", "div", "eq", "erf", "exp"),
        *("exp2", "ge", "gt", "integer_pow", "le", "log", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not"),
        *("or", "rem", "round", "rsqrt", "select_n", "sign", "sin", "square", "sub", "tanh", "xor"),
        *_REPLACED,
    ]
)
KERNEL = Device(_COMMON, _REPLACED)
"""The fused kernel on a GPU."""

CPU = Device(
    _COMMON.union(
        ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cosh"),
        ("digamma", "erf_inv", "erfc", "floor", "lgamma", "sinh", "tan"),
    ),
    {"max": lambda x, y: _max(x, y), "min": lambda x, y: -_max(-x, -y)},
)
"""XLA on a CPU."""
