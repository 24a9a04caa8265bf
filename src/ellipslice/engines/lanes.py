"""A log-likelihood that is a sum over sites, arranged so that a CPU works on eight of them at a time.

In a loop that is one function (`loops.py`) XLA goes through the sites of a sum one by one, exponentials and all, for it
keeps the order. Eight sums side by side it does with vector instructions. And a sum of log(1 + exp(x)) becomes the
logarithm of a product, as in the fused kernel. Both change the last digits of a value, and nothing else.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.engines.elementwise import NotElementwise, elementwise
from ellipslice.engines.site_program import CPU
from ellipslice.pytree import pytree, set_fields

WIDTH = 8
"""Sums side by side: a vector register of doubles, or two."""

ROWS = 32
"""Values added up in each: of more, XLA makes windows, which it is slow to add up."""

GROUPS = {np.dtype(np.float64): 8, np.dtype(np.float32): 1}
"""Times `ROWS` factors in [1, 2] are multiplied before a logarithm is taken, were there three for each site."""


def in_lanes(likelihood: Any, size: int) -> Any:
    """The likelihood in lanes if it is a sum over sites, and as it is if not."""
    if size < WIDTH:
        return likelihood
    try:
        elementwise(likelihood, size, np.float64, CPU)
    except NotElementwise:
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


def dot(one: Any, two: Any) -> Any:
    """The inner product of two vectors; in lanes, if it is to be compiled."""
    return one @ two if isinstance(two, np.ndarray) else _sum(one * two)


def _total(a: Any, m: Any) -> Any:
    return _sum(a) if m is None else _sum(a) - _log_product(m)


def _sum(terms: Any) -> Any:
    groups, left_over = _in_rows(terms)
    total = left_over.sum()
    for rows in groups:
        lanes = lax.optimization_barrier(rows.sum(-2))  # or XLA makes one sum of the two, and one lane
        total += _together(lanes)
    return total


def _log_product(factors: Any) -> Any:
    groups, left_over = _in_rows(factors)
    total, most = jnp.log(left_over.prod()), GROUPS[factors.dtype]
    for rows in groups:
        lanes = lax.optimization_barrier(rows.prod(-2))
        for first in range(0, len(lanes), most):
            total += _together(jnp.log(math.prod(lanes[first : first + most])))
    return total


def _in_rows(values: Any) -> tuple[list[Any], Any]:
    """The values in groups of rows of all lanes, shape (groups, rows, WIDTH), and a few that are left over.

    Some always are: what only one sum wants, XLA works out inside of that sum, one value at a time.
    """
    groups, rows = divmod((len(values) - 1) // WIDTH, ROWS)
    many, few = groups * ROWS * WIDTH, rows * WIDTH
    in_rows = [
        values[:many].reshape(groups, ROWS, WIDTH),
        values[many : many + few].reshape(1, rows, WIDTH),
    ]
    return [some for some in in_rows if some.size], values[many + few :]


def _together(lanes: Any) -> Any:
    """The sum of the lanes, in an order that XLA has no say in: so it has the same bits in any loop."""
    lanes = sum(lanes.reshape(-1, WIDTH))
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]
