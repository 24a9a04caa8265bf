"""Check numbers, arrays and paths as users give them, and warn at the user's line.

Each function returns the value in the form that the library uses, or raises with what was given, what was expected
and what to do. Checks that only one class needs are in the file of that class.
"""

from __future__ import annotations

import difflib
import math
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
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
        Argument as the user gave it.
    least : int
        Smallest value that is allowed.
    expected : str, optional
        What `value` must be, for example "a whole number, at least 1". If given, any invalid value raises a ValueError
        with these words.
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
        Argument as the user gave it.
    above, most : float
        Exclusive lower bound, and inclusive upper bound. Default of `most`: infinity.
    expected : str, optional
        Range of `value`, for example "in (0, 1]". Default: "finite and above ...".
    advice : str
        Advice: the last sentence of the message. Default: none.
    """
    advice = f" {advice}" if advice else ""
    if not is_number(value):
        raise TypeError(f"{name} must be a number, but it is {value!r}.{advice}")
    if not above < value <= most or value == math.inf:
        raise ValueError(f"{name} must be {expected or f'finite and above {above:g}'}, but it is {value}.{advice}")
    return float(value)


def positive_number(name: str, value: Any) -> float:
    """Return `value`, a number or an array without axes, as a float. Raise if it is not positive and finite."""
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
        Argument as the user gave it.
    name : str
        Name of the argument, optionally with the name of its class: "Gaussian: y".
    finite : bool
        Whether infinite values and NaN raise. Default: True.
    advice : str
        Sentence about what to do with values that are masked or not finite. Default: none.
    """
    if hasattr(values, "toarray"):
        raise TypeError(f"{name} is a sparse {type(values).__name__}. Convert it to a dense array with .toarray().")
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values. {advice or 'Remove them, or replace them by numbers.'}")
    if hasattr(type(values), "noise_size"):
        raise TypeError(f"{name} must be numbers, but it is a prior, {values!r}. Did you mean a draw from it?")
    if isinstance(values, Mapping):
        raise TypeError(f"{name} must be an array, but it is a mapping. Join its values into one array.")
    if callable(values):
        raise TypeError(f"{name} must be numbers, but it is a {type(values).__name__}. Pass the array that it returns.")
    if hasattr(values, "iloc") and hasattr(values, "columns") and len(values.columns):
        named = ((f"{name}[{column!r}]", values.iloc[:, i]) for i, column in enumerate(values.columns))
        return np.column_stack([as_numbers(each, where, finite=finite, advice=advice) for where, each in named])
    try:
        given = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} is not a rectangular array: its rows have different lengths. Give rows of one length."
        ) from None
    check_real(name, given.dtype)
    array = given.astype(np.float64)
    if finite and not np.isfinite(array).all():
        index, position = _first(~np.isfinite(array))
        advice = f" {advice}" if advice else ""
        raise ValueError(f"{name} must be finite, but {name}{position} is {array[index]}.{advice}")
    return array


def check_real(name: str, dtype: Any) -> None:
    """Raise if a dtype is not one of real numbers or booleans."""
    if dtype.kind not in "fiub":
        raise TypeError(
            f"{name} has dtype {dtype}. Expected real numbers. If it contains numbers, convert it with "
            "numpy.asarray(..., dtype=float)."
        )


def reject(name: str, values: np.ndarray, bad: np.ndarray, problem: str) -> None:
    """Raise ValueError if any element of `bad` is True, with the first such value and its index.

    Parameters
    ----------
    name : str
        Name of the argument.
    values : array
    bad : array of bool
        Same shape as `values`.
    problem : str
        Rest of the message: what is wrong with the value, what was expected and what to do.
    """
    if bad.any():
        index, position = _first(bad)
        raise ValueError(f"{name}{position} = {values[index]:g} {problem}")


def reject_unknown_names(argument: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise if a name is not known. The message suggests a similar one and lists the known ones."""
    known = list(known)
    for name in names:
        if name not in known:
            similar = difflib.get_close_matches(str(name), known, n=1)
            meant = f" Did you mean {similar[0]!r}?" if similar else ""
            raise ValueError(
                f"{argument} has {name!r}, which does not exist.{meant} Expected one of: {', '.join(known)}."
            )


def _first(bad: np.ndarray) -> tuple[tuple[int, ...], str]:
    """Return the index of the first True element, and the index as text: "[1, 2]", or "" for an array without axes."""
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    return index, f"[{', '.join(map(str, index))}]" if index else ""


def as_mean(mean: Any, shape: tuple[int, ...], name: str = "mean") -> np.ndarray | None:
    """Return one number per element of a latent, for example its mean, as a flat array; None if all are 0.

    Raise if `mean` is neither a number nor an array of the latent's `shape`.
    """
    array = as_numbers(mean, name)
    if array.shape not in ((), shape):
        raise ValueError(
            f"{name} has shape {array.shape}, but the latent has shape {shape}. Give one number, or that shape."
        )
    if not array.any():
        return None
    return np.broadcast_to(array, shape).ravel().copy()


def as_grid(shape: Any) -> tuple[int, ...]:
    """Return the shape of a grid as a tuple of ints. Raise if it does not have one, two or three axes."""
    given = np.atleast_1d(np.asarray(shape))
    if given.dtype.kind not in "iu" or given.ndim != 1 or not 1 <= len(given) <= 3 or given.min() < 1:
        raise ValueError(f"shape must be 1, 2 or 3 positive whole numbers, but it is {shape!r}.")
    return tuple(int(n) for n in given)


# --- paths ----------------------------------------------------------------------------------------------------------


def as_path(store: Any) -> Path:
    """Return `store` as a `Path`. Raise if it is not a path, is empty, or is a URL."""
    text = os.fspath(store) if isinstance(store, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise TypeError(f'store must be the path of a folder, for example "run.zarr", but it is {store!r}.')
    if "://" in text:
        raise ValueError(f"store is {text!r}, but a run can only be written to a local folder. Copy it after the run.")
    return Path(text)


# --- warnings -------------------------------------------------------------------------------------------------------


def warn(message: str) -> None:
    """Issue a `UserWarning` that points at the nearest caller outside this package."""
    level, frame = 1, sys._getframe(0)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "ellipslice":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
