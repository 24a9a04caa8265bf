"""A log-likelihood that is a sum over sites, arranged so that a CPU works on eight of them at a time.

In a loop that is one function (`loops.py`) XLA goes through the sites of a sum one by one, exponentials and all, for it
keeps the order. Eight sums side by side it does with vector instructions. And a sum of log(1 + exp(x)) becomes the
logarithm of a product, as in the fused kernel. Both change the last digits of a value, and nothing else.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.engines.elementwise import CPU, Elementwise, NotElementwise, elementwise
from ellipslice.pytree import pytree, set_fields

WIDTH = 8
"""Sums side by side: a vector register of doubles, or two."""

FACTORS = {np.dtype(np.float64): 256, np.dtype(np.float32): 32}
"""How many factors in [1, 2] are multiplied before a logarithm is taken, were there three for each site."""


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
            return jnp.asarray(_total(program, f, data, scalars) + constant, f.dtype)

        @value.defjvp
        def tangent(primals: Any, tangents: Any) -> Any:
            f, data, scalars, _ = primals

            def terms(f: Any) -> Any:
                a, m = program.parts(f, data, scalars, CPU)
                return a if m is None else a - jnp.log(m)

            return value(*primals), jax.jvp(terms, (f,), (tangents[0],))[1].sum()

        return value(f, program.data, program.scalars, program.constant)


def _total(program: Elementwise, f: Any, data: list[Any], scalars: list[Any]) -> Any:
    """The sum over the sites: as many as fill all lanes, and those left over."""
    factors, total, start = FACTORS[f.dtype], 0.0, 0
    for rows in (factors * WIDTH, WIDTH, 1):
        count = (len(f) - start) // rows
        if not count:
            continue
        shape = {1: (count,), WIDTH: (count, WIDTH)}.get(rows, (count, factors, WIDTH))
        piece = slice(start, start + count * rows)
        a, m = program.parts(f[piece].reshape(shape), [part[piece].reshape(shape) for part in data], scalars, CPU)
        axis = max(0, len(shape) - 2)
        total += _together(lax.optimization_barrier(a.sum(axis)))  # or XLA makes one sum of the two, and one lane
        if m is not None:
            total -= _together(jnp.log(lax.optimization_barrier(m.prod(axis))))
        start = piece.stop
    return total


def _together(lanes: Any) -> Any:
    """The sum of the lanes, in an order that XLA has no say in: so it has the same bits in any loop."""
    lanes = lanes.reshape(-1, WIDTH).sum(0) if lanes.size > WIDTH else lanes.reshape(-1)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]
