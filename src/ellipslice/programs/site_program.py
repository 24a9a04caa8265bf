"""The program of one element of f, for a log-likelihood that factorises over the elements. `site_sums.py` makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

LOG1P_OF_EXP = "log1p of exp(-|x|)"
"""Name of a step: log(1 + x) where x is the result of exp(-|...|) and therefore in [0, 1]."""

IS_NOT_ZERO = "is not 0"
"""Name of a step: a Boolean mask from data that are stored as floats."""


class Step(NamedTuple):
    """One operation of the program of an element."""

    name: str
    primitive: Any
    params: dict[str, Any]
    inputs: tuple[Any, ...]
    """Each is an `InputIndex`, a `DataArray`, a `Scalar` or a plain number."""


class InputIndex(int):
    """Index of the step whose result is the input, counted from 1; 0 is f."""


class DataArray(int):
    """Index of an array in `Elementwise.data`, which has a value for each element of f."""


class Scalar(int):
    """Index of a scalar in `Elementwise.scalars`, which is known when the program runs."""


class Elementwise(NamedTuple):
    """Program of one element of f.

    The log-likelihood is `constant` plus, for each (coefficient, step) of `totals`, the coefficient times the sum over
    the elements of f of the step's result.
    """

    data: list[Any]
    """Arrays, shape (size,)."""
    scalars: list[Any]
    steps: list[Step]
    totals: list[tuple[Any, InputIndex]]
    constant: Any

    def parts(self, f: Any, data: Sequence[Any], scalars: Sequence[Any], device: Device) -> tuple[Any, Any]:
        """Return (a, m) for some elements of f, whose terms of the log-likelihood are a - log m.

        m is a product with one factor in [1, 2] for each logarithm of an element, and None if there is none. The sum of
        logarithms is then the logarithm of a product, so an element costs a multiplication instead of a logarithm.
        """
        results: list[Any] = [f]

        def value(reference: Any) -> Any:
            if isinstance(reference, InputIndex):
                return results[reference]
            if isinstance(reference, DataArray):
                return data[reference]
            return jnp.broadcast_to(
                scalars[reference] if isinstance(reference, Scalar) else jnp.asarray(reference, f.dtype), f.shape
            )

        for step in self.steps:
            inputs = [value(reference) for reference in step.inputs]
            results.append(_apply(step, inputs, device))
        a, m = None, None
        for coefficient, index in self.totals:
            part = results[index]
            if isinstance(coefficient, float) and coefficient == -1.0:
                part = _negate(part)
            elif not (isinstance(coefficient, float) and coefficient == 1.0):
                part = _plain(part) * value(coefficient)
            if not isinstance(part, _LogForm) or part.negative:
                part = _LogForm(_plain(part), None)
            a, m = _join(jnp.add, a, part.a), _join(jnp.multiply, m, part.m)
        return jnp.zeros_like(f) if a is None else a, m


# A small algebra of logarithms. log(1 + exp(-|x|)) is represented as a `_LogForm` as long as the operations on it
# preserve that form; `_LOG_RULES` lists these operations. All other operations first compute the value itself.


class _LogForm(NamedTuple):
    """Values a - log m of some elements, or log m - a if `negative`. m is a product of factors in [1, 2].

    None represents a = 0 or m = 1.
    """

    a: Any
    m: Any
    negative: bool = False

    def value(self) -> Any:
        value = -jnp.log(self.m) if self.a is None else self.a - jnp.log(self.m)
        return -value if self.negative else value


def _plain(value: Any) -> Any:
    """Return the value of a `_LogForm`, and any other value unchanged."""
    return value.value() if isinstance(value, _LogForm) else value


def _join(operation: Callable[[Any, Any], Any], one: Any, two: Any) -> Any:
    """Return the result of an operation on two values. If one is None, return the other."""
    if one is None or two is None:
        return two if one is None else one
    return operation(one, two)


def _negate(value: Any) -> Any:
    """Return -value. If the value is log m - a, the result has the form a - log m."""
    if isinstance(value, _LogForm) and value.negative:
        return value._replace(negative=False)
    return -_plain(value)


def _add(one: Any, two: Any) -> Any:
    """Return one + two; at least one of them is a `_LogForm`."""
    if isinstance(one, _LogForm) and isinstance(two, _LogForm):
        if one.negative or two.negative:
            return _plain(one) + _plain(two)
        return _LogForm(_join(jnp.add, one.a, two.a), _join(jnp.multiply, one.m, two.m))
    form, other = (one, two) if isinstance(one, _LogForm) else (two, one)
    if form.negative:  # (log m - a) + other = log m - (a - other)
        return form._replace(a=-other if form.a is None else form.a - other)
    return form._replace(a=_join(jnp.add, form.a, other))


def _subtract(one: Any, two: Any) -> Any:
    """Return one - (log m - a) = (one + a) - log m; None for other operands."""
    if isinstance(one, _LogForm) or not two.negative:
        return None
    return _LogForm(_join(jnp.add, one, two.a), two.m)


def _select(chosen: Any, *cases: Any) -> Any:
    """Return `select_n` of two cases, one of which is a `_LogForm`; None for other operands.

    The other case x is written as x - log 1, or log 1 - (-x).
    """
    forms = [case for case in cases if isinstance(case, _LogForm)]
    if isinstance(chosen, _LogForm) or len(cases) != 2 or len(forms) != 1:
        return None
    (form,) = forms
    a, m = [], []
    for case in cases:
        if case is form:
            a.append(jnp.zeros_like(form.m) if form.a is None else form.a)
            m.append(form.m)
        else:
            a.append(-case if form.negative else case)
            m.append(jnp.ones_like(form.m))
    return form._replace(a=jax.lax.select_n(chosen, *a), m=jax.lax.select_n(chosen, *m))


_LOG_RULES: dict[str, Callable[..., Any]] = {
    "neg": _negate,
    "add": _add,
    "add_any": _add,
    "sub": _subtract,
    "select_n": _select,
}
"""Rules for operations on a `_LogForm`. A rule returns None if it does not apply to its operands."""


def _apply(step: Step, inputs: list[Any], device: Device) -> Any:
    """Return the result of a step, as a `_LogForm` if there is a rule for it."""
    if step.name == LOG1P_OF_EXP:
        return _LogForm(None, 1.0 + inputs[0], negative=True)
    if any(isinstance(value, _LogForm) for value in inputs):
        result = _LOG_RULES[step.name](*inputs) if step.name in _LOG_RULES else None
        if result is not None:
            return result
        inputs = [_plain(value) for value in inputs]
    if step.name == IS_NOT_ZERO:
        return inputs[0] != 0.0
    if step.name in device.replaced:
        return device.replaced[step.name](*inputs, **step.params)
    return step.primitive.bind(*inputs, **step.params)


def _log1p(x: Any, **_: Any) -> Any:
    one_more = 1.0 + x
    return jnp.where(one_more == 1.0, x, x * (jnp.log(one_more) / (one_more - 1.0)))


def _expm1(x: Any, **_: Any) -> Any:
    return jnp.where(jnp.abs(x) < 1e-2, x * (1.0 + x * (0.5 + x * (1 / 6 + x * (1 / 24 + x / 120)))), jnp.exp(x) - 1.0)


def _pow(x: Any, y: Any, **_: Any) -> Any:
    """Return x ** y by logarithms. For negative x and integer y, return the power of |x| with the right sign."""
    whole, odd = y == jnp.round(y), jnp.round(0.5 * y) != 0.5 * y
    size = jnp.where(y == 0.0, 1.0, jnp.exp(y * jnp.log(jnp.abs(x))))
    return jnp.where(x < 0.0, jnp.where(whole, jnp.where(odd, -size, size), jnp.nan), size)


@jax.custom_jvp
def _max(x: Any, y: Any) -> Any:
    """Return the maximum. Where both are equal its derivative is that of `x`; JAX's mean of both needs a division."""
    return jax.lax.max(x, y)


@_max.defjvp
def _max_slope(values: tuple[Any, Any], slopes: tuple[Any, Any]) -> tuple[Any, Any]:
    return _max(*values), jnp.where(values[0] < values[1], slopes[1], slopes[0])


class Device(NamedTuple):
    """Operations that the program of an element can use on a device."""

    operations: frozenset[str]
    """Names of the operations on single elements that its compiler supports."""
    replaced: dict[str, Callable[..., Any]]
    """Functions that replace operations, by name."""


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
