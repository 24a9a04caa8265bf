"""A user's function as a program and its data, so that compiled code is made once and the data never go stale."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from ellipslice.engines.devices import on_a_cpu
from ellipslice.likelihoods import Likelihood
from ellipslice.posterior import CentredLikelihood
from ellipslice.pytree import pytree, set_fields, static

LAPACK = {"cholesky", "eig", "eigh", "geqrf", "hessenberg", "householder_product", "lu", "qr", "schur", "svd"}
LAPACK |= {"triangular_solve", "tridiagonal", "cholesky_update", "symmetric_product", "geqp3", "ormqr"}
"""Operations on matrices that JAX hands on to it."""

_JITTED = type(jax.jit(lambda x: x))


class Program:
    """What a function does, without its data. Equal programs share compiled code."""

    def __init__(self, jaxpr: Jaxpr, identity: Any):
        self.jaxpr = jaxpr
        self.one_by_one = any(_lapack(jaxpr)) and on_a_cpu()
        """Whether many points are evaluated one after the other. JAX shares a batch of matrices among XLA's threads,
        and waits in one of these: if all wait, none works."""
        self._identity = identity, self.one_by_one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@pytree
class TracedLikelihood:
    """A log-likelihood of a centred flat vector, taken apart: its data are leaves, so compiled code takes new ones."""

    data: Any
    program: Program = static()

    def __init__(self, data: Any, program: Program):
        set_fields(self, data=data, program=program)

    def __call__(self, f: Any) -> Any:
        """Value at one centred flat vector."""
        (value,) = jaxpr_as_fun(ClosedJaxpr(self.program.jaxpr, self.data))(f)
        return value


def compilable(centred: CentredLikelihood, size: int, dtype: Any = np.float64) -> Any:
    """The likelihood as an argument of compiled code: a pytree, and a function of a centred flat vector.

    Our own likelihoods are that already. Any other function is traced, every time, for the data it refers to may have
    changed; but only a program that has not been met before is compiled.
    """
    if isinstance(centred.callable, Likelihood):
        return jax.tree.map(_as_array, centred)
    function = centred.callable
    if isinstance(function, _JITTED):
        function = getattr(function, "__wrapped__", function)  # a jitted one would hide its data

    def value(f: Any) -> Any:
        return jnp.asarray(centred.with_function(function)(f), f.dtype)

    traced = jax.make_jaxpr(value)(jax.ShapeDtypeStruct((size,), dtype))
    if any(_foreign_constants(traced.jaxpr)):
        traced = jax.make_jaxpr(partial(_inlined, traced.jaxpr, traced.consts))(jax.ShapeDtypeStruct((size,), dtype))
    if traced.out_avals[0].shape != ():
        raise ValueError(f"it returned shape {traced.out_avals[0].shape}")
    likelihood = TracedLikelihood([_as_array(part) for part in traced.consts], Program(traced.jaxpr, object()))
    if not any(_hidden_data(traced.jaxpr)):
        text = jax.jit(lambda likelihood, f: likelihood(f)).lower(likelihood, np.zeros(size, dtype)).as_text()
        identity = hashlib.sha256(text.encode()).hexdigest()
        likelihood = TracedLikelihood(likelihood.data, Program(traced.jaxpr, identity))
    return likelihood


def _as_array(part: Any) -> Any:
    """Return a constant as an array of JAX, in the precision that JAX is set to.

    JAX (0.9 to 0.12 at least) keeps what it made of a NumPy array for as long as anything refers to it, and uses it
    again in the other precision: after a trace in double precision, a program in single precision has constants in
    double precision, and cannot be compiled. Hence a new NumPy object, which JAX has not met.
    """
    if isinstance(part, jax.Array):
        return jnp.asarray(part)
    values = np.asarray(part).view()
    return jnp.asarray(values.astype(jax.dtypes.canonicalize_dtype(values.dtype), copy=False))


def _foreign_constants(jaxpr: Jaxpr) -> Iterator[bool]:
    """Whether inner programs hold constants of a precision that JAX is not set to: see `_as_array`."""
    for equation in _equations(jaxpr):
        for part in _parts(equation):
            for constant in part.consts if isinstance(part, ClosedJaxpr) else ():
                own = not isinstance(constant, jax.Array) and isinstance(constant, np.ndarray)
                yield own and jax.dtypes.canonicalize_dtype(constant.dtype) != constant.dtype


def _inlined(jaxpr: Jaxpr, constants: Any, *arguments: Any) -> Any:
    """Evaluate a program without calls of jitted functions, and with constants of the precision that JAX is set to."""
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, map(_as_array, constants), strict=True))
    known |= dict(zip(jaxpr.invars, arguments, strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for equation in jaxpr.eqns:
        inner, inputs = equation.params.get("jaxpr"), [read(variable) for variable in equation.invars]
        if equation.primitive.name in ("jit", "pjit") and isinstance(inner, ClosedJaxpr):
            results = _inlined(inner.jaxpr, inner.consts, *inputs)
        else:
            variables = [variable for variable in equation.invars if not isinstance(variable, Literal)]
            given = [known[variable] for variable in variables]
            alone = jaxpr.replace(constvars=[], invars=variables, outvars=equation.outvars, eqns=[equation])
            results = jaxpr_as_fun(ClosedJaxpr(alone, []))(*given)
        known.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def identity(likelihood: Any) -> Hashable:
    """The program, and what its data are; None if we have not traced it."""
    if not isinstance(likelihood, TracedLikelihood):
        return None
    parts = [np.asarray(part) for part in jax.tree.leaves(likelihood.data)]
    return likelihood.program, *((part.shape, hashlib.sha256(part.tobytes()).digest()) for part in parts)


def operations(likelihood: Any) -> set[str]:
    """The names of the operations in a likelihood; nothing is known of those we have not traced."""
    if not isinstance(likelihood, TracedLikelihood):
        return set()
    return {equation.primitive.name for equation in _equations(likelihood.program.jaxpr)}


def over_many(likelihood: Any, axes: int = 1) -> Callable[[Any], Any]:
    """The log-likelihoods of points along leading axes."""
    one_by_one = isinstance(likelihood, TracedLikelihood) and likelihood.program.one_by_one

    def at_one(f: Any) -> Any:
        return jnp.asarray(likelihood(f), f.dtype)

    function: Callable[..., Any] = at_one
    for _ in range(axes):
        function = partial(lax.map, function) if one_by_one else jax.vmap(function)
    return function


def many_matrices(likelihood: Any) -> bool:
    """Whether LAPACK is handed several matrices in one call, as far as is known."""
    if not isinstance(likelihood, TracedLikelihood):
        return False
    return any(equation.invars[0].aval.ndim > 2 for equation in _lapack(likelihood.program.jaxpr))


def _lapack(jaxpr: Jaxpr) -> Iterator[Any]:
    return (equation for equation in _equations(jaxpr) if equation.primitive.name in LAPACK)


def largest_array(likelihood: Any) -> int:
    """The number of values in the largest array that a likelihood works with, as far as is known."""
    sizes = [np.size(leaf) for leaf in jax.tree.leaves(likelihood)]
    if isinstance(likelihood, TracedLikelihood):
        made = (made for equation in _equations(likelihood.program.jaxpr) for made in equation.outvars)
        sizes += [math.prod(variable.aval.shape) for variable in made]
    return max(sizes, default=0)


def _hidden_data(jaxpr: Jaxpr) -> Iterator[bool]:
    """Whether there are arrays inside a program that could not be taken out of it."""
    for equation in _equations(jaxpr):
        yield any(isinstance(variable, Literal) and np.ndim(variable.val) > 0 for variable in equation.invars)
        yield any(isinstance(part, ClosedJaxpr) and bool(part.consts) for part in _parts(equation))


def _equations(jaxpr: Jaxpr) -> Iterator[Any]:
    """All operations, those of inner programs too."""
    for equation in jaxpr.eqns:
        yield equation
        for part in _parts(equation):
            yield from _equations(part.jaxpr if isinstance(part, ClosedJaxpr) else part)


def _parts(equation: Any) -> list[Any]:
    values = jax.tree.leaves(
        list(equation.params.values()), is_leaf=lambda value: isinstance(value, ClosedJaxpr | Jaxpr)
    )
    return [value for value in values if isinstance(value, ClosedJaxpr | Jaxpr)]
