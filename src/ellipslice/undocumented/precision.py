"""Constants of a program in the precision that JAX is set to.

JAX (at least 0.10 to 0.12) caches the constant that it made from a NumPy array as long as anything refers to it, and
reuses it in the other precision. After a trace in double precision, a program in single precision then has constants in
double precision and cannot be compiled. The same happens to a user's jitted function with NumPy data that was called in
single precision before a run in double precision. `jax.clear_caches` removes the cached constants.
"""

from __future__ import annotations

import gc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.undocumented.jaxprs import core, equations, is_literal, parts, run


def as_array(part: Any) -> Any:
    """Return a constant as a JAX array in the precision that JAX is set to, from a new object that is not cached."""
    if isinstance(part, jax.Array):
        return jnp.asarray(part)
    values = np.asarray(part).view()
    return jnp.asarray(values.astype(jax.dtypes.canonicalize_dtype(values.dtype), copy=False))


def in_precision(traced: Any) -> Any:
    """Return an equal program whose constants have the precision that JAX is set to.

    Jitted functions are inlined if one of them has constants of another precision.
    """
    if not any(_is_foreign(constant) for equation in equations(traced.jaxpr) for constant in _constants(equation)):
        return traced
    return jax.make_jaxpr(lambda *arguments: _inlined(traced.jaxpr, traced.consts, *arguments))(*traced.in_avals)


def is_stale(error: Exception) -> bool:
    """Return whether JAX may have raised an error because of cached constants of another precision."""
    return any(words in str(error) for words in ("verifier errors", "to have the same dtypes"))


def clear_stale() -> None:
    """Clear the constants that JAX caches. Call it when no exception or program refers to them any more."""
    jax.clear_caches()
    gc.collect()


def _constants(equation: Any) -> list[Any]:
    closed = core().ClosedJaxpr
    return [constant for part in parts(equation) if isinstance(part, closed) for constant in part.consts]


def _is_foreign(constant: Any) -> bool:
    """Return whether a constant is a NumPy array of another precision than JAX is set to."""
    own = not isinstance(constant, jax.Array) and isinstance(constant, np.ndarray)
    return own and jax.dtypes.canonicalize_dtype(constant.dtype) != constant.dtype


def _inlined(jaxpr: Any, constants: Any, *arguments: Any) -> Any:
    """Evaluate a program without calls of jitted functions, and with constants of the precision that JAX is set to."""
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, map(as_array, constants), strict=True))
    known |= dict(zip(jaxpr.invars, arguments, strict=True))

    def value(variable: Any) -> Any:
        return variable.val if is_literal(variable) else known[variable]

    for equation in jaxpr.eqns:
        inner, inputs = equation.params.get("jaxpr"), [value(variable) for variable in equation.invars]
        if equation.primitive.name in ("jit", "pjit") and isinstance(inner, core().ClosedJaxpr):
            results = _inlined(inner.jaxpr, inner.consts, *inputs)
        else:
            variables = [variable for variable in equation.invars if not is_literal(variable)]
            alone = jaxpr.replace(constvars=[], invars=variables, outvars=equation.outvars, eqns=[equation])
            results = run(alone, [], *(known[variable] for variable in variables))
        known.update(zip(equation.outvars, results, strict=True))
    return [value(variable) for variable in jaxpr.outvars]
