"""Fingerprints of priors, moves and likelihoods, which `join` compares in addition to their names.

A fingerprint is not a hash of the bytes, because `join` combines runs from several machines, which may round a
factorisation differently. Instead, each array is projected onto fixed pseudo-random phases. A change of one element by
some amount changes the projection by the same amount.
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
from ellipslice.store.approximately_equal import RELATIVE_TOLERANCE
from ellipslice.store.serial import fields_of, is_known, numbers_of, stored_name

ABSOLUTE_TOLERANCE = 1e-13
"""Differences that are accepted at any scale, because some fields hold the rounding error of a computation."""


def fingerprint(**items: Any) -> str:
    """Return the fingerprints of the named objects as one string, for an attribute of the result."""
    return json.dumps({name: _fingerprint_of(item) for name, item in items.items()})


def first_difference(one: str, other: str) -> str | None:
    """Return the name of the first object that differs between two results of `fingerprint`, or None."""
    try:
        mine, others = json.loads(one), json.loads(other)
        return next((name for name in mine if name in others and not _equal(mine[name], others[name])), None)
    except (ValueError, TypeError, LookupError, AttributeError):
        raise ValueError(
            f"{one!r} or {other!r} is not a fingerprint that ellipslice wrote. Give results as `sample` returned them."
        ) from None


def _fingerprint_of(item: Any) -> list[Any]:
    found = _Fingerprint()
    found.walk(item)
    return [found.digest.hexdigest()[:16], found.numbers]


def _equal(one: list[Any], other: list[Any]) -> bool:
    if one[0] != other[0] or len(one[1]) != len(other[1]):
        return False
    pairs = zip(one[1], other[1], strict=True)
    return all(
        np.allclose(a, b, rtol=0, atol=RELATIVE_TOLERANCE * max(a[0], b[0]) + ABSOLUTE_TOLERANCE) for a, b in pairs
    )


class _Fingerprint:
    """Fingerprint of one object: a hash of what is equal on all machines, and projections of its float arrays."""

    def __init__(self) -> None:
        self.digest, self.numbers = hashlib.sha256(), []

    def walk(self, item: Any) -> None:
        if isinstance(item, float | np.generic | np.ndarray | jax.Array):
            self._array(np.asarray(item))
        elif item is None or isinstance(item, bool | int | str):
            self._hash(item)
        elif type(item) in (tuple, list):
            self._hash(len(item))
            for part in item:
                self.walk(part)
        elif scipy.sparse.issparse(item):
            form = item if item.format in ("csr", "csc") else item.tocsr()
            self.walk([form.format, *form.shape, form.data, form.indices, form.indptr])
        elif type(item) is Dense:  # rounding may choose another factor, so the covariance is compared
            self.walk([repr(item), item.shape, item.mean])
            self.numbers.append(_project_covariance(item.rows))
        elif is_known(item):
            self._hash(stored_name(type(item)))
            for name, value in sorted(fields_of(item).items()):
                self._hash(name)
                self.walk(value)
        else:
            self._hash(getattr(item, "__qualname__", None) or type(item).__qualname__)
            self.walk(numbers_of(item))

    def _hash(self, what: Any) -> None:
        self.digest.update(f"{what!r};".encode())

    def _array(self, array: np.ndarray) -> None:
        self._hash(array.shape)
        if array.dtype.kind in "iub":
            self._hash(zlib.crc32(np.ascontiguousarray(array).data))
        elif array.dtype.kind == "f":
            finite = np.isfinite(array)
            if not finite.all():  # bounds may be infinite
                self._hash(zlib.crc32(np.where(finite, 0.0, array).tobytes()))
                array = np.where(finite, array, 0.0)
            self.numbers.append(_project(array))


def _project(array: np.ndarray) -> list[float]:
    """Return the scale of an array's projection, and its real and imaginary part.

    The array is reshaped to a square, so that the number of phases is only the square root of its size.
    """
    if not array.size:
        return [0.0, 0.0, 0.0]
    flat, width = array.reshape(-1), math.isqrt(array.size)
    complete = array.size // width * width
    columns, rows = _phases(width, math.sqrt(2)), _phases(-(-array.size // width), math.sqrt(3)) @ [1, 1j]
    across = flat[:complete].reshape(-1, width) @ columns
    if complete < array.size:
        across = np.append(across, flat[None, complete:] @ columns[: array.size - complete], axis=0)
    value = complex((across @ [1, 1j]) @ rows)
    return [math.sqrt(array.size) * float(max(flat.max(), -flat.min())), value.real, value.imag]


def _project_covariance(rows: np.ndarray) -> list[float]:
    """Return the trace of the covariance rows^T rows, and its quadratic forms in the two phase vectors."""
    across = rows @ _phases(rows.shape[1], math.sqrt(2))
    (a, b), (_, c) = (across.T @ across).tolist()
    return [float(np.vdot(rows, rows)), a, b, c]


def _phases(size: int, irrational: float) -> np.ndarray:
    """Return cosines and sines, shape (size, 2), of pseudo-random angles, equal on all machines."""
    angles = 2 * np.pi * np.modf(np.arange(1.0, size + 1) ** 2 * irrational)[0]
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)
