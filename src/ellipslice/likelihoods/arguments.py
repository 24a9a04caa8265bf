"""Check the observations and parameters that users give to a likelihood, and what it simulates.

Each message says what was given, what was expected and what to do.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from jax.core import Tracer

from ellipslice.checks import as_numbers, reject


def observations(owner: str, y: Any) -> np.ndarray:
    """Return y as a read-only float64 array of finite numbers with at least one axis."""
    return leaf(np.atleast_1d(_numbers(owner, "y", y)))


def counts(owner: str, name: str, values: np.ndarray, advice: str) -> None:
    """Raise unless all values are 0, 1, 2, ..."""
    bad = (values < 0) | (values != np.floor(values))
    reject(f"{owner}: {name}", values, bad, f"is not a count. Expected whole numbers, 0 or more. {advice}")


def labels(owner: str, y: Any) -> tuple[np.ndarray, bool]:
    """Return the labels as -1 and +1, and whether they were given as 0 and 1."""
    values = observations(owner, y)
    bad = np.unique(values[~np.isin(values, (-1.0, 0.0, 1.0))])
    advice = "Expected -1 and +1, or 0 and 1. Recode the two classes as -1 and +1."
    if bad.size:
        more = ", ..." if bad.size > 5 else ""
        raise ValueError(f"{owner}: y holds {', '.join(f'{value:g}' for value in bad[:5])}{more} as labels. {advice}")
    if not (np.asarray(y).dtype == np.bool_ or (values == 0.0).any()):
        return values, False
    if (values == -1.0).any():
        raise ValueError(f"{owner}: y holds both -1 and 0, so 0/1 labels cannot be told from -1/+1 ones. {advice}")
    if not _SAID.get():
        warnings.warn(
            f"{owner}: labels 0/1 were read as -1/+1. Pass 2 * y - 1 to say so yourself.", UserWarning, stacklevel=3
        )
    return leaf(2.0 * values - 1.0), True


_SAID: ContextVar[bool] = ContextVar("how labels were read has been said", default=False)


@contextmanager
def said_before() -> Iterator[None]:
    """Suppress the warning about 0/1 labels, for data about which a model has warned before."""
    token = _SAID.set(True)
    try:
        yield
    finally:
        _SAID.reset(token)


def parameter(owner: str, name: str, value: Any, shape: tuple[int, ...], positive: bool = False) -> Any:
    """Return a parameter as an array: a finite number, or an array that broadcasts to y's shape.

    Inside compiled code, where models with unknown parameters make likelihoods, its values cannot be checked.
    """
    traced = isinstance(value, Tracer)
    values: Any = value if traced else _numbers(owner, name, value)
    try:
        fits = np.broadcast_shapes(values.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{owner}: {name} has shape {values.shape}, which does not broadcast to y's shape {shape}. "
            f"Give one number, or an array of shape {shape}."
        )
    if positive and not traced:
        reject(f"{owner}: {name}", values, values <= 0, f"is not positive. Expected {name} > 0 everywhere.")
    return leaf(values)


def leaf(values: Any) -> Any:
    """Return a read-only float64 array: a later change would contradict the constants computed from it."""
    if isinstance(values, Tracer):
        return values
    values = np.asarray(values, dtype=np.float64)
    values.setflags(write=False)
    return values


def _numbers(owner: str, name: str, value: Any) -> np.ndarray:
    """Return a float64 copy: later changes of the caller's array must not change the likelihood."""
    if isinstance(value, Tracer):
        raise TypeError(
            f"{owner}: {name} is traced by JAX, so its values cannot be checked. Expected numbers. Build the "
            "likelihood outside the compiled function and pass it in as an argument: it is a pytree."
        )
    whole, advice = f"{owner}: {name}", "Drop missing values, and their part of f."
    array = as_numbers(value, whole, finite=False, advice=advice)
    if array.size == 0:
        raise ValueError(f"{owner}: {name} is empty (shape {array.shape}). Expected at least one value.")
    reject(whole, array, ~np.isfinite(array), f"is not finite. Expected finite numbers. {advice}")
    return array


def draw_counts(owner: str, rate: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw Poisson counts. Raise if a rate is too large for the integers of NumPy."""
    bad = ~(rate < 9e18)
    reject(f"{owner}: the rate", rate, bad, "cannot be simulated: it must be below 9e18. Check f's scale.")
    return rng.poisson(rate)
