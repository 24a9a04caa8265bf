"""A user's function as a program and its data, so that compiled code is made once and the data never go stale.

And what can be known of any log-likelihood from its program: whether XLA's threads can run it beside itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.jax_settings import computes_on_cpu
from ellipslice.likelihoods import Likelihood
from ellipslice.machine import available_cores
from ellipslice.posterior import CentredLikelihood
from ellipslice.pytree import pytree, set_fields, static
from ellipslice.undocumented import jaxprs, matrices
from ellipslice.undocumented.operations import COMPILED, ONE_FUNCTION, SMALL
from ellipslice.undocumented.precision import as_array, clear_stale, in_precision, is_stale
from ellipslice.undocumented.registry import first_line, note


class Program:
    """What a function does, without its data. Equal programs share compiled code."""

    def __init__(self, jaxpr: Any, identity: Any):
        self.jaxpr = jaxpr
        self.one_by_one = computes_on_cpu() and not jaxprs.operations(jaxpr) <= COMPILED
        """Whether many points are evaluated one after the other: see `undocumented/operations.py`."""
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
        (value,) = jaxprs.run(self.program.jaxpr, self.data, f)
        return value


@pytree
class UnreadLikelihood:
    """A log-likelihood of a centred flat vector that could not be taken apart: it is compiled anew, with its data."""

    function: Callable[[Any], Any] = static()

    def __init__(self, function: Callable[[Any], Any]):
        set_fields(self, function=function)

    def __call__(self, f: Any) -> Any:
        """Value at one centred flat vector."""
        return self.function(f)


def compilable(centred: CentredLikelihood, size: int, dtype: Any = np.float64) -> Any:
    """The likelihood as an argument of compiled code: a pytree, and a function of a centred flat vector.

    Our own likelihoods are that already, unless they give LAPACK several matrices at once. Any other function is
    traced, every time, for the data it refers to may have changed; but only a program that has not been met before is
    compiled.
    """
    point = jax.ShapeDtypeStruct((size,), dtype)
    if isinstance(centred.callable, Likelihood):
        own = jax.tree.map(as_array, centred)
        if not computes_on_cpu() or not _waits(own, point):
            return own
    function = jaxprs.plain(centred.callable)

    def value(f: Any) -> Any:
        return jnp.asarray(centred.with_function(function)(f), f.dtype)

    for is_last in (False, True):
        traced = jax.make_jaxpr(value)(point)
        if traced.out_avals[0].shape != ():
            raise ValueError(f"it returned shape {traced.out_avals[0].shape}")
        if not jaxprs.can_read():
            break
        try:
            return _taken_apart(traced, point)
        except Exception as error:  # noqa: BLE001  JAX has traced it, so this is no fault of the user's
            if is_last or not is_stale(error):
                note(jaxprs.ITEM, f"a log-likelihood could not be taken apart ({first_line(error)})")
                break
        del traced
        clear_stale()
    return UnreadLikelihood(value)


def _taken_apart(traced: Any, point: Any) -> TracedLikelihood:
    traced = in_precision(traced)
    if computes_on_cpu():
        traced = matrices.by_single_matrices(traced)
    likelihood = TracedLikelihood([as_array(part) for part in traced.consts], Program(traced.jaxpr, object()))
    if not jaxprs.has_hidden_data(traced.jaxpr):
        text = (
            jax.jit(lambda likelihood, f: likelihood(f)).lower(likelihood, np.zeros(point.shape, point.dtype)).as_text()
        )
        identity = hashlib.sha256(text.encode()).hexdigest()
        likelihood = TracedLikelihood(likelihood.data, Program(traced.jaxpr, identity))
    return likelihood


def identity(likelihood: Any) -> Hashable:
    """The program, and what its data are; None if we have not traced it."""
    if not isinstance(likelihood, TracedLikelihood):
        return None
    parts = [np.asarray(part) for part in jax.tree.leaves(likelihood.data)]
    return likelihood.program, *((part.shape, hashlib.sha256(part.tobytes()).digest()) for part in parts)


def program_of(function: Callable[[Any], Any], point: Any) -> Any:
    """The program of a function of a point, given as its shape and type; None if it cannot be read."""
    if isinstance(function, TracedLikelihood):
        return function.program.jaxpr
    return None if isinstance(function, UnreadLikelihood) else jaxprs.read(function, point)


class Look(NamedTuple):
    """Properties of a log-likelihood, read from its traced program."""

    operations: frozenset[str] | None
    """The names of its operations; None if they are not known."""
    largest: int
    """The number of values in the largest array that it works with, as far as is known."""
    threads: int
    """How many threads may run it at a time. One for each core if no operation waits in XLA's threads; one less if that
    is not known of some, so that there is a thread left to work; and one where nothing is known."""

    @property
    def fits_one_function(self) -> bool:
        """True if XLA's CPU backend can compile it and the loop around it into one function."""
        return self.operations is not None and self.operations <= ONE_FUNCTION and self.largest <= SMALL


def look(likelihood: Callable[[Any], Any], size: int, dtype: Any = np.float64) -> Look:
    """Trace a log-likelihood of `size` values and return the properties of its program."""
    program = program_of(likelihood, jax.ShapeDtypeStruct((size,), dtype))
    largest = max([size, *(np.size(leaf) for leaf in jax.tree.leaves(likelihood))])
    if program is None:
        return Look(None, largest, threads=1)
    threads = available_cores() if matrices.never_waits(program) else max(1, available_cores() - 1)
    return Look(jaxprs.operations(program), max(largest, jaxprs.largest_result(program)), threads)


def over_many(likelihood: Callable[[Any], Any], axes: int = 1) -> Callable[[Any], Any]:
    """The log-likelihoods of points along leading axes."""
    known = likelihood.program.one_by_one if isinstance(likelihood, TracedLikelihood) else None
    return over_axes(lambda f: jnp.asarray(likelihood(f), f.dtype), axes, known)


def over_axes(function: Callable[[Any], Any], axes: int = 1, one_by_one: bool | None = None) -> Callable[[Any], Any]:
    """A function of one point that returns arrays, for points along leading axes.

    On a CPU by `vmap` only if all its operations are known to bear it, else one point after the other.
    """

    def at_all(points: Any) -> Any:
        point = jax.ShapeDtypeStruct(points.shape[axes:], points.dtype)
        in_turn = computes_on_cpu() and not _in_batches(function, point) if one_by_one is None else one_by_one
        batched: Callable[..., Any] = matrices.one_matrix_at_a_time(function) if in_turn else function
        for _ in range(axes):
            batched = partial(lax.map, batched) if in_turn else jax.vmap(batched)
        return batched(points)

    return at_all


def _in_batches(function: Callable[[Any], Any], point: Any) -> bool:
    program = jaxprs.read(function, point)
    return program is not None and jaxprs.operations(program) <= COMPILED


def _waits(function: Callable[[Any], Any], point: Any) -> bool:
    """Whether it is known that some operation may wait in one of XLA's threads."""
    program = jaxprs.read(function, point)
    return program is not None and not matrices.never_waits(program)
