"""The array operations that moves use, for Python floats, NumPy arrays, JAX arrays and exact fractions.

Each move is written once. The host engine runs it on floats and NumPy arrays, the compiled engine traces it, and the
reversibility test runs it on exact fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Return `yes` where `condition` holds, else `no`."""
    if isinstance(condition, bool):
        return yes if condition else no
    return (np if isinstance(condition, np.ndarray | np.bool_) else jnp).where(condition, yes, no)


def count(condition: Any) -> Any:
    """Return 1 if `condition` holds, else 0."""
    return int(condition) if isinstance(condition, bool | np.bool_) else condition.astype(np.int32)


def cos_sin(theta: Any) -> tuple[Any, Any]:
    """Return cosine and sine of an angle."""
    if isinstance(theta, float):
        return math.cos(theta), math.sin(theta)
    xp = np if isinstance(theta, np.ndarray) else jnp
    return xp.cos(theta), xp.sin(theta)


def angle_of(cos: Any, sin: Any) -> Any:
    """Return the angle in [-pi, pi] whose cosine and sine are proportional to the arguments."""
    if isinstance(cos, float):
        return math.atan2(sin, cos)
    xp = np if isinstance(cos, np.ndarray) else jnp
    return xp.arctan2(sin, cos)


def rounded(product: Any) -> Any:
    """Return a product that is rounded before anything is added to it.

    In some programs a compiler fuses a product and a sum into one operation, which rounds only once. The result would
    then depend on the program.
    """
    return jnp.where(jnp.isnan(product), jnp.nan, product) if isinstance(product, jax.Array) else product


def set_block(f: Any, block: Any, values: Any) -> Any:
    """Return a copy of f with other values at the indices `block`."""
    if isinstance(f, np.ndarray):
        f = f.copy()
        f[block] = values
        return f
    return f.at[block].set(values)


def switch(index: Any, functions: Sequence[Callable[..., Any]], *arguments: Any) -> Any:
    """Return the result of function number `index`, by `jax.lax.switch` or, for NumPy numbers, by a call."""
    if isinstance(index, np.number):
        return functions[int(index)](*arguments)
    return jax.lax.switch(index.astype(np.int32), functions, *arguments)


def scan(one: Callable[[Any, Any], tuple[Any, Any]], start: tuple[Any, ...], rows: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the last carry and the stacked outputs of one(carry, row) -> (carry, output), over rows of arrays.

    This is `jax.lax.scan` for JAX arrays, and a loop in Python for NumPy arrays.
    """
    if not isinstance(jax.tree.leaves(start)[0], np.ndarray):
        return jax.lax.scan(one, start, tuple(jnp.asarray(part) for part in rows))
    carry, outputs = start, []
    for row in zip(*rows, strict=True):
        carry, output = one(carry, row)
        outputs.append(output)
    return carry, tuple(map(np.array, zip(*outputs, strict=True)))
