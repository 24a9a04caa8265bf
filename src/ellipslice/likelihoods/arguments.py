"""Check the observations and parameters that users give to a likelihood, and the rates that it simulates from.

Each message states what was given, what was expected and what to do.
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
    return read_only(np.atleast_1d(_as_finite_numbers(owner, "y", y)))


def check_counts(owner: str, name: str, values: np.ndarray, advice: str) -> None:
    """Raise if a value is not one of 0, 1, 2, ... The message ends with `advice`."""
    bad = (values < 0) | (values != np.floor(values))
    reject(f"{owner}: {name}", values, bad, f"is not a count. Expected whole numbers, 0 or more. {advice}")


def check_positive(owner: str, name: str, values: np.ndarray, advice: str) -> None:
    """Raise if a value is not above 0. The message ends with `advice`."""
    reject(f"{owner}: {name}", values, values <= 0, f"is not positive. Expected numbers above 0. {advice}")


def as_labels(owner: str, y: Any) -> tuple[np.ndarray, bool]:
    """Return the labels as -1 and +1, and whether they were given as 0 and 1. Warn if they were."""
    values = observations(owner, y)
    bad = np.unique(values[~np.isin(values, (-1.0, 0.0, 1.0))])
    advice = "Expected -1 and +1, or 0 and 1. Recode the two classes as -1 and +1."
    if bad.size:
        more = ", ..." if bad.size > 5 else ""
        raise ValueError(f"{owner}: y holds {', '.join(f'{value:g}' for value in bad[:5])}{more} as labels. {advice}")
    if not (np.asarray(y).dtype == np.bool_ or (values == 0.0).any()):
        return values, False
    if (values == -1.0).any():
        raise ValueError(
            f"{owner}: y holds both -1 and 0, so it is not clear whether labels are 0/1 or -1/+1. {advice}"
        )
    if not _LABEL_WARNING_OFF.get():
        warnings.warn(
            f"{owner}: labels 0/1 were read as -1/+1. To avoid this warning, pass 2 * y - 1.", UserWarning, stacklevel=3
        )
    return read_only(2.0 * values - 1.0), True


_LABEL_WARNING_OFF: ContextVar[bool] = ContextVar("label warning off", default=False)


@contextmanager
def without_label_warning() -> Iterator[None]:
    """Suppress the warning about 0/1 labels in this context, because a model has already issued it for the data."""
    token = _LABEL_WARNING_OFF.set(True)
    try:
        yield
    finally:
        _LABEL_WARNING_OFF.reset(token)


def parameter(owner: str, name: str, value: Any, shape: tuple[int, ...], positive: bool = False) -> Any:
    """Return a parameter as an array. Raise if it does not broadcast to `shape`, is not finite, or is not positive.

    It must be positive only if `positive` is True. Models with unknown hyperparameters make likelihoods inside compiled
    code, where values are not checked.
    """
    traced = isinstance(value, Tracer)
    values: Any = value if traced else _as_finite_numbers(owner, name, value)
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
    return read_only(values)


def read_only(values: Any) -> Any:
    """Return a read-only float64 array, because a change would contradict the constants computed from it."""
    if isinstance(values, Tracer):
        return values
    values = np.asarray(values, dtype=np.float64)
    values.setflags(write=False)
    return values


def _as_finite_numbers(owner: str, name: str, value: Any) -> np.ndarray:
    """Return a float64 copy, which later changes of the caller's array do not affect. Raise if it is not finite."""
    if isinstance(value, Tracer):
        raise TypeError(
            f"{owner}: {name} is traced by JAX, so its values cannot be checked. Expected numbers. Build the "
            "likelihood outside the compiled function and pass it in as an argument: it is a pytree."
        )
    full_name, advice = f"{owner}: {name}", "Drop missing values and the corresponding elements of f."
    array = as_numbers(value, full_name, finite=False, advice=advice)
    if array.size == 0:
        raise ValueError(f"{owner}: {name} is empty (shape {array.shape}). Expected at least one value.")
    reject(full_name, array, ~np.isfinite(array), f"is not finite. Expected finite numbers. {advice}")
    return array


def draw_counts(owner: str, rate: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw Poisson counts. Raise if a rate is too large for NumPy's integers."""
    bad = ~(rate < 9e18)
    reject(f"{owner}: the rate", rate, bad, "cannot be simulated: it must be below 9e18. Check the scale of f.")
    return rng.poisson(rate)
