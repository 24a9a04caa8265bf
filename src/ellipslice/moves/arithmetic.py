"""The few functions a search needs, for Python floats, NumPy arrays, JAX arrays and exact rationals alike.

Moves are written once. The host engine runs them on floats and on NumPy tables, the compiled engine traces them, and
the reversibility test runs them on exact fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where `condition` holds, else `no`."""
    if isinstance(condition, bool):
        return yes if condition else no
    return (np if isinstance(condition, np.ndarray | np.bool_) else jnp).where(condition, yes, no)


def count(condition: Any) -> Any:
    """1 if `condition` holds, else 0."""
    return int(condition) if isinstance(condition, bool | np.bool_) else condition.astype(np.int32)


def cos_sin(theta: Any) -> tuple[Any, Any]:
    """Cosine and sine of an angle."""
    if isinstance(theta, float):
        return math.cos(theta), math.sin(theta)
    xp = np if isinstance(theta, np.ndarray) else jnp
    return xp.cos(theta), xp.sin(theta)


def rounded(product: Any) -> Any:
    """A product that is rounded before anything is added to it.

    Of a product and a sum a compiler makes one operation, which rounds once, in some programs and not in others.
    """
    return jnp.where(jnp.isnan(product), jnp.nan, product) if isinstance(product, jax.Array) else product


def put(f: Any, block: Any, values: Any) -> Any:
    """A copy of f with other values at the indices `block`."""
    if isinstance(f, np.ndarray):
        f = f.copy()
        f[block] = values
        return f
    return f.at[block].set(values)


def pick(index: Any, functions: Sequence[Callable[..., Any]], *arguments: Any) -> Any:
    """Return what function number `index` makes of the arguments."""
    if isinstance(index, np.number):
        return functions[int(index)](*arguments)
    return jax.lax.switch(index.astype(np.int32), functions, *arguments)


def fold(one: Callable[[Any, Any], tuple[Any, Any]], start: tuple[Any, ...], rows: tuple[Any, ...]) -> tuple[Any, Any]:
    """Carry something along rows of arrays: one(carry, row) -> (carry, what the row gives).

    The last carry, and arrays of what the rows gave; `jax.lax.scan`, and the same in Python for NumPy arrays.
    """
    if not isinstance(jax.tree.leaves(start)[0], np.ndarray):
        return jax.lax.scan(one, start, tuple(jnp.asarray(part) for part in rows))
    carry, given = start, []
    for row in zip(*rows, strict=True):
        carry, out = one(carry, row)
        given.append(out)
    return carry, tuple(map(np.array, zip(*given, strict=True)))
