"""Memory for arrays that are written to bit by bit, from front to back."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from functools import cache
from typing import Any

import numpy as np

LARGE = 2**22
"""Bytes of an array for which the system is asked directly, as NumPy does; of smaller ones pages are used again."""

MUCH = 2**16
"""Bytes that are worth a call of the system."""

_POPULATE_WRITE = 23
"""What Linux calls this with MADV_ before it; since 5.14."""


def empty_room(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose memory the system hands over as it is reached.

    NumPy would ask for huge pages: where a virtual machine's host has to fetch them that took five times as long.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE or sys.platform != "linux":
        return np.empty(shape, dtype)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype).reshape(shape)


def fetch(rows: np.ndarray) -> None:
    """Have the system hand over all pages of some rows at once, before they are written to.

    One by one, as they are reached, each costs an interrupt; and threads that need new pages wait for each other.
    """
    madvise = _madvise()
    if rows.nbytes >= MUCH and madvise is not None:
        start = rows.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
        madvise(start, rows.ctypes.data + rows.nbytes - start, _POPULATE_WRITE)  # where it cannot, nothing is lost


@cache
def _madvise() -> Any:
    if sys.platform != "linux":
        return None
    madvise = ctypes.CDLL(None).madvise  # Python's own holds its lock meanwhile
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return madvise
