"""Sum a log-likelihood that factorises over the elements of f with the vector instructions of a CPU.

In a loop that is one function (`xla_loop.py`) XLA preserves the order of a sum, so it computes and adds the terms one
by one. It computes sixteen sums in parallel with vector instructions. In addition, a sum of log(1 + exp(x)) becomes the
logarithm of a product, as in the fused kernel. Both change only the rounding error.

The values to be reduced are divided into sections, and a section into rows of equal width (`_sections`). The rows of a
section are reduced to one row, with vector instructions; then the values of that row (`_reduce`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.moves.array_ops import rounded
from ellipslice.programs.site_program import CPU
from ellipslice.programs.site_sums import NotFactorised, elementwise
from ellipslice.pytree import pytree, set_fields
from ellipslice.undocumented.registry import first_line, note

ITEM = "vectorised sums"

VECTOR_WIDTH = 16
"""Number of sums in parallel. XLA compiles eight to separate operations, but sixteen to a loop, which it vectorises."""

REMAINDER_WIDTH = 8
"""Number of sums in parallel for the values that do not fill a row of VECTOR_WIDTH."""

MAX_ROWS = 64
"""Largest number of rows in a section: more values make wider rows."""

MAX_ELEMENTS = 4096
"""Largest number of elements of a vector sum. For more, XLA alone is as fast, and compilation would take long."""

FACTORS_PER_LOG = {np.dtype(np.float64): 256, np.dtype(np.float32): 32}
"""Number of elements whose factors in [1, 2] are multiplied per logarithm. Three per element do not overflow."""


def vectorise_sum(likelihood: Any, size: int) -> Any:
    """Return the likelihood as a `VectorSum` if it factorises over the elements of f, else unchanged."""
    if not REMAINDER_WIDTH <= size <= MAX_ELEMENTS:
        return likelihood
    try:
        program = elementwise(likelihood, size, np.float64, CPU)
        values = jax.ShapeDtypeStruct((size,), np.float64)
        jax.eval_shape(lambda f: program.parts(f, program.data, program.scalars, CPU), values)
    except NotFactorised:
        return likelihood
    except Exception as error:  # noqa: BLE001  JAX has traced it before, so this is not an error of the user
        note(ITEM, f"a log-likelihood could not be read ({first_line(error)})")
        return likelihood
    return VectorSum(likelihood)


@pytree
class VectorSum:
    """Log-likelihood of a centred flat vector, summed with vector instructions."""

    likelihood: Any

    def __init__(self, likelihood: Any):
        set_fields(self, likelihood=likelihood)

    def __call__(self, f: Any) -> Any:
        """Return the log-likelihood of one centred flat vector."""
        try:
            return self._vectorised(f)
        except Exception as error:  # noqa: BLE001  the plain likelihood is a fallback, and raises errors of the user
            note(ITEM, f"a log-likelihood could not be vectorised ({first_line(error)})")
            return jnp.asarray(self.likelihood(f), f.dtype)

    def _vectorised(self, f: Any) -> Any:
        # The program is read again in every trace, because here the data are tracers instead of numbers.
        program = elementwise(self.likelihood, len(f), f.dtype, CPU)

        @jax.custom_jvp
        def value(f: Any, data: Any, scalars: Any, constant: Any) -> Any:
            return jnp.asarray(_total(*program.parts(f, data, scalars, CPU)) + constant, f.dtype)

        @value.defjvp
        def tangent(primals: Any, tangents: Any) -> Any:
            f, data, scalars, _ = primals
            elements = partial(program.parts, data=data, scalars=scalars, device=CPU)
            (_, m), (slope, slope_of_m) = jax.jvp(elements, (f,), (tangents[0],))
            return value(*primals), (slope if m is None else slope - slope_of_m / m).sum()

        return value(f, program.data, program.scalars, program.constant)


def dot(one: Any, two: Any, *more: Any) -> Any:
    """Return the sum over the elements of the product of vectors. Compiled code uses vector instructions."""
    if isinstance(one, np.ndarray):
        return math.prod(more, start=one) @ two
    if len(one) > MAX_ELEMENTS:
        return reduce(operator.mul, (one, two, *more)).sum()
    sections = zip(*(_sections(vector) for vector in (one, two, *more)), strict=True)
    products = [[reduce(operator.mul, rows) for rows in zip(*section, strict=True)] for section in sections]
    return _reduce(operator.add, products)


def largest(values: Any) -> Any:
    """Return the largest value, with vector instructions."""
    return values.max() if len(values) > MAX_ELEMENTS else _reduce(jnp.maximum, _sections(values))


def _total(a: Any, m: Any) -> Any:
    """Return the sum over the elements of a - log m. If m is None, it is 1."""
    total = _reduce(operator.add, _sections(rounded(a)))
    return total if m is None else total - _log_product(m)


def _log_product(factors: Any) -> Any:
    """Return the logarithm of the product of factors, as a sum of logarithms of products that cannot overflow."""
    total, most = 0.0, FACTORS_PER_LOG[factors.dtype]
    for rows in _sections(factors, most):
        row, multiplied = _pairwise(operator.mul, rows), len(rows)
        while len(row) % 2 == 0 and 2 * multiplied <= most:  # to take fewer logarithms
            row, multiplied = operator.mul(*jnp.split(row, 2)), 2 * multiplied
        total += _reduce(operator.add, _sections(jnp.log(row)))
    return total


def _sections(values: Any, max_rows: int = MAX_ROWS) -> list[list[Any]]:
    """Divide values into at most three sections of rows: wide ones, then rows of REMAINDER_WIDTH, then single values.

    The width of wide rows is a multiple of VECTOR_WIDTH, large enough for at most `max_rows` rows.
    """
    wide = VECTOR_WIDTH * -(-len(values) // (VECTOR_WIDTH * min(max_rows, MAX_ROWS)))
    sections, rest = [], values
    for width in (wide, REMAINDER_WIDTH, 1):
        count = len(rest) // width
        if count:
            sections.append([rest[i * width : (i + 1) * width] for i in range(count)])
        rest = rest[count * width :]
    return sections


def _reduce(operation: Callable[[Any, Any], Any], sections: list[list[Any]]) -> Any:
    """Reduce all values of the sections to one.

    The order is fixed here and not left to XLA, so that the result is bit-identical in every program.
    """
    return _pairwise(operation, [_reduce_row(operation, _pairwise(operation, rows)) for rows in sections])


def _reduce_row(operation: Callable[[Any, Any], Any], row: Any) -> Any:
    """Reduce the values of one row to one. A long row is divided into sections again."""
    return _reduce(operation, _sections(row)) if len(row) > VECTOR_WIDTH else _pairwise(operation, list(row))


def _pairwise(operation: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    """Reduce values or rows to one: neighbours first, then their results, and so on."""
    while len(parts) > 1:
        odd = parts[len(parts) // 2 * 2 :]
        parts = [operation(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)] + odd
    return parts[0]
