"""A log-likelihood that is a sum over sites, arranged so that a CPU works on sixteen of them at a time.

In a loop that is one function (`xla_loop.py`) XLA goes through the sites of a sum one by one, exponentials and all, for
it keeps the order. Sixteen sums side by side it does with vector instructions. And a sum of log(1 + exp(x)) becomes the
logarithm of a product, as in the fused kernel. Both change the last digits of a value, and nothing else.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.moves.arithmetic import rounded
from ellipslice.programs.site_program import CPU
from ellipslice.programs.site_sums import NotElementwise, elementwise
from ellipslice.pytree import pytree, set_fields
from ellipslice.undocumented.registry import first_line, note

ITEM = "sums in lanes"

LANES = 16
"""Sums side by side. Of eight XLA makes eight operations; of sixteen a loop, which it does with vectors."""

LEFT_OVER = 8
"""The same, for what is left over."""

ROWS = 64
"""Values added up in each, at most: of more there are more lanes."""

MOST = 4096
"""Values in lanes: with more XLA does as well by itself, and a program of so many rows takes long to compile."""

FACTORS = {np.dtype(np.float64): 256, np.dtype(np.float32): 32}
"""Sites whose factors in [1, 2] are multiplied before a logarithm is taken, were there three for each."""


def in_lanes(likelihood: Any, size: int) -> Any:
    """The likelihood in lanes if it is a sum over sites, and as it is if not."""
    if not LEFT_OVER <= size <= MOST:
        return likelihood
    try:
        program = elementwise(likelihood, size, np.float64, CPU)
        values = jax.ShapeDtypeStruct((size,), np.float64)
        jax.eval_shape(lambda f: program.parts(f, program.data, program.scalars, CPU), values)
    except NotElementwise:
        return likelihood
    except Exception as error:  # noqa: BLE001  JAX has traced it before, so this is no fault of the user's
        note(ITEM, f"a log-likelihood could not be read ({first_line(error)})")
        return likelihood
    return InLanes(likelihood)


@pytree
class InLanes:
    """A sum over sites of a centred flat vector, in lanes."""

    likelihood: Any

    def __init__(self, likelihood: Any):
        set_fields(self, likelihood=likelihood)

    def __call__(self, f: Any) -> Any:
        """Value at one vector."""
        try:
            return self._in_lanes(f)
        except Exception as error:  # noqa: BLE001  the plain likelihood is as good, and raises what the user should see
            note(ITEM, f"a log-likelihood could not be arranged so ({first_line(error)})")
            return jnp.asarray(self.likelihood(f), f.dtype)

    def _in_lanes(self, f: Any) -> Any:
        # Read again in every trace: here the data are tracers, and the program read first has them as numbers.
        program = elementwise(self.likelihood, len(f), f.dtype, CPU)

        @jax.custom_jvp
        def value(f: Any, data: Any, scalars: Any, constant: Any) -> Any:
            return jnp.asarray(_total(*program.parts(f, data, scalars, CPU)) + constant, f.dtype)

        @value.defjvp
        def tangent(primals: Any, tangents: Any) -> Any:
            f, data, scalars, _ = primals
            sites = partial(program.parts, data=data, scalars=scalars, device=CPU)
            (_, m), (slope, slope_of_m) = jax.jvp(sites, (f,), (tangents[0],))
            return value(*primals), (slope if m is None else slope - slope_of_m / m).sum()

        return value(f, program.data, program.scalars, program.constant)


def dot(one: Any, two: Any, *more: Any) -> Any:
    """The sum over places of the products of vectors; in lanes, if it is to be compiled."""
    if isinstance(one, np.ndarray):
        return math.prod(more, start=one) @ two
    if len(one) > MOST:
        return reduce(operator.mul, (one, two, *more)).sum()
    parts = zip(*(_in_rows(vector) for vector in (one, two, *more)), strict=True)
    products = ([reduce(operator.mul, some) for some in zip(*rows, strict=True)] for rows in parts)
    return _together(operator.add, products)


def largest(values: Any) -> Any:
    """The largest of them, in lanes."""
    return values.max() if len(values) > MOST else _together(jnp.maximum, _in_rows(values))


def _total(a: Any, m: Any) -> Any:
    total = _together(operator.add, _in_rows(rounded(a)))
    return total if m is None else total - _log_product(m)


def _log_product(factors: Any) -> Any:
    total, most = 0.0, FACTORS[factors.dtype]
    for rows in _in_rows(factors, most):
        lanes, together = _pairwise(operator.mul, rows), len(rows)
        while len(lanes) % 2 == 0 and 2 * together <= most:
            lanes, together = operator.mul(*jnp.split(lanes, 2)), 2 * together
        total += _together(operator.add, _in_rows(jnp.log(lanes)))
    return total


def _in_rows(values: Any, most: int = ROWS) -> Iterator[list[Any]]:
    """The values in rows of all lanes, and what is left over in shorter ones."""
    lanes = LANES * -(-len(values) // (LANES * min(most, ROWS)))
    for width in (lanes, LEFT_OVER, 1):
        count = len(values) // width
        if count:
            yield [values[i * width : (i + 1) * width] for i in range(count)]
        values = values[count * width :]


def _together(operation: Callable[[Any, Any], Any], parts: Iterable[list[Any]]) -> Any:
    """All values put together, in an order that XLA has no say in: so they have the same bits in any loop."""
    lanes = [_pairwise(operation, rows) for rows in parts]
    few = [list(one) if len(one) <= LANES else [_together(operation, _in_rows(one))] for one in lanes]
    return _pairwise(operation, [_pairwise(operation, values) for values in few])


def _pairwise(operation: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    """Neighbours put together, then what comes of these, and so on."""
    while len(parts) > 1:
        odd = parts[len(parts) // 2 * 2 :]
        parts = [operation(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)] + odd
    return parts[0]
