"""A few numbers that tell priors, moves and likelihoods apart: what `join` compares besides their names.

Not a hash of the bytes: `join` is for runs on several machines, and those may round a factorisation differently. Each
array is projected onto fixed pseudo-random phases instead. A change of one element changes the projection as much.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from typing import Any

import jax
import numpy as np
import scipy.sparse

from ellipslice.priors import Dense
from ellipslice.store.approximately_equal import DIGITS
from ellipslice.store.serial import fields_of, is_known, numbers_of, stored_name

SMALLEST = 1e-13
"""Differences that are rounding whatever the scale: some fields hold the error of a computation."""


def fingerprint(**items: Any) -> str:
    """Return the fingerprints of some objects by name, as a string that an attribute of a file can hold."""
    return json.dumps({name: _of(item) for name, item in items.items()})


def differing(one: str, other: str) -> str | None:
    """Return the name of the first object that differs between two results of `fingerprint`, or None."""
    try:
        mine, others = json.loads(one), json.loads(other)
        return next((name for name in mine if name in others and not _same(mine[name], others[name])), None)
    except (ValueError, TypeError, LookupError, AttributeError):
        raise ValueError(f"{one!r} or {other!r} is not a fingerprint that ellipslice wrote.") from None


def _of(item: Any) -> list[Any]:
    found = _Found()
    found.walk(item)
    return [found.digest.hexdigest()[:16], found.numbers]


def _same(one: list[Any], other: list[Any]) -> bool:
    if one[0] != other[0] or len(one[1]) != len(other[1]):
        return False
    pairs = zip(one[1], other[1], strict=True)
    return all(np.allclose(a, b, rtol=0, atol=DIGITS * max(a[0], b[0]) + SMALLEST) for a, b in pairs)


class _Found:
    """What is the same on every machine, as a hash; and floats, as projections with their scale in front."""

    def __init__(self) -> None:
        self.digest, self.numbers = hashlib.sha256(), []

    def walk(self, item: Any) -> None:
        if isinstance(item, float | np.generic | np.ndarray | jax.Array):
            self._array(np.asarray(item))
        elif item is None or isinstance(item, bool | int | str):
            self._say(item)
        elif type(item) in (tuple, list):
            self._say(len(item))
            for part in item:
                self.walk(part)
        elif scipy.sparse.issparse(item):
            form = item if item.format in ("csr", "csc") else item.tocsr()
            self.walk([form.format, *form.shape, form.data, form.indices, form.indptr])
        elif type(item) is Dense:  # of its factor rounding may choose another one, so the covariance is compared
            self.walk([repr(item), item.shape, item.mean])
            self.numbers.append(_of_covariance(item.rows))
        elif is_known(item):
            self._say(stored_name(type(item)))
            for name, value in sorted(fields_of(item).items()):
                self._say(name)
                self.walk(value)
        else:
            self._say(getattr(item, "__qualname__", None) or type(item).__qualname__)
            self.walk(numbers_of(item))

    def _say(self, what: Any) -> None:
        self.digest.update(f"{what!r};".encode())

    def _array(self, array: np.ndarray) -> None:
        self._say(array.shape)
        if array.dtype.kind in "iub":
            self._say(zlib.crc32(np.ascontiguousarray(array).data))
        elif array.dtype.kind == "f":
            finite = np.isfinite(array)
            if not finite.all():  # bounds may be infinite
                self._say(zlib.crc32(np.where(finite, 0.0, array).tobytes()))
                array = np.where(finite, array, 0.0)
            self.numbers.append(_projected(array))


def _projected(array: np.ndarray) -> list[float]:
    """Return the scale of an array's projection, and its real and imaginary part.

    The array is folded into a square, so that there are few phases to compute: one pass over it, however large it is.
    """
    if not array.size:
        return [0.0, 0.0, 0.0]
    flat, width = array.reshape(-1), math.isqrt(array.size)
    whole = array.size // width * width
    columns, rows = _phases(width, math.sqrt(2)), _phases(-(-array.size // width), math.sqrt(3)) @ [1, 1j]
    across = flat[:whole].reshape(-1, width) @ columns
    if whole < array.size:
        across = np.append(across, flat[None, whole:] @ columns[: array.size - whole], axis=0)
    value = complex((across @ [1, 1j]) @ rows)
    return [math.sqrt(array.size) * float(max(flat.max(), -flat.min())), value.real, value.imag]


def _of_covariance(rows: np.ndarray) -> list[float]:
    """Return the trace of rows' rows, and its quadratic forms in the two phases."""
    across = rows @ _phases(rows.shape[1], math.sqrt(2))
    (a, b), (_, c) = (across.T @ across).tolist()
    return [float(np.vdot(rows, rows)), a, b, c]


def _phases(size: int, irrational: float) -> np.ndarray:
    """Return cosines and sines, shape (size, 2), of angles that are as good as random and the same everywhere."""
    angles = 2 * np.pi * np.modf(np.arange(1.0, size + 1) ** 2 * irrational)[0]
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)
