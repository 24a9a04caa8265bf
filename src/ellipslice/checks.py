"""Check numbers, arrays and paths as users give them, and warn at the user's line.

Each function returns the value in the form that the library uses, or raises with what was given, what was expected
and what to do. Checks that only one class needs are in the file of that class.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

# --- one number -----------------------------------------------------------------------------------------------------


def is_whole(value: Any) -> bool:
    """Return whether `value` is an integer of Python or NumPy, and not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether `value` is a real number of Python or NumPy, and not a bool."""
    return is_whole(value) or isinstance(value, float | np.floating)


def whole_number(name: str, value: Any, least: int, expected: str | None = None) -> int:
    """Return `value` as an int. Raise TypeError if it is not a whole number, ValueError if it is below `least`.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
    least : int
    expected : str, optional
        What `value` must be, such as "a whole number, at least 1". If given, both mistakes raise a ValueError with
        these words.
    """
    if expected is not None and not (is_whole(value) and value >= least):
        raise ValueError(f"{name} must be {expected}, but it is {value!r}.")
    if not is_whole(value):
        raise TypeError(f"{name} must be a whole number, but it is {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, but it is {value}.")
    return int(value)


def number(
    name: str, value: Any, *, above: float, most: float = math.inf, expected: str | None = None, advice: str = ""
) -> float:
    """Return `value` as a float. Raise TypeError if it is not a number, ValueError unless above < value <= most.

    An infinite value always raises.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
    above, most : float
    expected : str, optional
        Where `value` must be, such as "in (0, 1]". Default: "finite and above ...".
    advice : str
        What to do, the last sentence of both messages.
    """
    advice = f" {advice}" if advice else ""
    if not is_number(value):
        raise TypeError(f"{name} must be a number, but it is {value!r}.{advice}")
    if not above < value <= most or value == math.inf:
        raise ValueError(f"{name} must be {expected or f'finite and above {above:g}'}, but it is {value}.{advice}")
    return float(value)


def positive_number(name: str, value: Any) -> float:
    """Return `value` as a float; an array without axes is accepted. Raise if it is not one positive finite number."""
    array = as_numbers(value, name)
    if array.ndim or not array > 0:
        raise ValueError(f"{name} must be one positive number, but it is {value!r}.")
    return float(array)


# --- arrays ---------------------------------------------------------------------------------------------------------


def as_numbers(values: Any, name: str, *, finite: bool = True, advice: str = "") -> np.ndarray:
    """Return a float64 copy of `values`. Raise if anything in it is not a real number, or not finite.

    Parameters
    ----------
    values : array_like
    name : str
        Name of the argument; its owner may stand before it, "Gaussian: y".
    finite : bool
        Whether infinite values and NaN raise. Default: True.
    advice : str
        What to do about values that are masked or not finite, a sentence.
    """
    if hasattr(values, "toarray"):
        raise TypeError(f"{name} is a sparse {type(values).__name__}. Pass it as a dense array, by its .toarray().")
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values. {advice or 'Leave them out, or fill them in.'}")
    if hasattr(type(values), "noise_size"):
        raise TypeError(f"{name} must be numbers, but it is a prior, {values!r}. Did you mean a draw from it?")
    if isinstance(values, Mapping):
        raise TypeError(f"{name} must be an array, but it is a mapping. Put its parts into one array.")
    if callable(values):
        raise TypeError(f"{name} must be numbers, but it is a {type(values).__name__}. Pass what it returns.")
    try:
        given = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} is not a rectangular array: its rows have different lengths.") from None
    check_real(name, given.dtype)
    array = given.astype(np.float64)
    if finite and not np.isfinite(array).all():
        index, place = _first(~np.isfinite(array))
        advice = f" {advice}" if advice else ""
        raise ValueError(f"{name} must be finite, but {name}{place} is {array[index]}.{advice}")
    return array


def check_real(name: str, dtype: Any) -> None:
    """Raise unless `dtype` holds real numbers or bools."""
    if dtype.kind not in "fiub":
        raise TypeError(
            f"{name} has dtype {dtype}. Expected real numbers. Convert it first, with numpy.asarray(..., dtype=float) "
            "if it holds numbers."
        )


def reject(name: str, values: np.ndarray, bad: np.ndarray, problem: str) -> None:
    """Raise ValueError if any element of `bad` is True, with the first such value and its index.

    Parameters
    ----------
    name : str
    values : array
    bad : array of bool
        Same shape as `values`.
    problem : str
        What is wrong with the value, what was expected and what to do: the rest of the message.
    """
    if bad.any():
        index, place = _first(bad)
        raise ValueError(f"{name}{place} = {values[index]:g} {problem}")


def _first(bad: np.ndarray) -> tuple[tuple[int, ...], str]:
    """Return the index of the first True element, and the index as it is written: "[1, 2]", or "" without axes."""
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    return index, f"[{', '.join(map(str, index))}]" if index else ""


def as_mean(mean: Any, shape: tuple[int, ...], name: str = "mean") -> np.ndarray | None:
    """Return a mean, or another number per element of a latent of this shape, as a flat array; None if all are 0."""
    array = as_numbers(mean, name)
    if array.shape not in ((), shape):
        raise ValueError(
            f"{name} has shape {array.shape}, but the latent has shape {shape}. Give a number or that shape."
        )
    if not array.any():
        return None
    return np.broadcast_to(array, shape).ravel().copy()


def as_grid(shape: Any) -> tuple[int, ...]:
    """Return the shape of a grid with one, two or three axes as a tuple of ints."""
    given = np.atleast_1d(np.asarray(shape))
    if given.dtype.kind not in "iu" or given.ndim != 1 or not 1 <= len(given) <= 3 or given.min() < 1:
        raise ValueError(f"shape must be 1, 2 or 3 positive whole numbers, but it is {shape!r}.")
    return tuple(int(n) for n in given)


# --- paths ----------------------------------------------------------------------------------------------------------


def as_path(store: Any) -> Path:
    """Return `store` as a `Path`. Raise if it is not a path, is empty, or is a URL."""
    text = os.fspath(store) if isinstance(store, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise TypeError(f'store must be the path of a folder, such as "run.zarr", but it is {store!r}.')
    if "://" in text:
        raise ValueError(f"store is {text!r}, but a run is written to a folder on this machine. Copy it afterwards.")
    return Path(text)


# --- warnings -------------------------------------------------------------------------------------------------------


def warn(message: str) -> None:
    """Issue a `UserWarning` that points at the nearest caller outside this package."""
    level, frame = 1, sys._getframe(0)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "ellipslice":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
