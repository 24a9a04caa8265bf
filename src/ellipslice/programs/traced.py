"""Separate a user's function into a program and its data, and inspect the program.

Compiled code is then reused for new data, and never contains old data. The operations of a program show whether several
threads can run it in parallel.
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

from ellipslice.jax_settings import computes_on_cpu, to_device
from ellipslice.likelihoods import Likelihood
from ellipslice.machine import available_cores
from ellipslice.posterior import CentredLikelihood
from ellipslice.pytree import pytree, set_fields, static
from ellipslice.undocumented import jaxprs, matrices
from ellipslice.undocumented.operations import COMPILED, MAX_SMALL_ARRAY, SINGLE_CALL_OPERATIONS
from ellipslice.undocumented.precision import clear_stale, in_precision, is_stale
from ellipslice.undocumented.registry import first_line, note


class Program:
    """Operations of a function, without its data. Equal programs share compiled code."""

    def __init__(self, jaxpr: Any, identity: Any):
        self.jaxpr = jaxpr
        self.one_by_one = computes_on_cpu() and not jaxprs.operations(jaxpr) <= COMPILED
        """True if many points must be evaluated one after the other: see `undocumented/operations.py`."""
        self._identity = identity, self.one_by_one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@pytree
class TracedLikelihood:
    """Log-likelihood of a centred flat vector whose data are pytree leaves, so that compiled code accepts new data."""

    data: Any
    program: Program = static()

    def __init__(self, data: Any, program: Program):
        set_fields(self, data=data, program=program)

    def __call__(self, f: Any) -> Any:
        """Return the log-likelihood of one centred flat vector."""
        (value,) = jaxprs.run(self.program.jaxpr, self.data, f)
        return value


@pytree
class UnreadLikelihood:
    """Log-likelihood of a centred flat vector whose data could not be separated. New data are compiled again."""

    function: Callable[[Any], Any] = static()

    def __init__(self, function: Callable[[Any], Any]):
        set_fields(self, function=function)

    def __call__(self, f: Any) -> Any:
        """Return the log-likelihood of one centred flat vector."""
        return self.function(f)


def compilable(centred: CentredLikelihood, size: int, dtype: Any = np.float64) -> Any:
    """Return the likelihood as an argument of compiled code: a pytree that is a function of a centred flat vector.

    Built-in likelihoods are returned unchanged, unless they use LAPACK on a batch of matrices. Any other function is
    traced every time, because its data may have changed. Only a new program is compiled.
    """
    point = jax.ShapeDtypeStruct((size,), dtype)
    if isinstance(centred.callable, Likelihood):
        own = jax.tree.map(to_device, centred)
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
            return _separate_data(traced, point)
        except Exception as error:  # noqa: BLE001  JAX has traced it, so this is not an error of the user
            if is_last or not is_stale(error):
                note(jaxprs.ITEM, f"the data of a log-likelihood could not be separated ({first_line(error)})")
                break
        del traced
        clear_stale()
    return UnreadLikelihood(value)


def _separate_data(traced: Any, point: Any) -> TracedLikelihood:
    """Return a traced log-likelihood with its data as leaves. `point` is the shape and type of its argument."""
    traced = in_precision(traced)
    if computes_on_cpu():
        traced = matrices.by_single_matrices(traced)
    likelihood = TracedLikelihood([to_device(part) for part in traced.consts], Program(traced.jaxpr, object()))
    if not jaxprs.has_hidden_data(traced.jaxpr):
        text = (
            jax.jit(lambda likelihood, f: likelihood(f)).lower(likelihood, np.zeros(point.shape, point.dtype)).as_text()
        )
        identity = hashlib.sha256(text.encode()).hexdigest()
        likelihood = TracedLikelihood(likelihood.data, Program(traced.jaxpr, identity))
    return likelihood


def identity(likelihood: Any) -> Hashable:
    """Return a key that is equal for equal programs with equal data; None if the likelihood was not traced."""
    if not isinstance(likelihood, TracedLikelihood):
        return None
    parts = [np.asarray(part) for part in jax.tree.leaves(likelihood.data)]
    return likelihood.program, *((part.shape, hashlib.sha256(part.tobytes()).digest()) for part in parts)


def program_of(function: Callable[[Any], Any], point: Any) -> Any:
    """Return the program of a function; None if it cannot be read. `point` is the shape and type of its argument."""
    if isinstance(function, TracedLikelihood):
        return function.program.jaxpr
    return None if isinstance(function, UnreadLikelihood) else jaxprs.read(function, point)


class ProgramProperties(NamedTuple):
    """Properties of a log-likelihood, read from its traced program."""

    operations: frozenset[str] | None
    """Names of its operations; None if unknown."""
    largest: int
    """Number of elements of its largest known array."""
    threads: int
    """Number of threads that may run it in parallel.

    One per core if no operation waits in XLA's threads. One less if some may wait, so that a thread is left to work.
    One if the operations are unknown."""

    @property
    def fits_one_function(self) -> bool:
        """True if XLA's CPU backend can compile it and the loop around it into one function."""
        return (
            self.operations is not None
            and self.operations <= SINGLE_CALL_OPERATIONS
            and self.largest <= MAX_SMALL_ARRAY
        )


def program_properties(likelihood: Callable[[Any], Any], size: int, dtype: Any = np.float64) -> ProgramProperties:
    """Return the properties of the program of a log-likelihood of `size` elements."""
    program = program_of(likelihood, jax.ShapeDtypeStruct((size,), dtype))
    largest = max([size, *(np.size(leaf) for leaf in jax.tree.leaves(likelihood))])
    if program is None:
        return ProgramProperties(None, largest, threads=1)
    threads = available_cores() if matrices.never_waits(program) else max(1, available_cores() - 1)
    return ProgramProperties(jaxprs.operations(program), max(largest, jaxprs.largest_result(program)), threads)


def over_many(likelihood: Callable[[Any], Any], axes: int = 1) -> Callable[[Any], Any]:
    """Return a function that evaluates a log-likelihood at points along leading axes."""
    known = likelihood.program.one_by_one if isinstance(likelihood, TracedLikelihood) else None
    return over_axes(lambda f: jnp.asarray(likelihood(f), f.dtype), axes, known)


def over_axes(function: Callable[[Any], Any], axes: int = 1, one_by_one: bool | None = None) -> Callable[[Any], Any]:
    """Return a function of one point as a function of points along leading axes.

    It uses `vmap`. On a CPU it evaluates one point after the other if an operation is not known to be safe in a batch.
    Default of `one_by_one`: found from the program.
    """

    def at_all_points(points: Any) -> Any:
        point = jax.ShapeDtypeStruct(points.shape[axes:], points.dtype)
        in_turn = computes_on_cpu() and not safe_in_batches(function, point) if one_by_one is None else one_by_one
        batched: Callable[..., Any] = matrices.one_matrix_at_a_time(function) if in_turn else function
        for _ in range(axes):
            batched = partial(lax.map, batched) if in_turn else jax.vmap(batched)
        return batched(points)

    return at_all_points


def safe_in_batches(function: Callable[[Any], Any], point: Any) -> bool:
    """Return whether all operations of a function are known to be safe in a batch."""
    program = jaxprs.read(function, point)
    return program is not None and jaxprs.operations(program) <= COMPILED


def _waits(function: Callable[[Any], Any], point: Any) -> bool:
    """Return whether some operation may wait in one of XLA's threads; False if the program cannot be read."""
    program = jaxprs.read(function, point)
    return program is not None and not matrices.never_waits(program)
