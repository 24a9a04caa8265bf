"""Memory for arrays that are written to bit by bit, from front to back."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import sys
import weakref
from functools import cache
from typing import Any

import numpy as np

from ellipslice.fast_cpu import kept_memory

LARGE = 2**22
"""Bytes of an array for which the system is asked directly, as NumPy does; of smaller ones pages are used again."""

MUCH = 2**16
"""Bytes that are worth a call of the system."""

_POPULATE_WRITE = 23
"""What Linux calls this with MADV_ before it; since 5.14."""


def empty_room(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose memory the system hands over as it is reached; after `fast_cpu()`, that of one that was let go.

    NumPy would ask for huge pages: where a virtual machine's host has to fetch them that took five times as long.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE or sys.platform != "linux":
        return np.empty(shape, dtype)
    return np.asarray(_Room(shape, dtype))


def fetch(rows: np.ndarray) -> None:
    """Have the system hand over all pages of some rows at once, before they are written to.

    One by one, as they are reached, each costs an interrupt; and threads that need new pages wait for each other.
    """
    madvise, owner = _madvise(), rows
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if rows.nbytes >= MUCH and madvise is not None and not (isinstance(owner, _Room) and owner.used_before):
        start = rows.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
        madvise(start, rows.ctypes.data + rows.nbytes - start, _POPULATE_WRITE)  # where it cannot, nothing is lost


class _Room:
    """What an array and its views hold on to; when all are gone its memory may be kept for the next."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype):
        size = math.prod(shape) * dtype.itemsize
        kept = _take(size)
        self.used_before = kept is not None
        pages = kept or mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        address = np.frombuffer(pages, np.uint8).ctypes.data
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": (address, False), "version": 3}
        weakref.finalize(self, _keep, pages).atexit = False


_KEPT: list[mmap.mmap] = []


def _keep(pages: mmap.mmap) -> None:
    """For the next, if so much is to be kept: the last ones."""
    _KEPT.append(pages)
    while _KEPT and sum(map(len, _KEPT)) > kept_memory():
        _KEPT.pop(0)


def _take(size: int) -> mmap.mmap | None:
    """Memory for an array, if some was kept that is not much too large."""
    for pages in list(_KEPT):
        if size <= len(pages) <= 2 * size:
            with contextlib.suppress(ValueError):  # another thread has it
                _KEPT.remove(pages)
                return pages
    return None


@cache
def _madvise() -> Any:
    if sys.platform != "linux":
        return None
    madvise = ctypes.CDLL(None).madvise  # Python's own holds its lock meanwhile
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return madvise
